"""The keys of the configuration, as tables: what may be written where, how it is read, which field it fills."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from toolcrib.config.model import RELAYABLE
from toolcrib.config.positions import KeyPath, PlacedValues, dotted
from toolcrib.config.sections import (
    ASYMMETRIC,
    AUTH_MODES,
    BUILT_IN_EMBEDDERS,
    EMBEDDER_KINDS,
    EXPOSE_MODES,
    GATEWAY_VERSIONS,
    MODEL_PROVIDERS,
    TOKEN_CHECKS,
    WORKSPACE_TOOLS,
    EmbedderConfig,
)
from toolcrib.config.values import (
    Mismatch,
    Reader,
    address,
    count,
    count_or_none,
    duration_s,
    engine_url,
    flag,
    import_path,
    json_table,
    key_source,
    kind,
    level,
    list_of,
    map_of,
    memory_size,
    one_of,
    one_of_each,
    page_address,
    port,
    rate,
    reference,
    result_limit,
    show,
    size,
    some_text,
    table,
    text,
    text_map,
    timeout_s,
    tool_name,
)
from toolcrib.core.errors import ConfigError, did_you_mean
from toolcrib.core.kinds import AUTO, IsolationLevel, PinMode, Policy
from toolcrib.core.tool import SecurityLevel

STDIO_TYPES = ("stdio", "local")
HTTP_TYPES = ("http", "streamable-http", "streamable_http", "streamableHttp")


class Key(NamedTuple):
    """The field a key fills, and how its value is read."""

    field: str
    read: Reader


SERVER_KEYS: Mapping[str, Key] = {
    "type": Key("type", text),
    "command": Key("command", some_text),
    "args": Key("args", list_of(text, "a list of strings")),
    "env": Key("env", text_map),
    "cwd": Key("cwd", some_text),
    "url": Key("url", address),
    "headers": Key("headers", text_map),
    "enabled": Key("enabled", flag),
    "ttl": Key("ttl_s", duration_s),
    "discovery_timeout": Key("discovery_timeout_s", timeout_s),
    "connect_timeout": Key("connect_timeout_s", timeout_s),
    "call_timeout": Key("call_timeout_s", timeout_s),
    "idle_timeout": Key("idle_timeout_s", duration_s),
    "description": Key("description", text),
    "policy": Key("policy", one_of(*Policy)),
    "level": Key("level", level),
    "rate": Key("rate", rate),
    "parallel": Key("parallel", count),
    "relay": Key("relay", list_of(one_of(*RELAYABLE), "a list of " + ", ".join(RELAYABLE))),
    "isolation": Key("isolation", one_of(*IsolationLevel, AUTO)),
    "read": Key("read", list_of(some_text, "a list of paths")),
    "write": Key("write", list_of(some_text, "a list of paths")),
    "network": Key("network", flag),
    "loopback": Key("loopback", list_of(port, "a list of ports")),
    "memory": Key("memory_bytes", memory_size),
    "processes": Key("processes", count),
}

TOOL_KEYS: Mapping[str, Key] = {
    "enabled": Key("enabled", flag),
    "parameters": Key("parameters", text_map),
    "timeout": Key("timeout_s", timeout_s),
    "replayable": Key("replayable", flag),
    "policy": Key("policy", one_of(*Policy)),
    "level": Key("level", level),
    "capabilities": Key("capabilities", list_of(some_text, "a list of words")),
    "rate": Key("rate", rate),
    "result_limit": Key("result_limit", result_limit),
}

EMBEDDER_KEYS: Mapping[str, Key] = {
    "kind": Key("kind", one_of(*EMBEDDER_KINDS)),
    "model": Key("model", some_text),
    "url": Key("url", address),
    "path": Key("path", some_text),
    "api_key": Key("api_key", reference),
    "dimensions": Key("dimensions", count),
    "query_prefix": Key("query_prefix", text),
    "document_prefix": Key("document_prefix", text),
    "batch": Key("batch", count),
    "timeout": Key("timeout_s", timeout_s),
}
_REMOTE = ("model", "url", "api_key", "dimensions", "query_prefix", "document_prefix", "batch", "timeout")
EMBEDDER_FITS: Mapping[str, tuple[str, ...]] = {
    "bundled": (),
    "onnx": ("path", "dimensions", "query_prefix", "document_prefix", "batch"),
    "openai": _REMOTE,
    "ollama": _REMOTE,
}
"""Kind of embedder → the keys that mean something for it; the first must be there."""

PROFILE_KEYS: Mapping[str, Key] = {
    "servers": Key("servers", list_of(some_text, "a list of server names")),
    "tools": Key("tools", list_of(some_text, "a list of tool names")),
    "without": Key("without", list_of(some_text, "a list of tool names")),
    "expose": Key("expose", one_of(*EXPOSE_MODES)),
    "budget": Key("budget", count),
    "pinned": Key("pinned", list_of(some_text, "a list of tool names")),
}

PROFILE_TOOL_KEYS: Mapping[str, Key] = {
    "name": Key("name", tool_name),
    "description": Key("description", some_text),
    "fixed": Key("fixed", json_table),
    "hidden": Key("hidden", list_of(some_text, "a list of parameters")),
}

SETTINGS: Mapping[str, Key] = {
    "connect.attempts": Key("attempts", count),
    "connect.delays": Key("delays_s", list_of(duration_s, "a list of durations")),
    "calls.timeout": Key("call_timeout_s", timeout_s),
    "calls.slow": Key("slow_call_s", duration_s),
    "catalog.grace": Key("list_grace_s", duration_s),
    "security.policy": Key("policy", one_of(*Policy)),
    "security.policies": Key("policies", map_of(one_of(*Policy), "a table of patterns and policies")),
    "security.levels": Key("levels", map_of(level, "a table of patterns and levels")),
    "security.pins": Key("pins", one_of(*PinMode)),
    "security.ask_timeout": Key("ask_timeout_s", timeout_s),
    "catalog.capacity": Key("capacity", count),
    "limits.caller_rate": Key("caller_rate", rate),
    "limits.parallel": Key("parallel", count),
    "limits.queue": Key("queue", count_or_none),
    "results.limit": Key("limit", result_limit),
    "results.keep": Key("keep_s", timeout_s),
    "results.space": Key("space", size),
    "serve.host": Key("host", some_text),
    "serve.port": Key("port", port),
    "serve.public_url": Key("public_url", page_address),
    "serve.auth": Key("auth_mode", one_of(*AUTH_MODES)),
    "serve.edit_commands": Key("edit_commands", flag),
    "serve.replica": Key("replica", tool_name),
    "serve.drain": Key("drain_s", duration_s),
    "access.level": Key("level", level),
    "access.servers": Key("servers", list_of(some_text, "a list of server names")),
    "access.tools": Key("tools", list_of(some_text, "a list of tool names")),
    "auth.issuer": Key("issuer", some_text),
    "auth.audience": Key("audience", some_text),
    "auth.jwks": Key("jwks", key_source),
    "auth.algorithms": Key("algorithms", list_of(one_of(*ASYMMETRIC), "a list of " + ", ".join(ASYMMETRIC))),
    "auth.max_age": Key("max_age_s", timeout_s),
    "auth.leeway": Key("leeway_s", duration_s),
    "audit.enabled": Key("enabled", flag),
    "audit.path": Key("path", some_text),
    "audit.values": Key("values", flag),
    "telemetry.traces": Key("traces", flag),
    "isolation.level": Key("level", one_of(*IsolationLevel, AUTO)),
    "isolation.minimum": Key("minimum", one_of_each(tuple(SecurityLevel), tuple(IsolationLevel))),
    "expose.mode": Key("mode", one_of(*EXPOSE_MODES)),
    "expose.budget": Key("budget", count),
    "expose.pinned": Key("pinned", list_of(some_text, "a list of tool names")),
    "expose.clients": Key("clients", map_of(one_of(*EXPOSE_MODES), "a table of client names and modes")),
    "kb.enabled": Key("enabled", flag),
    "kb.path": Key("path", some_text),
    "kb.docs": Key("docs", flag),
    "kb.add_from": Key("add_from", list_of(some_text, "a list of folders")),
    "kb.embedder": Key("embedder", some_text),
    "kb.embedders": Key("embedders", map_of(table, "a table of embedders")),
    "kb.provider": Key("provider", one_of(*MODEL_PROVIDERS)),
    "kb.model": Key("model", some_text),
    "kb.url": Key("url", address),
    "kb.key": Key("key", some_text),
    "kb.timeout": Key("timeout_s", timeout_s),
    "model.provider": Key("provider", one_of(*MODEL_PROVIDERS)),
    "model.model": Key("model", some_text),
    "model.url": Key("url", address),
    "model.key": Key("key", some_text),
    "model.timeout": Key("timeout_s", timeout_s),
    "model.max_tokens": Key("max_tokens", count),
    "network.proxy": Key("proxy", engine_url("http", "https")),
    "network.no_proxy": Key("no_proxy", list_of(some_text, "a list of hosts")),
    "network.loopback": Key("loopback", flag),
    "network.ca_file": Key("ca_file", some_text),
    "workspace.enabled": Key("enabled", flag),
    "workspace.root": Key("root", some_text),
    "workspace.tools": Key("tools", list_of(one_of(*WORKSPACE_TOOLS), "a list of " + ", ".join(WORKSPACE_TOOLS))),
    "workspace.bash": Key("bash", flag),
    "workspace.isolation": Key("isolation", one_of(*IsolationLevel)),
    "workspace.network": Key("network", flag),
    "workspace.loopback": Key("loopback", list_of(port, "a list of ports")),
    "workspace.read": Key("read", list_of(some_text, "a list of paths")),
    "workspace.timeout": Key("timeout_s", timeout_s),
    "workspace.output": Key("output", result_limit),
    "workspace.fetch_size": Key("fetch_size", size),
    "workspace.fetch_timeout": Key("fetch_timeout_s", timeout_s),
    "platform.app_id": Key("app_id", some_text),
    "platform.endpoint": Key("endpoint", address),
    "platform.token": Key("token", reference),
    "platform.tokens": Key("tokens", map_of(reference, "a table of servers and references")),
    "platform.development": Key("development", flag),
    "platform.manifest": Key("manifest", some_text),
    "platform.servers": Key("servers", list_of(some_text, "a list of server names")),
    "platform.token_check": Key("token_check", one_of(*TOKEN_CHECKS)),
    "platform.version": Key("version", one_of(*GATEWAY_VERSIONS)),
    "platform.orchestrator": Key("orchestrator", text),
    "platform.ttl": Key("ttl_s", timeout_s),
    "platform.timeout": Key("timeout_s", timeout_s),
    "store.url": Key("url", engine_url("postgresql", "postgres")),
    "store.name": Key("name", tool_name),
    "store.pool": Key("pool", count),
    "store.timeout": Key("timeout_s", timeout_s),
    "redis.url": Key("url", engine_url("redis", "rediss", "unix")),
    "redis.timeout": Key("timeout_s", timeout_s),
    "native": Key("native", list_of(import_path, "a list of import paths")),
}

_SECRET_PLACES = frozenset({"env", "headers", "key", "api_key", "token", "tokens", "store", "redis", "proxy"})


def check_table(written: PlacedValues, path: KeyPath, table: object) -> Mapping[str, Any]:
    """``table`` if it is one, whatever its keys are."""
    if not isinstance(table, Mapping):
        raise mismatch_error(written, path, Mismatch("a table", table))
    return table


def check_keys(written: PlacedValues, path: KeyPath, table: object, known: Collection[str]) -> Mapping[str, Any]:
    """``table`` if every key in it is known; otherwise an error with the nearest known key."""
    checked = check_table(written, path, table)
    for key in checked:
        if key not in known:
            place = f" in [{dotted(path)}]" if path else ""
            hint = did_you_mean(key, list(known)) or f"Known keys: {', '.join(known)}."
            raise written.error((*path, key), f"Unknown key {key!r}{place}.", hint)
    return checked


def read_keys(
    written: PlacedValues, path: KeyPath, table: Mapping[str, Any], keys: Mapping[str, Key]
) -> dict[str, Any]:
    """The fields that the known keys of a table fill."""
    return {
        key.field: read_value(written, (*path, name), table[name], key.read)
        for name, key in keys.items()
        if name in table
    }


def read_value(written: PlacedValues, path: KeyPath, value: object, read: Reader) -> Any:
    """One value; a wrong one is an error that says where, what was expected, and what was given."""
    try:
        return read(value)
    except Mismatch as mismatch:
        raise mismatch_error(written, path, mismatch) from None


def mismatch_error(written: PlacedValues, path: KeyPath, mismatch: Mismatch) -> ConfigError:
    """The complaint about a wrong value; what stands under ``env`` and ``headers`` is not repeated."""
    place = (*path, *mismatch.at)
    given = kind(mismatch.given) if _SECRET_PLACES & set(place) else show(mismatch.given)
    return written.error(place, f"{dotted(place) or 'The file'} must be {mismatch.expected}, but is {given}.")


def read_embedders(written: PlacedValues, path: KeyPath, tables: object) -> dict[str, EmbedderConfig]:
    """The embedders of ``[kb.embedders.NAME]``, each with the keys of its kind alone."""
    return {
        name: _embedder(written, (*path, name), entry) for name, entry in check_table(written, path, tables).items()
    }


def _embedder(written: PlacedValues, path: KeyPath, entry: object) -> EmbedderConfig:
    if path[-1] in BUILT_IN_EMBEDDERS:
        raise written.error(path, f"The embedder {path[-1]!r} is built in.", "Give this one another name.")
    checked = check_keys(written, path, entry, EMBEDDER_KEYS)
    fields = read_keys(written, path, checked, EMBEDDER_KEYS)
    if "kind" not in fields:
        raise written.error(path, f"The embedder {path[-1]!r} has no kind.", f"Write one of: {_words(EMBEDDER_KINDS)}.")
    fitting = EMBEDDER_FITS[fields["kind"]]
    for key in checked:
        if key not in ("kind", *fitting):
            hint = f"Keys that do: {_words(fitting)}." if fitting else "It takes no settings."
            raise written.error((*path, key), f"{dotted((*path, key))} means nothing for {fields['kind']!r}.", hint)
    if fitting and fitting[0] not in checked:
        raise written.error(path, f"The embedder {path[-1]!r} has no {fitting[0]}.", f'Write {fitting[0]} = "…".')
    return EmbedderConfig(**fields)


def _words(words: Collection[str]) -> str:
    return ", ".join(words)


def check_transport(written: PlacedValues, path: KeyPath, fields: dict[str, Any]) -> None:
    """Refuse a server with both a command and a url, and a ``type`` that does not fit; ``type`` is taken out."""
    name, wanted = path[-1], fields.pop("type", None)
    if "command" in fields and "url" in fields:
        raise written.error((*path, "url"), f"Server {name!r} has both a command and a url.", "Keep one of them.")
    if wanted is None:
        return
    place = (*path, "type")
    if wanted == "sse":
        raise written.error(place, f"Server {name!r}: the HTTP+SSE transport is retired.", _RETIRED)
    if wanted not in (*STDIO_TYPES, *HTTP_TYPES):
        raise written.error(place, f"Server {name!r} has the unknown type {wanted!r}.", "Write stdio or http.")
    needed = "command" if wanted in STDIO_TYPES else "url"
    if needed not in fields:
        raise written.error(place, f"Server {name!r} is of type {wanted!r} but has no {needed}.")


_RETIRED = "Use the server's Streamable HTTP address, often the same one with /mcp in place of /sse, and type http."
