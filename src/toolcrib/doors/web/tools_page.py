"""The tools: a list one can search, and everything about one of them."""

from dataclasses import asdict
from typing import Any

from toolcrib.catalog.catalog import Route
from toolcrib.catalog.missing import known_to, missing_servers
from toolcrib.core.access import NATIVE, Decision, decide
from toolcrib.core.tool import SecurityLevel
from toolcrib.doors.http.answers import Answer
from toolcrib.doors.http.router import RouteSpec
from toolcrib.doors.http.visit import Visit
from toolcrib.doors.views.tools import change_of, explained
from toolcrib.doors.web.call_rows import call_row, may_see
from toolcrib.doors.web.definition_diff import changes_between
from toolcrib.doors.web.render import Pages
from toolcrib.doors.web.schema_parts import as_json, parameter_rows
from toolcrib.doors.web.snippets import snippets
from toolcrib.doors.web.tool_result import shortened
from toolcrib.doors.web.tool_rows import DISABLED, HELD, PAGE, Wanted, find_tools, known_tool, tool_address, visible
from toolcrib.doors.web.trying import Trying, first_try

CALLS_SHOWN = 10
ABOUT = 160
POLICIES = ("allow", "ask", "deny", "disable")


def tools_routes(pages: Pages) -> list[RouteSpec]:
    """The routes of the catalogue."""

    async def ls(visit: Visit) -> Answer:
        visit.need_known()
        return pages.render(visit, "tools/list.html", **await _listed(pages, visit))

    async def show(visit: Visit) -> Answer:
        visit.need_known()
        crib, name = pages.premises.crib, visit.params["name"]
        if crib.lookup(name) is None and visit.is_operator() and name in crib.catalog.left_out:
            return pages.render(visit, "tools/left_out.html", name=name, story=explained(crib.explain(name)), **_RULES)
        route = known_tool(crib, visit)
        return render_tool(pages, visit, route, first_try(route, visit.query))

    return [RouteSpec("GET", "/tools", ls), RouteSpec("GET", "/tools/{name}", show)]


_RULES: dict[str, Any] = {"policies": POLICIES}


async def _listed(pages: Pages, visit: Visit) -> dict[str, Any]:
    crib, wanted = pages.premises.crib, Wanted.of(visit)
    routes = visible(crib, visit)
    found = await find_tools(crib, routes, wanted)
    last = max(1, -(-len(found) // PAGE))
    page = min(max(1, visit.number("page", 1, 100_000)), last)
    first = (page - 1) * PAGE
    hidden = crib.catalog.left_out if visit.is_operator() and wanted.policy == DISABLED else {}
    return {
        "wanted": asdict(wanted),
        "is_filtered": not wanted.is_anything,
        "rows": [_row(pages, route) for route in found[first : first + PAGE]],
        "hidden": [(name, tool_address(name), why) for name, why in sorted(hidden.items())[:PAGE]],
        "first": first + 1,
        "total": len(found),
        "all": len(routes),
        "before": wanted.address(page - 1) if page > 1 else "",
        "after": wanted.address(page + 1) if page < last else "",
        "servers": sorted({route.server or NATIVE for route in routes}),
        "levels": [str(level) for level in SecurityLevel],
        "missing": known_to(missing_servers(crib.shelves), visit.caller.grants),
        "states": [*POLICIES, HELD] if visit.is_operator() else ["allow", "ask"],
    }


def _row(pages: Pages, route: Route) -> dict[str, Any]:
    tally = pages.premises.crib.metrics.tools.get(route.name)
    return {
        "name": route.name,
        "href": tool_address(route.name),
        "about": _brief(route.tool.description),
        "server": route.server or NATIVE,
        "is_native": not route.server,
        "level": str(route.tool.security_level),
        "policy": route.policy,
        "held": route.held,
        "tokens": route.tokens,
        "calls": tally.executed if tally else 0,
        "health": tally.health if tally else "",
    }


def _brief(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= ABOUT else f"{line[:ABOUT].rsplit(' ', 1)[0]} …"


def render_tool(pages: Pages, visit: Visit, route: Route, trying: Trying, status: int = 200) -> Answer:
    """The page of one tool."""
    premises, tool, is_operator = pages.premises, route.tool, visit.is_operator()
    crib = premises.crib
    shelf = crib.shelves.get(route.server)
    calls = crib.live.of_tool(route.name, 100) if crib.live is not None else []
    tally = crib.metrics.tools.get(route.name) if is_operator else None
    change = change_of(crib, route) if is_operator and route.held else None
    return pages.render(
        visit,
        "tools/show.html",
        status=status,
        route=route,
        tool=tool,
        address=tool_address(route.name),
        server=route.server or NATIVE,
        parameters=parameter_rows(tool.input_schema),
        returned=parameter_rows(tool.output_schema) if tool.output_schema is not None else [],
        definition=shortened(as_json(route.to_mcp())),
        tokens=route.tokens,
        hints=_hints(route),
        pin=shelf.record.pins.get(route.original_name) if shelf else None,
        story=explained(crib.explain(route.name)) if is_operator else None,
        change=change,
        changes=changes_between(change["old"], change["new"]) if change else [],
        tally=tally,
        durations=_durations(tally.durations) if tally else ([], []),
        calls=[call_row(call, crib.live) for call in calls if may_see(visit, call)][:CALLS_SHOWN],
        trying=trying,
        can_run=decide(visit.caller.grants, route.reach) in (Decision.ALLOWED, Decision.ASK),
        asks=route.policy == "ask",
        snippets=snippets(route.name, trying.arguments, premises.url, needs_token=premises.needs_token),
        snippets_open=status == 200 and trying.is_shown,
        **_RULES,
    )


def _hints(route: Route) -> list[str]:
    words = {"readOnlyHint": "reads only", "destructiveHint": "may destroy", "idempotentHint": "may be repeated"}
    said = [text for key, text in words.items() if route.tool.annotations.get(key) is True]
    return [*said, *(["talks to the outside world"] if route.tool.annotations.get("openWorldHint") is True else [])]


def _durations(counts: list[int]) -> tuple[list[int], list[str]]:
    """How long calls took, from the first class that has any to the last."""
    from toolcrib.calls.metrics import BOUNDS_S

    labels = [*(f"up to {_short(bound)}" for bound in BOUNDS_S), f"over {_short(BOUNDS_S[-1])}"]
    used = [place for place, count in enumerate(counts) if count]
    if not used:
        return [], []
    first, last = max(0, used[0] - 1), min(len(counts), used[-1] + 2)
    return counts[first:last], labels[first:last]


def _short(seconds: float) -> str:
    return f"{seconds * 1000:g} ms" if seconds < 1 else f"{seconds:g} s"
