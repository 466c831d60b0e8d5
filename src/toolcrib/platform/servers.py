"""Which tool servers an application has: from the manifest in development, from the gateway otherwise."""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from toolcrib.config.manifest import ManifestEntry
from toolcrib.core.events import Emit, Event, drop
from toolcrib.platform.gateway import (
    AUTO,
    GatewayRequest,
    Listed,
    Patience,
    PlatformFailure,
    Whereabouts,
    app_segment,
    ask_gateway,
    find_manifest,
    places,
    read_manifest,
)
from toolcrib.platform.headers import (
    AUTHORIZATION,
    SHARED_VARIABLE,
    ConversationTurn,
    TokenPlan,
    TokenSource,
    authorisation_of,
    channel_headers,
    check_opaque,
    check_token,
    compose_headers,
    own_scope,
    variable_for,
)
from toolcrib.platform.settings import PlatformSettings

TTL_S = 300.0
KEPT_MAX = 256


@dataclass(frozen=True, slots=True)
class McpServerConfig:
    """One tool server, ready to be connected to; how it is shown leaves its headers out."""

    mcp_server_name: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    mcp_server_unique_name: str = ""
    audience: str = ""
    scope: str = ""
    publisher: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As other programs read it."""
        return {"mcpServerName": self.mcp_server_name, "url": self.url, "headers": dict(self.headers)}


@dataclass(frozen=True, slots=True)
class PlatformToolOptions:
    """What may be said beside who asks."""

    orchestrator_name: str = ""
    turn: ConversationTurn | None = None
    tokens: TokenSource | None = field(default=None, repr=False)
    """Gives servers with an audience of their own a token of their own."""
    manifest: str = ""
    version: str = AUTO
    token_check: str = "jwt"  # noqa: S105 - which check, not a secret
    """``jwt``, or ``none`` for gateways that take other tokens, or none at all."""
    patience: Patience = field(default_factory=Patience)


@dataclass(slots=True)
class _Kept:
    listed: Listed
    until: float


class Platform:
    """The platform as one program uses it: answers are kept for a while, and the last good one when it fails."""

    def __init__(
        self,
        settings: PlatformSettings | None = None,
        *,
        ttl_s: float = TTL_S,
        around: Whereabouts | None = None,
        emit: Emit = drop,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings or PlatformSettings()
        self._ttl_s, self._around, self._emit, self._clock = ttl_s, around or Whereabouts(), emit, clock
        self._kept: OrderedDict[tuple[str, ...], _Kept] = OrderedDict()

    async def list_tool_servers(
        self, app_id: str, token: str = "", options: PlatformToolOptions | None = None
    ) -> list[McpServerConfig]:
        """The servers of an application, each with the headers it is to be reached with and nobody else's token."""
        wanted, mode = options or PlatformToolOptions(), self.settings.mode
        self._emit(Event("platform.mode", "debug", {"manifest": mode.is_development, "because": mode.because}))
        if mode.is_development:
            entries = await asyncio.to_thread(self.from_manifest, wanted.manifest)
            plan = TokenPlan(self._around.env.get(SHARED_VARIABLE, ""), own=_first_of(wanted.tokens, self._by_variable))
        else:
            entries = await self.from_gateway(app_id, token, wanted)
            plan = TokenPlan(token, self.settings.endpoint, wanted.tokens)
        return await self.dressed(entries, plan, wanted)

    def _by_variable(self, entry: ManifestEntry, scope: str) -> str | None:
        del scope
        return self._around.env.get(variable_for(entry)) or None

    def from_manifest(self, chosen: str = "") -> tuple[ManifestEntry, ...]:
        """What the manifest lists; nothing, and a word of where it was looked for, if there is none."""
        path = find_manifest(self._around, chosen)
        if path is None:
            looked = ", ".join(map(str, places(self._around)))
            self._emit(Event("platform.manifest.missing", "warning", {"looked_at": looked}))
            return ()
        return read_manifest(path)

    async def from_gateway(self, app_id: str, token: str, options: PlatformToolOptions) -> tuple[ManifestEntry, ...]:
        """What the gateway lists; when it cannot say, what it last said to the same application and token."""
        app_segment(app_id)
        if options.token_check == "jwt":  # noqa: S105
            check_token(token)
        check_opaque(token)
        key = (self.settings.endpoint, app_id, options.version, hashlib.sha256(token.encode()).hexdigest())
        kept = self._kept.get(key)
        if kept is not None and self._clock() < kept.until:
            return kept.listed.entries
        try:
            listed = await self._ask(app_id, token, options, kept)
        except PlatformFailure as failure:
            if kept is None or not failure.is_passing:
                self._kept.pop(key, None)
                raise
            self._emit(Event("platform.stale", "warning", {"error": str(failure), "servers": len(kept.listed.entries)}))
            return kept.listed.entries
        self._keep(key, listed)
        return listed.entries

    async def _ask(self, app_id: str, token: str, options: PlatformToolOptions, kept: _Kept | None) -> Listed:
        application = self._around.env.get("AGENT365_APPLICATION_NAME", "")
        question = GatewayRequest(
            self.settings.endpoint,
            app_id,
            compose_headers(token, options.turn, options.orchestrator_name, application),
            options.version,
            self.settings.authentication_scope,
            kept.listed.etag if kept is not None else "",
        )
        listed = await ask_gateway(question, options.patience)
        if listed is None:
            return kept.listed if kept is not None else Listed(())
        return listed

    def _keep(self, key: tuple[str, ...], listed: Listed) -> None:
        self._kept[key] = _Kept(listed, self._clock() + self._ttl_s)
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)

    async def dressed(
        self, entries: Iterable[ManifestEntry], plan: TokenPlan, options: PlatformToolOptions
    ) -> list[McpServerConfig]:
        """Entries as servers that can be connected to; one at an impossible address is left out, and said so."""
        found = []
        for entry in entries:
            url = entry.url or server_url(self.settings.endpoint, entry.name)
            if not is_address(url):
                self._emit(
                    Event("platform.server.left_out", "warning", {"server": entry.name, "reason": "its address"})
                )
                continue
            authorisation, missing = await authorisation_of(entry, url, plan)
            if missing:
                told = {"server": entry.name, "reason": missing, "variable": variable_for(entry)}
                self._emit(Event("platform.token.missing", "warning", told))
            found.append(_dress(entry, url, authorisation, options))
        return found


