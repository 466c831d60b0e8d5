"""The tools over REST: a list one can search, everything about one of them, calling them, and what they cost."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from toolcrib.calls.results.shown import CallResult
from toolcrib.catalog import search
from toolcrib.catalog.catalog import FORMATS, MCP, Route, offer_routes
from toolcrib.catalog.entries import Completions, completions_of
from toolcrib.core.access import AUDIT, METRICS, NATIVE
from toolcrib.core.errors import InternalError, ToolFailed
from toolcrib.core.kinds import Policy
from toolcrib.core.offers import OfferKind, RequestKind, SecurityLevel
from toolcrib.core.requests import ErrorInfo, Request
from toolcrib.core.view import View
from toolcrib.server.answers import STATUSES, HttpAnswer, HttpProblem, json_answer, json_bytes, not_found
from toolcrib.server.rest.about import About, Param, RestResource, count, one_of
from toolcrib.server.views.caller import CallerView, RanCall
from toolcrib.server.views.costs import DAYS, CostQuery, CostReport, cost_report, profiles_of, usage_of
from toolcrib.server.views.offers import OfferDetail, OfferList, found_offer, listed_offer
from toolcrib.server.views.tools import DefinitionList, ToolDetail, ToolList
from toolcrib.server.visit import PageRequest
from toolcrib.stores.audit.log import ToolUsage

TOOLS = RestResource("tools", "What there is, and calling it.")
MOST = 1_000
USUAL = 100
LEVELS = tuple(map(str, SecurityLevel))
POLICIES = tuple(map(str, Policy))
OF_SERVER = Param("server", "only the tools of this server; `native` for those of this process")


@TOOLS.route(
    "GET",
    "/tools",
    About(
        "List and search the tools",
        ToolList,
        "What the caller may use; operators also see what is denied or in quarantine.",
        params=(
            Param(
                "query",
                f"what the tool is for, in plain words; the best come first, {search.USUAL} unless `limit` says more",
            ),
            Param("q", "words that all stand in the name or the description"),
            OF_SERVER,
            Param("level", "only tools of this level", one_of(LEVELS)),
            Param("policy", "only tools of this policy", one_of(POLICIES)),
            Param("limit", f"how many at most, up to {MOST}", count(USUAL)),
            Param("cursor", "`nextCursor` of the page before"),
        ),
        problems=(422,),
        is_open=True,
    ),
)
async def _list(visit: PageRequest) -> HttpAnswer:
    view, found = visit.view, _wanted(visit)
    missing = list(view.missing())
    if visit.query.get("query", "").strip():
        limit = max(1, visit.number("limit", search.USUAL, search.MOST))
        hits = await view.find(visit.query["query"], limit, found)
        return json_answer(ToolList([view.listed(hit) for hit in hits], len(hits), None, missing))
    limit, after = max(1, visit.number("limit", USUAL, MOST)), visit.query.get("cursor", "")
    rest = [route for route in found if route.name > after]
    more = rest[limit - 1].name if len(rest) > limit else None
    return json_answer(ToolList([view.listed(route) for route in rest[:limit]], len(found), more, missing))


def _wanted(visit: PageRequest) -> list[Route]:
    """What the query asks for of all the caller is shown, by name."""
    level, policy = visit.choice("level", LEVELS), visit.choice("policy", POLICIES)
    server, words = visit.query.get("server"), visit.query.get("q", "").casefold().split()
    found = [
        route
        for route in visit.view.tools()
        if server in (None, route.server or NATIVE)
        and level in (None, route.tool.security_level)
        and policy in (None, route.policy)
        and has_words(route, words)
    ]
    return sorted(found, key=lambda route: route.name)


def has_words(route: Route, words: Sequence[str]) -> bool:
    """Whether all these words stand in the name or the description of a tool."""
    text = f"{route.name} {route.tool.description}".casefold() if words else ""
    return all(word in text for word in words)


@TOOLS.route("GET", "/tools/{name}", About("Show one tool", ToolDetail, problems=(404,), is_open=True))
async def _show(visit: PageRequest) -> HttpAnswer:
    route = visit.view.tool(visit.params["name"])
    if route is None:
        raise not_found("tool", visit.params["name"], "GET /api/v1/tools lists them.")
    return json_answer(visit.view.detail(route))


@TOOLS.route(
    "GET",
    "/tools/{name}/complete",
    About(
        "Complete an argument",
        Completions,
        "The author's suggestions, then values of examples and those the schema names, as far as they begin with"
        " `value`.",
        params=(Param("argument", "which parameter", {"type": "string"}), Param("value", "what is typed so far")),
        problems=(404, 422),
        is_open=True,
    ),
)
async def _complete(visit: PageRequest) -> HttpAnswer:
    route = visit.view.tool(visit.params["name"])
    if route is None:
        raise not_found("tool", visit.params["name"], "GET /api/v1/tools lists them.")
    return json_answer(completions_of(route, visit.query.get("argument", ""), visit.query.get("value", "")))


@TOOLS.route(
    "GET",
    "/definitions",
    About(
        "The tools in a provider's own form",
        DefinitionList,
        "What the caller may use, under names the provider takes; `names` leads back from them.",
        params=(Param("format", "whose form", one_of(FORMATS, default=MCP)), OF_SERVER),
        problems=(422,),
        is_open=True,
    ),
)
async def _define(visit: PageRequest) -> HttpAnswer:
    return json_answer(await asyncio.to_thread(_definitions, visit))


def _definitions(visit: PageRequest) -> DefinitionList:
    form, server = visit.choice("format", FORMATS) or MCP, visit.query.get("server")
    offer = offer_routes([route for route in visit.view.usable() if server in (None, route.server or NATIVE)], form)
    return DefinitionList(form, list(offer.definitions), dict(offer.names.originals), dict(offer.left_out))


LONGEST_S = 24 * 3600


class CallBody(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A call: arguments that fit the tool's input schema."""

    arguments: dict[str, Any] = {}
    timeout_seconds: Annotated[float, Meta(gt=0, le=LONGEST_S)] | None = None


