"""Rules: settings of which the strictest value counts, whichever file says it, and what "stricter" means for each.

Everything else is a preference, for which the strongest layer counts. Every key of the configuration stands in one of
the two tables, so that a new one cannot be left undecided.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from toolcrib.config.model import SECTIONS, Config, Layer, ServerConfig
from toolcrib.config.sections import PlaceRules, SecurityConfig
from toolcrib.config.tables import SETTINGS
from toolcrib.core.kinds import AUTO, IsolationLevel, PinMode, Policy
from toolcrib.core.limits import Rate
from toolcrib.core.tool import SecurityLevel

Stricter = Callable[[Any, Any], Any]
"""From two values to one that allows nothing that either of them forbids."""


def _ordered(*mildest_first: Any) -> Stricter:
    rank = {value: number for number, value in enumerate(mildest_first)}
    return lambda one, other: max(one, other, key=rank.__getitem__)


def _each(stricter: Stricter) -> Stricter:
    """For tables: what both say of a key is compared, what one says alone stays."""

    def join(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
        both = {key: stricter(one[key], other[key]) for key in one if key in other}
        return {**one, **other, **both}

    return join


def _common(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    """What stands in both lists."""
    return tuple(item for item in one if item in other)


def _union(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """What stands in either: for what a caller must have."""
    return tuple(dict.fromkeys((*one, *other)))


def _within(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """Patterns that fit only names that both lists fit; two that merely overlap are left out, never widened."""
    inner = [narrow for narrow in one if any(_covers(wide, narrow) for wide in other)]
    return tuple(dict.fromkeys((*inner, *(narrow for narrow in other if any(_covers(wide, narrow) for wide in one)))))


def _covers(wide: str, narrow: str) -> bool:
    """Whether a pattern surely fits everything that another one fits."""
    if wide == narrow:
        return True
    is_name = not any(sign in narrow for sign in "*?[")
    return fnmatchcase(narrow, wide) and (is_name or not any(sign in wide for sign in "?["))


def _rarer(one: Rate, other: Rate) -> Rate:
    """As few calls as the one allows, in as long a time as the other counts: this keeps both."""
    return Rate(min(one.count, other.count), max(one.window_s, other.window_s))


def as_first_said(one: Any, other: Any) -> Any:
    """For what cannot be compared: the user's own word stays, whatever comes after."""
    del other
    return one


POLICIES = tuple(Policy)
"""Mildest first."""
_POLICY = _ordered(*POLICIES)
LEVELS = tuple(SecurityLevel)
"""Mildest first."""
_LEVEL = _ordered(*LEVELS)
_ISOLATION = _ordered(
    IsolationLevel.NONE, IsolationLevel.LIMITS, AUTO, IsolationLevel.CONFINED, IsolationLevel.ISOLATED
)
"""By what is sure: ``auto`` takes what there is, so anything that must be there is stricter."""
_OFF, _ON = _ordered(True, False), _ordered(False, True)

SETTING_RULES: Mapping[str, Stricter] = {
    "security.policy": _POLICY,
    "security.policies": _each(_POLICY),
    "security.levels": _each(_LEVEL),
    "security.pins": _ordered(PinMode.OFF, PinMode.FIRST, PinMode.STRICT),
    "security.ask_timeout": min,
    "serve.auth": _ordered("none", "auto", "required"),
    "serve.edit_commands": _OFF,
    "access.level": _ordered(*reversed(SecurityLevel)),
    "access.servers": _within,
    "access.tools": _within,
    "auth.issuer": as_first_said,
    "auth.audience": as_first_said,
    "auth.jwks": as_first_said,
    "auth.algorithms": _common,
    "auth.max_age": min,
    "auth.leeway": min,
    "limits.caller_rate": _rarer,
    "limits.parallel": min,
    "limits.queue": min,
    "audit.enabled": _ON,
    "audit.path": as_first_said,
    "audit.values": _OFF,
    "isolation.level": _ISOLATION,
    "isolation.minimum": _each(_ordered(*IsolationLevel)),
    "kb.add_from": _common,
    "workspace.bash": _OFF,
    "workspace.isolation": _ordered(*IsolationLevel),
    "workspace.network": _OFF,
    "workspace.loopback": _common,
}
TOGETHER = (frozenset({"auth.issuer", "auth.audience", "auth.jwks"}),)
"""Settings that mean something only together: all of them come from the first place that says one of them, so that no
other file can have the user's issuer vouched for by its own keys."""
PER_KEY: Mapping[str, Stricter] = {
    "security.policies": _POLICY,
    "security.levels": _LEVEL,
    "isolation.minimum": _ordered(*IsolationLevel),
}
"""Rules that are tables: each key of them has a value and a place of its own."""

