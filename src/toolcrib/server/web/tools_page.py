"""The tools: a list one can search, and everything about one of them."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from toolcrib.catalog.catalog import Route
from toolcrib.catalog.entries import known_to, missing_servers
from toolcrib.core.access import NATIVE, Decision, decide
from toolcrib.core.audit import AuditEntry
from toolcrib.core.errors import PermissionDenied
from toolcrib.core.kinds import Policy
from toolcrib.core.tool import SecurityLevel
from toolcrib.crib.crib import Crib
from toolcrib.schema.check import compile_check
from toolcrib.server.answers import HttpAnswer, HttpProblem, not_found
from toolcrib.server.router import RouteSpec
from toolcrib.server.views.tools import SEEN_LENGTH, change_of, check_seen, listed_tool
from toolcrib.server.visit import PageRequest
from toolcrib.server.web.call_rows import call_row, may_see
from toolcrib.server.web.render import Pages, go_on
from toolcrib.server.web.schema_form import (
    Fields,
    FormField,
    Path,
    first_values,
    make_form,
    paths_of,
    read_form,
    read_object,
    refill,
    with_problems,
)
from toolcrib.server.web.schema_parts import as_json, parameter_rows
from toolcrib.server.web.tool_result import ShownResult, outcome_of, shortened, snippets
from toolcrib.server.web.tool_rows import (
    HELD,
    PAGE,
    ToolFilter,
    changes_between,
    find_tools,
    known_tool,
    tool_address,
    visible,
)


@dataclass(frozen=True, slots=True)
class Trying:
    """What stands on the part of the page where a tool is tried."""

    form: tuple[FormField, ...] = ()
    text: str = ""
    """What stands in the JSON editor."""
    is_json: bool = False
    arguments: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    """What is wrong and belongs to no field."""
    is_wrong: bool = False
    is_shown: bool = False
    """Whether the call is wanted as code."""
    outcome: ShownResult | None = None


def first_try(route: Route, query: Mapping[str, str]) -> Trying:
    """The form as it is at first: with an example, or the defaults."""
    schema, examples = route.tool.input_schema, route.tool.examples
    chosen = query.get("example", "0")
    place = int(chosen) if chosen.isascii() and chosen.isdigit() and len(chosen) < 4 else 0
    values = dict(examples[place].arguments) if place < len(examples) else first_values(schema)
    return Trying(make_form(schema, values), as_json(values), query.get("as") == "json", values)


def read_try(route: Route, sent: Fields) -> Trying:
    """What was sent, as arguments or with what is wrong."""
    schema, is_json = route.tool.input_schema, sent.get("as") == "json"
    if is_json:
        text = sent.get("json", "")
        arguments, wrong = read_object(text)
        problems: dict[Path, str] = {(): wrong} if wrong else _misfits(route, arguments)
        said = tuple(_said(path, words) for path, words in problems.items())
        return Trying(make_form(schema, arguments), text, True, arguments, said, bool(problems))
    form = refill(make_form(schema, {}), sent)
    arguments, problems = read_form(form)
    problems = problems or _misfits(route, arguments)
    placed = with_problems(form, problems)
    elsewhere = tuple(_said(path, words) for path, words in problems.items() if path not in paths_of(form))
    return Trying(placed, as_json(arguments), False, arguments, elsewhere, bool(problems))


def _said(path: Path, words: str) -> str:
    return f"{'.'.join(path)}: {words}" if path else words


def _misfits(route: Route, arguments: Mapping[str, Any]) -> dict[Path, str]:
    """Where the arguments do not fit the schema; a path into a list is that of the list."""
    found: dict[Path, str] = {}
    check = compile_check(route.tool.input_schema)
    if not check.is_quick_for(arguments):  # the call itself will tell
        return found
    for problem in check.problems(dict(arguments)):
        path: list[str] = []
        for step in problem.path:
            if not isinstance(step, str):
                break
            path.append(step)
        found.setdefault(tuple(path), f"{problem.message[:1].upper()}{problem.message[1:]}.")
    return found


async def run_try(crib: Crib, route: Route, visit: PageRequest, arguments: Mapping[str, Any]) -> ShownResult:
    """Call the tool as whoever visits."""
    call = crib.request(route.name, dict(arguments), visit.caller)
    began = time.perf_counter()
    result = await crib.run(call)
    return outcome_of(result, time.perf_counter() - began, call.id)


CALLS_SHOWN = 10
ABOUT = 160
POLICIES = tuple(Policy)


def tools_routes(pages: Pages) -> list[RouteSpec]:
    """The routes of the catalogue."""

    async def ls(visit: PageRequest) -> HttpAnswer:
        visit.need_known()
        return pages.render(visit, "tools/list.html", **await _listed(pages, visit))

    async def show(visit: PageRequest) -> HttpAnswer:
        visit.need_known()
        crib, name = pages.premises.crib, visit.params["name"]
        if crib.lookup(name) is None and visit.is_operator() and name in crib.catalog.left_out:
            return pages.render(visit, "tools/left_out.html", name=name, story=crib.explain(name), **_RULES)
        route = known_tool(crib, visit)
        return render_tool(pages, visit, route, first_try(route, visit.query))

    return [RouteSpec("GET", "/tools", ls), RouteSpec("GET", "/tools/{name}", show)]


_RULES: dict[str, Any] = {"policies": POLICIES}


async def _listed(pages: Pages, visit: PageRequest) -> dict[str, Any]:
    crib, wanted = pages.premises.crib, ToolFilter.of(visit)
    routes = visible(crib, visit)
    found = await find_tools(crib, routes, wanted)
    last = max(1, -(-len(found) // PAGE))
    page = min(max(1, visit.number("page", 1, 100_000)), last)
    first = (page - 1) * PAGE
    hidden = crib.catalog.left_out if visit.is_operator() and wanted.policy == Policy.DISABLE else {}
    return {
        "wanted": asdict(wanted),
        "is_filtered": not wanted.is_anything,
        "rows": [_row(pages, route) for route in found[first : first + PAGE]],
        "hidden": [(name, tool_address(name), why.reason) for name, why in sorted(hidden.items())[:PAGE]],
        "first": first + 1,
        "total": len(found),
        "all": len(routes),
        "before": wanted.address(page - 1) if page > 1 else "",
        "after": wanted.address(page + 1) if page < last else "",
        "servers": sorted({route.server or NATIVE for route in routes}),
        "levels": [str(level) for level in SecurityLevel],
        "missing": known_to(missing_servers(crib.shelves), visit.caller.grants),
        "states": [*POLICIES, HELD] if visit.is_operator() else [Policy.ALLOW, Policy.ASK],
    }


def _row(pages: Pages, route: Route) -> dict[str, Any]:
    tally = pages.premises.crib.metrics.tools.get(route.name)
    return {
        "tool": listed_tool(pages.premises.crib, route),
        "href": tool_address(route.name),
        "about": _brief(route.tool.description),
        "calls": tally.executed if tally else 0,
        "health": tally.health if tally else "",
    }


def _brief(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= ABOUT else f"{line[:ABOUT].rsplit(' ', 1)[0]} …"


def render_tool(pages: Pages, visit: PageRequest, route: Route, trying: Trying, status: int = 200) -> HttpAnswer:
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
        story=crib.explain(route.name) if is_operator else None,
        change=change,
        changes=changes_between(change.old, change.new) if change else [],
        tally=tally,
        durations=_durations(tally.durations) if tally else ([], []),
        calls=[call_row(call, crib.live) for call in calls if may_see(visit, call)][:CALLS_SHOWN],
        trying=trying,
        can_run=decide(visit.caller.grants, route.reach) in (Decision.ALLOWED, Decision.ASK),
        asks=route.policy == Policy.ASK,
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


LARGEST_TRY = 200_000


def tool_deed_routes(pages: Pages) -> list[RouteSpec]:
    """The routes of what can be done."""

    async def attempt(visit: PageRequest) -> HttpAnswer:
        visit.need_known()
        _refuse_large(visit)
        route, sent = known_tool(pages.premises.crib, visit), visit.form()
        trying = read_try(route, sent)
        if trying.is_wrong:
            return render_tool(pages, visit, route, trying, 422)
        if sent.get("do") == "run":
            outcome = await run_try(pages.premises.crib, route, visit, trying.arguments)
            return render_tool(pages, visit, route, replace(trying, outcome=outcome))
        return render_tool(pages, visit, route, replace(trying, is_shown=True))

    async def set_policy(visit: PageRequest) -> HttpAnswer:
        visit.need_operator()
        name, policy = _any_tool(pages, visit), visit.form().get("policy", "")
        if policy not in POLICIES:
            raise HttpProblem(422, "TOOL_INVALID_INPUT", f"A policy is one of {', '.join(POLICIES)}.")
        caller, premises = visit.caller, pages.premises
        entry = AuditEntry("policy", name, caller=caller.id, caller_kind=caller.kind, decision=policy)
        await premises.crib.audit.commit(entry)
        await premises.project.set_policy(name, policy)
        route = premises.crib.lookup(name)
        holds = (route.policy if route is not None else Policy.DISABLE) == policy
        return go_on(tool_address(name), "policy" if holds else "policy_overruled", name)

    async def approve(visit: PageRequest) -> HttpAnswer:
        visit.need_operator()
        fields = visit.form()
        name, seen = visit.params["name"], fields.get("seen", "")
        await approve_tool(pages, visit, name, seen)
        place = "/approvals" if fields.get("next") == "approvals" else tool_address(name)
        return go_on(place, "accepted", name)

    return [
        RouteSpec("POST", "/tools/{name}/try", attempt),
        RouteSpec("GET", "/tools/{name}/try", _back),
        RouteSpec("POST", "/tools/{name}/policy", set_policy),
        RouteSpec("POST", "/tools/{name}/approve", approve),
    ]


def _refuse_large(visit: PageRequest) -> None:
    """What was sent is shown again, several times over; while that is made, nobody else is served."""
    if len(visit.request.body) > LARGEST_TRY:
        detail = "This is too much for the page. Call the tool over REST or with `toolcrib call`."
        raise HttpProblem(413, "HTTP_BODY_TOO_LARGE", detail)


async def _back(visit: PageRequest) -> HttpAnswer:
    """Whoever reloads what came of a form begins anew."""
    from toolcrib.server.answers import see_other

    return see_other(tool_address(visit.params["name"]))


def _any_tool(pages: Pages, visit: PageRequest) -> str:
    """The name of a tool that is there, or that a policy keeps away."""
    name, catalog = visit.params["name"], pages.premises.crib.catalog
    if name not in catalog.routes and name not in catalog.left_out:
        raise not_found("tool", name)
    return name


async def approve_tool(pages: Pages, visit: PageRequest, name: str, seen: str) -> None:
    """Accept a tool as it is now, if that is what was looked at."""
    crib = pages.premises.crib
    route = crib.lookup(name)
    if route is None or not route.held:
        raise not_found("tool in quarantine", name, "Somebody may have accepted it already.")
    if len(seen) < SEEN_LENGTH:
        raise HttpProblem(422, "TOOL_INVALID_INPUT", "Look at what changed first.")
    try:
        check_seen(crib, route, seen)
        await crib.servers.approve(name, by=visit.caller, still=lambda: check_seen(crib, route, seen))
    except PermissionDenied as error:
        raise HttpProblem(409, "HTTP_CONFLICT", str(error)) from None
