"""Many layers, one configuration: later layers win, servers as a whole, settings one by one; of rules the strictest."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from toolcrib.config.kb import BUILT_IN_EMBEDDERS
from toolcrib.config.model import DEFAULT, SECTIONS, Config, Layer, Origin, ServerConfig, ServerEntry
from toolcrib.config.rules import rules_of_places
from toolcrib.config.strictest import Findings, strictest_of_server, strictest_settings
from toolcrib.config.tables import SERVER_KEYS, SETTINGS
from toolcrib.config.written import dotted
from toolcrib.core.errors import ConfigError, did_you_mean

_TABLES_OF_A_SERVER = ("env", "headers", "tools")
_INHERITED = {"calls.timeout": "call_timeout", "limits.parallel": "parallel"}
"""Settings that hold for every server that does not say otherwise, and its own key for it."""
_EMBEDDER = "kb.embedder"
_REPLACED_BY = {"url": ("command", "args", "cwd", "env"), "command": ("url", "headers")}


def merge(*layers: Layer) -> Config:
    """The configuration of all layers, from the weakest (global file) to the strongest (flags).

    A server that a stronger layer declares with its own command or url replaces the weaker one; an entry with neither
    adjusts it: ``[servers.github] enabled = false`` in a project switches a global server off. Rules are not won but
    kept: whatever layer is strictest counts.
    """
    found = Findings()
    settings = strictest_settings(layers, found)
    entries = {name: strictest_of_server(name, entry, layers, found) for name, entry in _entries(layers).items()}
    _check_embedder(settings, layers)
    sections = _sections(settings)
    sections["security"] = replace(sections["security"], places=rules_of_places(layers))
    return Config(
        servers={name: _server(name, entries[name], settings) for name in sorted(entries)},
        origins=_origins(found.origins, entries),
        overruled=found.overruled,
        profiles={name: found for layer in layers for name, found in layer.profiles.items()},
        problems=tuple(problem for layer in layers for problem in layer.problems),
        **sections,
        **_fields(settings, ""),
    )


def _check_embedder(settings: Mapping[str, Any], layers: tuple[Layer, ...]) -> None:
    """The usual embedder may be described in another layer than the one that chooses it."""
    chosen, known = settings.get(_EMBEDDER), [*BUILT_IN_EMBEDDERS, *settings.get("kb.embedders", {})]
    if chosen is None or chosen in known:
        return
    origin = next((layer.origins[_EMBEDDER] for layer in reversed(layers) if _EMBEDDER in layer.origins), DEFAULT)
    hint = did_you_mean(chosen, known) or f"Known are: {', '.join(known)}. Others go under [kb.embedders.{chosen}]."
    raise ConfigError(f"There is no embedder {chosen!r}.", where=origin.where, line=origin.line, hint=hint)


def _sections(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The values that have a class of their own, by the name of their table."""
    return {name: section(**_fields(settings, name)) for name, section in SECTIONS.items()}


def _fields(settings: Mapping[str, Any], table: str) -> dict[str, Any]:
    return {SETTINGS[name].field: value for name, value in settings.items() if section_of(name) == table}


def section_of(setting: str) -> str:
    """The table of a setting if it has a class of its own, otherwise nothing."""
    table = setting.partition(".")[0]
    return table if table in SECTIONS else ""


def _entries(layers: tuple[Layer, ...]) -> dict[str, ServerEntry]:
    entries: dict[str, ServerEntry] = {}
    for layer in layers:
        for name, entry in layer.servers.items() if not layer.is_only_rules else ():
            below = entries.get(name)
            entries[name] = _adjust(below, entry) if below is not None and entry.adjusts else entry
    return entries


def _adjust(below: ServerEntry, above: ServerEntry) -> ServerEntry:
    gone = {field for key, fields in _REPLACED_BY.items() if key in above.fields for field in fields}
    kept = {field: value for field, value in below.fields.items() if field not in gone}
    origins = {name: origin for name, origin in below.origins.items() if name.partition(".")[0] not in gone}
    return ServerEntry(
        fields=kept | {field: _lay_over(field, kept.get(field), value) for field, value in above.fields.items()},
        origin=below.origin,
        origins=origins | dict(above.origins),
        adjusts=below.adjusts,
    )


def _lay_over(field: str, below: Any, above: Any) -> Any:
    return {**below, **above} if field in _TABLES_OF_A_SERVER and below else above


def _server(name: str, entry: ServerEntry, settings: Mapping[str, Any]) -> ServerConfig:
    origin = entry.origin
    if "command" not in entry.fields and "url" not in entry.fields:
        raise ConfigError(
            f"Server {name!r} has neither a command nor a url.",
            where=origin.where,
            line=origin.line,
            hint='Write command = "…" for a program to start, or url = "https://…" for a server to reach.',
        )
    defaults = {SERVER_KEYS[key].field: settings[place] for place, key in _INHERITED.items() if place in settings}
    return ServerConfig(name=name, origin=origin.where, line=origin.line, **defaults | dict(entry.fields))


def _origins(settings: dict[str, Origin], entries: Mapping[str, ServerEntry]) -> dict[str, Origin]:
    inherited = {key: settings[name] for name, key in _INHERITED.items() if name in settings}
    servers = {
        f"{dotted(('servers', name))}.{key}": origin
        for name, entry in entries.items()
        for key, origin in (inherited | dict(entry.origins)).items()
    }
    return servers | settings
