"""All addresses of the page, as one list of routes."""

import asyncio
from collections.abc import Iterator
from itertools import islice
from urllib.parse import quote, urlencode

from toolcrib.core.events import Emit, Event
from toolcrib.core.offers import OfferKind
from toolcrib.core.tasks import TaskScope
from toolcrib.server.answers import HTML, TITLES, HttpAnswer, HttpProblem, json_answer, see_other
from toolcrib.server.identity.sign_in import SAFE
from toolcrib.server.router import Entering, Router, RouteSpec, Threshold, wanted_place
from toolcrib.server.router import Respond as Answer
from toolcrib.server.views.costs import RecentUsage
from toolcrib.server.visit import NOT_CONFIRMED, PageRequest, ServedProject
from toolcrib.server.web import (
    approvals_page,
    audit_page,
    calls_page,
    connect_page,
    consent_page,
    costs_page,
    kb_page,
    oauth_page,
    offers_page,
    server_form_page,
    servers_page,
    settings_page,
    tools_page,
)
from toolcrib.server.web.overview_page import Samples, overview_routes
from toolcrib.server.web.render import PLACES, PageRoutes, Pages, Respond, compile_templates
from toolcrib.server.web.sign_in_page import session_routes, sign_in_routes
from toolcrib.server.web.static_files import accepts_gzip, finish, load_static_files
from toolcrib.server.web.tool_rows import offer_address, tool_address
from toolcrib.transports.http.server import Exchange, HttpRequest

ROUTES = PageRoutes()
MOST = 12
FEWEST_LETTERS = 4


@ROUTES.get("/palette.json")
async def _find_anything(_: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_known()
    wanted = visit.word("q", 100).lower()
    found = list(islice(_named(visit, wanted), MOST))
    return json_answer([*found, *await _meant(visit, wanted, found)])


def _named(visit: PageRequest, wanted: str) -> Iterator[dict[str, str]]:
    view = visit.view
    for place in PLACES:
        if wanted in place.name.lower() and (view.is_operator or not place.for_operators):
            yield {"name": place.name, "kind": "page", "href": place.path}
    if view.is_operator and wanted:
        for name in view.server_names():
            if wanted in name.lower():
                yield {"name": name, "kind": "server", "href": f"/servers/{quote(name, safe='')}"}
    if wanted:
        for route in view.usable():
            if wanted in route.name.lower():
                yield _tool(route.name)
        yield from _others(visit, wanted)


def _others(visit: PageRequest, wanted: str) -> Iterator[dict[str, str]]:
    for route in visit.view.catalog.others_visible_to(visit.caller.grants):
        shown = route.name if route.offer.kind is OfferKind.PROMPT else route.uri
        if wanted in shown.lower():
            yield {"name": shown, "kind": str(route.offer.kind), "href": offer_address(route.reach.key)}


async def _meant(visit: PageRequest, wanted: str, found: list[dict[str, str]]) -> list[dict[str, str]]:
    """Tools for what was typed, where there is room; a word of few letters says too little."""
    room, named = MOST - len(found), {entry["name"] for entry in found}
    if len(wanted) < FEWEST_LETTERS or not room:
        return []
    others = [route for route in visit.view.usable() if route.name not in named]
    return [_tool(hit.route.name) for hit in await visit.view.find(wanted, room, others)]


def _tool(name: str) -> dict[str, str]:
    return {"name": name, "kind": "tool", "href": tool_address(name)}


@ROUTES.get("/static/{version}/{path...}")
async def _static(_: Pages, visit: PageRequest) -> HttpAnswer:
    return load_static_files().answer(visit.params["version"], visit.params["path"], packed=accepts_gzip(visit))


@ROUTES.get("/favicon.ico")
async def _favicon(_: Pages, visit: PageRequest) -> HttpAnswer:
    return load_static_files().answer("", "icon.svg", packed=accepts_gzip(visit))


@ROUTES.get("/{path...}")
async def _nothing(_: Pages, visit: PageRequest) -> HttpAnswer:
    raise HttpProblem(404, "HTTP_NOT_FOUND", f"There is nothing at /{visit.params['path']}.")


FIXED = (
    ROUTES,
    servers_page.ROUTES,
    server_form_page.ROUTES,
    oauth_page.ROUTES,
    connect_page.ROUTES,
    costs_page.ROUTES,
    consent_page.ROUTES,
    settings_page.ROUTES,
    tools_page.ROUTES,
    offers_page.ROUTES,
    calls_page.ROUTES,
    approvals_page.ROUTES,
    audit_page.ROUTES,
    kb_page.ROUTES,
)
"""The pages of every site; a new one is added here. The others remember something of their own."""


class WebPages(Router):
    """The page, with what it does beside answering."""

    def __init__(self, served: ServedProject, entering: Entering, emit: Emit) -> None:
        self.pages = Pages(served)
        self._beside = TaskScope(lambda name, error: emit(Event(f"{name}.failed", "error", {"error": repr(error)})))
        samples = Samples(served.project.crib.metrics)
        recent = RecentUsage(lambda: served.project.audit_log, self._beside)
        every = (*FIXED, overview_routes(samples, recent), sign_in_routes(), session_routes())
        routes = [
            RouteSpec(method, path, self._guarded(respond)) for one in every for method, path, respond in one.routes
        ]
        self.pages.paths = frozenset(route.path for route in routes if route.method == "GET")
        super().__init__(routes, Threshold(entering, is_open), emit, show=self._show_problem, served=served)
        self._beside.spawn(samples.run(), "web.samples")
        self._is_warming, self._warm = False, asyncio.Event()

    def handle(self, request: HttpRequest, exchange: Exchange) -> None:
        """Take one HTTP request; the first one has all templates compiled, so that no later one waits for that."""
        if not self._is_warming:
            self._is_warming = True
            self._beside.spawn(self._compile(), "web.warm")
        super().handle(request, exchange)

    async def _compile(self) -> None:
        """In a thread, and nobody is answered before: on the loop it would hold up every call for as long."""
        try:
            await asyncio.to_thread(compile_templates)
        finally:
            self._warm.set()

    async def _answer(self, request: HttpRequest, exchange: Exchange) -> None:
        await self._warm.wait()
        await super()._answer(request, exchange)

    async def close(self) -> None:
        """End what is still being answered, and what runs beside it."""
        await self._beside.close()
        await super().close()

    def _guarded(self, respond: Respond) -> Answer:
        async def guarded(visit: PageRequest) -> HttpAnswer | None:
            answer = await respond(self.pages, visit)
            return finish(visit, answer) if answer is not None else None

        return guarded

    def _show_problem(self, visit: PageRequest | None, problem: HttpProblem) -> HttpAnswer:
        return finish(visit, show_problem(self.pages, visit, problem))


def is_open(path: bytes) -> bool:
    """What everybody may see: the way in, and the files that make it look like something."""
    return path in (b"/signin", b"/invite", b"/favicon.ico", *oauth_page.OPEN) or path.startswith(b"/static/")


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
    wanted = wanted_place(visit.request) if visit.request.method in SAFE else path if path in pages.paths else "/"
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
