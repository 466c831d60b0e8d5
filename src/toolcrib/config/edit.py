"""Edits of configuration files as text: what a person wrote around them (comments, order) stays.

The kind of file is told by its name: ``.toml`` is toolcrib's own, anything else is JSON with ``mcpServers``.
"""

import re
from collections.abc import Mapping, MutableMapping
from dataclasses import fields
from typing import Any

from toolcrib.config.importers import find_servers, parse_mcp_servers
from toolcrib.config.jsonc import has_comments, read_jsonc
from toolcrib.config.model import ServerConfig, ToolConfig
from toolcrib.config.parse import parse
from toolcrib.config.positions import toml_headers, value_at
from toolcrib.config.tables import LOST_WITH, SERVER_KEYS, TOOL_KEYS
from toolcrib.config.values import as_written, timeout_s
from toolcrib.core.errors import ConfigError, did_you_mean
from toolcrib.core.kinds import Transport
from toolcrib.core.names import to_server_name

_JSON_KEYS = ("command", "args", "env", "cwd", "url", "headers", "description")
_JSON_FIELDS = frozenset({*_JSON_KEYS, "name", "enabled", "transport", "call_timeout_s", "origin", "line"})


def add_server(text: str, server: ServerConfig, where: str = "toolcrib.toml") -> str:
    """The file with one more server at its end; only what differs from the defaults is written."""
    known = _names(text, where)
    if server.name in known:
        hint = f"Remove it first: toolcrib servers rm {server.name}."
        raise ConfigError(f"There is already a server {server.name!r}.", where=where, hint=hint)
    edited = _add_to_toml(text, server) if _is_toml(where) else _add_to_json(text, server, where)
    return _checked(edited, where, known | {server.name})


def remove_server(text: str, name: str, where: str = "toolcrib.toml") -> str:
    """The file without the server."""
    known = _names_with(name, text, where)
    edited = _remove_from_toml(text, name) if _is_toml(where) else _remove_from_json(text, name, where)
    return _checked(edited, where, known - {name})


def replace_server(text: str, server: ServerConfig, where: str = "toolcrib.toml") -> str:
    """The file with a server's keys as they are now wanted; comments in its table stay, and so does its place."""
    known = _names_with(server.name, text, where)
    if not _is_toml(where):
        return add_server(remove_server(text, server.name, where), server, where)
    return _checked(_replace_in_toml(text, server), where, known)


def set_enabled(text: str, name: str, enabled: bool, where: str = "toolcrib.toml") -> str:
    """The file with the server switched on or off."""
    known = _names_with(name, text, where)
    if _is_toml(where):
        return _checked(_set_enabled_in_toml(text, name, enabled), where, known)
    return _checked(_set_enabled_in_json(text, name, enabled, where), where, known)


def change_server(text: str, name: str, changes: Mapping[str, Any], where: str = "toolcrib.toml") -> str:
    """The file with these keys of a server changed, by their names in toolcrib.toml; ``None`` takes one out.

    Of ``env`` and ``headers`` only the entries named change. A value that cannot be used is an error in the parser's
    own words.
    """
    known = _names_with(name, text, where)
    edited = _change_in_toml(text, name, changes) if _is_toml(where) else _change_in_json(text, name, changes, where)
    parse(edited, where)
    return _checked(edited, where, known)


def set_policy(text: str, name: str, policy: str, where: str = "toolcrib.toml") -> str:
    """The file with the policy of a tool, of all that a pattern stands for, or of a server written in it."""
    if not _is_toml(where):
        raise ConfigError("An mcpServers file has no place for policies.", where=where, hint=_NEEDS_TOML)
    known = _names(text, where)
    return _checked(_set_policy_in_toml(text, name, policy), where, known)


def _set_policy_in_toml(text: str, name: str, policy: str) -> str:
    import tomlkit

    document = tomlkit.parse(text)
    server, _, tool = name.partition("__")
    servers = document.get("servers", {})
    if name in servers:
        servers[name]["policy"] = policy
    elif "policy" in servers.get(server, {}).get("tools", {}).get(tool, {}):
        servers[server]["tools"][tool]["policy"] = policy
    else:
        section = document.setdefault("security", tomlkit.table())
        section.setdefault("policies", tomlkit.table())[name] = policy
    return document.as_string()


