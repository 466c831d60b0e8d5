"""MCP messages as values: what toolcrib asks a server, and what it makes of a client's request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import UNSET, Raw

from toolcrib.wire import eras, http
from toolcrib.wire.jsonrpc import INVALID_PARAMS, UNSUPPORTED_PROTOCOL_VERSION, Inbound, RpcError, encode


def initialize_params(info: Mapping[str, Any], capabilities: Mapping[str, Any]) -> bytes:
    """Params of the handshake's first request; offers the newest handshake revision."""
    return encode({"protocolVersion": eras.LATEST_HANDSHAKE, "capabilities": capabilities, "clientInfo": info})


def modern_meta(info: Mapping[str, Any], capabilities: Mapping[str, Any]) -> dict[str, Any]:
    """What every stateless request carries in ``_meta``."""
    return {
        eras.META_VERSION: eras.LATEST_MODERN,
        eras.META_CLIENT_INFO: info,
        eras.META_CLIENT_CAPABILITIES: capabilities,
    }


def list_params(cursor: str | None, meta: Mapping[str, Any] | None) -> bytes:
    """Params of ``tools/list`` for one page."""
    params: dict[str, Any] = {} if cursor is None else {"cursor": cursor}
    if meta is not None:
        params["_meta"] = meta
    return encode(params)


def plain_call_params(name: str, arguments: bytes, meta: bytes) -> bytes:
    """Params of ``tools/call`` with arguments and a ``_meta`` that are already encoded; empty for no ``_meta``."""
    end = b',"_meta":%b}' % meta if meta else b"}"
    return b"".join((b'{"name":', encode(name), b',"arguments":', arguments, end))


def with_traceparent(meta: bytes, traceparent: str) -> bytes:
    """An encoded ``_meta``, or none, with the trace that a request belongs to."""
    if not traceparent:
        return meta
    return b'{"traceparent":%b%b' % (encode(traceparent), b"," + meta[1:] if len(meta) > 2 else b"}")


def call_params(name: str, arguments: bytes, more: Mapping[str, Any], meta: Mapping[str, Any] | None) -> bytes:
    """Params of ``tools/call``; re-encoded, so that nothing ambiguous in the caller's bytes is passed on."""
    params: dict[str, Any] = {"name": name, "arguments": Raw(arguments)}
    if more:
        params.update(more)
    if meta is not None:
        params["_meta"] = meta
    return encode(params)


NO_PARAMS: Mapping[str, Any] = {}

LISTING_TTL_MS = 300_000
INCOMPLETE_TTL_MS = 1_000
META_MISSING = "toolcrib/missing"
"""Where a list names, in its ``_meta``, the servers it lacks the tools of."""


LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


class LogLevel:
    """The least severe log message a client wants; empty until it has said so."""

    __slots__ = ("name",)

    def __init__(self, name: object = "") -> None:
        self.name = name if isinstance(name, str) and name in LOG_LEVELS else ""


@dataclass(frozen=True, slots=True)
class Asker:
    """What is known of the client behind a request."""

    version: str
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    info: Any = None
    log: LogLevel = field(default_factory=LogLevel, compare=False)
    """What it wants to read of servers' logs; of a handshake era client, until it says something else."""
    is_modern: bool = field(init=False)
    """Whether the request is of the stateless era."""
    name: str = field(init=False)
    """What the client calls itself, empty if it does not say; read once for all calls of a session."""

    def __post_init__(self) -> None:
        name = self.info.get("name") if type(self.info) is dict else None
        object.__setattr__(self, "name", name if type(name) is str else "")
        object.__setattr__(self, "is_modern", eras.is_modern(self.version))


def request_params(message: Inbound) -> Mapping[str, Any]:
    """The params object, empty when there is none."""
    return NO_PARAMS if message.params is UNSET or message.params is None else message.params


