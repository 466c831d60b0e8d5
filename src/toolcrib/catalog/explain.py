"""Why a tool is here, missing, hidden, stale or renamed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, assert_never

from toolcrib.catalog.catalog import Catalog, LeftOut, LeftOutKind, Route
from toolcrib.catalog.entries import missing_servers
from toolcrib.catalog.levels import level_of, policy_of
from toolcrib.catalog.records import ServerShelf, barred_words
from toolcrib.config.model import ServerConfig
from toolcrib.config.sections import SecurityConfig
from toolcrib.core.access import Decision, decided_by
from toolcrib.core.errors import InvalidName, nearest
from toolcrib.core.kinds import DiscoveryStatus
from toolcrib.core.names import split_name


class ToolVerdict(StrEnum):
    """How it stands with a tool's name."""

    AVAILABLE = "available"
    STALE = "stale"
    """It can be called, but its server could not be asked lately."""
    HELD = "held"
    """In quarantine."""
    DENIED = "denied"
    HIDDEN = "hidden"
    """Disabled, or not part of a profile."""
    RENAMED = "renamed"
    """A profile shows it under another name."""
    LEFT_OUT = "left out"
    DISABLED = "disabled"
    """Its server is."""
    FAILED = "failed"
    """Its server could never be asked."""
    NOT_DISCOVERED = "not discovered"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Explanation:
    """A verdict, the reasons for it, and what to do."""

    name: str
    verdict: ToolVerdict
    reasons: tuple[str, ...] = ()
    todo: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


def explain_name(
    name: str,
    catalog: Catalog,
    shelves: Mapping[str, ServerShelf],
    disabled: Mapping[str, ServerConfig],
    security: SecurityConfig,
) -> Explanation:
    """Why an exposed name is available or not."""
    route = catalog.routes.get(name)
    if route is not None:
        shelf = shelves.get(route.server)
        return _with_rules(_here(route, shelf, catalog.lookalikes.get(name, ())), route, shelf, security)
    if name in catalog.left_out:
        return _left_out(name, catalog.left_out[name])
    return _missing(name, catalog, shelves, disabled)


def _left_out(name: str, why: LeftOut) -> Explanation:
    match why.kind:
        case LeftOutKind.DISABLED:
            verdict, todo = ToolVerdict.HIDDEN, "Remove the entry that disables it."
        case LeftOutKind.NOT_IN_PROFILE:
            verdict, todo = ToolVerdict.HIDDEN, "Change the profile, or use it without the profile."
        case LeftOutKind.FULL:
            verdict, todo = ToolVerdict.LEFT_OUT, "Raise it, or disable what is not needed."
        case LeftOutKind.TAKEN_BY_NATIVE | LeftOutKind.TAKEN_BY_SERVER:
            verdict, todo = ToolVerdict.LEFT_OUT, "Rename one of the two."
        case _:
            assert_never(why.kind)
    return Explanation(name, verdict, (why.reason,), todo)


def _here(route: Route, shelf: ServerShelf | None, lookalikes: Sequence[str]) -> Explanation:
    resembles = [f"It resembles {', '.join(lookalikes)}: make sure which one is meant."] if lookalikes else []
    if shelf is None:
        return Explanation(route.name, ToolVerdict.AVAILABLE, ("It is a native tool of this process.", *resembles))
    record = shelf.record
    where = f"{shelf.config.origin}:{shelf.config.line}" if shelf.config.line else shelf.config.origin
    reasons = [
        f"Server {route.server!r} (configured in {where or 'this program'}) calls it {route.original_name!r}.",
        f"It was last discovered at {record.last_discovery or 'never'}, protocol {record.era or 'unknown'}.",
        *resembles,
    ]
    if route.tool.renames:
        renamed = ", ".join(f"{mine} → {theirs}" for mine, theirs in route.tool.renames.items())
        reasons.append(f"Parameters are renamed on the way: {renamed}.")
    facts = {"server": route.server, "original": route.original_name, "lastDiscovery": record.last_discovery}
    if record.status is DiscoveryStatus.FAILED:
        reasons.append(f"The last discovery failed: {record.error}")
        todo = f"Run `toolcrib servers refresh {route.server}`."
        return Explanation(route.name, ToolVerdict.STALE, tuple(reasons), todo, facts)
    return Explanation(route.name, ToolVerdict.AVAILABLE, tuple(reasons), facts=facts)