def set_audit_values(text: str, is_on: bool, where: str = "toolcrib.toml") -> str:
    """The file with whether the audit log keeps arguments and results themselves."""
    import tomlkit

    if not _is_toml(where):
        raise ConfigError("An mcpServers file has no place for this.", where=where, hint=_NEEDS_TOML)
    document = tomlkit.parse(text)
    document.setdefault("audit", tomlkit.table())["values"] = is_on
    return _checked(document.as_string(), where, _names(text, where))


_NEEDS_TOML = "Write it into a toolcrib.toml."


def _is_toml(where: str) -> bool:
    return where.endswith(".toml")


def _names(text: str, where: str) -> set[str]:
    return set(parse(text, where).servers) if text.strip() else set()


def _names_with(name: str, text: str, where: str) -> set[str]:
    known = _names(text, where)
    if name not in known:
        raise ConfigError(f"There is no server {name!r}.", where=where, hint=did_you_mean(name, known))
    return known


def _checked(edited: str, where: str, expected: set[str]) -> str:
    """An unusual way of writing tables may not survive an edit; better no edit than a file that cannot be read."""
    try:
        found = set(parse(edited, where).servers)
    except ConfigError:
        found = None
    if found != expected:
        raise ConfigError("This file is written in a way that cannot be edited.", where=where, hint="Edit it by hand.")
    return edited


def _add_to_toml(text: str, server: ServerConfig) -> str:
    import tomlkit

    block = tomlkit.dumps({"servers": {server.name: _server_table(server)}})
    return f"{text.rstrip()}\n\n{block.rstrip()}\n".lstrip()


def _server_table(server: ServerConfig) -> dict[str, Any]:
    table = _written_keys(server, ServerConfig(server.name), SERVER_KEYS)
    tools = {name: _written_keys(tool, ToolConfig(), TOOL_KEYS) for name, tool in server.tools.items()}
    return table | ({"tools": tools} if tools else {})


def _written_keys(value: object, default: object, keys: Mapping[str, Any]) -> dict[str, Any]:
    """The keys whose fields differ from the defaults, in the order of the reference."""
    found = {name: getattr(value, key.field) for name, key in keys.items() if hasattr(value, key.field)}
    return {name: _in_toml(item) for name, item in found.items() if item != getattr(default, keys[name].field)}


def _in_toml(value: Any) -> Any:
    import tomlkit

    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        table = tomlkit.inline_table()
        table.update(value)
        return table
    return as_written(value)


def _remove_from_toml(text: str, name: str) -> str:
    """Cut out the server's sections, each with the comment right above it."""
    lines = re.split(r"(?<=\n)", text)
    headers = toml_headers(text)
    starts = [_with_comment_above(lines, line) for _, line in headers]
    ends = [*starts, len(lines)][1:]
    for (path, _), start, end in reversed(list(zip(headers, starts, ends, strict=True))):
        if path[:2] == ("servers", name):
            del lines[start:end]
    return "".join(lines)


def _with_comment_above(lines: list[str], line: int) -> int:
    """The index of the first line that belongs to the header on ``line``."""
    start = line - 1
    while start and lines[start - 1].lstrip().startswith("#"):
        start -= 1
    return start


def _set_enabled_in_toml(text: str, name: str, enabled: bool) -> str:
    import tomlkit

    document = tomlkit.parse(text)
    document["servers"][name]["enabled"] = enabled
    return document.as_string()


def _replace_in_toml(text: str, server: ServerConfig) -> str:
    import tomlkit

    document = tomlkit.parse(text)
    _bring_up_to_date(document["servers"][server.name], _server_table(server))
    edited: str = document.as_string()
    if _comments(edited) == _comments(text):
        return edited
    return _add_to_toml(_remove_from_toml(text, server.name), server)  # a neighbour's comment hung on what went


def _comments(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.lstrip().startswith("#")]


def _bring_up_to_date(table: Any, wanted: Mapping[str, Any]) -> None:
    """Key by key: a table that is put in anew would lose the comments that stand at its end."""
    for key in [key for key in table if key not in wanted]:
        del table[key]
    for key, value in wanted.items():
        if isinstance(value, dict) and key in table and isinstance(table[key], MutableMapping):
            _bring_up_to_date(table[key], value)
        elif key not in table or table[key] != value:
            table[key] = value


def _change_in_toml(text: str, name: str, changes: Mapping[str, Any]) -> str:
    import tomlkit

    document = tomlkit.parse(text)
    _lay_over(document["servers"][name], {key: _laid(value) for key, value in _with_kind(changes).items()})
    return document.as_string()


