"""The tools over REST: a list one can search, everything about one of them, and what may be called."""

import asyncio
from fnmatch import fnmatchcase
from typing import Any, get_args

import msgspec

from toolcrib.catalog import search
from toolcrib.catalog.catalog import FORMATS, MCP, Route, offer_routes, signature_of
from toolcrib.catalog.entries import known_to, missing_servers, tool_entry
from toolcrib.catalog.pins import fingerprint
from toolcrib.core.audit import AuditEntry
from toolcrib.crib.crib import Crib
from toolcrib.server.answers import HttpAnswer, HttpProblem, json_answer, not_found
from toolcrib.server.rest.about import About, Param, count
from toolcrib.server.rest.shapes import (
    DefinitionList,
    LevelWord,
    Policies,
    PolicyView,
    PolicyWord,
    ToolDetail,
    ToolList,
)
from toolcrib.server.router import RouteSpec
from toolcrib.server.views.tools import definition_now, explained, policy_entries
from toolcrib.server.visit import PageRequest, ServedProject

PATH = "/api/v1/tools"
DEFINITIONS = "/api/v1/definitions"
MOST = 1_000
USUAL = 100
LEVELS: tuple[str, ...] = get_args(LevelWord)
POLICIES: tuple[str, ...] = get_args(PolicyWord)


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
        page = [_entry(crib, route) for route in rest[:limit]]
        return json_answer({"tools": page, "total": len(found), "nextCursor": more, "missing": _missing(crib, visit)})

    async def show(visit: PageRequest) -> HttpAnswer:
        return json_answer(_detail(premises.crib, visit, known_tool(premises.crib, visit)))

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


def _definitions(crib: Crib, visit: PageRequest) -> dict[str, Any]:
    form, server = visit.query.get("format", MCP), visit.query.get("server")
    if form not in FORMATS:
        raise HttpProblem(422, "TOOL_INVALID_INPUT", f"`format` must be one of {', '.join(FORMATS)}.")
    routes = crib.catalog.visible_to(visit.caller.grants)
    offer = offer_routes([route for route in routes if server in (None, route.server or "native")], form)
    return {"format": form, "definitions": offer.definitions, "names": offer.names.originals, "leftOut": offer.left_out}


async def _ranked(crib: Crib, visit: PageRequest, among: list[Route]) -> dict[str, Any]:
    """The best answers to ``query`` on one page."""
    limit = max(1, visit.number("limit", search.USUAL, search.MOST))
    hits = await crib.find(visit.query["query"], limit, among=among)
    tools = [_entry(crib, hit.route) | {"score": hit.score, "signature": signature_of(hit.route)} for hit in hits]
    return {"tools": tools, "total": len(tools), "nextCursor": None, "missing": _missing(crib, visit)}


def _missing(crib: Crib, visit: PageRequest) -> list[dict[str, Any]]:
    """The servers whose tools are not in the list because nobody knows them."""
    found = missing_servers(crib.shelves)
    return [one.to_dict() for one in (found if visit.is_operator() else known_to(found, visit.caller.grants))]


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


def _entry(crib: Crib, route: Route) -> dict[str, Any]:
    return tool_entry(route, crib.shelves.get(route.server)) | {"tokens": route.tokens}


def _detail(crib: Crib, visit: PageRequest, route: Route) -> dict[str, Any]:
    tool, is_operator = route.tool, visit.is_operator()
    tally = crib.metrics.tools.get(route.name)
    return _entry(crib, route) | {
        "title": tool.title,
        "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema,
        "annotations": tool.annotations,
        "version": tool.version,
        "category": tool.category,
        "capabilities": sorted(tool.capabilities),
        "pin": _pin(crib, route),
        "why": explained(crib.explain(route.name)) if is_operator else None,
        "tally": tally.to_dict() if is_operator and tally is not None else None,
    }


def _pin(crib: Crib, route: Route) -> dict[str, Any]:
    shelf = crib.shelves.get(route.server)
    pin = shelf.record.pins.get(route.original_name) if shelf else None
    state = "held" if route.held else "none" if pin is None else "accepted"
    now = fingerprint(definition_now(crib, route)) if shelf else None
    return {"state": state, "hash": now, "accepted": pin.at if pin else None}


POLICIES_PATH = "/api/v1/policies"
LONGEST = 200
_SIGNS = "_-.*?[]!"


class PolicyBody(msgspec.Struct, forbid_unknown_fields=True):
    """What to do about calls."""

    policy: PolicyWord


def policy_routes(premises: ServedProject) -> list[RouteSpec]:
    """The routes of the policies."""

    async def ls(visit: PageRequest) -> HttpAnswer:
        visit.need_operator()
        security = premises.project.config.security
        tools = policy_entries(premises.crib)
        return json_answer({"default": security.policy, "patterns": dict(security.policies), "tools": tools})

    async def show(visit: PageRequest) -> HttpAnswer:
        visit.need_operator()
        found = _view(premises, visit.params["pattern"])
        if not found["tools"] and found["policy"] is None:
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


def _view(premises: ServedProject, pattern: str) -> dict[str, object]:
    tools = [
        entry
        for entry in policy_entries(premises.crib)
        if pattern in (entry["name"], entry["server"]) or fnmatchcase(entry["name"], pattern)
    ]
    written = premises.project.config.security.policies
    return {"pattern": pattern, "policy": written.get(pattern, written.get(f"{pattern}__*")), "tools": tools}