SERVER_RULES: Mapping[str, Stricter] = {
    "policy": _POLICY,
    "level": _LEVEL,
    "rate": _rarer,
    "parallel": min,
    "isolation": _ISOLATION,
    "network": _OFF,
    "loopback": _common,
    "memory_bytes": min,
    "processes": min,
    "relay": _common,
    "read": _common,
    "write": _common,
}
"""By field. They hold for whatever server has the name, except for ``GRANTS``."""
GRANTS = frozenset({"relay", "read", "write", "loopback"})
"""What one program needs to do its work: of no concern to another program of the same name."""
OF_PROGRAMS = frozenset({"isolation", "network", "loopback", "memory_bytes", "processes", "read", "write"})
"""What means nothing for a server at an address."""
IN_GENERAL = {"isolation": "isolation.level", "parallel": "limits.parallel"}
"""What a place says of a server that it says nothing particular of."""

TOOL_RULES: Mapping[str, Stricter] = {
    "enabled": _OFF,
    "policy": _POLICY,
    "level": _LEVEL,
    "capabilities": _union,
    "rate": _rarer,
    "replayable": _OFF,
}

PREFERENCES = frozenset(
    {
        *("connect.attempts", "connect.delays", "calls.timeout", "calls.slow", "catalog.grace", "catalog.capacity"),
        *("results.limit", "results.keep", "results.space"),
        *("serve.host", "serve.port", "serve.public_url", "serve.replica", "serve.drain", "telemetry.traces"),
        *("expose.mode", "expose.budget", "expose.pinned", "expose.clients"),
        *("kb.enabled", "kb.path", "kb.docs", "kb.embedder", "kb.embedders"),
        *("kb.provider", "kb.model", "kb.url", "kb.key", "kb.timeout"),
        *("model.provider", "model.model", "model.url", "model.key", "model.timeout", "model.max_tokens"),
        *("network.proxy", "network.no_proxy", "network.loopback", "network.ca_file"),
        *("workspace.enabled", "workspace.root", "workspace.tools", "workspace.read", "workspace.timeout"),
        *("workspace.output", "workspace.fetch_size", "workspace.fetch_timeout"),
        *("platform.app_id", "platform.endpoint", "platform.token", "platform.tokens", "platform.development"),
        *("platform.manifest", "platform.servers", "platform.token_check", "platform.version"),
        *("platform.orchestrator", "platform.ttl", "platform.timeout"),
        *("store.url", "store.name", "store.pool", "store.timeout", "redis.url", "redis.timeout", "native"),
    }
)
SERVER_PREFERENCES = frozenset(
    {
        *("type", "command", "args", "env", "cwd", "url", "headers", "enabled", "description"),
        *("ttl_s", "discovery_timeout_s", "connect_timeout_s", "call_timeout_s", "idle_timeout_s"),
    }
)
TOOL_PREFERENCES = frozenset({"parameters", "timeout_s", "result_limit"})


def stricter_setting(name: str, one: Any, other: Any) -> Any:
    """The stricter of two values of a rule; ``None`` says nothing."""
    if one is None or other is None:
        return other if one is None else one
    return SETTING_RULES[name](one, other)


def is_stricter_policy(one: Policy, other: Policy) -> bool:
    """Whether the first forbids more than the second."""
    return one != other and _POLICY(one, other) == one


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


def policy_said(place: PlaceRules, name: str, server: str, tool: str) -> tuple[Policy, str] | None:
    """The policy that one place has for a tool and why: its own, else the most careful pattern's, else its server's,
    else the general one; nothing if the place says nothing of it."""
    own = place.tool_policies.get((server, tool)) or place.policies.get(name)
    if own is not None:
        return own, "set for this tool in the configuration"
    careful = strictest_pattern(name, place.policies, POLICIES)
    if careful is not None:
        return place.policies[careful], f"set by the pattern {careful!r} of security.policies"
    if (by_server := place.server_policies.get(server)) is not None:
        return by_server, f"set for server {server!r} in the configuration"
    return None if place.policy is None else (place.policy, "the general policy (security.policy)")


def level_said(place: PlaceRules, name: str, server: str, tool: str) -> tuple[SecurityLevel, str] | None:
    """The level that one place gives a tool, and why."""
    own = place.tool_levels.get((server, tool)) or place.levels.get(name)
    if own is not None:
        return own, "set for this tool in the configuration"
    highest = strictest_pattern(name, place.levels, LEVELS)
    if highest is not None:
        return place.levels[highest], f"set by the pattern {highest!r} of security.levels"
    by_server = place.server_levels.get(server)
    return None if by_server is None else (by_server, f"set for server {server!r} in the configuration")


def strictest_pattern(name: str, table: Mapping[str, Any], mildest_first: tuple[Any, ...]) -> str | None:
    """Of the patterns that fit a name, one with the strictest value."""
    fitting = [pattern for pattern in table if fnmatchcase(name, pattern)]
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
    tables = {name: name.partition(".")[0] for name in SETTING_RULES}
    homes = {name: getattr(plain, table) if table in SECTIONS else plain for name, table in tables.items()}
    return {name: getattr(home, SETTINGS[name].field) for name, home in homes.items()}