def _dress(entry: ManifestEntry, url: str, authorisation: str, options: PlatformToolOptions) -> McpServerConfig:
    own = {name: value for name, value in entry.headers.items() if name.lower() != "authorization"}
    given = {name.lower() for name in own}
    usual = channel_headers(options.turn or ConversationTurn(), options.orchestrator_name)
    headers = own | {name: value for name, value in usual.items() if name.lower() not in given}
    return McpServerConfig(
        entry.name,
        url,
        headers | ({AUTHORIZATION: authorisation} if authorisation else {}),
        entry.unique_name,
        entry.audience,
        entry.scope,
        entry.publisher,
    )


def server_url(endpoint: str, name: str) -> str:
    """Where a server is that has no address of its own."""
    return f"{endpoint}/agents/servers/{quote(name, safe='')}"


def is_address(url: str) -> bool:
    """Whether a server can be at this address."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
    except ValueError:
        return False


def _first_of(*sources: TokenSource | None) -> TokenSource:
    """The token of the first source that has one."""

    async def ask(entry: ManifestEntry, scope: str) -> str | None:
        for source in sources:
            found = source(entry, scope) if source is not None else None
            token = found if found is None or isinstance(found, str) else await found
            if token:
                return token
        return None

    return ask


async def list_tool_servers(
    app_id: str, token: str = "", options: PlatformToolOptions | None = None
) -> list[McpServerConfig]:
    """The servers of an application, by the settings of the environment; asks anew each time."""
    return await Platform().list_tool_servers(app_id, token, options)


__all__ = ["McpServerConfig", "Platform", "PlatformToolOptions", "list_tool_servers", "own_scope"]
