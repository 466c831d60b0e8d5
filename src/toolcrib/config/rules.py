"""Rules: settings of which the strictest value counts, whichever file says it; which those are, the keys declare."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from toolcrib.config.keys import POLICY, Key, Stricter, as_first_said
from toolcrib.config.model import Config, Layer, ServerConfig
from toolcrib.config.sections import PlaceRules, SecurityConfig
from toolcrib.config.tables import SERVER_KEYS, SETTINGS, TOOL_KEYS, setting_of
from toolcrib.core.kinds import Policy
from toolcrib.core.names import alias_of, fits_pattern
from toolcrib.core.offers import SecurityLevel

T = TypeVar("T")
POLICIES = tuple(Policy)
"""Mildest first."""
LEVELS = tuple(SecurityLevel)
"""Mildest first."""


def _rules(keys: Iterable[tuple[str, Key]]) -> dict[str, Stricter]:
    return {name: key.stricter for name, key in keys if key.stricter}


SETTING_RULES = _rules(SETTINGS.items())
PER_KEY: Mapping[str, Stricter] = {name: key.each for name, key in SETTINGS.items() if key.each}
"""Rules that are tables: each key of them has a value and a place of its own."""
TOGETHER = (frozenset({"auth.issuer", "auth.audience", "auth.jwks"}),)
"""Settings that mean something only together: all of them come from the first place that says one of them, so that no
other file can have the user's issuer vouched for by its own keys."""
SERVER_RULES = _rules((key.field, key) for key in SERVER_KEYS.values())
"""By field. They hold for whatever server has the name, except for ``GRANTS``."""
GRANTS = frozenset(key.field for key in SERVER_KEYS.values() if key.is_grant)
OF_PROGRAMS = frozenset(key.field for key in SERVER_KEYS.values() if key.stricter and key.goes_with == "command")
"""What means nothing for a server at an address."""
IN_GENERAL = {"isolation": "isolation.level", "parallel": "limits.parallel"}
"""What a place says of a server that it says nothing particular of."""
TOOL_RULES = _rules((key.field, key) for key in TOOL_KEYS.values())


def stricter_setting(name: str, one: Any, other: Any) -> Any:
    """The stricter of two values of a rule; ``None`` says nothing."""
    if one is None or other is None:
        return other if one is None else one
    return SETTING_RULES[name](one, other)


def is_stricter_policy(one: Policy, other: Policy) -> bool:
    """Whether the first forbids more than the second."""
    return one != other and POLICY(one, other) == one


def only_rules(layer: Layer, defaults: Mapping[str, Any]) -> Layer:
    """What holds of a file whose servers and preferences do not count: its rules, where they are no milder than what
    would hold without it (``defaults``, by setting; for the rest toolcrib's own)."""
    kept = {
        name: value
        for name, value in layer.settings.items()
        if name in SETTING_RULES and _adds_to(name, value, defaults)
    }
    return replace(layer, settings=kept, profiles={}, problems=(), is_only_rules=True)


def _adds_to(name: str, value: Any, defaults: Mapping[str, Any]) -> bool:
    if SETTING_RULES[name] is as_first_said:
        return True
    return bool(stricter_setting(name, defaults.get(name), value) == value)


def policy_said(place: PlaceRules, name: str, server: str, tool: str, *, uri: str = "") -> tuple[Policy, str] | None:
    """The policy that one place has for a tool and why: its own, else the most careful pattern's, else its server's,
    else the general one; nothing if the place says nothing of it. A resource may be named by its URI as well."""
    own = place.tool_policies.get((server, tool)) or _strictest_own((name, uri), place.policies, POLICIES)
    if own is not None:
        return own, "set for this tool in the configuration"
    careful = strictest_pattern(name, place.policies, POLICIES, uri=uri)
    if careful is not None:
        return place.policies[careful], f"set by the pattern {careful!r} of security.policies"
    if (by_server := place.server_policies.get(server)) is not None:
        return by_server, f"set for server {server!r} in the configuration"
    return None if place.policy is None else (place.policy, "the general policy (security.policy)")


def level_said(
    place: PlaceRules, name: str, server: str, tool: str, *, uri: str = ""
) -> tuple[SecurityLevel, str] | None:
    """The level that one place gives a tool, and why."""
    own = place.tool_levels.get((server, tool)) or _strictest_own((name, uri), place.levels, LEVELS)
    if own is not None:
        return own, "set for this tool in the configuration"
    highest = strictest_pattern(name, place.levels, LEVELS, uri=uri)
    if highest is not None:
        return place.levels[highest], f"set by the pattern {highest!r} of security.levels"
    by_server = place.server_levels.get(server)
    return None if by_server is None else (by_server, f"set for server {server!r} in the configuration")


def _strictest_own(names: tuple[str, ...], table: Mapping[str, T], mildest_first: tuple[T, ...]) -> T | None:
    """What is said of exactly these names, or of another that one of them has."""
    every = {*names, *map(alias_of, names)}
    return max((table[name] for name in every if name in table), key=mildest_first.index, default=None)


def strictest_pattern(
    name: str, table: Mapping[str, Any], mildest_first: tuple[Any, ...], *, uri: str = ""
) -> str | None:
    """Of the patterns that fit a name, or the URI beside it, one with the strictest value."""
    fitting = [pattern for pattern in table if fits_pattern(name, pattern) or (uri and fits_pattern(uri, pattern))]
    return max(fitting, key=lambda pattern: mildest_first.index(table[pattern])) if fitting else None


def rules_of_places(layers: tuple[Layer, ...]) -> tuple[PlaceRules, ...]:
    """What each place says of tools, as far as it says anything; of a single place, the configuration says it all."""
    found = [rules for layer in layers if (rules := _rules_of(layer)) != PlaceRules(layer.where)]
    return tuple(found) if len(found) > 1 else ()


def _rules_of(layer: Layer) -> PlaceRules:
    servers = {name: entry.fields for name, entry in layer.servers.items()}
    tools = {
        (server, name): tool for server, fields in servers.items() for name, tool in fields.get("tools", {}).items()
    }
    return PlaceRules(
        layer.where,
        layer.settings.get("security.policy"),
        layer.settings.get("security.policies", {}),
        layer.settings.get("security.levels", {}),
        {name: fields["policy"] for name, fields in servers.items() if fields.get("policy")},
        {name: fields["level"] for name, fields in servers.items() if fields.get("level")},
        {key: tool.policy for key, tool in tools.items() if tool.policy},
        {key: tool.level for key, tool in tools.items() if tool.level},
    )


def as_place(server: ServerConfig | None, security: SecurityConfig) -> PlaceRules:
    """What the merged configuration says of a server's tools, as if one place said it all."""
    if server is None:
        return PlaceRules("", security.policy, security.policies, security.levels)
    name, tools = server.name, server.tools.items()
    return PlaceRules(
        "",
        security.policy,
        security.policies,
        security.levels,
        {name: server.policy} if server.policy else {},
        {name: server.level} if server.level else {},
        {(name, tool): wishes.policy for tool, wishes in tools if wishes.policy},
        {(name, tool): wishes.level for tool, wishes in tools if wishes.level},
    )


def default_rules() -> dict[str, Any]:
    """What holds of each rule where nobody says anything."""
    plain = Config()
    return {name: setting_of(plain, name) for name in SETTING_RULES}
