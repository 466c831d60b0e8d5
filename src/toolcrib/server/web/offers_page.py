"""Resources and prompts: lists one can search, and everything about one of them, with a way to read or get it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcrib.calls.layers.keep import as_tool_result
from toolcrib.catalog.catalog import Route
from toolcrib.core.access import NATIVE, decide
from toolcrib.core.kinds import Policy
from toolcrib.core.offers import OfferKind, RequestKind
from toolcrib.core.requests import Result
from toolcrib.server.answers import HttpAnswer, HttpProblem, not_found, see_other, unfit
from toolcrib.server.rest.approvals import accept_offer
from toolcrib.server.views.caller import RanCall
from toolcrib.server.views.offers import listed_offer, prompt_arguments
from toolcrib.server.views.tools import SEEN_LENGTH
from toolcrib.server.visit import PageRequest
from toolcrib.server.web.render import PageRoutes, Pages, go_on
from toolcrib.server.web.schema_form import FormField, make_form, read_form, refill, with_problems
from toolcrib.server.web.schema_parts import as_json
from toolcrib.server.web.server_rows import missing_rows
from toolcrib.server.web.tool_result import ShownResult, outcome_of, shortened
from toolcrib.server.web.tool_rows import MEANT, PAGE, changes_between, offer_address, place_with
from toolcrib.server.web.tools_page import LARGEST_TRY, POLICIES, trust_of

ROUTES = PageRoutes()
ABOUT = 160
RESOURCES, PROMPTS = "resources", "prompts"
KINDS = {RESOURCES: (OfferKind.RESOURCE, OfferKind.TEMPLATE), PROMPTS: (OfferKind.PROMPT,)}


@dataclass(frozen=True, slots=True)
class Asking:
    """What stands on the part of the page where a resource is read, or a prompt got."""

    form: tuple[FormField, ...] = ()
    uri: str = ""
    """Of a template: what is to be read, with its parts filled in."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    is_wrong: bool = False
    outcome: ShownResult | None = None


@ROUTES.get("/resources")
async def _list_resources(pages: Pages, visit: PageRequest) -> HttpAnswer:
    return await _list(pages, visit, RESOURCES)


@ROUTES.get("/prompts")
async def _list_prompts(pages: Pages, visit: PageRequest) -> HttpAnswer:
    return await _list(pages, visit, PROMPTS)


