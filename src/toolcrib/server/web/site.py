"""All addresses of the page, as one list of routes."""

import asyncio
from collections.abc import Iterable, Iterator
from itertools import islice
from urllib.parse import quote, urlencode

from toolcrib.core.events import Emit, Event
from toolcrib.core.tasks import TaskScope
from toolcrib.server.answers import HTML, TITLES, HttpAnswer, HttpProblem, json_answer, see_other
from toolcrib.server.identity.sign_in import SAFE
from toolcrib.server.router import Entering, Respond, Router, RouteSpec, Threshold
from toolcrib.server.views.costs import RecentUsage
from toolcrib.server.visit import NOT_CONFIRMED, PageRequest, ServedProject
from toolcrib.server.web.approvals_page import approvals_routes
from toolcrib.server.web.audit_page import audit_routes
from toolcrib.server.web.calls_page import calls_routes
from toolcrib.server.web.connect_page import connect_routes, import_routes
from toolcrib.server.web.kb_page import kb_routes
from toolcrib.server.web.overview_page import Samples, overview_routes
from toolcrib.server.web.render import PLACES, Pages, compile_templates, me_of
from toolcrib.server.web.server_form_page import form_routes
from toolcrib.server.web.servers_page import deed_routes, servers_routes
from toolcrib.server.web.settings_page import settings_routes, token_routes
from toolcrib.server.web.sign_in_page import session_routes, sign_in_routes
from toolcrib.server.web.static_files import accepts_gzip, finish
from toolcrib.server.web.tools_page import tool_deed_routes, tools_routes
from toolcrib.transports.http.server import Exchange, Request


def work_routes(pages: Pages) -> list[RouteSpec]:
    """Their routes."""
    return [
        *tools_routes(pages),
        *tool_deed_routes(pages),
        *calls_routes(pages),
        *approvals_routes(pages),
        *audit_routes(pages),
        *kb_routes(pages),
    ]


MOST = 12
FEWEST_LETTERS = 4


def palette_routes(pages: Pages) -> list[RouteSpec]:
    """The one address the palette asks."""

    async def look(visit: PageRequest) -> HttpAnswer:
        visit.need_known()
        wanted = visit.query.get("q", "").strip().lower()[:100]
        found = list(islice(_find(pages, visit, wanted), MOST))
        return json_answer([*found, *await _meant(pages, visit, wanted, found)])

    return [RouteSpec("GET", "/palette.json", look)]


def _find(pages: Pages, visit: PageRequest, wanted: str) -> Iterator[dict[str, str]]:
    is_operator, crib = me_of(visit).is_operator, pages.premises.crib
    for place in PLACES:
        if place.path in pages.paths and wanted in place.name.lower() and (is_operator or not place.for_operators):
            yield {"name": place.name, "kind": "page", "href": place.path}
    if is_operator and wanted:
        for name in sorted((*crib.shelves, *crib.disabled)):
            if wanted in name.lower():
                yield {"name": name, "kind": "server", "href": f"/servers/{quote(name, safe='')}"}
    if "/tools/{name}" in pages.paths and wanted:
        for route in crib.catalog.visible_to(visit.caller.grants):
            if wanted in route.name.lower():
                yield _tool(route.name)


async def _meant(pages: Pages, visit: PageRequest, wanted: str, found: list[dict[str, str]]) -> list[dict[str, str]]:
    """Tools for what was typed, where there is room; a word of few letters says too little."""
    room = MOST - len(found)
    if "/tools/{name}" not in pages.paths or len(wanted) < FEWEST_LETTERS or not room:
        return []
    crib, named = pages.premises.crib, {entry["name"] for entry in found}
    others = [route for route in crib.catalog.visible_to(visit.caller.grants) if route.name not in named]
    return [_tool(hit.route.name) for hit in await crib.find(wanted, room, among=others)]


def _tool(name: str) -> dict[str, str]:
    return {"name": name, "kind": "tool", "href": f"/tools/{quote(name, safe='')}"}


class WebPages(Router):
    """The page, with what it does beside answering."""

    def __init__(self, premises: ServedProject, entering: Entering, emit: Emit) -> None:
        self.pages = Pages(premises)
        self._beside = TaskScope(lambda name, error: emit(Event(f"{name}.failed", "error", {"error": repr(error)})))
        samples = Samples(premises.crib.metrics)
        recent = RecentUsage(lambda: premises.project.audit_log, self._beside)
        routes = [*web_routes(self.pages, samples, recent), *_fixed_routes(self.pages)]
        self.pages.paths = frozenset(route.path for route in routes if route.method == "GET")
        super().__init__(_finished(routes), Threshold(entering, is_open), emit, show=self._show_problem)
        self._beside.spawn(samples.run(), "web.samples")
        self._is_warming, self._warm = False, asyncio.Event()

    def handle(self, request: Request, exchange: Exchange) -> None:
        """Take one HTTP request; the first one has all templates compiled, so that no later one waits for that."""
        if not self._is_warming:
            self._is_warming = True
            self._beside.spawn(self._compile(), "web.warm")
        super().handle(request, exchange)

    async def _compile(self) -> None:
        """In a thread, and nobody is answered before: on the loop it would hold up every call for as long."""
        try:
            await asyncio.to_thread(lambda: compile_templates(self.pages.environment))
        finally:
            self._warm.set()

    async def _answer(self, request: Request, exchange: Exchange) -> None:
        await self._warm.wait()
        await super()._answer(request, exchange)

    async def close(self) -> None:
        """End what is still being answered, and what runs beside it."""
        await self._beside.close()
        await super().close()

    def _show_problem(self, visit: PageRequest | None, problem: HttpProblem) -> HttpAnswer:
        return finish(visit, show_problem(self.pages, visit, problem))


