"""Many layers, one configuration: later layers win, servers as a whole, settings one by one; of rules the strictest."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from toolcrib.config.keys import Stricter
from toolcrib.config.model import (
    DEFAULT,
    Config,
    Layer,
    Origin,
    Overruled,
    ServerConfig,
    ServerEntry,
    ToolConfig,
)
from toolcrib.config.positions import dotted
from toolcrib.config.rules import (
    GRANTS,
    IN_GENERAL,
    OF_PROGRAMS,
    PER_KEY,
    SERVER_RULES,
    SETTING_RULES,
    TOGETHER,
    TOOL_RULES,
    rules_of_places,
    stricter_setting,
)
from toolcrib.config.sections import BUILT_IN_EMBEDDERS
from toolcrib.config.tables import LOST_WITH, SECTIONS, SERVER_KEYS, SETTINGS, TOOL_KEYS
from toolcrib.core.errors import ConfigError, did_you_mean

_KEY_OF = {key.field: name for name, key in SERVER_KEYS.items()}
_TOOL_KEY_OF = {key.field: name for name, key in TOOL_KEYS.items()}


@dataclass(frozen=True, slots=True)
class RuleSetting:
    """What one layer says of one rule."""

    value: Any
    origin: Origin


@dataclass(slots=True)
class MergedOrigins:
    """Where the values come from that count, and which do not count because others are stricter."""

    origins: dict[str, Origin] = field(default_factory=dict)
    overruled: dict[str, tuple[Overruled, ...]] = field(default_factory=dict)

    def strictest(self, name: str, said: list[RuleSetting], stricter: Stricter) -> RuleSetting | None:
        """The strictest of several values; what joins two of them comes from the later."""
        kept: RuleSetting | None = None
        for one in said:
            kept = one if kept is None else self._stricter(name, kept, one, stricter)
        if kept is not None:
            self.origins[name] = kept.origin
        return kept

    def _stricter(self, name: str, one: RuleSetting, other: RuleSetting, stricter: Stricter) -> RuleSetting:
        value = stricter(one.value, other.value)
        losers = [Overruled(said.value, said.origin) for said in (one, other) if said.value != value]
        if losers:
            self.overruled[name] = (*self.overruled.get(name, ()), *losers)
        return one if value == one.value else RuleSetting(value, other.origin)


def strictest_settings(layers: tuple[Layer, ...], found: MergedOrigins) -> dict[str, Any]:
    """Each rule as its strictest layer says it, every other setting as its strongest; tables of preferences are laid
    over each other."""
    settings: dict[str, Any] = {}
    for layer in layers:
        for name, value in layer.settings.items():
            if name not in SETTING_RULES:
                below = settings.get(name)
                settings[name] = {**below, **value} if isinstance(below, Mapping) else value
        found.origins |= {name: origin for name, origin in layer.origins.items() if name not in SETTING_RULES}
    for name in SETTING_RULES:
        said = _said(name, layers)
        if name in PER_KEY:
            settings |= _strictest_table(name, said, layers, found)
        elif (kept := found.strictest(name, said, partial(stricter_setting, name))) is not None:
            settings[name] = kept.value
    return settings


def _said(name: str, layers: tuple[Layer, ...]) -> list[RuleSetting]:
    """What the layers say of a rule; toolcrib's own default is no word against anybody's."""
    group = next((group for group in TOGETHER if name in group), None)
    first = next((layer for layer in layers if group and group & layer.settings.keys()), None)
    asked = layers if first is None else (first,)
    said = [
        RuleSetting(layer.settings[name], layer.origins.get(name, Origin(layer.where)))
        for layer in asked
        if name in layer.settings
    ]
    return [one for one in said if one.origin != DEFAULT] or said


def _strictest_table(
    name: str, said: list[RuleSetting], layers: tuple[Layer, ...], found: MergedOrigins
) -> dict[str, Any]:
    """A rule that is a table, key by key; the whole is shown as coming from the strongest layer that has one."""
    if not said:
        return {}
    found.origins[name] = said[-1].origin
    values: dict[str, Any] = {}
    for key in dict.fromkeys(key for one in said for key in one.value):
        place = dotted((*name.split("."), key))
        holding = [layer for layer in layers if key in layer.settings.get(name, {})]
        words = [RuleSetting(layer.settings[name][key], _origin_of(layer, place, name)) for layer in holding]
        kept = found.strictest(place, words, PER_KEY[name])
        values[key] = kept.value if kept is not None else None
    return {name: values}


def _origin_of(layer: Layer, place: str, name: str) -> Origin:
    return layer.origins.get(place) or layer.origins.get(name) or Origin(layer.where)


def strictest_of_server(name: str, entry: ServerEntry, layers: tuple[Layer, ...], found: MergedOrigins) -> ServerEntry:
    """A server under the rules that any layer has for that name; its preferences stay as they are."""
    fields, origins = dict(entry.fields), dict(entry.origins)
    for rule, stricter in SERVER_RULES.items():
        if rule in OF_PROGRAMS and "command" not in fields:
            continue
        said = _said_of_server(name, rule, _own_layers(name, layers) if rule in GRANTS else layers)
        kept = found.strictest(f"{dotted(('servers', name))}.{_KEY_OF[rule]}", said, stricter)
        if kept is not None:
            fields[rule], origins[_KEY_OF[rule]] = kept.value, kept.origin
    tools = _strictest_tools(name, fields.get("tools", {}), layers, found)
    return replace(entry, fields=fields | {"tools": tools} if tools else fields, origins=origins)


def _own_layers(name: str, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """The layers that speak of this very server: from the one on that declares it."""
    numbers = [
        number
        for number, layer in enumerate(layers)
        if not layer.is_only_rules and name in layer.servers and not layer.servers[name].adjusts
    ]
    return tuple(layer for layer in layers[numbers[-1] if numbers else 0 :] if not layer.is_only_rules)


def _said_of_server(name: str, rule: str, layers: tuple[Layer, ...]) -> list[RuleSetting]:
    """What the layers say of a server: in particular, or else in general, if anybody says something in particular."""
    said, is_particular = [], False
    for layer in layers:
        entry, general = layer.servers.get(name), IN_GENERAL.get(rule, "")
        if entry is not None and entry.fields.get(rule) not in (None, ""):
            said.append(RuleSetting(entry.fields[rule], entry.origins.get(_KEY_OF[rule], entry.origin)))
            is_particular = True
        elif general in layer.settings and layer.origins.get(general) != DEFAULT:
            said.append(RuleSetting(layer.settings[general], layer.origins.get(general, Origin(layer.where))))
    return said if is_particular else []


def _strictest_tools(
    name: str, tools: Mapping[str, ToolConfig], layers: tuple[Layer, ...], found: MergedOrigins
) -> dict[str, ToolConfig]:
    entries = [layer.servers[name] for layer in layers if name in layer.servers]
    every = {tool for entry in entries for tool in entry.fields.get("tools", {})}
    strict = {tool: _strictest_tool(name, tool, tools.get(tool, _PLAIN), entries, found) for tool in sorted(every)}
    return {tool: wishes for tool, wishes in strict.items() if tool in tools or wishes != _PLAIN}


_PLAIN = ToolConfig()


def _strictest_tool(
    server: str, tool: str, wishes: ToolConfig, entries: list[ServerEntry], found: MergedOrigins
) -> ToolConfig:
    """What is wanted of a tool, under the rules that any layer has for it."""
    changed = {}
    for rule, stricter in TOOL_RULES.items():
        place = dotted(("tools", tool, _TOOL_KEY_OF[rule]))
        said = [
            RuleSetting(value, entry.origins.get(place, entry.origin))
            for entry in entries
            if (value := getattr(entry.fields.get("tools", {}).get(tool, _PLAIN), rule)) != getattr(_PLAIN, rule)
        ]
        kept = found.strictest(f"{dotted(('servers', server))}.{place}", said, stricter)
        if kept is not None:
            changed[rule] = kept.value
    return replace(wishes, **changed)


_INHERITED = {"calls.timeout": "call_timeout", "limits.parallel": "parallel"}
"""Settings that hold for every server that does not say otherwise, and its own key for it."""
_EMBEDDER = "kb.embedder"


def merge(*layers: Layer) -> Config:
    """The configuration of all layers, from the weakest (global file) to the strongest (flags).

    A server that a stronger layer declares with its own command or url replaces the weaker one; an entry with neither
    adjusts it: ``[servers.github] enabled = false`` in a project switches a global server off. Rules are not won but
    kept: whatever layer is strictest counts.
    """
    found = MergedOrigins()
    settings = strictest_settings(layers, found)
    entries = {name: strictest_of_server(name, entry, layers, found) for name, entry in _entries(layers).items()}
    _check_embedder(settings, layers)
    sections = {name: section(**_fields(settings, name)) for name, section in SECTIONS.items()}
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


def _fields(settings: Mapping[str, Any], section: str) -> dict[str, Any]:
    return {SETTINGS[name].field: value for name, value in settings.items() if SETTINGS[name].section == section}


def _entries(layers: tuple[Layer, ...]) -> dict[str, ServerEntry]:
    entries: dict[str, ServerEntry] = {}
    for layer in layers:
        for name, entry in layer.servers.items() if not layer.is_only_rules else ():
            below = entries.get(name)
            entries[name] = _adjust(below, entry) if below is not None and entry.adjusts else entry
    return entries


def _adjust(below: ServerEntry, above: ServerEntry) -> ServerEntry:
    gone = {name for kind, names in LOST_WITH.items() if kind in above.fields for name in names}
    kept = {field: value for field, value in below.fields.items() if _KEY_OF.get(field) not in gone}
    origins = {name: origin for name, origin in below.origins.items() if name.partition(".")[0] not in gone}
    return ServerEntry(
        fields=kept | {field: _lay_over(kept.get(field), value) for field, value in above.fields.items()},
        origin=below.origin,
        origins=origins | dict(above.origins),
        adjusts=below.adjusts,
    )


def _lay_over(below: Any, above: Any) -> Any:
    return {**below, **above} if isinstance(below, Mapping) else above


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
