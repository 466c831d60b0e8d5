"""Resources, resource templates and prompts: what can be seen of one, in a list or by itself."""

from collections.abc import Mapping
from typing import Any

from msgspec import structs

from toolcrib.catalog.catalog import Route, signature_of
from toolcrib.catalog.explain import Explanation
from toolcrib.catalog.search import RankedTool
from toolcrib.core.kinds import DiscoveryStatus, HoldReason, Policy
from toolcrib.core.offers import NAMED_BY, OfferKind, SecurityLevel
from toolcrib.core.source import Missing
from toolcrib.core.view import Tally, View
from toolcrib.crib.crib import Crib
from toolcrib.server.views.tools import PinState, pin_state


class PromptArgument(View, omit_defaults=True):
    """One argument of a prompt."""

    name: str
    required: bool
    description: str = ""


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
    score: float | None = None
    """How well it answers a query, from 0 to 1, if there was one."""
    signature: str | None = None
    """One line to ask for it by, in answers to a query."""


class OfferList(View):
    """Resources and templates, or prompts; and which servers it lacks."""

    offers: list[ListedOffer]
    missing: list[Missing]


class OfferDetail(ListedOffer, kw_only=True):
    """A resource, template or prompt with its whole definition."""

    definition: dict[str, Any]
    """In MCP's shape, as clients are shown it; of one in quarantine only its name."""
    pin: PinState
    discovery_status: DiscoveryStatus
    last_discovered: str | None
    why: Explanation | None
    """Only for operators."""
    tally: Tally | None
    """Only for operators."""


def listed_offer(route: Route) -> ListedOffer:
    """What can be seen of a resource, template or prompt; one in quarantine is not given the word."""
    offer, is_prompt = route.offer, route.offer.kind is OfferKind.PROMPT
    mime_type = offer.extra.get("mimeType")
    return ListedOffer(
        kind=offer.kind,
        name=route.name,
        server=route.server,
        uri=None if is_prompt else route.uri,
        title="" if route.held else offer.title,
        description="" if route.held else offer.description,
        mime_type=mime_type if isinstance(mime_type, str) else None,
        arguments=prompt_arguments(route) if is_prompt else None,
        policy=route.policy,
        level=offer.security_level,
        held=route.held,
    )


def prompt_arguments(route: Route) -> list[PromptArgument]:
    """What a prompt takes, in the order of its definition."""
    schema, shown = route.offer.input_schema, route.offer.extra.get("arguments")
    said = {one.get("name"): one.get("description") for one in shown or () if isinstance(one, Mapping)}
    return [
        PromptArgument(name, name in schema.get("required", ()), "" if route.held else str(said.get(name) or ""))
        for name in schema.get("properties", {})
    ]


def found_offer(hit: RankedTool) -> ListedOffer:
    """One answer to a query."""
    return structs.replace(listed_offer(hit.route), score=hit.score, signature=signature_of(hit.route))


def offer_detail(crib: Crib, route: Route, *, for_operator: bool) -> OfferDetail:
    """Everything of one resource, template or prompt."""
    shelf, tally = crib.shelves.get(route.server), crib.metrics.tools.get(route.reach.key)
    shown, named_by = route.to_mcp(), NAMED_BY[route.offer.kind]
    return OfferDetail(
        **structs.asdict(listed_offer(route)),
        definition={named_by: shown[named_by]} if route.held else shown,
        pin=pin_state(crib, route),
        discovery_status=shelf.status if shelf else DiscoveryStatus.SUCCESS,
        last_discovered=(shelf.record.last_discovery or None) if shelf else None,
        why=crib.explain(route.reach.key) if for_operator else None,
        tally=tally.view() if for_operator and tally is not None else None,
    )
