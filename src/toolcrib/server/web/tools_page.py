"""The tools: a list one can search, and everything about one of them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from toolcrib.catalog.accounting import place_of
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
    with_row,
    with_suggestions,
)
from toolcrib.server.web.schema_parts import as_json, parameter_rows
from toolcrib.server.web.server_rows import missing_rows
from toolcrib.server.web.tool_result import ShownResult, TriedCall, outcome_of, shortened, snippets
from toolcrib.server.web.tool_rows import (
    HELD,
    PAGE,
    ToolFilter,
    changes_between,
    chosen_tools,
    find_tools,
    known_tool,
    tool_address,
)
from toolcrib.server.web.words import count


@dataclass(frozen=True, slots=True)
class Trying:
    """What stands on the part of the page where a tool is tried."""

    form: tuple[FormField, ...] = ()
    text: str = ""
    """What stands in the JSON editor."""
    tab: str = "form"
    """``form``, ``json`` or ``schema``."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    """What is wrong and belongs to no field."""
    is_wrong: bool = False
    is_shown: bool = False
    """Whether the call is wanted as code."""
    outcome: ShownResult | None = None


TABS = ("form", "json", "schema")


def first_try(route: Route, query: Mapping[str, str], again: Sequence[TriedCall] = ()) -> Trying:
    """The form as it is at first: with the arguments of a call to be made again, with an example, or the defaults."""
    schema, examples = _schema_of(route), route.tool.examples
    chosen = query.get("example", "0")
    place = int(chosen) if chosen.isascii() and chosen.isdigit() and len(chosen) < 4 else 0
    values = dict(examples[place].arguments) if place < len(examples) else first_values(schema)
    values = next((dict(tried.arguments) for tried in again if tried.id == query.get("again")), values)
    tab = query.get("as", "")
    return Trying(make_form(schema, values), as_json(values), tab if tab in TABS else TABS[0], values)


def _schema_of(route: Route) -> Mapping[str, Any]:
    return with_suggestions(route.tool.input_schema, route.tool.completions)


def read_try(route: Route, sent: Fields) -> Trying:
    """What was sent, as arguments or with what is wrong."""
    schema, is_json = _schema_of(route), sent.get("as") == "json"
    if is_json:
        text = sent.get("json", "")
        arguments, wrong = read_object(text)
        problems: dict[Path, str] = {(): wrong} if wrong else _misfits(route, arguments)
        said = tuple(_said(path, words) for path, words in problems.items())
        return Trying(make_form(schema, arguments), text, "json", arguments, said, bool(problems))
    form = refill(make_form(schema, {}), sent)
    arguments, problems = read_form(form)
    known = paths_of(form)
    found = problems or _misfits(route, arguments)
    problems = {_nearest(path, known): words for path, words in reversed(found.items())}
    placed = with_problems(form, problems)
    elsewhere = tuple(_said(path, words) for path, words in problems.items() if path not in known)
    return Trying(placed, as_json(arguments), "form", arguments, elsewhere, bool(problems))


def _nearest(path: Path, known: frozenset[Path]) -> Path:
    """The field a problem is told at: its own, or the one around it."""
    around = [path[:length] for length in range(len(path), 0, -1) if path[:length] in known]
    return around[0] if around else path


def _said(path: Path, words: str) -> str:
    return f"{'.'.join(path)}: {words}" if path else words


def _misfits(route: Route, arguments: Mapping[str, Any]) -> dict[Path, str]:
    """Where the arguments do not fit the schema."""
    found: dict[Path, str] = {}
    check = compile_check(route.tool.input_schema)
    if not check.is_quick_for(arguments):  # the call itself will tell
        return found
    for problem in check.problems(dict(arguments)):
        found.setdefault(tuple(map(str, problem.path)), f"{problem.message[:1].upper()}{problem.message[1:]}.")
    return found


ROUTES = PageRoutes()
CALLS_SHOWN = 10
ABOUT = 160
LARGEST_TRY = 200_000
ADD = "add "
"""Before the name of a list that shall have one more row."""
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
        "groups": _grouped([_row(view, route) for route in found[first : first + PAGE]]),
        "shown": min(PAGE, max(0, len(found) - first)),
        "hidden": [(name, _hidden_address(name), why.reason) for name, why in sorted(hidden.items())[:PAGE]],
        "first": first + 1,
        "total": len(found),
        "all": len(routes),
        "before": wanted.address(page - 1) if page > 1 else "",
        "after": wanted.address(page + 1) if page < last else "",
        "servers": sorted({route.server or NATIVE for route in routes}),
        "levels": [str(level) for level in SecurityLevel],
        "missing": missing_rows(view),
        "policies": POLICIES,
        "states": [*POLICIES, HELD] if view.is_operator else SHOWN,
    }


def _grouped(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """Rows by what they are counted under, in the order in which each first occurs."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["place"], []).append(row)
    return list(groups.items())


