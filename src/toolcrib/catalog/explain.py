"""Why a tool is here, missing, hidden, stale or renamed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from toolcrib.catalog.catalog import Catalog, Route
from toolcrib.catalog.entries import missing_servers
from toolcrib.catalog.levels import level_of, policy_of
from toolcrib.catalog.merge import FULL
from toolcrib.catalog.records import ServerShelf, barred_words
from toolcrib.config.model import ServerConfig
from toolcrib.config.sections import SecurityConfig
from toolcrib.core.errors import InvalidName, nearest
from toolcrib.core.names import split_name


@dataclass(frozen=True, slots=True)
class Explanation:
    """A verdict, the reasons for it, and what to do."""

    name: str
    verdict: str
    """``available``, ``stale``, ``held``, ``denied``, ``hidden``, ``left out``, ``disabled``, ``failed``,
    ``not discovered``, ``missing``."""
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
    """The story of one exposed name."""
    route = catalog.routes.get(name)
    if route is not None:
        shelf = shelves.get(route.server)
        return _with_rules(_here(route, shelf, catalog.lookalikes.get(name, ())), route, shelf, security)
    if name in catalog.left_out:
        return _left_out(name, catalog.left_out[name])
    return _missing(name, catalog, shelves, disabled)


def _left_out(name: str, reason: str) -> Explanation:
    if reason.startswith("disabled"):
        return Explanation(name, "hidden", (reason,), "Remove the entry that disables it.")
    todo = "Raise it, or disable what is not needed." if reason.startswith(FULL) else "Rename one of the two."
    return Explanation(name, "left out", (reason,), todo)


def _here(route: Route, shelf: ServerShelf | None, lookalikes: Sequence[str]) -> Explanation:
    resembles = [f"It resembles {', '.join(lookalikes)}: make sure which one is meant."] if lookalikes else []
    if shelf is None:
        return Explanation(route.name, "available", ("It is a native tool of this process.", *resembles))
    record = shelf.record
    where = f"{shelf.config.origin}:{shelf.config.line}" if shelf.config.line else shelf.config.origin
    reasons = [
        f"Server {route.server!r} (configured in {where or 'this program'}) calls it {route.original_name!r}.",
        f"It was last discovered at {record.last_discovery or 'never'}, protocol {record.era or 'unknown'}.",
        *resembles,
    ]
    wishes = shelf.config.tools.get(route.original_name)
    if wishes is not None and wishes.parameters:
        renamed = ", ".join(f"{mine} → {theirs}" for mine, theirs in wishes.parameters.items())
        reasons.append(f"Parameters are renamed on the way: {renamed}.")
    facts = {"server": route.server, "original": route.original_name, "lastDiscovery": record.last_discovery}
    if record.status == "failed":
        reasons.append(f"The last discovery failed: {record.error}")
        todo = f"Run `toolcrib servers refresh {route.server}`."
        return Explanation(route.name, "stale", tuple(reasons), todo, facts)
    return Explanation(route.name, "available", tuple(reasons), facts=facts)


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
        return Explanation(route.name, "held", (*reasons, f"It is in quarantine: {route.held}."), todo, facts)
    if route.policy == "deny":
        return Explanation(route.name, "denied", reasons, f"Run `toolcrib policy {route.name} allow`.", facts)
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
            name, "disabled", (f"Server {server!r} is switched off.",), f"Run `toolcrib servers enable {server}`."
        )
    shelf = shelves.get(server)
    if shelf is None:
        known = nearest(server, [*shelves, *disabled])
        near = f" Did you mean {known[0]!r}?" if known else ""
        return Explanation(
            name, "missing", (f"No server named {server!r} is configured.{near}",), "See `toolcrib servers ls`."
        )
    return _missing_from(shelf, name, tool, catalog)


def _missing_from(shelf: ServerShelf, name: str, tool: str, catalog: Catalog) -> Explanation:
    server, record = shelf.config.name, shelf.record
    problems = tuple(problem for problem in record.problems if repr(tool) in problem)
    if problems:
        return Explanation(name, "left out", problems, "Ask the author of the server to mend its definition.")
    if shelf.barred:
        return Explanation(name, "held", (barred_words(shelf),), f"Run `toolcrib approve {server}`.")
    if not shelf.is_known:
        verdict = "failed" if record.status == "failed" else "not discovered"
        reason = record.error or f"Server {server!r} has not been asked for its tools yet."
        return Explanation(name, verdict, (reason,), f"Run `toolcrib servers refresh {server}`.")
    return _near(name, catalog, f"Server {server!r} offers no tool named {tool!r}.")


def _unheard(shelves: Mapping[str, ServerShelf]) -> list[str]:
    """The servers it could still be a tool of, because nobody knows theirs."""
    return [
        f"The tools of server {found.server!r} are not known ({found.status}): {found.reason}"
        for found in missing_servers(shelves)
    ]


def _near(name: str, catalog: Catalog, *reasons: str) -> Explanation:
    similar = nearest(name, list(catalog.routes))
    todo = f"Did you mean {', '.join(map(repr, similar))}?" if similar else "See `toolcrib ls`."
    return Explanation(name, "missing", reasons, todo)
