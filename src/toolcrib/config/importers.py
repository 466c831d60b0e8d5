"""Files of other programs: any JSON with ``mcpServers``, as Claude, Cursor, Windsurf, Gemini or VS Code write it.

Names are brought into toolcrib's form. Keys of a server that toolcrib does not use belong to the other program and are
left alone; what it does use is read as strictly as its own file.
"""

from collections.abc import Mapping
from typing import Any

from toolcrib.config.foreign.entry import is_toolcrib
from toolcrib.config.jsonc import read_jsonc
from toolcrib.config.model import Layer, Origin, ServerConfig, ServerEntry
from toolcrib.config.positions import KeyPath, PlacedValues, dotted, value_at
from toolcrib.config.tables import SERVER_KEYS, check_table, check_transport, read_keys, read_value
from toolcrib.config.values import Mismatch, flag, show, transport
from toolcrib.core.errors import ConfigError
from toolcrib.core.kinds import Transport
from toolcrib.core.names import to_server_name

SERVER_TABLES: tuple[KeyPath, ...] = (("mcpServers",), ("servers",), ("mcp", "servers"))

_SAME = ("type", "command", "args", "env", "cwd", "url", "headers", "enabled", "description")
_KEYS = {name: SERVER_KEYS[name] for name in _SAME}
_RENAMED = {"transport": "type", "serverUrl": "url", "httpUrl": "url"}
_SHOWN_AS = {**_RENAMED, "timeout": "call_timeout", "disabled": "enabled"}
_NOT_READ = ("envFile", "headersHelper")
_WANTED = 'Expected {"mcpServers": {"name": {"command": "…"}}}.'


def parse_mcp_servers(text: str, where: str, *, is_file: bool = True) -> Layer:
    """The layer of another program's JSON file; only its servers are looked at."""
    written = read_jsonc(text, where)
    path = find_servers(written.root)
    if path is None:
        raise ConfigError("There are no mcpServers in this file.", where=where, hint=_WANTED)
    _refuse_repeated(written, path)
    table = check_table(written, path, value_at(written.root, path))
    named = _by_name(written, path, table)
    strange = {key: problem for key in table if (problem := _unknown_type(written, (*path, key), table[key]))}
    servers = {name: _server(written, (*path, key), table[key]) for name, key in named.items() if key not in strange}
    own = [name for name, entry in servers.items() if is_file and _is_toolcrib(name, entry)]
    unread = [problem for key in table for problem in _unread(written, (*path, key), table[key])]
    return Layer(
        where=where,
        servers={name: entry for name, entry in servers.items() if name not in own},
        problems=(
            *strange.values(),
            *unread,
            *(f"{servers[name].origin}: {name!r} is toolcrib itself and was left out." for name in own),
        ),
    )


def _is_toolcrib(name: str, entry: ServerEntry) -> bool:
    """A client that was connected to toolcrib names it in its file; read from there it would start itself. A program
    that passes such an entry wants one toolcrib behind another."""
    return is_toolcrib(name, ServerConfig(name, **entry.fields))


def find_servers(root: object) -> KeyPath | None:
    """Where in the file the servers stand."""
    return next((path for path in SERVER_TABLES if value_at(root, path) is not None), None)


def _refuse_repeated(written: PlacedValues, servers: KeyPath) -> None:
    for path, line in written.repeated:
        if path[: len(servers)] == servers:
            first = written.lines[path]
            message = f"{dotted(path)} is written twice, on lines {first} and {line}."
            raise ConfigError(message, where=written.where, line=line, hint="Keep one of them.")


def _by_name(written: PlacedValues, path: KeyPath, table: Mapping[str, Any]) -> dict[str, str]:
    """toolcrib's name for each server → the other program's."""
    named: dict[str, str] = {}
    for key in table:
        name = to_server_name(key)
        if name in named:
            first = written.line((*path, named[name]))
            message = f"{named[name]!r} (line {first}) and {key!r} would both be called {name!r}."
            raise written.error((*path, key), message, "Rename one of them.")
        named[name] = key
    return named


def _server(written: PlacedValues, path: KeyPath, table: object) -> ServerEntry:
    entry = _in_our_words(check_table(written, path, table))
    fields = read_keys(written, path, entry, _KEYS)
    fields |= _enabled(written, path, entry) | _timeout(written, path, entry)
    if fields.get("enabled", True):
        check_transport(written, path, fields)
    if fields.get("transport") is not Transport.SSE:  # what others call http they may try as HTTP+SSE, too
        fields.pop("transport", None)
    if "command" not in fields and "url" not in fields:
        raise written.error(path, f"Server {path[-1]!r} has neither a command nor a url.")
    return ServerEntry(_of_one_kind(fields), written.origin(path), _origins(written, path))


def _unknown_type(written: PlacedValues, path: KeyPath, table: object) -> str:
    """Why an entry is left out whose server is reached in a way that toolcrib does not know; costs only that entry."""
    entry = _in_our_words(check_table(written, path, table))
    if "type" not in entry:
        return ""
    try:
        transport(entry["type"])
    except Mismatch as mismatch:
        place = written.origin((*path, next(key for key in ("type", "transport") if entry.get(key))))
        reason = f"its type must be {mismatch.expected}, but is {show(mismatch.given)}"
        return f"{place}: Server {path[-1]!r} was left out: {reason}."
    return ""


def _in_our_words(table: Mapping[str, Any]) -> dict[str, Any]:
    """The entry with ``serverUrl``, ``httpUrl`` and ``transport`` under the names everybody else uses."""
    entry = {key: value for key, value in table.items() if value is not None}
    for foreign, own in _RENAMED.items():
        if foreign in entry and own not in entry:
            entry[own] = entry[foreign]
    return entry


def _enabled(written: PlacedValues, path: KeyPath, entry: Mapping[str, Any]) -> dict[str, Any]:
    if "disabled" not in entry:
        return {}
    disabled = read_value(written, (*path, "disabled"), entry["disabled"], flag)
    return {"enabled": entry.get("enabled", True) and not disabled}


def _timeout(written: PlacedValues, path: KeyPath, entry: Mapping[str, Any]) -> dict[str, Any]:
    if "timeout" not in entry:
        return {}
    return {"call_timeout_s": read_value(written, (*path, "timeout"), entry["timeout"], _foreign_timeout_s)}


def _foreign_timeout_s(value: object) -> float:
    """Most programs count milliseconds, some seconds; nobody waits a thousand seconds or less than one."""
    if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
        raise Mismatch("a number of milliseconds or seconds", value)
    return value / 1000 if value >= 1000 else float(value)


def _of_one_kind(fields: dict[str, Any]) -> dict[str, Any]:
    """Without the fields that mean nothing for this kind of server."""
    other = "command" if "url" in fields else "url"
    meaningless = {key.field for key in _KEYS.values() if key.goes_with == other}
    return {key: value for key, value in fields.items() if key not in meaningless}


def _origins(written: PlacedValues, path: KeyPath) -> dict[str, Origin]:
    return {
        dotted((_SHOWN_AS.get(key[0], key[0]), *key[1:])): Origin(written.where, line)
        for key, line in written.under(path).items()
    }


def _unread(written: PlacedValues, path: KeyPath, table: Mapping[str, Any]) -> list[str]:
    return [
        f"{written.origin((*path, key))}: {key} of server {path[-1]!r} is not read by toolcrib."
        for key in _NOT_READ
        if key in table
    ]
