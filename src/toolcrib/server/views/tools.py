"""Tools: what can be seen of one, why it is here or not, what changed in it, and what may be done with it."""

import difflib
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import msgspec
from msgspec import structs

from toolcrib.catalog.catalog import Route, signature_of
from toolcrib.catalog.disorder import different_fields
from toolcrib.catalog.entries import ToolEntry, tool_entry
from toolcrib.catalog.explain import Explanation, ToolVerdict
from toolcrib.catalog.pins import app_key, by_key, fingerprint, pinned_hash
from toolcrib.catalog.search import RankedTool
from toolcrib.core.errors import PermissionDenied, ToolcribError, UnknownTool
from toolcrib.core.kinds import Policy
from toolcrib.core.offers import OfferKind, SecurityLevel, about_tool, to_mcp
from toolcrib.core.source import Missing
from toolcrib.core.view import Tally, View
from toolcrib.crib.crib import Crib

SEEN_LENGTH = 12


def missing_tool(crib: Crib, name: str) -> ToolcribError:
    """Why a tool cannot be shown, with the reason that ``why`` would give."""
    story = crib.explain(name)
    unknown = UnknownTool(name, known=[route.name for route in _every(crib)])
    if story.verdict is not ToolVerdict.MISSING:
        unknown.hint = " ".join([*story.reasons, story.todo]).strip()
    if story.verdict is ToolVerdict.FAILED:
        unknown.code = "TOOL_UNAVAILABLE"
    return unknown


class ListedTool(ToolEntry, omit_defaults=True, kw_only=True):
    """One tool of a list, with how well it answers a query if there was one."""

    tokens: int
    score: float | None = None
    """From 0 to 1."""
    signature: str | None = None
    """One line to call it from."""


class ToolList(View):
    """One page of the tools: by name, or the best answers to `query`; and which servers it lacks the tools of."""

    tools: list[ListedTool]
    total: int
    next_cursor: str | None
    missing: list[Missing]


class DefinitionList(View):
    """The tools as a provider wants them."""

    format: str
    definitions: list[dict[str, Any]]
    names: dict[str, str]
    """The names in the definitions, and the tools' own."""
    left_out: dict[str, str]
    """Tools the provider would refuse, and why."""


class PinState(View):
    """What was accepted of a tool, and whether it still is that."""

    state: Literal["accepted", "held", "none"]
    hash: str | None
    accepted: str | None
    disorder: list[str]
    """Fields that were seen in different orders; harmless."""
    trusted: list[str]
    """Fields whose changes do not count, by a person's word."""


class ToolDetail(ToolEntry):
    """One tool with its whole definition."""

    tokens: int
    title: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    annotations: dict[str, Any]
    version: str
    category: str
    capabilities: list[str]
    security_level: str
    examples: list[dict[str, Any]]
    """Ways to call it, each with `arguments` and perhaps a `description` and an `expectedOutput`."""
    timeout_seconds: float | None
    """How long a call may take; none: as long as `[calls] timeout` says."""
    deprecation: dict[str, str] | None
    """Why it is on its way out (`reason`), and what to use instead (`useInstead`)."""
    completions: dict[str, list[str]]
    """Values to choose from, by parameter."""
    pin: PinState
    why: Explanation | None
    """Only for operators."""
    tally: Tally | None
    """Only for operators."""


def listed_tool(crib: Crib, route: Route) -> ListedTool:
    """One tool of a list."""
    return ListedTool(**_entry(crib, route))


def found_tool(crib: Crib, hit: RankedTool) -> ListedTool:
    """One answer to a query."""
    return ListedTool(**_entry(crib, hit.route), score=hit.score, signature=signature_of(hit.route))


def _entry(crib: Crib, route: Route) -> dict[str, Any]:
    return structs.asdict(tool_entry(route, crib.shelves.get(route.server))) | {"tokens": route.tokens}


def tool_detail(crib: Crib, route: Route, *, for_operator: bool) -> ToolDetail:
    """Everything of one tool."""
    tool, tally, about = route.tool, crib.metrics.tools.get(route.name), about_tool(route.tool)
    return ToolDetail(
        **_entry(crib, route),
        title=tool.title,
        input_schema=dict(tool.input_schema),
        output_schema=None if tool.output_schema is None else dict(tool.output_schema),
        annotations=dict(tool.annotations),
        version=tool.version,
        category=tool.category,
        capabilities=sorted(tool.capabilities),
        security_level=str(tool.security_level),
        examples=about.get("examples", []),
        timeout_seconds=tool.timeout_s,
        deprecation=about.get("deprecation"),
        completions={name: list(values) for name, values in tool.completions.items()},
        pin=pin_state(crib, route),
        why=crib.explain(route.name) if for_operator else None,
        tally=tally.view() if for_operator and tally is not None else None,
    )


