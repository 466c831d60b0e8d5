"""The tools over REST: a list one can search, everything about one of them, and what may be called."""

import asyncio
from fnmatch import fnmatchcase

import msgspec

from toolcrib.catalog import search
from toolcrib.catalog.catalog import FORMATS, MCP, Route, offer_routes
from toolcrib.catalog.entries import known_to, missing_servers
from toolcrib.core.audit import AuditEntry
from toolcrib.core.kinds import Policy
from toolcrib.core.source import Missing
from toolcrib.core.tool import SecurityLevel
from toolcrib.crib.crib import Crib
from toolcrib.server.answers import HttpAnswer, HttpProblem, json_answer, not_found
from toolcrib.server.rest.about import About, Param, count
from toolcrib.server.router import RouteSpec
from toolcrib.server.views.tools import (
    DefinitionList,
    Policies,
    PolicyView,
    ToolDetail,
    ToolList,
    found_tool,
    listed_tool,
    policy_entries,
    tool_detail,
)
from toolcrib.server.visit import PageRequest, ServedProject

PATH = "/api/v1/tools"
DEFINITIONS = "/api/v1/definitions"
MOST = 1_000
USUAL = 100
LEVELS = tuple(map(str, SecurityLevel))
POLICIES = tuple(map(str, Policy))


def tool_routes(premises: ServedProject) -> list[RouteSpec]:
    """The routes of the catalogue."""

    async def ls(visit: PageRequest) -> HttpAnswer:
        crib = premises.crib
        found = [route for route in visible(crib, visit) if _fits(route, visit)]
        if visit.query.get("query", "").strip():
            return json_answer(await _ranked(crib, visit, found))
        limit, after = max(1, visit.number("limit", USUAL, MOST)), visit.query.get("cursor", "")
        rest = [route for route in found if route.name > after]
        more = rest[limit - 1].name if len(rest) > limit else None
        page = [listed_tool(crib, route) for route in rest[:limit]]
        return json_answer(ToolList(page, len(found), more, _missing(crib, visit)))

    async def show(visit: PageRequest) -> HttpAnswer:
        route = known_tool(premises.crib, visit)
        return json_answer(tool_detail(premises.crib, route, for_operator=visit.is_operator()))

    async def definitions(visit: PageRequest) -> HttpAnswer:
        return json_answer(await asyncio.to_thread(_definitions, premises.crib, visit))

    detail = "What the caller may use; operators also see what is denied or in quarantine."
    about = About("List and search the tools", "tools", ToolList, detail, params=PARAMS, problems=(422,), is_open=True)
    one = About("Show one tool", "tools", ToolDetail, problems=(404,), is_open=True)
    return [
        RouteSpec("GET", PATH, ls, about),
        RouteSpec("GET", f"{PATH}/{{name}}", show, one),
        RouteSpec("GET", DEFINITIONS, definitions, DEFINED),
    ]


PARAMS = (
    Param(
        "query", f"what the tool is for, in plain words; the best come first, {search.USUAL} unless `limit` says more"
    ),
    Param("q", "words that all stand in the name or the description"),
    Param("server", "only the tools of this server; `native` for those of this process"),
    Param("level", "only tools of this level", {"type": "string", "enum": list(LEVELS)}),
    Param("policy", "only tools of this policy", {"type": "string", "enum": list(POLICIES)}),
    Param("limit", f"how many at most, up to {MOST}", count(USUAL)),
    Param("cursor", "`nextCursor` of the page before"),
)


DEFINED = About(
    "The tools in a provider's own form",
    "tools",
    DefinitionList,
    "What the caller may use, under names the provider takes; `names` leads back from them.",
    params=(
        Param("format", "whose form", {"type": "string", "enum": list(FORMATS), "default": MCP}),
        Param("server", "only the tools of this server; `native` for those of this process"),
    ),
    problems=(422,),
    is_open=True,
)


def _definitions(crib: Crib, visit: PageRequest) -> DefinitionList:
    form, server = visit.query.get("format", MCP), visit.query.get("server")
    if form not in FORMATS:
        raise HttpProblem(422, "TOOL_INVALID_INPUT", f"`format` must be one of {', '.join(FORMATS)}.")
    routes = crib.catalog.visible_to(visit.caller.grants)
    offer = offer_routes([route for route in routes if server in (None, route.server or "native")], form)
    return DefinitionList(form, list(offer.definitions), dict(offer.names.originals), dict(offer.left_out))