def web_router(premises: ServedProject, entering: Entering, emit: Emit) -> Router:
    """The page."""
    return WebPages(premises, entering, emit)


def web_routes(pages: Pages, samples: Samples, recent: RecentUsage) -> list[RouteSpec]:
    """Every page; a new one is added here."""
    return [
        *sign_in_routes(pages),
        *palette_routes(pages),
        *overview_routes(pages, samples, recent),
        *servers_routes(pages),
        *deed_routes(pages),
        *form_routes(pages),
        *import_routes(pages),
        *connect_routes(pages),
        *settings_routes(pages),
        *token_routes(pages),
        *session_routes(pages),
        *work_routes(pages),
    ]


def is_open(path: bytes) -> bool:
    """What everybody may see: the way in, and the files that make it look like something."""
    return path in (b"/signin", b"/favicon.ico") or path.startswith(b"/static/")


def _fixed_routes(pages: Pages) -> list[RouteSpec]:
    async def static(visit: PageRequest) -> HttpAnswer:
        return pages.static.answer(visit.params["version"], visit.params["path"], packed=accepts_gzip(visit))

    async def favicon(visit: PageRequest) -> HttpAnswer:
        return pages.static.answer("", "icon.svg", packed=accepts_gzip(visit))

    async def nothing(visit: PageRequest) -> HttpAnswer:
        raise HttpProblem(404, "HTTP_NOT_FOUND", f"There is nothing at /{visit.params['path']}.")

    return [
        RouteSpec("GET", "/static/{version}/{path...}", static),
        RouteSpec("GET", "/favicon.ico", favicon),
        RouteSpec("GET", "/{path...}", nothing),
    ]


def _finished(routes: Iterable[RouteSpec]) -> list[RouteSpec]:
    return [RouteSpec(route.method, route.path, _guarded(route.respond), route.about) for route in routes]


def _guarded(respond: Respond) -> Respond:
    async def guarded(visit: PageRequest) -> HttpAnswer | None:
        answer = await respond(visit)
        return finish(visit, answer) if answer is not None else None

    return guarded


def show_problem(pages: Pages, visit: PageRequest | None, problem: HttpProblem) -> HttpAnswer:
    """A problem as a page; whoever is not signed in is sent to where that can be done."""
    if problem.status == 401:
        return _to_sign_in(problem)
    if problem.code == NOT_CONFIRMED and visit is not None:
        return _to_question(pages, visit)
    values = {
        "title": TITLES.get(problem.status, "Error"),
        "problem": problem,
        "advice": ADVICE.get(problem.status, ""),
    }
    if visit is None or not visit.is_known:
        return pages.render_bare("problem.html", status=problem.status, **values)
    return pages.render(visit, "problem.html", status=problem.status, **values)


def _to_sign_in(problem: HttpProblem) -> HttpAnswer:
    wanted = problem.more.get("wanted", "/")
    place = "/signin" if wanted == "/" else f"/signin?{urlencode({'next': wanted})}"
    if problem.more.get("is_fragment"):
        return HttpAnswer(204, b"", HTML, ((b"hx-redirect", b"/signin"),))
    return see_other(place)


def _to_question(pages: Pages, visit: PageRequest) -> HttpAnswer:
    """Have whoever is signed in say that it is them; a form that was sent is not sent again."""
    path = visit.request.path.decode("latin-1")
    wanted = path if visit.request.method in SAFE or path in pages.paths else "/"
    place = f"/confirm?{urlencode({'next': wanted})}"
    if visit.request.header(b"hx-request") is not None:
        return HttpAnswer(204, b"", HTML, ((b"hx-redirect", place.encode()),))
    return see_other(place)


ADVICE = {
    403: "Go back and try again. If that does not help, sign in with a token that may do more.",
    404: "Check the address, or find what you look for in the navigation.",
    405: "Go back and use the buttons of the page.",
    409: "Reload the page to see how things stand now.",
    422: "Go back and change what you entered.",
    429: "Wait a moment, then try again.",
    500: "The log of toolcrib has the details. Reload the page to try again.",
    503: "Wait a moment, then try again.",
}
