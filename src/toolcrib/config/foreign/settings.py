"""The parts of an entry that are the same everywhere: how long to wait, and which tools are wanted."""

from collections.abc import Iterator, Mapping
from typing import Any

from toolcrib.config.foreign.found import GUESSED, MILLISECONDS, SECONDS, Dialect
from toolcrib.config.model import ToolConfig

TRUSTING = (
    "trust",
    "trusted",
    "autoApprove",
    "auto_approve",
    "alwaysAllow",
    "always_allow",
    "always allow",
    "default_tools_approval_mode",
)
_CALL = {
    "request_timeout_ms": MILLISECONDS,
    "requestTimeout": MILLISECONDS,
    "timeoutMs": MILLISECONDS,
    "tool_timeout_ms": MILLISECONDS,
    "tool_timeout_sec": SECONDS,
}
_START = {
    "startup_timeout_sec": SECONDS,
    "startup_timeout_ms": MILLISECONDS,
    "connectionTimeout": MILLISECONDS,
    "initTimeout": MILLISECONDS,
}
_LONGEST, _SHORTEST_S = 1e10, 0.001
_WANTED = ("includeTools", "enabled_tools", "available_tools", "tools")
_UNWANTED = ("excludeTools", "disabled_tools", "disabledTools")
_EMPTY_IS_NONE = ("enabled_tools", "tools")
"""Lists that mean no tool at all when they are empty; in the others an empty list means all."""

MEANT = frozenset(
    {
        *TRUSTING, *_CALL, *_START, *_WANTED, *_UNWANTED,
        "type", "transport", "transportType", "command", "args", "env", "environment", "envs", "env_vars", "env_keys",
        "envFile", "cwd", "workingDirectory", "url", "serverUrl", "httpUrl", "uri", "baseUrl", "headers",
        "http_headers", "env_http_headers", "bearer_token", "bearer_token_env_var", "headersHelper",
        "http_headers_helper", "apiKeyHelper", "awsAuthRefresh", "enabled", "disabled", "timeout", "description",
        "name", "displayName", "display_name", "bundled", "gallery", "version", "source", "remote", "id", "icon",
        "iconPath", "note", "title",
    }
)  # fmt: skip
"""Keys that are read, noted, or mean nothing to anybody but the program itself."""


def limits_of(entry: Mapping[str, Any], dialect: Dialect) -> tuple[dict[str, Any], list[str]]:
    """The timeouts of an entry in seconds, and notes on those that are none."""
    found: dict[str, Any] = {}
    odd = []
    for key, value, field, unit in _timeouts(entry, dialect):
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= _LONGEST:
            found[field] = _in_seconds(value, unit)
        else:
            odd.append(f"{key} is not a time and is not taken over.")
    return found, odd


def _in_seconds(value: float, unit_s: float) -> float:
    if unit_s == GUESSED:
        unit_s = MILLISECONDS if value >= 1000 else SECONDS
    return max(round(value * unit_s, 3), _SHORTEST_S)


def _timeouts(entry: Mapping[str, Any], dialect: Dialect) -> Iterator[tuple[str, Any, str, float]]:
    bare = entry.get("timeout")
    if isinstance(bare, Mapping):
        parts = {"request": "call_timeout_s", "startup": "discovery_timeout_s"}
        yield from ((f"timeout.{key}", bare[key], field, MILLISECONDS) for key, field in parts.items() if key in bare)
    elif bare is not None:
        yield "timeout", bare, "call_timeout_s", dialect.timeout_unit_s
    for units, field in ((_CALL, "call_timeout_s"), (_START, "discovery_timeout_s")):
        yield from ((key, entry[key], field, unit) for key, unit in units.items() if key in entry)


def tools_of(entry: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Which tools are on, as policies: what is not wanted is ``disable``, with a list of wanted ones all others are."""
    unwanted = [name for key in _UNWANTED for name in _names(entry.get(key))]
    wanted = _wanted(entry)
    tools = {name: ToolConfig(policy="allow") for name in wanted or ()}
    tools |= {name: ToolConfig(policy="disable") for name in unwanted}
    if wanted is None:
        return ({"tools": tools} if tools else {}), []
    on = ", ".join(name for name in wanted if name not in unwanted) or "none"
    return {"tools": tools, "policy": "disable"}, [f"Of its tools these are on: {on}. All others are disabled."]


def _wanted(entry: Mapping[str, Any]) -> list[str] | None:
    for key in _WANTED:
        listed = entry.get(key)
        if not isinstance(listed, list) or "*" in listed or (not listed and key not in _EMPTY_IS_NONE):
            continue
        return _names(listed)
    return None


def _names(listed: object) -> list[str]:
    """Names of tools; some programs add the arguments they mean in parentheses."""
    return [str(item).partition("(")[0] for item in listed if isinstance(item, str)] if isinstance(listed, list) else []