def pin_state(crib: Crib, route: Route) -> PinState:
    """What was accepted of an offer."""
    shelf = crib.shelves.get(route.server)
    pin = shelf.record.pins.get(route.offer.key) if shelf else None
    now = _seen(crib, route) if shelf else None
    if pin is None:
        return PinState("held" if route.held else "none", now, None, [], [])
    return PinState("held" if route.held else "accepted", now, pin.at, list(pin.disorder), list(pin.trusted))


class PolicyEntry(View):
    """What holds for one tool, resource, template or prompt, and why."""

    name: str
    kind: OfferKind
    server: str
    level: SecurityLevel
    policy: Policy
    held: str
    why: str


class Policies(View):
    """What may be called."""

    default: Policy
    patterns: dict[str, Policy]
    tools: list[PolicyEntry]


class PolicyView(View):
    """What is written for a pattern, and what holds for the tools it stands for."""

    pattern: str
    policy: Policy | None
    """What the patterns of the configuration say; ``null`` where it stands in the table of its server."""
    tools: list[PolicyEntry]


def policy_entries(crib: Crib) -> list[PolicyEntry]:
    """What holds for each tool, and for all else that servers offer, and why."""
    return [
        PolicyEntry(
            name=route.name,
            kind=route.offer.kind,
            server=route.server,
            level=route.offer.security_level,
            policy=route.policy,
            held=route.held or "",
            why=route.held or str(crib.explain(route.reach.key).facts["policyReason"]),
        )
        for route in _every(crib)
    ]


def _every(crib: Crib) -> list[Route]:
    return [*crib.catalog.routes.values(), *crib.catalog.others.values()]


def held_routes(crib: Crib, names: Sequence[str] = ()) -> list[Route]:
    """What is in quarantine: all, or what has these names or URIs, or is of these servers."""
    held = [route for route in _every(crib) if route.held]
    wanted = set(names)
    return [route for route in held if not names or wanted & {route.reach.key, route.name, route.uri, route.server}]


class PinChange(View):
    """What is in quarantine: what was accepted of it, and what it is now."""

    name: str
    """What it is accepted by: its name, with its kind before it if it is no tool."""
    kind: OfferKind
    reason: str
    accepted: str | None
    old: dict[str, Any] | None
    new: dict[str, Any]
    diff: list[str]
    seen: str
    """Send it with the approval: it says what was looked at."""
    disorder: list[str]
    """Fields that were seen in different orders; harmless."""
    trusted: list[str]
    """Fields whose changes do not count, by a person's word."""


class PinList(View):
    """What is in quarantine."""

    pins: list[PinChange]


class Approved(View):
    """The tools that are accepted now."""

    approved: list[str]


def change_of(crib: Crib, route: Route) -> PinChange:
    """What was accepted of a tool in quarantine, what it is now, and the word that says one has seen that."""
    record = crib.shelves[route.server].record
    pin, now = record.pins.get(route.offer.key), definition_now(crib, route)
    before = None if pin is None else dict(pin.definition) if pin.definition is not None else now
    app = record.pins.get(app_key(route.original_name))
    if before is not None and app is not None and "app" in now:
        before = {**before, "app": app.definition or now["app"]}
    return PinChange(
        name=route.reach.key,
        kind=route.offer.kind,
        reason=route.held or "",
        accepted=pin.at if pin else None,
        old=before,
        new=now,
        diff=list(_diff_lines(before, now)),
        seen=_seen(crib, route)[:SEEN_LENGTH],
        disorder=list(pin.disorder) if pin else [],
        trusted=list(pin.trusted) if pin else [],
    )


def changed_fields(change: PinChange) -> list[str]:
    """The places of a definition that are different now; a person may trust one of them."""
    return [] if change.old is None else different_fields(change.old, change.new)


def definition_now(crib: Crib, route: Route) -> dict[str, Any]:
    """An offer as its server shows it now, with the app in it where one was read."""
    known = by_key(crib.shelves[route.server].record)
    shown, app = dict(known.get(route.offer.key) or to_mcp(route.offer)), known.get(app_key(route.original_name))
    return shown if app is None or route.offer.kind is OfferKind.TOOL else {**shown, "app": app}


def _seen(crib: Crib, route: Route) -> str:
    """What says that one has looked at an offer as it is now; the order of what has none does not count in it."""
    pin, now = crib.shelves[route.server].record.pins.get(route.offer.key), definition_now(crib, route)
    return fingerprint(now) if pin is None else pinned_hash(replace(pin, trusted=()), now)


def check_seen(crib: Crib, route: Route, seen: str) -> None:
    """Refuse to accept what changed again after the person looked at it."""
    if not _seen(crib, route).startswith(seen):
        raise PermissionDenied(
            f"{route.name} changed again since you looked at it.",
            hint=f"Look once more: toolcrib diff {shlex.quote(route.reach.key)}",
        )


def _diff_lines(old: Any, new: Any) -> Iterator[str]:
    """What changed between two definitions, line by line."""
    before, after = (_text(value).splitlines() if value else [] for value in (old, new))
    found = difflib.unified_diff(before, after, lineterm="", n=2)
    yield from (line for line in found if not line.startswith(("---", "+++")))


def _text(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value, order="sorted"), indent=2).decode()
