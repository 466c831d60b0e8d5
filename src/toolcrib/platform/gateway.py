"""The tooling gateway: which servers an application has, at either address, in either form."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from toolcrib.config.manifest import ManifestEntry, listed_items, read_entries
from toolcrib.platform.requests import Ask, Patience, PlatformFailure, app_segment, refused, send

FAILED = "Failed to read MCP servers from endpoint"
PATHS: Mapping[str, str] = {"v1": "/agents/{app}/mcpServers", "v2": "/agents/v2/{app}/mcpServers"}
AUTO = "auto"
"""Both, the documented one first."""
VERSIONS = (AUTO, *PATHS)


@dataclass(frozen=True, slots=True)
class Question:
    """What the gateway is asked."""

    endpoint: str
    app_id: str
    headers: Mapping[str, str] = field(repr=False)
    version: str = AUTO
    scope: str = ""
    etag: str = ""
    """Of the answer that is known already."""


@dataclass(frozen=True, slots=True)
class Listed:
    """What the gateway answered."""

    entries: tuple[ManifestEntry, ...]
    etag: str = ""


def gateway_urls(endpoint: str, app_id: str, version: str = AUTO) -> list[str]:
    """Where the servers of an application are listed, the likelier address first."""
    paths = PATHS.values() if version == AUTO else [PATHS[version]]
    return [endpoint + path.format(app=app_segment(app_id)) for path in paths]


async def ask_gateway(question: Question, patience: Patience) -> Listed | None:
    """The servers of an application; ``None`` if they are those of the answer that is known already."""
    urls: Sequence[str] = gateway_urls(question.endpoint, question.app_id, question.version)
    headers = {**question.headers, "Accept": "application/json"}
    if question.etag:
        headers["If-None-Match"] = question.etag
    for url in urls:
        response = await send(Ask(url, headers), patience, FAILED)
        if response.status == 404 and url != urls[-1]:
            continue
        if response.status == 304 and question.etag:
            return None
        if response.status != 200:
            raise refused(response, FAILED, question.scope)
        etag = (response.header(b"etag") or b"").decode("latin-1")
        return Listed(read_reply(response.body), etag)
    raise PlatformFailure(f"{FAILED}: there is no address to ask.")


def read_reply(body: bytes) -> tuple[ManifestEntry, ...]:
    """The servers of a reply, whether it is a list or an object around one."""
    try:
        root = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _not_a_list("it is not JSON") from None
    if listed_items(root) is None:
        raise _not_a_list("it holds no list of servers")
    return tuple(read_entries(root))


def _not_a_list(why: str) -> PlatformFailure:
    hint = 'Expected is a list, or {"mcpServers": [...]}. Does the endpoint belong to a tooling gateway?'
    return PlatformFailure(f"{FAILED}: the answer cannot be used, {why}.", status=200, hint=hint)