def _hidden_address(key: str) -> str:
    """Where somebody can see why it is hidden; what is no tool has no page of its own then."""
    return tool_address(key) if _is_tool(key) else "/settings/policies"


def _is_tool(key: str) -> bool:
    return " " not in key


def _row(view: CallerView, route: Route) -> dict[str, Any]:
    tally = view.tally(route.name)
    return {
        "tool": view.listed(route),
        "place": place_of(route),
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
    tried = pages.tried.of(visit.caller.id, route.name)
    return render_tool(pages, visit, route, first_try(route, visit.query, tried))


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
        calls=[shown_call(view, call) for call in view.calls(100, route.name)[:CALLS_SHOWN]],
        again={tried.id for tried in pages.tried.of(visit.caller.id, route.name)},
        running=[],
        trying=trying,
        can_run=decide(visit.caller.grants, route.reach) in (Decision.ALLOWED, Decision.ASK),
        asks=decided_by(route.policy) is Decision.ASK,
        snippets=snippets(route.name, trying.arguments, served.url, needs_token=served.needs_token),
        snippets_open=status == 200 and trying.is_shown,
        **_RULES,
    )


def _hints(route: Route) -> list[str]:
    words = {"readOnlyHint": "reads only", "destructiveHint": "may destroy", "idempotentHint": "may be repeated"}
    if route.tool.security_level is SecurityLevel.READ_ONLY:
        del words["readOnlyHint"]  # the level says it
    said = [text for key, text in words.items() if route.tool.annotations.get(key) is True]
    return [*said, *(["talks to the outside world"] if route.tool.annotations.get("openWorldHint") is True else [])]


@ROUTES.post("/tools/{name}/try")
async def _try(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_known()
    if len(visit.request.body) > LARGEST_TRY:
        # What was sent is shown again, several times over; while that is made, nobody else is served.
        detail = "This is too much for the page. Call the tool over REST or with `toolcrib call`."
        raise HttpProblem(413, "HTTP_BODY_TOO_LARGE", detail)
    route, sent = known_tool(visit), visit.form()
    trying, wish = read_try(route, sent), sent.get("do", "")
    if wish.startswith(ADD):
        more = with_row(refill(make_form(route.tool.input_schema, {}), sent), wish.removeprefix(ADD))
        return render_tool(pages, visit, route, Trying(more, trying.text, arguments=trying.arguments))
    if trying.is_wrong:
        return render_tool(pages, visit, route, trying, 422)
    if wish != "run":
        return render_tool(pages, visit, route, replace(trying, is_shown=True))
    ran = await visit.view.run(route.name, trying.arguments, hear=pages.tried.hear)
    outcome = outcome_of(ran.result, ran.duration_s, ran.call.id)
    pages.tried.keep(TriedCall(ran.call.id, route.name, visit.caller.id, trying.arguments))
    return render_tool(pages, visit, route, replace(trying, outcome=outcome))


@ROUTES.get("/tools/{name}/running")
async def _running(pages: Pages, visit: PageRequest) -> HttpAnswer:
    """The visitor's own calls of a tool that run right now: how far each is, and a way to end it."""
    visit.need_known()
    view, route = visit.view, known_tool(visit)
    own = [call for call in view.calls(100, route.name) if call.is_running and call.caller == visit.caller.id]
    running = [(shown_call(view, call), pages.tried.progress.get(call.id)) for call in own]
    return pages.render(visit, "tools/running.html", running=running, name=route.name)


@ROUTES.post("/tools/policies")
async def _set_policies(_: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    policy, names = visit.form().get("policy", ""), chosen_tools(visit)
    if policy not in POLICIES or not names:
        raise unfit("Choose at least one tool, and a policy for them.")
    await visit.view.set_policy(policy, *names)
    return go_on("/tools", "policies", count(len(names), "tool"))


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
    await view.set_policy(policy, name)
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