async def _ranked(crib: Crib, visit: PageRequest, among: list[Route]) -> ToolList:
    """The best answers to ``query`` on one page."""
    limit = max(1, visit.number("limit", search.USUAL, search.MOST))
    hits = await crib.find(visit.query["query"], limit, among=among)
    return ToolList([found_tool(crib, hit) for hit in hits], len(hits), None, _missing(crib, visit))


def _missing(crib: Crib, visit: PageRequest) -> list[Missing]:
    """The servers whose tools are not in the list because nobody knows them."""
    found = missing_servers(crib.shelves)
    return list(found if visit.is_operator() else known_to(found, visit.caller.grants))


def visible(crib: Crib, visit: PageRequest) -> list[Route]:
    """What a caller is shown, by name."""
    if visit.is_operator():
        return sorted(crib.catalog.routes.values(), key=lambda route: route.name)
    return sorted(crib.catalog.visible_to(visit.caller.grants), key=lambda route: route.name)


def known_tool(crib: Crib, visit: PageRequest) -> Route:
    """The tool a visit is about, if its caller may know of it."""
    name = visit.params["name"]
    found = next((route for route in visible(crib, visit) if route.name == name), None)
    if found is None:
        raise not_found("tool", name, "GET /api/v1/tools lists them.")
    return found


def _fits(route: Route, visit: PageRequest) -> bool:
    query = visit.query
    wanted = {"server": route.server or "native", "level": route.tool.security_level, "policy": route.policy}
    for name, known in (("level", LEVELS), ("policy", POLICIES)):
        if name in query and query[name] not in known:
            raise HttpProblem(422, "TOOL_INVALID_INPUT", f"`{name}` must be one of {', '.join(known)}.")
    if any(query.get(name, value) != value for name, value in wanted.items()):
        return False
    text = f"{route.name} {route.tool.description}".casefold()
    return all(word in text for word in query.get("q", "").casefold().split())


POLICIES_PATH = "/api/v1/policies"
LONGEST = 200
_SIGNS = "_-.*?[]!"


class PolicyBody(msgspec.Struct, forbid_unknown_fields=True):
    """What to do about calls."""

    policy: Policy


def policy_routes(premises: ServedProject) -> list[RouteSpec]:
    """The routes of the policies."""

    async def ls(visit: PageRequest) -> HttpAnswer:
        visit.need_operator()
        security = premises.project.config.security
        return json_answer(Policies(security.policy, dict(security.policies), policy_entries(premises.crib)))

    async def show(visit: PageRequest) -> HttpAnswer:
        visit.need_operator()
        found = _view(premises, visit.params["pattern"])
        if not found.tools and found.policy is None:
            raise not_found("policy", visit.params["pattern"], "GET /api/v1/policies lists what holds.")
        return json_answer(found)

    async def put(visit: PageRequest) -> HttpAnswer:
        visit.need_operator()
        pattern, policy = _checked(visit.params["pattern"]), visit.json(PolicyBody).policy
        caller = visit.caller
        await premises.crib.audit.commit(
            AuditEntry("policy", pattern, caller=caller.id, caller_kind=caller.kind, decision=policy)
        )
        await premises.project.set_policy(pattern, policy)
        return json_answer(_view(premises, pattern))

    shown = About("Show a policy", "policies", PolicyView, problems=(403, 404))
    return [
        RouteSpec("GET", POLICIES_PATH, ls, About("List the policies", "policies", Policies, problems=(403,))),
        RouteSpec("GET", f"{POLICIES_PATH}/{{pattern}}", show, shown),
        RouteSpec("PUT", f"{POLICIES_PATH}/{{pattern}}", put, SET),
    ]


SET = About(
    "Set a policy",
    "policies",
    PolicyView,
    "A tool, a server, or a pattern such as `*__delete_*`; of several that fit the most careful counts. The answer"
    " shows what holds then: something stronger may say otherwise.",
    body=PolicyBody,
    example={"policy": "ask"},
    problems=(403, 415, 422),
)


def _checked(pattern: str) -> str:
    if len(pattern) > LONGEST or not all(char in _SIGNS or (char.isascii() and char.isalnum()) for char in pattern):
        detail = f"A pattern has letters, digits and {' '.join(_SIGNS)}, at most {LONGEST} of them."
        raise HttpProblem(422, "TOOL_INVALID_INPUT", detail)
    return pattern


def _view(premises: ServedProject, pattern: str) -> PolicyView:
    tools = [
        entry
        for entry in policy_entries(premises.crib)
        if pattern in (entry.name, entry.server) or fnmatchcase(entry.name, pattern)
    ]
    written = premises.project.config.security.policies
    return PolicyView(pattern, written.get(pattern, written.get(f"{pattern}__*")), tools)
