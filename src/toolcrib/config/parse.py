"""From the text of ``toolcrib.toml`` to a layer; strict: what is not known is an error with its line."""

import re
import tomllib
from collections.abc import Mapping
from typing import Any, NoReturn

from toolcrib.config.importers import parse_mcp_servers
from toolcrib.config.model import Layer, Origin, ServerEntry, ToolConfig
from toolcrib.config.positions import KeyPath, PlacedValues, dotted, toml_lines, toml_places
from toolcrib.config.rules import PER_KEY
from toolcrib.config.sections import ProfileConfig, ProfileTool
from toolcrib.config.tables import (
    PROFILE_KEYS,
    PROFILE_TOOL_KEYS,
    SERVER_KEYS,
    SETTINGS,
    TOOL_KEYS,
    check_keys,
    check_table,
    check_transport,
    read_embedders,
    read_keys,
    read_value,
)
from toolcrib.core.errors import ConfigError, InvalidName
from toolcrib.core.names import check_server_name

_NAME = re.compile(r"[a-z][a-z0-9]*(?:[_-][a-z0-9]+)*")
_LONGEST = 32


def read_profiles(written: PlacedValues, table: object) -> dict[str, ProfileConfig]:
    """Every profile by its name."""
    found = check_table(written, ("profiles",), table)
    return {name: _profile(written, ("profiles", name), found[name]) for name in sorted(found)}


def _profile(written: PlacedValues, path: KeyPath, table: object) -> ProfileConfig:
    if len(path[-1]) > _LONGEST or not _NAME.fullmatch(path[-1]):
        hint = f"Use small letters, digits, - and _, at most {_LONGEST} characters: it becomes part of an address."
        raise written.error(path, f"{path[-1]!r} cannot name a profile.", hint)
    checked = check_keys(written, path, table, (*PROFILE_KEYS, "change"))
    place = (*path, "change")
    changes = check_table(written, place, checked.get("change", {}))
    change = {name: _profile_tool(written, (*place, name), changes[name]) for name in sorted(changes)}
    return ProfileConfig(**read_keys(written, path, checked, PROFILE_KEYS), change=change)


def _profile_tool(written: PlacedValues, path: KeyPath, table: object) -> ProfileTool:
    checked = check_keys(written, path, table, PROFILE_TOOL_KEYS)
    found = ProfileTool(**read_keys(written, path, checked, PROFILE_TOOL_KEYS))
    both = sorted({*found.fixed} & {*found.hidden})
    if both:
        hint = "What is fixed is hidden anyway; keep it in fixed."
        raise written.error((*path, "hidden"), f"{dotted(path)} has {both[0]!r} in both fixed and hidden.", hint)
    return found


_TABLES = tuple(dict.fromkeys(name.partition(".")[0] for name in SETTINGS if "." in name))
_TOP = ("native", *_TABLES, "servers", "profiles")
_SYNTAX_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


def parse(text: str, where: str) -> Layer:
    """The layer of any configuration file: toolcrib's own by its ``.toml``, otherwise ``mcpServers`` JSON."""
    return parse_toml(text, where) if where.endswith(".toml") else parse_mcp_servers(text, where)


def parse_toml(text: str, where: str) -> Layer:
    """The layer of a ``toolcrib.toml``."""
    written = read_toml(text, where)
    root = check_keys(written, (), written.root, _TOP)
    settings = _settings(written, root)
    servers = check_table(written, ("servers",), root.get("servers", {}))
    return Layer(
        where=where,
        settings=settings,
        servers={name: _server(written, name, table) for name, table in servers.items()},
        origins=_setting_origins(written, settings) | _profile_origins(written),
        profiles=read_profiles(written, root.get("profiles", {})),
    )


def _setting_origins(written: PlacedValues, settings: Mapping[str, Any]) -> dict[str, Origin]:
    """The place of each setting; of rules that are tables, of each key, too."""
    paths = {name: tuple(name.split(".")) for name in settings}
    keys = [(*paths[name], key) for name in settings if name in PER_KEY for key in settings[name]]
    return {name: written.origin(path) for name, path in paths.items()} | {
        dotted(path): written.origin(path) for path in keys
    }


def _profile_origins(written: PlacedValues) -> dict[str, Origin]:
    lines = written.under(("profiles",))
    return {dotted(("profiles", *path)): Origin(written.where, line) for path, line in lines.items()}