class ArgumentsBody(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments for a tool."""

    arguments: dict[str, Any] = {}


class Validated(View):
    """What a tool would be given."""

    arguments: dict[str, Any]
    repairs: list[str]
    """What would be put right, in words."""


@TOOLS.route(
    "POST",
    "/tools/{name}/call",
    About(
        "Call a tool",
        CallResult,
        "A tool that fails has a result, with `success` false. A call that never ran is a problem: arguments that do"
        " not fit (422), a tool that is not there (404) or may not be called (403), too many calls (429), a server"
        " that does not start (503) or not in time (504). A client that goes away cancels its call.",
        body=CallBody,
        example={"arguments": {"expression": "6 * 7"}, "timeoutSeconds": 10},
        problems=(403, 404, 415, 422, 424, 429, 502, 503, 504),
        is_open=True,
    ),
)
async def _call(visit: PageRequest) -> HttpAnswer:
    return await answer_call(visit, visit.view)


@TOOLS.route(
    "POST",
    "/tools/{name}/validate",
    About(
        "Check arguments without calling",
        Validated,
        "What the tool would be given, with defaults filled in and slips put right. Arguments that it would refuse are"
        " a problem (422). Nothing runs, nothing is counted.",
        body=ArgumentsBody,
        example={"arguments": {"expression": "6 * 7"}},
        problems=(404, 415, 422),
        is_open=True,
    ),
)
async def _validate(visit: PageRequest) -> HttpAnswer:
    result = await visit.view.validate(visit.params["name"], visit.json(ArgumentsBody).arguments)
    if result.error is not None:
        status = STATUSES.get(result.error.code, 500)
        raise HttpProblem(status, result.error.code, result.error.message, details=dict(result.error.details))
    return json_answer(Validated(result.data, result.metadata.get("repairs", [])))


async def answer_call(visit: PageRequest, view: CallerView) -> HttpAnswer:
    """Call the tool an address names; one whose result is too much work to show was carried out all the same."""
    body = visit.json(CallBody)
    ran = await view.run(visit.params["name"], body.arguments, body.timeout_seconds)
    if ran.result.error is not None and _never_ran(ran, ran.result.error):
        raise _refused(ran.result.error, ran.call)
    try:
        return json_bytes(await view.encode(ran))
    except ToolFailed as error:
        raise HttpProblem(502, error.code, str(error), **_ids(ran.call)) from None


OFFERS_FOR = Param("query", "what it is for, in plain words; the best come first")
OFFERS = RestResource("resources and prompts", "What servers offer besides tools.")


@OFFERS.route(
    "GET",
    "/resources",
    About(
        "List the resources and resource templates",
        OfferList,
        "What the caller may use; operators also see what is denied or in quarantine.",
        params=(OFFERS_FOR, OF_SERVER),
        is_open=True,
    ),
)
async def _list_resources(visit: PageRequest) -> HttpAnswer:
    return json_answer(await _offers(visit, OfferKind.RESOURCE, OfferKind.TEMPLATE))


@OFFERS.route(
    "GET",
    "/prompts",
    About("List the prompts", OfferList, "As for resources.", params=(OFFERS_FOR, OF_SERVER), is_open=True),
)
async def _list_prompts(visit: PageRequest) -> HttpAnswer:
    return json_answer(await _offers(visit, OfferKind.PROMPT))


@OFFERS.route(
    "GET",
    "/skills",
    About("List the skills", OfferList, "As for resources.", params=(OFFERS_FOR, OF_SERVER), is_open=True),
)
async def _list_skills(visit: PageRequest) -> HttpAnswer:
    return json_answer(await _offers(visit, OfferKind.SKILL))


async def _offers(visit: PageRequest, *kinds: OfferKind) -> OfferList:
    server, view, query = visit.query.get("server"), visit.view, visit.query.get("query", "").strip()
    found = [route for kind in kinds for route in view.offers(kind) if server in (None, route.server or NATIVE)]
    shown = [listed_offer(route) for route in found]
    if query:
        shown = [found_offer(hit) for hit in await view.find_others(query, search.MOST, found)]
    return OfferList(shown, list(view.missing()))


@OFFERS.route(
    "GET",
    "/resources/{name}",
    About(
        "Show one resource or resource template",
        OfferDetail,
        "By its name or its URI, written in one piece: every `/` as `%2F`.",
        problems=(404,),
        is_open=True,
    ),
)
async def _show_resource(visit: PageRequest) -> HttpAnswer:
    return _one_offer(visit, "resource", OfferKind.RESOURCE, OfferKind.TEMPLATE)


@OFFERS.route("GET", "/prompts/{name}", About("Show one prompt", OfferDetail, problems=(404,), is_open=True))
async def _show_prompt(visit: PageRequest) -> HttpAnswer:
    return _one_offer(visit, "prompt", OfferKind.PROMPT)


@OFFERS.route(
    "GET",
    "/skills/{name}",
    About(
        "Show one skill",
        OfferDetail,
        "By its name or the URI of its `SKILL.md`, written in one piece: every `/` as `%2F`. Its files are read as"
        " resources, and given out only if they are what the skill says.",
        problems=(404,),
        is_open=True,
    ),
)
async def _show_skill(visit: PageRequest) -> HttpAnswer:
    return _one_offer(visit, "skill", OfferKind.SKILL)


def _one_offer(visit: PageRequest, what: str, *kinds: OfferKind) -> HttpAnswer:
    name, view = visit.params["name"], visit.view
    route = view.offer(name, *kinds)
    if route is None:
        raise not_found(what, name, f"GET /api/v1/{what}s lists them.")
    return json_answer(view.offer_detail(route))


class ReadBody(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Which resource to read: its URI as the list shows it, or one that a template stands for."""

    uri: str
    timeout_seconds: Annotated[float, Meta(gt=0, le=LONGEST_S)] | None = None


@OFFERS.route(
    "POST",
    "/resources/read",
    About(
        "Read a resource",
        dict[str, Any],
        "As MCP's `resources/read` answers it. What cannot be read is a problem.",
        body=ReadBody,
        example={"uri": "docs://server/start.md"},
        problems=(403, 404, 415, 422, 424, 429, 502, 503, 504),
        is_open=True,
    ),
)
async def _read(visit: PageRequest) -> HttpAnswer:
    body, view = visit.json(ReadBody), visit.view
    return _outcome(await view.ask(RequestKind.READ, view.resource_name(body.uri), {}, body.timeout_seconds))


@OFFERS.route(
    "POST",
    "/prompts/{name}/get",
    About(
        "Get a prompt",
        dict[str, Any],
        "As MCP's `prompts/get` answers it; its arguments are texts. What cannot be got is a problem.",
        body=CallBody,
        example={"arguments": {"who": "Ann"}},
        problems=(403, 404, 415, 422, 424, 429, 502, 503, 504),
        is_open=True,
    ),
)
async def _get(visit: PageRequest) -> HttpAnswer:
    body = visit.json(CallBody)
    name = visit.params["name"]
    return _outcome(await visit.view.ask(RequestKind.GET, name, body.arguments, body.timeout_seconds))


def _outcome(ran: RanCall) -> HttpAnswer:
    """What was read or got; its result has no place for a failure, so that each is a problem."""
    if ran.result.error is not None:
        raise _refused(ran.result.error, ran.call)
    raw = ran.result.raw
    return json_answer(ran.result.mcp) if raw is None else json_bytes(raw)


def _never_ran(ran: RanCall, error: ErrorInfo) -> bool:
    """Whether the tool had no part in the failure; a fault of ours is none of its doing either."""
    return error.code == InternalError.code or (not ran.call.context.sent and error.code in STATUSES)


def _ids(call: Request) -> dict[str, str]:
    return {"executionId": call.id, "traceId": call.context.trace_id}


def _refused(error: ErrorInfo, call: Request) -> HttpProblem:
    more: dict[str, Any] = {"retryable": error.retryable, **_ids(call), "details": dict(error.details)}
    retry_after_s = error.details.get("retry_after_s")
    if isinstance(retry_after_s, int | float):
        more["retryAfterSeconds"] = retry_after_s
    return HttpProblem(STATUSES.get(error.code, 500), error.code, error.message, **more)


MOST_DAYS = 3650
MOST_PAIRS = 50


@TOOLS.route(
    "GET",
    "/costs",
    About(
        "Show what the tools cost in tokens",
        CostReport,
        "Of the tools the caller may use. `usage`, `calls` and `proposal` are for operators and for tokens with the "
        "capability `audit` or `metrics`, `null` for others; `pairs` needs a token.",
        params=(
            Param("days", "how far back to look for calls", count(DAYS)),
            Param("pairs", f"how many pairs of tools to name that are easily confused, up to {MOST_PAIRS}", count(0)),
        ),
        problems=(422,),
        is_open=True,
    ),
)
async def _cost(visit: PageRequest) -> HttpAnswer:
    days, pairs = max(1, visit.number("days", DAYS, MOST_DAYS)), visit.number("pairs", 0, MOST_PAIRS)
    if pairs:
        visit.need_known()
    view = visit.view
    profiles = profiles_of(view.catalog, view.project.config.profiles, visit.caller.grants)
    asked = CostQuery(days, await _usage(visit, days), profiles, pairs)
    return json_answer(await asyncio.to_thread(cost_report, view.usable(), asked))


async def _usage(visit: PageRequest, days: int) -> ToolUsage | None:
    granted = visit.caller.grants.capabilities or ()
    if visit.is_operator() or (visit.is_known and (AUDIT in granted or METRICS in granted)):
        return await asyncio.to_thread(usage_of, visit.served.project.audit_log, days)
    return None