def _with_kind(changes: Mapping[str, Any]) -> Mapping[str, Any]:
    """A server that changes its kind loses what went with the other one."""
    gone = next(((*keys, "type") for kind, keys in LOST_WITH.items() if changes.get(kind) is not None), ())
    return dict.fromkeys(gone) | dict(changes)


def _laid(value: Any) -> Any:
    return _in_toml(value) if not isinstance(value, Mapping) else value


def _lay_over(table: MutableMapping[str, Any], changes: Mapping[str, Any]) -> None:
    """Set what is named, take out what is ``None``; tables are changed entry by entry."""
    for key, value in changes.items():
        if value is None:
            table.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(table.get(key), MutableMapping):
            _lay_over(table[key], value)
        elif isinstance(value, Mapping):
            table[key] = _in_toml({name: item for name, item in value.items() if item is not None})
        else:
            table[key] = value


def _change_in_json(text: str, name: str, changes: Mapping[str, Any], where: str) -> str:
    root, servers = _open_json(text, where)
    _lay_over(servers[_foreign_name(servers, name)], _in_foreign_words(_with_kind(changes), where))
    return _dump(root)


def _in_foreign_words(changes: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The keys an ``mcpServers`` file has for the same."""
    wanted = {key: value for key, value in changes.items() if key in (*_JSON_KEYS, "type")}
    if "enabled" in changes:
        wanted |= {"enabled": None, "disabled": None if changes["enabled"] else True}
    if "call_timeout" in changes:
        timeout = changes["call_timeout"]
        wanted["timeout"] = None if timeout is None else int(timeout_s(timeout) * 1000)
    for key, value in changes.items():
        if value is not None and key not in (*_JSON_KEYS, "type", "enabled", "call_timeout"):
            raise ConfigError(f"An mcpServers file has no place for {key}.", where=where, hint=_NEEDS_TOML)
    if wanted.get("url") is not None:
        kept = {"type": wanted.get("type") or "http"}
        wanted |= {**kept, "serverUrl": None, "httpUrl": None, "transport": None}
    return wanted


def _add_to_json(text: str, server: ServerConfig, where: str) -> str:
    root, servers = _open_json(text if text.strip() else '{"mcpServers": {}}', where)
    _check_fits_json(server, where)
    servers[server.name] = mcp_entry(server)
    return _dump(root)


def _check_fits_json(server: ServerConfig, where: str) -> None:
    default = ServerConfig(server.name)
    for field in fields(server):
        if field.name not in _JSON_FIELDS and getattr(server, field.name) != getattr(default, field.name):
            hint = "Put the server into a toolcrib.toml."
            raise ConfigError(f"An mcpServers file has no place for {field.name}.", where=where, hint=hint)


def mcp_entry(server: ServerConfig) -> dict[str, Any]:
    """The server as an ``mcpServers`` file has it, as far as such a file can say it."""
    entry: dict[str, Any] = {"type": str(server.transport or Transport.HTTP)} if server.url else {}
    entry |= {key: as_written(getattr(server, key)) for key in _JSON_KEYS if getattr(server, key)}
    if server.call_timeout_s != ServerConfig("").call_timeout_s:
        entry["timeout"] = int(server.call_timeout_s * 1000)
    return entry if server.enabled else entry | {"disabled": True}


def _remove_from_json(text: str, name: str, where: str) -> str:
    root, servers = _open_json(text, where)
    del servers[_foreign_name(servers, name)]
    return _dump(root)


def _set_enabled_in_json(text: str, name: str, enabled: bool, where: str) -> str:
    root, servers = _open_json(text, where)
    entry = servers[_foreign_name(servers, name)]
    entry.pop("enabled", None)
    entry.pop("disabled", None)
    if not enabled:
        entry["disabled"] = True
    return _dump(root)


def _foreign_name(servers: Mapping[str, Any], name: str) -> str:
    return next(key for key in servers if to_server_name(key) == name)


def _open_json(text: str, where: str) -> tuple[Any, MutableMapping[str, Any]]:
    parse_mcp_servers(text, where)
    if has_comments(text):
        raise ConfigError("This file has comments, which an edit would lose.", where=where, hint="Edit it by hand.")
    root = read_jsonc(text, where).root
    return root, value_at(root, find_servers(root) or ())


def _dump(root: Any) -> str:
    import json

    return json.dumps(root, indent=2, ensure_ascii=False) + "\n"
