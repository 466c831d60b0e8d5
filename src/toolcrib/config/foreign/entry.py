"""One entry of another program, whichever one, as a server in toolcrib's words.

The programs agree on most keys and on what they mean, so all spellings are read everywhere; only the unit of a bare
``timeout`` depends on the program. What grants trust is never taken over, and what would run a command never runs.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import PureWindowsPath
from typing import Any

import msgspec

from toolcrib.config.foreign.references import (
    GUESSED,
    MILLISECONDS,
    SECONDS,
    ForeignDialect,
    ForeignReferences,
    ForeignServer,
)
from toolcrib.config.model import ServerConfig, ToolConfig
from toolcrib.config.values import Mismatch, transport
from toolcrib.core.kinds import Policy, Transport
from toolcrib.core.names import to_server_name

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


def limits_of(entry: Mapping[str, Any], dialect: ForeignDialect) -> tuple[dict[str, Any], list[str]]:
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


def _timeouts(entry: Mapping[str, Any], dialect: ForeignDialect) -> Iterator[tuple[str, Any, str, float]]:
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
    tools = {name: ToolConfig(policy=Policy.ALLOW) for name in wanted or ()}
    tools |= {name: ToolConfig(policy=Policy.DISABLE) for name in unwanted}
    if wanted is None:
        return ({"tools": tools} if tools else {}), []
    on = ", ".join(name for name in wanted if name not in unwanted) or "none"
    return {"tools": tools, "policy": Policy.DISABLE}, [f"Of its tools these are on: {on}. All others are disabled."]


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


Entry = Mapping[str, Any]

_URLS = ("url", "serverUrl", "httpUrl", "uri", "baseUrl")
_TYPES = ("type", "transport", "transportType")
_HELPERS = ("headersHelper", "http_headers_helper", "apiKeyHelper", "awsAuthRefresh")


class Unusable(Exception):
    """Why an entry cannot be taken over."""


def translate(name: str, entry: object, dialect: ForeignDialect, *, line: int | None = None) -> ForeignServer:
    """The entry as one of our servers, or left out with the reason."""
    try:
        if not isinstance(entry, Mapping):
            raise Unusable("its entry is not a table")  # noqa: TRY301 - one way out
        server, notes = _Reading(name, entry, dialect).server()
        _refuse_unwritable(server)
    except Unusable as reason:
        return ForeignServer(name, left_out=str(reason), line=line)
    return ForeignServer(name, server, tuple(notes), line=line)


def _refuse_unwritable(server: ServerConfig) -> None:
    """YAML and JSON can hold halves of characters, which no file can."""
    try:
        msgspec.json.encode(server)
    except UnicodeError:
        raise Unusable("it holds characters that cannot be written") from None


class _Reading:
    def __init__(self, name: str, entry: Entry, dialect: ForeignDialect) -> None:
        self._name, self._dialect = to_server_name(name), dialect
        self._entry = _flattened({key: value for key, value in entry.items() if value is not None})
        self._references = ForeignReferences(self._name, dialect)

    def server(self) -> tuple[ServerConfig, list[str]]:
        connection = self._connection()
        limits, odd = limits_of(self._entry, self._dialect)
        policies, told = tools_of(self._entry)
        text = self._entry.get("description")
        references = self._references
        enabled = _is_enabled(self._entry) and not references.missing
        server = ServerConfig(
            self._name,
            enabled=enabled,
            description=text if isinstance(text, str) else "",
            **connection,
            **limits,
            **policies,
        )
        held = [f"It stays switched off until you {text}." for text in references.missing]
        return server, [*held, *references.notes, *odd, *told, *self._notes()]

    def _connection(self) -> dict[str, Any]:
        url = next((self._entry[key] for key in _URLS if self._entry.get(key)), None)
        kind = str(next((self._entry[key] for key in _TYPES if self._entry.get(key)), ""))
        spoken = _transport(kind, url, self._entry)
        if url is not None and "command" in self._entry and spoken is Transport.STDIO:
            url = None
        if url is not None:
            by_sse = {"transport": spoken} if spoken is Transport.SSE else {}
            return {"url": self._url(url), "headers": self._headers(), **by_sse}
        return self._process()

    def _url(self, url: object) -> str:
        translated = self._references.translate(str(url))
        if not re.fullmatch(r"(?:https?://|\$\{)\S+", translated):
            raise Unusable("its address does not begin with http:// or https://")
        return translated

    def _process(self) -> dict[str, Any]:
        command, args = _words(self._entry)
        if " " in command.strip() and not args and not command.startswith(("/", "~", ".", "C:\\")):
            self._references.notes.append("Its command holds spaces; if it is a whole line, move the rest to args.")
        cwd = self._entry.get("cwd", self._entry.get("workingDirectory"))
        read = self._references.translate
        return {
            "command": read(command),
            "args": tuple(read(arg) for arg in args),
            "env": self._env(),
            "cwd": read(cwd) if isinstance(cwd, str) and cwd.strip() else None,
        }

    def _env(self) -> dict[str, str]:
        declared: object = next(
            (self._entry[key] for key in ("env", "environment", "envs") if self._entry.get(key)), {}
        )
        passed = self._entry.get("env_vars") or self._entry.get("env_keys") or []
        names = [item.get("name") if isinstance(item, Mapping) else item for item in _as_list(passed)]
        env = {str(name): f"${{{name}}}" for name in names if name}
        return env | {name: self._references.translate(value, whole=True) for name, value in _pairs(declared, "=")}

    def _headers(self) -> dict[str, str]:
        written = self._entry.get("headers") or self._entry.get("http_headers") or {}
        headers = {name: self._references.translate(value, whole=True) for name, value in _pairs(written, ":")}
        headers |= {name: f"${{{variable}}}" for name, variable in _pairs(self._entry.get("env_http_headers"), "=")}
        if variable := self._entry.get("bearer_token_env_var"):
            headers["Authorization"] = f"Bearer ${{{variable}}}"
        elif token := self._entry.get("bearer_token"):
            headers["Authorization"] = f"Bearer {token}"
        return headers

    def _notes(self) -> Iterator[str]:
        for key in (key for key in _HELPERS if key in self._entry):
            yield f"{key} runs a command for its credentials and is not taken over. Add a header with a reference."
        for key in (key for key in TRUSTING if self._entry.get(key)):
            yield f"{key} is not taken over: toolcrib trusts nothing unasked. Use `toolcrib policy` if you want that."
        if "envFile" in self._entry:
            yield "envFile is not read. Keep its values with `toolcrib secrets set NAME`, and write ${NAME} in env."
        if isinstance(self._entry.get("tools"), Mapping):
            yield "What it says of single tools is not taken over. Use `toolcrib policy`."
        others = [str(key) for key in self._entry if key not in MEANT]
        if others:
            yield f"Not taken over: {', '.join(sorted(others))}."


def _transport(kind: str, url: object, entry: Entry) -> Transport | None:
    """How the other program reaches the server; ``None`` if it does not say."""
    if kind in ("ws", "websocket") or "tcp" in entry or (isinstance(url, str) and url.startswith(("ws:", "wss:"))):
        raise Unusable("toolcrib does not speak WebSocket; use stdio or Streamable HTTP")
    try:
        return transport(kind) if kind else None
    except Mismatch:
        raise Unusable(f"toolcrib does not know the transport {kind!r}") from None


def _flattened(entry: dict[str, Any]) -> dict[str, Any]:
    """Older Zed writes ``command`` as a table of path, args and env; a list is a command with its arguments."""
    command = entry.pop("cmd", None) or entry.get("command")
    if isinstance(command, Mapping):
        entry |= {key: command[key] for key in ("args", "env") if command.get(key)}
        command = command.get("path")
    if command is not None:
        entry["command"] = command
    return entry


def _words(entry: Entry) -> tuple[str, list[str]]:
    command: Any = entry.get("command")
    args: Any = entry.get("args", [])
    if isinstance(command, list):
        command, args = (command[0] if command else None), [*command[1:], *_as_list(args)]
    if not isinstance(command, str) or not command.strip():
        raise Unusable("it has neither a command nor an address")
    if not isinstance(args, list) or not all(isinstance(arg, str | int | float) for arg in args):
        raise Unusable("its args are not a list of words")
    return command, [_text(arg) for arg in args]


def _pairs(written: object, separator: str) -> Iterator[tuple[str, str]]:
    """A table of strings, or a list of ``NAME=value``."""
    if isinstance(written, Mapping):
        yield from ((str(name), _text(value)) for name, value in written.items())
        return
    for item in _as_list(written):
        name, found, value = str(item).partition(separator)
        if found:
            yield name.strip(), value.strip()


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_enabled(entry: Entry) -> bool:
    return not entry.get("disabled", False) and bool(entry.get("enabled", True))


_LOOPBACK = re.compile(r"https?://(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])(?P<port>:\d+)?/mcp/?", re.IGNORECASE)
_PORT = ":7337"
_RUNNERS = frozenset({"uvx", "uv", "pipx", "python", "python3", "py"})


def is_toolcrib(name: str, server: ServerConfig, own_urls: frozenset[str] = frozenset()) -> bool:
    """Whether an entry starts toolcrib or reaches it on this machine."""
    if server.url is not None:
        found = _LOOPBACK.fullmatch(server.url)
        is_ours = found is not None and (found["port"] == _PORT or name.casefold() == "toolcrib")
        return is_ours or server.url.rstrip("/") in own_urls
    return _starts_toolcrib(server)


def _starts_toolcrib(server: ServerConfig) -> bool:
    words = [_program(server.command or ""), *server.args]
    if words[0] in ("cmd", "env") and len(words) > 1:
        words = [_program(word) for word in words if word not in ("/c", "cmd", "env") and "=" not in word] or words
    if words[0] == "toolcrib":
        return True
    return is_runner(words[0]) and any(re.fullmatch(r"toolcrib(?:\[[\w,]*\])?(?:[=@<>~!].*)?", word) for word in words)


def is_runner(program: str) -> bool:
    """Whether a program runs packages of Python."""
    return program in _RUNNERS or re.fullmatch(r"python3?(?:\.\d+)?", program) is not None


def _program(command: str) -> str:
    name = PureWindowsPath(command).name.lower()  # understands both kinds of slashes
    return name.removesuffix(".exe")