def request_meta(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """The ``_meta`` object of a request, empty when there is none."""
    meta = params.get("_meta")
    return meta if type(meta) is dict else NO_PARAMS


def meta_of(message: Inbound) -> Mapping[str, Any]:
    """The same of a message: what every request is asked for twice, in one call each time instead of three."""
    params = message.params
    meta = params.get("_meta") if type(params) is dict else None
    return meta if type(meta) is dict else NO_PARAMS


def claims_modern(message: Inbound) -> bool:
    """Whether a request presents itself as stateless-era."""
    return eras.META_VERSION in meta_of(message)


def modern_asker(method: str, params: Mapping[str, Any], header: http.Header | None = None) -> Asker:
    """The client behind a stateless request; ``header`` is given over HTTP, where it must agree with the body."""
    meta = request_meta(params)
    missing = [key for key in (eras.META_VERSION, eras.META_CLIENT_CAPABILITIES) if key not in meta]
    if missing:
        raise RpcError(INVALID_PARAMS, f"params._meta lacks {', '.join(missing)}.")
    version = meta[eras.META_VERSION]
    if header is not None:
        http.check_mirrors(header, version, method, params)
    if not isinstance(version, str):
        raise RpcError(INVALID_PARAMS, f"params._meta: {eras.META_VERSION} must be a string.")
    check_modern_version(version)
    capabilities, level = meta[eras.META_CLIENT_CAPABILITIES], LogLevel(meta.get(eras.META_LOG_LEVEL))
    if not level.name and eras.META_LOG_LEVEL in meta:
        raise RpcError(INVALID_PARAMS, f"params._meta: {eras.META_LOG_LEVEL} is one of {', '.join(LOG_LEVELS)}.")
    declared = capabilities if isinstance(capabilities, Mapping) else {}
    return Asker(version, declared, meta.get(eras.META_CLIENT_INFO), level)


def check_modern_version(version: str) -> None:
    """Refuse a revision toolcrib does not serve without a handshake."""
    if not eras.is_modern(version):
        raise RpcError(
            UNSUPPORTED_PROTOCOL_VERSION,
            f"Protocol version {version!r} is not supported without a handshake.",
            {"supported": list(eras.MODERN_VERSIONS), "requested": version},
        )


CAPABILITIES_MAX = 16 * 1024
INFO_MAX = 4 * 1024
"""What a client says of itself in more bytes is not remembered: a session is to cost little."""


def handshake_asker(params: Mapping[str, Any]) -> Asker:
    """The client behind an ``initialize``, with the revision both sides will speak."""
    if "protocolVersion" not in params:
        raise RpcError(INVALID_PARAMS, "initialize needs protocolVersion, capabilities and clientInfo.")
    capabilities, info = params.get("capabilities"), params.get("clientInfo")
    if len(encode(capabilities)) > CAPABILITIES_MAX:
        raise RpcError(INVALID_PARAMS, f"capabilities may be at most {CAPABILITIES_MAX} bytes.")
    return Asker(
        eras.agree_on_handshake(params["protocolVersion"]),
        capabilities if isinstance(capabilities, Mapping) else {},
        info if len(encode(info)) <= INFO_MAX else None,
    )


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a client is told first: what there is behind toolcrib, and how to use it."""

    info: Mapping[str, Any]
    capabilities: Mapping[str, Any]
    instructions: str = ""
    is_whole: bool = True
    """Whether all servers are known: what is said may be different soon if not."""


def initialize_result(asker: Asker, greeting: Greeting) -> bytes:
    """The answer to ``initialize``."""
    body = {"protocolVersion": asker.version, "capabilities": greeting.capabilities, "serverInfo": greeting.info}
    return encode(body | ({"instructions": greeting.instructions} if greeting.instructions else {}))


def discover_result(greeting: Greeting) -> bytes:
    """The answer to ``server/discover``; what it says is for this caller."""
    instructions = greeting.instructions
    body = {
        "resultType": "complete",
        "supportedVersions": list(eras.MODERN_VERSIONS),
        "capabilities": greeting.capabilities,
        "ttlMs": LISTING_TTL_MS if greeting.is_whole else INCOMPLETE_TTL_MS,
        "cacheScope": "private",
        "_meta": {eras.META_SERVER_INFO: greeting.info},
    }
    return encode(body | ({"instructions": instructions} if instructions else {}))


@dataclass(frozen=True, slots=True)
class ListHints:
    """What is said with a list: who answers (only in the stateless era, already encoded), which servers it lacks, how
    long it may be kept, and the cursor of its next page."""

    info: bytes = b""
    missing: Sequence[Any] = ()
    ttl_ms: int = LISTING_TTL_MS
    following: str = ""


def listing_result(offers: bytes, hints: ListHints | None = None, *, what: bytes = b"tools") -> bytes:
    """The answer to a list around the encoded array of what is listed."""
    hints = hints or ListHints()
    info, missing = hints.info, hints.missing
    meta = ({META_MISSING: missing} if missing else {}) | ({eras.META_SERVER_INFO: Raw(info)} if info else {})
    ending = b',"_meta":%b}' % encode(meta) if meta else b"}"
    if hints.following:
        ending = b',"nextCursor":%b%b' % (encode(hints.following), ending)
    if not info:
        return b'{"%b":%b%b' % (what, offers, ending)
    ttl_ms = min(INCOMPLETE_TTL_MS, hints.ttl_ms) if missing else hints.ttl_ms
    return b'{"resultType":"complete","ttlMs":%d,"cacheScope":"private","%b":%b%b' % (ttl_ms, what, offers, ending)


def uncached(raw: bytes) -> bytes:
    """The result of a read with what the stateless era wants to know of it: that nobody is to keep it."""
    rest = raw[1:].lstrip()
    return b'{"ttlMs":0,"cacheScope":"private"' + (b"" if rest.startswith(b"}") else b",") + rest


def mirrored_meta(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of a request's ``_meta`` that a transparent server gets: who asks, and by what token it wants to hear
    of progress, besides what concerns the tool; ``NO_PARAMS`` itself if there is none."""
    meta = request_meta(params)
    kept = {eras.META_CLIENT_INFO, "progressToken"}
    return meta if meta is NO_PARAMS else {k: v for k, v in meta.items() if k in kept or k not in eras.META_RESERVED}


def relayed_meta(params: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a request's ``_meta`` that concerns the tool, not the connection."""
    return {
        key: value
        for key, value in request_meta(params).items()
        if key not in eras.META_RESERVED and key != "progressToken"
    }
