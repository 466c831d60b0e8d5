"""The tools: a list one can search, and everything about one of them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from toolcrib.calls.metrics import BOUNDS_S
from toolcrib.catalog.catalog import Route
from toolcrib.catalog.pins import FieldTrust
from toolcrib.core.access import NATIVE, Decision, decide, decided_by
from toolcrib.core.kinds import Policy
from toolcrib.core.offers import SecurityLevel
from toolcrib.schema.check import compile_check
from toolcrib.server.answers import HttpAnswer, HttpProblem, not_found, see_other, unfit
from toolcrib.server.rest.approvals import accept_offer
from toolcrib.server.views.caller import CallerView
from toolcrib.server.views.tools import SEEN_LENGTH
from toolcrib.server.visit import PageRequest
from toolcrib.server.web.call_rows import shown_call
from toolcrib.server.web.render import PageRoutes, Pages, go_on
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


ROUTES = PageRoutes()
CALLS_SHOWN = 10
ABOUT = 160
LARGEST_TRY = 200_000
POLICIES = tuple(Policy)
SHOWN = [policy for policy in POLICIES if decided_by(policy).is_listed]
"""Policies of the tools that somebody is shown who looks after nothing."""
_RULES: dict[str, Any] = {"policies": POLICIES}


@ROUTES.get("/tools")
async def _list(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_known()
    return pages.render(visit, "tools/list.html", **await _listed(visit))


async def _listed(visit: PageRequest) -> dict[str, Any]:
    view, wanted = visit.view, ToolFilter.of(visit)
    routes = view.tools()
    found = await find_tools(view, routes, wanted)
    last = max(1, -(-len(found) // PAGE))
    page = min(max(1, visit.number("page", 1, 100_000)), last)
    first = (page - 1) * PAGE
    hidden = view.catalog.left_out if view.is_operator and wanted.policy == Policy.DISABLE else {}
    return {
        "wanted": asdict(wanted),
        "is_filtered": not wanted.is_anything,
        "rows": [_row(view, route) for route in found[first : first + PAGE]],
        "hidden": [(name, _hidden_address(name), why.reason) for name, why in sorted(hidden.items())[:PAGE]],
        "first": first + 1,
        "total": len(found),
        "all": len(routes),
        "before": wanted.address(page - 1) if page > 1 else "",
        "after": wanted.address(page + 1) if page < last else "",
        "servers": sorted({route.server or NATIVE for route in routes}),
        "levels": [str(level) for level in SecurityLevel],
        "missing": view.missing(),
        "states": [*POLICIES, HELD] if view.is_operator else SHOWN,
    }


def _hidden_address(key: str) -> str:
    """Where somebody can see why it is hidden; what is no tool has no page of its own then."""
    return tool_address(key) if _is_tool(key) else "/settings/policies"


def _is_tool(key: str) -> bool:
    return " " not in key


def _row(view: CallerView, route: Route) -> dict[str, Any]:
    tally = view.tally(route.name)
    return {
        "tool": view.listed(route),
        "href": tool_address(route.name),
        "about": _brief(route.tool.description),
        "calls": tally.executed if tally else 0,
        "health": tally.health if tally else "",
    }


def _brief(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= ABOUT else f"{line[:ABOUT].rsplit(' ', 1)[0]} …"


@ROUTES.get("/tools/{name}")
async def _show(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_known()
    view, name = visit.view, visit.params["name"]
    if view.is_operator and _is_tool(name) and name in view.catalog.left_out and view.tool(name) is None:
        return pages.render(visit, "tools/left_out.html", name=name, story=view.explain(name), **_RULES)
    route = known_tool(visit)
    return render_tool(pages, visit, route, first_try(route, visit.query))


def render_tool(pages: Pages, visit: PageRequest, route: Route, trying: Trying, status: int = 200) -> HttpAnswer:
    """The page of one tool."""
    view, tool, served = visit.view, route.tool, visit.served
    shelf = view.shelf(route.server)
    tally = view.tally(route.name) if view.is_operator else None
    change = view.change(route) if view.is_operator and route.held else None
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
        accepted=view.detail(route).pin,
        story=view.explain(route.name),
        change=change,
        changes=changes_between(change.old, change.new) if change else [],
        tally=tally,
        durations=_durations(tally.durations) if tally else ([], []),
        calls=[shown_call(view, call) for call in view.calls(100, route.name)[:CALLS_SHOWN]],
        trying=trying,
        can_run=decide(visit.caller.grants, route.reach) in (Decision.ALLOWED, Decision.ASK),
        asks=decided_by(route.policy) is Decision.ASK,
        snippets=snippets(route.name, trying.arguments, served.url, needs_token=served.needs_token),
        snippets_open=status == 200 and trying.is_shown,
        **_RULES,
    )


def _hints(route: Route) -> list[str]:
    words = {"readOnlyHint": "reads only", "destructiveHint": "may destroy", "idempotentHint": "may be repeated"}
    said = [text for key, text in words.items() if route.tool.annotations.get(key) is True]
    return [*said, *(["talks to the outside world"] if route.tool.annotations.get("openWorldHint") is True else [])]


def _durations(counts: list[int]) -> tuple[list[int], list[str]]:
    """How long calls took, from the first class that has any to the last."""
    labels = [*(f"up to {_short(bound)}" for bound in BOUNDS_S), f"over {_short(BOUNDS_S[-1])}"]
    used = [place for place, count in enumerate(counts) if count]
    if not used:
        return [], []
    first, last = max(0, used[0] - 1), min(len(counts), used[-1] + 2)
    return counts[first:last], labels[first:last]


def _short(seconds: float) -> str:
    return f"{seconds * 1000:g} ms" if seconds < 1 else f"{seconds:g} s"


@ROUTES.post("/tools/{name}/try")
async def _try(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_known()
    if len(visit.request.body) > LARGEST_TRY:
        # What was sent is shown again, several times over; while that is made, nobody else is served.
        detail = "This is too much for the page. Call the tool over REST or with `toolcrib call`."
        raise HttpProblem(413, "HTTP_BODY_TOO_LARGE", detail)
    route, sent = known_tool(visit), visit.form()
    trying = read_try(route, sent)
    if trying.is_wrong:
        return render_tool(pages, visit, route, trying, 422)
    if sent.get("do") != "run":
        return render_tool(pages, visit, route, replace(trying, is_shown=True))
    ran = await visit.view.run(route.name, trying.arguments)
    outcome = outcome_of(ran.result, ran.duration_s, ran.call.id)
    return render_tool(pages, visit, route, replace(trying, outcome=outcome))


@ROUTES.get("/tools/{name}/try")
async def _back(_: Pages, visit: PageRequest) -> HttpAnswer:
    """Whoever reloads what came of a form begins anew."""
    return see_other(tool_address(visit.params["name"]))


@ROUTES.post("/tools/{name}/policy")
async def _set_policy(_: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    view, name, policy = visit.view, visit.params["name"], visit.form().get("policy", "")
    if not _is_tool(name) or (view.tool(name) is None and name not in view.catalog.left_out):
        raise not_found("tool", name)
    if policy not in POLICIES:
        raise unfit(f"A policy is one of {', '.join(POLICIES)}.")
    await view.set_policy(name, policy)
    route = view.tool(name)
    holds = (route.policy if route is not None else Policy.DISABLE) == policy
    return go_on(tool_address(name), "policy" if holds else "policy_overruled", name)


@ROUTES.post("/tools/{name}/approve")
async def _approve(_: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    fields, name = visit.form(), visit.params["name"]
    seen = fields.get("seen", "")
    route = visit.view.tool(name)
    if route is not None and route.held and len(seen) < SEEN_LENGTH:
        raise unfit("Look at what changed first.")
    await accept_offer(visit, name, seen, "Somebody may have accepted it already.", trust_of(fields))
    return go_on("/approvals" if fields.get("next") == "approvals" else tool_address(name), "accepted", name)


def trust_of(fields: Fields) -> FieldTrust:
    """Which fields a form says shall count no more, or again."""
    more, fewer = fields.get("trust"), fields.get("distrust")
    return FieldTrust((more,) if more else (), (fewer,) if fewer else ())
