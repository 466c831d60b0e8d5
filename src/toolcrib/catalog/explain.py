"""Why an offer is here, missing, hidden, stale or renamed."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, assert_never

from toolcrib.catalog.catalog import Catalog, LeftOut, LeftOutKind, Route, keys_for
from toolcrib.catalog.entries import missing_servers
from toolcrib.catalog.levels import level_of, policy_of
from toolcrib.catalog.merge import INTERNAL, is_internal
from toolcrib.catalog.records import ServerShelf, barred_words
from toolcrib.catalog.standing import standing_of, state_of
from toolcrib.config.model import RELAYABLE, ServerConfig
from toolcrib.config.sections import SecurityConfig
from toolcrib.config.sharing import sharing_of, sharing_words
from toolcrib.core.access import Decision, decided_by
from toolcrib.core.errors import InvalidName, nearest
from toolcrib.core.kinds import DiscoveryStatus, EraChoice, ServerState
from toolcrib.core.names import name_of_uri, split_name
from toolcrib.core.offers import OfferKind


class ToolVerdict(StrEnum):
    """How it stands with a tool's name."""

    AVAILABLE = "available"
    STALE = "stale"
    """It can be called, but its server could not be asked lately."""
    SIGN_IN = "sign_in"
    """It can be called once somebody has signed in at its server."""
    HELD = "held"
    """In quarantine."""
    DENIED = "denied"
    HIDDEN = "hidden"
    """Disabled, or not part of a profile."""
    RENAMED = "renamed"
    """A profile shows it under another name."""
    UNLISTED = "unlisted"
    """It can be called; no list has it."""
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


_QUIET = "It can be called, and is not listed while nothing was put into the knowledge base."


_INTERNAL = f"Its definition says that it is internal (annotation {INTERNAL}): it can be called, and is not listed."


def explain_name(
    name: str,
    catalog: Catalog,
    shelves: Mapping[str, ServerShelf],
    disabled: Mapping[str, ServerConfig],
    security: SecurityConfig,
) -> Explanation:
    """Why a name, a key or a URI is available or not."""
    if name in catalog.quiet and is_internal(catalog.quiet[name].offer):
        return Explanation(name, ToolVerdict.UNLISTED, (_INTERNAL,), "Take the annotation away to have it listed.")
    if name in catalog.quiet:
        return Explanation(name, ToolVerdict.UNLISTED, (_QUIET,), 'Add documents, or write expose = "always" in [kb].')
    route = catalog.named(name)
    if route is not None:
        shelf = shelves.get(route.server)
        lookalikes = catalog.lookalikes.get(name, ()) if route.offer.kind is OfferKind.TOOL else ()
        story = _here(route, shelf, lookalikes)
        if not route.server:
            hides = tuple(f"{why.reason}." for why in catalog.left_out.values() if why.is_hidden_by(name))
            story = replace(story, reasons=(*story.reasons, *hides))
        return _with_rules(story, route, shelf, security)
    left_out = next((catalog.left_out[key] for key in keys_for(name) if key in catalog.left_out), None)
    if left_out is not None:
        return _left_out(name, left_out)
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
    return Explanation(name, verdict, (f"{why.reason}.",), todo)


def _here(route: Route, shelf: ServerShelf | None, lookalikes: Sequence[str]) -> Explanation:
    resembles = [f"It resembles {', '.join(lookalikes)}: make sure which one is meant."] if lookalikes else []
    if shelf is None:
        native = f"It is a native {route.offer.kind} of this process."
        return Explanation(route.name, ToolVerdict.AVAILABLE, (native, *resembles), facts=_facts(route))
    record = shelf.record
    where = f"{shelf.config.origin}:{shelf.config.line}" if shelf.config.line else shelf.config.origin
    is_resource = route.offer.kind in (OfferKind.RESOURCE, OfferKind.TEMPLATE, OfferKind.SKILL)
    reasons = [
        f"Server {route.server!r} (configured in {where or 'this program'}) calls it {route.original_name!r}.",
        *([f"Rules and the audit log know it as {route.reach.name}, clients as {route.uri}."] if is_resource else []),
        f"It was last discovered at {record.last_discovery or 'never'}, protocol {record.era or 'unknown'}.",
        *_spoken_to(shelf),
        sharing_words(shelf.config, sharing_of(shelf.config, asks=record.asks)),
        *resembles,
    ]
    if route.tool.renames:
        renamed = ", ".join(f"{mine} → {theirs}" for mine, theirs in route.tool.renames.items())
        reasons.append(f"Parameters are renamed on the way: {renamed}.")
    reasons.extend(_uncounted(route, shelf))
    facts = _facts(route) | {"lastDiscovery": record.last_discovery}
    if record.status is DiscoveryStatus.FAILED:
        reasons.append(f"The last discovery failed: {record.error}")
        verdict = ToolVerdict.SIGN_IN if _wants_sign_in(shelf) else ToolVerdict.STALE
        return Explanation(route.name, verdict, tuple(reasons), _todo(shelf), facts)
    return Explanation(route.name, ToolVerdict.AVAILABLE, tuple(reasons), facts=facts)


