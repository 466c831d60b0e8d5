"""One entry of another program, whichever one, as a server in toolcrib's words.

The programs agree on most keys and on what they mean, so all spellings are read everywhere; only the unit of a bare
``timeout`` depends on the program. What grants trust is never taken over, and what would run a command never runs.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from toolcrib.config.foreign.found import Dialect, ForeignServer
from toolcrib.config.foreign.references import References, to_variable
from toolcrib.config.foreign.settings import MEANT, TRUSTING, limits_of, tools_of
from toolcrib.config.masks import looks_secret
from toolcrib.config.model import ServerConfig
from toolcrib.config.tables import HTTP_TYPES, STDIO_TYPES
from toolcrib.core.names import to_server_name

Entry = Mapping[str, Any]

_URLS = ("url", "serverUrl", "httpUrl", "uri", "baseUrl")
_TYPES = ("type", "transport", "transportType")
_HELPERS = ("headersHelper", "http_headers_helper", "apiKeyHelper", "awsAuthRefresh")
_SSE = re.compile(r"/sse/?(?:$|\?)")
_RETIRED = (
    "it uses the retired HTTP+SSE transport; use its Streamable HTTP address, often the same one with /mcp in place "
    "of /sse"
)


class Unusable(Exception):
    """Why an entry cannot be taken over."""


def translate(name: str, entry: object, dialect: Dialect, *, line: int | None = None) -> ForeignServer:
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
    def __init__(self, name: str, entry: Entry, dialect: Dialect) -> None:
        self._name, self._dialect = to_server_name(name), dialect
        self._entry = _flattened({key: value for key, value in entry.items() if value is not None})
        self._references = References(self._name, dialect)

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
        return server, [*held, *references.notes, *odd, *told, *self._notes(server)]

    def _connection(self) -> dict[str, Any]:
        url = next((self._entry[key] for key in _URLS if self._entry.get(key)), None)
        kind = str(next((self._entry[key] for key in _TYPES if self._entry.get(key)), ""))
        _refuse_transport(kind, url, self._entry)
        if url is not None and "command" in self._entry and kind in STDIO_TYPES:
            url = None
        if url is not None:
            return {"url": self._url(url), "headers": self._headers()}
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

    def _notes(self, server: ServerConfig) -> Iterator[str]:
        for key in (key for key in _HELPERS if key in self._entry):
            yield f"{key} runs a command for its credentials and is not taken over. Add a header with a reference."
        for key in (key for key in TRUSTING if self._entry.get(key)):
            yield f"{key} is not taken over: toolcrib trusts nothing unasked. Use `toolcrib policy` if you want that."
        if "envFile" in self._entry:
            yield "envFile is not read. Set those variables in toolcrib's environment and name them in env."
        yield from _written_out(server)
        if isinstance(self._entry.get("tools"), Mapping):
            yield "What it says of single tools is not taken over. Use `toolcrib policy`."
        others = [str(key) for key in self._entry if key not in MEANT]
        if others:
            yield f"Not taken over: {', '.join(sorted(others))}."


def _refuse_transport(kind: str, url: object, entry: Entry) -> None:
    known = (*STDIO_TYPES, *HTTP_TYPES, "remote", "streamablehttp", "streamable", "")
    if kind == "sse" or (not kind and "httpUrl" not in entry and isinstance(url, str) and _SSE.search(url)):
        raise Unusable(_RETIRED)
    if kind in ("ws", "websocket") or "tcp" in entry or (isinstance(url, str) and url.startswith(("ws:", "wss:"))):
        raise Unusable("toolcrib does not speak WebSocket; use stdio or Streamable HTTP")
    if kind not in known:
        raise Unusable(f"toolcrib does not know the transport {kind!r}")


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


def _written_out(server: ServerConfig) -> Iterator[str]:
    """A secret is kept as it is found; who moves it away from the file is the user."""
    for name, value in (*server.env.items(), *server.headers.items()):
        if "${" not in value and looks_secret(name, value):
            yield f"{name} is written out. Better: set a variable and write ${{{to_variable(name)}}}."