def parse_server(name: str, table: Mapping[str, Any], where: str) -> Layer:
    """The layer of one server that is given as plain data, by the keys of the file; as strict as a file."""
    return Layer(where, servers={name: _server(PlacedValues(where, {}), name, table)})


def flags_layer(settings: Mapping[str, object]) -> Layer:
    """Settings given on the command line, by their name in the file: ``{"serve.port": 8080}``."""
    written = PlacedValues("flag", settings)
    known = check_keys(written, (), settings, SETTINGS)
    read = {name: _setting(written, tuple(name.split(".")), value) for name, value in known.items()}
    return Layer("flag", read, origins=dict.fromkeys(read, Origin("flag")))


def read_toml(text: str, where: str) -> PlacedValues:
    """The values of a TOML text, with the lines of its keys."""
    try:
        root = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        _refuse_syntax(text, where, str(error))
    return PlacedValues(where, root, toml_lines(text))


def _refuse_syntax(text: str, where: str, reason: str) -> NoReturn:
    match = _SYNTAX_PLACE.search(reason)
    line = int(match[1]) if match and match[1] else text.count("\n") + 1
    message = _SYNTAX_PLACE.sub("", reason)
    if "twice" in reason or "overwrite" in reason:
        message = _name_both_places(text, line) or message
    hint = "Correct the line, or put a good copy of the file in its place."
    raise ConfigError(f"This is not TOML: {message}.", where=where, line=line, hint=hint) from None


def _name_both_places(text: str, line: int) -> str:
    """Which key the line writes a second time, and where the first one is."""
    *before, last = toml_places("\n".join(text.split("\n")[:line]))
    earlier = [place for path, place in before if path == last[0]]
    return f"{dotted(last[0])} is written twice, on lines {earlier[0]} and {last[1]}" if earlier else ""


def _settings(written: PlacedValues, root: Mapping[str, Any]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for name in _TABLES:
        keys = [key.partition(".")[2] for key in SETTINGS if key.startswith(f"{name}.")]
        table = check_keys(written, (name,), root.get(name, {}), keys)
        settings |= {f"{name}.{key}": _setting(written, (name, key), value) for key, value in table.items()}
    if "native" in root:
        settings["native"] = _setting(written, ("native",), root["native"])
    return settings


def _setting(written: PlacedValues, path: KeyPath, value: object) -> Any:
    if path == ("kb", "embedders"):
        return read_embedders(written, path, value)
    return read_value(written, path, value, SETTINGS[".".join(path)].read)


def _server(written: PlacedValues, name: str, table: object) -> ServerEntry:
    path = ("servers", name)
    _check_name(written, path)
    checked = check_keys(written, path, table, (*SERVER_KEYS, "tools"))
    fields = read_keys(written, path, checked, SERVER_KEYS)
    check_transport(written, path, fields)
    _check_belonging(written, path, fields)
    if "tools" in checked:
        fields["tools"] = _tools(written, (*path, "tools"), checked["tools"])
    return ServerEntry(
        fields=fields,
        origin=written.origin(path),
        origins={dotted(key): Origin(written.where, line) for key, line in written.under(path).items()},
        adjusts="command" not in fields and "url" not in fields,
    )


def _check_name(written: PlacedValues, path: KeyPath) -> None:
    try:
        check_server_name(path[-1])
    except InvalidName as error:
        raise written.error(path, error.message, error.hint) from None


def _check_belonging(written: PlacedValues, path: KeyPath, fields: Mapping[str, Any]) -> None:
    other = "url" if "url" in fields else "command" if "command" in fields else None
    for name, key in SERVER_KEYS.items():
        if key.field in fields and other and key.goes_with and key.goes_with != other:
            place = (*path, name)
            raise written.error(place, f"{dotted(place)} goes with a {key.goes_with}, not with a {other}.")


def _tools(written: PlacedValues, path: KeyPath, table: object) -> dict[str, ToolConfig]:
    tools = check_table(written, path, table)
    return {name: _tool(written, (*path, name), tools[name]) for name in sorted(tools)}


def _tool(written: PlacedValues, path: KeyPath, table: object) -> ToolConfig:
    return ToolConfig(**read_keys(written, path, check_keys(written, path, table, TOOL_KEYS), TOOL_KEYS))