def _spoken_to(shelf: ServerShelf) -> list[str]:
    """What is particular about the way its server is spoken to."""
    config, told = shelf.config, []
    if config.era is not EraChoice.AUTO:
        told.append(f"Its server is spoken to in the {config.era} era, as configured.")
    if config.relay != RELAYABLE:
        asked = ", ".join(config.relay) or "nothing"
        told.append(f"Its server may ask {asked} of clients, as configured (relay).")
    return told


def _facts(route: Route) -> dict[str, Any]:
    facts = {"kind": route.offer.kind, "server": route.server, "original": route.original_name}
    return facts if route.server else {"kind": route.offer.kind}


def _uncounted(route: Route, shelf: ServerShelf) -> list[str]:
    """What may change in it without being held."""
    pin = shelf.record.pins.get(route.offer.key)
    if pin is None:
        return []
    differs = "The order of {} differs from one start of the server to the next; harmless, so it does not count."
    trusted = "Changes of {} do not count: a person trusts it (`toolcrib approve {} --distrust {}` takes that back)."
    key = shlex.quote(route.reach.key)
    return [
        *(differs.format(field) for field in pin.disorder),
        *(trusted.format(field, key, shlex.quote(field)) for field in pin.trusted),
    ]


def _with_rules(story: Explanation, route: Route, shelf: ServerShelf | None, security: SecurityConfig) -> Explanation:
    """The story with what the rules say: how far the tool reaches, and who is asked before it is called."""
    server = shelf.config if shelf else None
    leveled = level_of(route.name, route.offer, server, security)
    policed = policy_of(route.name, route.offer, server, security)
    reasons = (
        *story.reasons,
        f"Its level is {leveled.level}: {leveled.reason}.",
        f"Its policy is {policed.policy}: {policed.reason}.",
    )
    facts = {**story.facts, "level": leveled.level, "policy": policed.policy, "policyReason": policed.reason}
    if route.held:
        named = shlex.quote(route.reach.key)
        todo = f"Look at it with `toolcrib diff {named}`, accept it with `toolcrib approve {named}`."
        return Explanation(route.name, ToolVerdict.HELD, (*reasons, f"It is in quarantine: {route.held}."), todo, facts)
    if decided_by(route.policy) is Decision.DENIED:
        todo = f"Run `toolcrib policy {shlex.quote(route.name)} allow`."
        return Explanation(route.name, ToolVerdict.DENIED, reasons, todo, facts)
    return replace(story, reasons=reasons, facts=facts)


def _missing(
    name: str, catalog: Catalog, shelves: Mapping[str, ServerShelf], disabled: Mapping[str, ServerConfig]
) -> Explanation:
    try:
        server, tool = split_name(name_of_uri(name) if "://" in name else name.rpartition(" ")[2])
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
        standing = standing_of(shelf)
        is_failed = record.status is DiscoveryStatus.FAILED and not standing.state.is_underway
        failed = ToolVerdict.SIGN_IN if _wants_sign_in(shelf) else ToolVerdict.FAILED
        verdict = failed if is_failed else ToolVerdict.NOT_DISCOVERED
        reason = record.error if is_failed else f"Server {server!r} is no help yet: {standing.cause}."
        return Explanation(name, verdict, (reason,), _todo(shelf), {"standing": standing})
    what = "resource" if "://" in tool else "tool or prompt"
    return _near(name, catalog, f"Server {server!r} offers no {what} named {tool!r}.")


def _wants_sign_in(shelf: ServerShelf) -> bool:
    return state_of(shelf) is ServerState.SIGN_IN


def _todo(shelf: ServerShelf) -> str:
    """The next step for its server, as a sentence."""
    step = standing_of(shelf).next
    if step is None:
        return ""
    words = step.words[:1].upper() + step.words[1:]
    return f"{words}: `{step.command}`." if step.command else f"{words}."


def _unheard(shelves: Mapping[str, ServerShelf]) -> list[str]:
    """The servers whose tools are unknown, so it could be one of theirs."""
    return [
        f"The tools of server {found.server!r} are not known ({found.status}): {found.reason}"
        for found in missing_servers(shelves)
    ]


def _near(name: str, catalog: Catalog, *reasons: str) -> Explanation:
    similar = nearest(name, [*catalog.routes, *(route.name for route in catalog.others.values())])
    todo = f"Did you mean {', '.join(map(repr, similar))}?" if similar else "See `toolcrib ls`."
    return Explanation(name, ToolVerdict.MISSING, reasons, todo)