def _with_rules(story: Explanation, route: Route, shelf: ServerShelf | None, security: SecurityConfig) -> Explanation:
    """The story with what the rules say: how far the tool reaches, and who is asked before it is called."""
    server = shelf.config if shelf else None
    leveled = level_of(route.name, route.tool, server, security)
    policed = policy_of(route.name, route.original_name, server, security)
    reasons = (
        *story.reasons,
        f"Its level is {leveled.level}: {leveled.reason}.",
        f"Its policy is {policed.policy}: {policed.reason}.",
    )
    facts = {**story.facts, "level": leveled.level, "policy": policed.policy, "policyReason": policed.reason}
    if route.held:
        todo = f"Look at it with `toolcrib diff {route.name}`, accept it with `toolcrib approve {route.name}`."
        return Explanation(route.name, ToolVerdict.HELD, (*reasons, f"It is in quarantine: {route.held}."), todo, facts)
    if decided_by(route.policy) is Decision.DENIED:
        return Explanation(route.name, ToolVerdict.DENIED, reasons, f"Run `toolcrib policy {route.name} allow`.", facts)
    return replace(story, reasons=reasons, facts=facts)


def _missing(
    name: str, catalog: Catalog, shelves: Mapping[str, ServerShelf], disabled: Mapping[str, ServerConfig]
) -> Explanation:
    try:
        server, tool = split_name(name)
    except InvalidName as error:
        return _near(name, catalog, f"No native tool has this name. {error}", *_unheard(shelves))
    if server in disabled:
        return Explanation(
            name,
            ToolVerdict.DISABLED,
            (f"Server {server!r} is switched off.",),
            f"Run `toolcrib servers enable {server}`.",
        )
    shelf = shelves.get(server)
    if shelf is None:
        known = nearest(server, [*shelves, *disabled])
        near = f" Did you mean {known[0]!r}?" if known else ""
        return Explanation(
            name,
            ToolVerdict.MISSING,
            (f"No server named {server!r} is configured.{near}",),
            "See `toolcrib servers ls`.",
        )
    return _missing_from(shelf, name, tool, catalog)


def _missing_from(shelf: ServerShelf, name: str, tool: str, catalog: Catalog) -> Explanation:
    server, record = shelf.config.name, shelf.record
    problems = tuple(problem for problem in record.problems if repr(tool) in problem)
    if problems:
        return Explanation(name, ToolVerdict.LEFT_OUT, problems, "Ask the author of the server to mend its definition.")
    if shelf.barred:
        return Explanation(name, ToolVerdict.HELD, (barred_words(shelf),), f"Run `toolcrib approve {server}`.")
    if not shelf.is_known:
        is_failed = record.status is DiscoveryStatus.FAILED
        verdict = ToolVerdict.FAILED if is_failed else ToolVerdict.NOT_DISCOVERED
        reason = record.error or f"Server {server!r} has not been asked for its tools yet."
        return Explanation(name, verdict, (reason,), f"Run `toolcrib servers refresh {server}`.")
    return _near(name, catalog, f"Server {server!r} offers no tool named {tool!r}.")


def _unheard(shelves: Mapping[str, ServerShelf]) -> list[str]:
    """The servers whose tools are unknown, so it could be one of theirs."""
    return [
        f"The tools of server {found.server!r} are not known ({found.status}): {found.reason}"
        for found in missing_servers(shelves)
    ]


def _near(name: str, catalog: Catalog, *reasons: str) -> Explanation:
    similar = nearest(name, list(catalog.routes))
    todo = f"Did you mean {', '.join(map(repr, similar))}?" if similar else "See `toolcrib ls`."
    return Explanation(name, ToolVerdict.MISSING, reasons, todo)
