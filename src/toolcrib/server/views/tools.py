"""Tools: what can be seen of one, why it is here or not, what changed in it, and what may be done with it."""

import difflib
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec
from msgspec import structs

from toolcrib.catalog.catalog import Route, signature_of
from toolcrib.catalog.entries import ToolEntry, tool_entry
from toolcrib.catalog.explain import Explanation, ToolVerdict
from toolcrib.catalog.pins import fingerprint
from toolcrib.catalog.search import RankedTool
from toolcrib.core.errors import PermissionDenied, ToolcribError, UnknownTool
from toolcrib.core.kinds import HoldReason, Policy
from toolcrib.core.offers import OfferKind, SecurityLevel, to_mcp
from toolcrib.core.source import Missing
from toolcrib.core.view import Tally, View
from toolcrib.crib.crib import Crib

SEEN_LENGTH = 12


def missing_tool(crib: Crib, name: str) -> ToolcribError:
    """Why a tool cannot be shown, with the reason that ``why`` would give."""
    story = crib.explain(name)
    unknown = UnknownTool(name, known=list(crib.catalog.routes))
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
    pin: PinState
    why: Explanation | None
    """Only for operators."""
    tally: Tally | None
    """Only for operators."""


def listed_tool(crib: Crib, route: Route) -> ListedTool:
    """One tool of a list."""
    return ListedTool(**_entry(crib, route))


class PromptArgument(View):
    """One argument of a prompt."""

    name: str
    required: bool


class ListedOffer(View, omit_defaults=True, kw_only=True):
    """A resource, resource template or prompt of a list."""

    kind: OfferKind
    name: str
    """What rules, grants and the audit log call it."""
    server: str
    uri: str | None = None
    """The URI, or URI template, that clients know a resource by."""
    title: str = ""
    description: str = ""
    mime_type: str | None = None
    arguments: list[PromptArgument] | None = None
    policy: Policy
    level: SecurityLevel
    held: HoldReason | None = None
    """Why it is in quarantine."""


class OfferList(View):
    """Resources and templates, or prompts; and which servers it lacks."""

    offers: list[ListedOffer]
    missing: list[Missing]


def listed_offer(route: Route) -> ListedOffer:
    """What can be seen of a resource, template or prompt; one in quarantine is not given the word."""
    offer, is_prompt = route.offer, route.offer.kind is OfferKind.PROMPT
    properties, required = offer.input_schema.get("properties", {}), offer.input_schema.get("required", ())
    mime_type = offer.extra.get("mimeType")
    return ListedOffer(
        kind=offer.kind,
        name=route.name,
        server=route.server,
        uri=None if is_prompt else route.uri,
        title="" if route.held else offer.title,
        description="" if route.held else offer.description,
        mime_type=mime_type if isinstance(mime_type, str) else None,
        arguments=[PromptArgument(name, name in required) for name in properties] if is_prompt else None,
        policy=route.policy,
        level=offer.security_level,
        held=route.held,
    )


def found_tool(crib: Crib, hit: RankedTool) -> ListedTool:
    """One answer to a query."""
    return ListedTool(**_entry(crib, hit.route), score=hit.score, signature=signature_of(hit.route))


def _entry(crib: Crib, route: Route) -> dict[str, Any]:
    return structs.asdict(tool_entry(route, crib.shelves.get(route.server))) | {"tokens": route.tokens}


def tool_detail(crib: Crib, route: Route, *, for_operator: bool) -> ToolDetail:
    """Everything of one tool."""
    tool, tally = route.tool, crib.metrics.tools.get(route.name)
    return ToolDetail(
        **_entry(crib, route),
        title=tool.title,
        input_schema=dict(tool.input_schema),
        output_schema=None if tool.output_schema is None else dict(tool.output_schema),
        annotations=dict(tool.annotations),
        version=tool.version,
        category=tool.category,
        capabilities=sorted(tool.capabilities),
        pin=_pin(crib, route),
        why=crib.explain(route.name) if for_operator else None,
        tally=tally.view() if for_operator and tally is not None else None,
    )


def _pin(crib: Crib, route: Route) -> PinState:
    shelf = crib.shelves.get(route.server)
    pin = shelf.record.pins.get(route.original_name) if shelf else None
    now = fingerprint(definition_now(crib, route)) if shelf else None
    return PinState("held" if route.held else "none" if pin is None else "accepted", now, pin.at if pin else None)


class PolicyEntry(View):
    """What holds for one tool, and why."""

    name: str
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
    """What holds for each tool, and why."""
    return [
        PolicyEntry(
            name=route.name,
            server=route.server,
            level=route.tool.security_level,
            policy=route.policy,
            held=route.held or "",
            why=route.held or str(crib.explain(route.name).facts["policyReason"]),
        )
        for route in crib.catalog.routes.values()
    ]


def held_routes(crib: Crib, names: Sequence[str] = ()) -> list[Route]:
    """The tools in quarantine: all, or those of these names or servers."""
    held = [route for route in crib.catalog.routes.values() if route.held]
    return [route for route in held if not names or route.name in names or route.server in names]


class PinChange(View):
    """A tool in quarantine: what was accepted, and what it is now."""

    name: str
    reason: str
    accepted: str | None
    old: dict[str, Any] | None
    new: dict[str, Any]
    diff: list[str]
    seen: str
    """Send it with the approval: it says what was looked at."""


class PinList(View):
    """What is in quarantine."""

    pins: list[PinChange]


class Approved(View):
    """The tools that are accepted now."""

    approved: list[str]


def change_of(crib: Crib, route: Route) -> PinChange:
    """What was accepted of a tool in quarantine, what it is now, and the word that says one has seen that."""
    pin = crib.shelves[route.server].record.pins.get(route.original_name)
    now = definition_now(crib, route)
    before = None if pin is None else dict(pin.definition) if pin.definition is not None else now
    return PinChange(
        name=route.name,
        reason=route.held or "",
        accepted=pin.at if pin else None,
        old=before,
        new=now,
        diff=list(_diff_lines(before, now)),
        seen=fingerprint(now)[:SEEN_LENGTH],
    )


def definition_now(crib: Crib, route: Route) -> Any:
    """A tool as its server shows it now."""
    tools = crib.shelves[route.server].record.tools
    return next((tool for tool in tools if tool.get("name") == route.original_name), to_mcp(route.tool))


def check_seen(crib: Crib, route: Route, seen: str) -> None:
    """Refuse to accept what changed again after the person looked at it."""
    if not fingerprint(definition_now(crib, route)).startswith(seen):
        raise PermissionDenied(
            f"{route.name} changed again since you looked at it.", hint=f"Look once more: toolcrib diff {route.name}"
        )


def _diff_lines(old: Any, new: Any) -> Iterator[str]:
    """What changed between two definitions, line by line."""
    before, after = (_text(value).splitlines() if value else [] for value in (old, new))
    found = difflib.unified_diff(before, after, lineterm="", n=2)
    yield from (line for line in found if not line.startswith(("---", "+++")))


def _text(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value, order="sorted"), indent=2).decode()