async def _list(pages: Pages, visit: PageRequest, what: str) -> HttpAnswer:
    visit.need_known()
    view, q, server = visit.view, visit.word("q"), visit.word("server")
    routes = [route for kind in KINDS[what] for route in view.offers(kind)]
    found = await _find(visit, [route for route in routes if server in ("", route.server or NATIVE)], q)
    last = max(1, -(-len(found) // PAGE))
    page = min(max(1, visit.number("page", 1, 100_000)), last)
    query = {key: value for key, value in (("q", q), ("server", server)) if value}
    first = (page - 1) * PAGE
    return pages.render(
        visit,
        "offers/list.html",
        what=what,
        q=q,
        server=server,
        rows=[_row(route) for route in found[first : first + PAGE]],
        first=first + 1,
        total=len(found),
        all=len(routes),
        before=place_with(f"/{what}", query | {"page": str(page - 1)}) if page > 1 else "",
        after=place_with(f"/{what}", query | {"page": str(page + 1)}) if page < last else "",
        servers=sorted({route.server or NATIVE for route in routes}),
        missing=missing_rows(view),
    )


async def _find(visit: PageRequest, routes: list[Route], q: str) -> list[Route]:
    """What holds all the words; if nothing does, what is meant."""
    words = q.casefold().split()
    texts = {
        route.reach.key: f"{route.name} {route.uri} {route.offer.title} {route.offer.description}".casefold()
        for route in routes
        if words
    }
    found = [route for route in routes if all(word in texts[route.reach.key] for word in words)]
    if found or not words:
        return found
    return [hit.route for hit in await visit.view.find_others(q, MEANT, routes)]


def _row(route: Route) -> dict[str, Any]:
    shown = listed_offer(route)
    line = (shown.description or shown.title).strip().partition("\n")[0]
    return {
        "offer": shown,
        "href": offer_address(route.reach.key),
        "about": line if len(line) <= ABOUT else f"{line[:ABOUT].rsplit(' ', 1)[0]} …",
    }


def _known(visit: PageRequest, what: str) -> Route:
    """The resource or prompt an address names, if its visitor may know of it."""
    route = visit.view.offer(visit.params["name"], *KINDS[what])
    if route is None:
        raise not_found(what.removesuffix("s"), visit.params["name"], f"Look for it in the list of {what}.")
    return route


@ROUTES.get("/resources/{name}")
async def _show_resource(pages: Pages, visit: PageRequest) -> HttpAnswer:
    return _show(pages, visit, RESOURCES)


@ROUTES.get("/prompts/{name}")
async def _show_prompt(pages: Pages, visit: PageRequest) -> HttpAnswer:
    return _show(pages, visit, PROMPTS)


def _show(pages: Pages, visit: PageRequest, what: str) -> HttpAnswer:
    visit.need_known()
    route = _known(visit, what)
    return _render(pages, visit, route, Asking(_form(route), route.uri))


def _form(route: Route) -> tuple[FormField, ...]:
    """A field for each argument of a prompt; none for what takes no arguments."""
    named = prompt_arguments(route) if route.offer.kind is OfferKind.PROMPT else []
    properties = {one.name: {"type": "string", "description": one.description} for one in named}
    required = [one.name for one in named if one.required]
    return make_form({"type": "object", "properties": properties, "required": required}, {}) if named else ()


def _render(pages: Pages, visit: PageRequest, route: Route, asking: Asking, status: int = 200) -> HttpAnswer:
    """The page of one resource or prompt."""
    view, detail = visit.view, visit.view.offer_detail(route)
    change = view.change(route) if view.is_operator and route.held else None
    return pages.render(
        visit,
        "offers/show.html",
        status=status,
        what=PROMPTS if route.offer.kind is OfferKind.PROMPT else RESOURCES,
        route=route,
        detail=detail,
        address=offer_address(route.reach.key),
        definition=shortened(as_json(detail.definition)),
        change=change,
        changes=changes_between(change.old, change.new) if change else [],
        asking=asking,
        can_ask=decide(visit.caller.grants, route.reach).is_listed,
        policies=POLICIES,
    )


@ROUTES.post("/prompts/{name}/get")
async def _get(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_known()
    _bound(visit)
    route = _known(visit, PROMPTS)
    form = refill(_form(route), visit.form())
    arguments, problems = read_form(form) if form else ({}, {})
    if problems:
        return _render(pages, visit, route, Asking(with_problems(form, problems), is_wrong=True), 422)
    ran = await visit.view.ask(RequestKind.GET, route.name, arguments)
    return _render(pages, visit, route, Asking(form, arguments=arguments, outcome=_outcome(ran, _messages)))


@ROUTES.post("/resources/{name}/read")
async def _read(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_known()
    _bound(visit)
    route, view = _known(visit, RESOURCES), visit.view
    uri = visit.form().get("uri", "").strip() if route.offer.kind is OfferKind.TEMPLATE else route.uri
    if not uri or "{" in uri:
        asking = Asking(uri=uri or route.uri, is_wrong=True)
        return _render(pages, visit, route, asking, 422)
    ran = await view.ask(RequestKind.READ, view.resource_name(uri), {})
    return _render(pages, visit, route, Asking(uri=uri, outcome=_outcome(ran, as_tool_result)))


def _bound(visit: PageRequest) -> None:
    if len(visit.request.body) > LARGEST_TRY:
        raise HttpProblem(413, "HTTP_BODY_TOO_LARGE", "This is too much for the page. Ask for it over REST.")


def _outcome(ran: RanCall, shape: Any) -> ShownResult:
    result = ran.result if ran.result.error is not None else shape(ran.result)
    return outcome_of(result, ran.duration_s, ran.call.id)


def _messages(got: Result) -> Result:
    """The messages of a prompt, each under who says it."""
    blocks: list[dict[str, Any]] = []
    for message in got.mcp.get("messages") or ():
        content = message.get("content") if isinstance(message, Mapping) else None
        parts = [part for part in (content if isinstance(content, list) else [content]) if isinstance(part, Mapping)]
        said = "".join(str(part.get("text", "")) for part in parts if part.get("type") == "text")
        if said:
            blocks.append({"type": "text", "text": f"{message.get('role', '')}: {said}"})
        blocks += [dict(part) for part in parts if part.get("type") != "text"]
    return Result({"content": blocks})


@ROUTES.get("/resources/{name}/read")
async def _back_to_resource(_: Pages, visit: PageRequest) -> HttpAnswer:
    """Whoever reloads what came of a form begins anew."""
    return see_other(offer_address(f"{OfferKind.RESOURCE} {visit.params['name']}"))


@ROUTES.get("/prompts/{name}/get")
async def _back_to_prompt(_: Pages, visit: PageRequest) -> HttpAnswer:
    return see_other(offer_address(f"{OfferKind.PROMPT} {visit.params['name']}"))


@ROUTES.post("/resources/{name}/policy")
async def _set_resource_policy(_: Pages, visit: PageRequest) -> HttpAnswer:
    return await _set_policy(visit, RESOURCES)


@ROUTES.post("/prompts/{name}/policy")
async def _set_prompt_policy(_: Pages, visit: PageRequest) -> HttpAnswer:
    return await _set_policy(visit, PROMPTS)


async def _set_policy(visit: PageRequest, what: str) -> HttpAnswer:
    visit.need_operator()
    route, policy = _known(visit, what), visit.form().get("policy", "")
    if policy not in POLICIES:
        raise unfit(f"A policy is one of {', '.join(POLICIES)}.")
    await visit.view.set_policy(policy, route.name)
    now = visit.view.offer(route.name, *KINDS[what])
    holds = (now.policy if now is not None else Policy.DISABLE) == policy
    place = offer_address(route.reach.key) if now is not None else f"/{what}"
    return go_on(place, "policy" if holds else "policy_overruled", route.name)


@ROUTES.post("/resources/{name}/approve")
async def _approve_resource(_: Pages, visit: PageRequest) -> HttpAnswer:
    return await _approve(visit, RESOURCES)


@ROUTES.post("/prompts/{name}/approve")
async def _approve_prompt(_: Pages, visit: PageRequest) -> HttpAnswer:
    return await _approve(visit, PROMPTS)


async def _approve(visit: PageRequest, what: str) -> HttpAnswer:
    visit.need_operator()
    fields, route = visit.form(), _known(visit, what)
    seen, key = fields.get("seen", ""), route.reach.key
    if route.held and len(seen) < SEEN_LENGTH:
        raise unfit("Look at what changed first.")
    await accept_offer(visit, key, seen, "Somebody may have accepted it already.", trust_of(fields))
    place = "/approvals" if fields.get("next") == "approvals" else offer_address(key)
    return go_on(place, "accepted", route.name)
