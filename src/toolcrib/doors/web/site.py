"""All addresses of the page, as one list of routes."""

from toolcrib.core.events import Emit
from toolcrib.doors.http.answers import HTML, Answer, Problem, see_other
from toolcrib.doors.http.entering import Entering
from toolcrib.doors.http.premises import Premises
from toolcrib.doors.http.router import Router, RouteSpec
from toolcrib.doors.http.visit import Visit


def web_router(premises: Premises, entering: Entering, emit: Emit) -> Router:
    """The page."""
    return Router(web_routes(premises), entering, emit, show=show_problem)


def web_routes(premises: Premises) -> list[RouteSpec]:
    """The routes of the page."""
    del premises
    return [RouteSpec("GET", "/", _overview)]


async def _overview(visit: Visit) -> Answer:
    del visit
    return Answer(200, b"toolcrib", HTML)


def show_problem(visit: Visit | None, problem: Problem) -> Answer:
    """A problem as a page; whoever is not signed in is sent to where that can be done."""
    del visit
    return see_other("/signin") if problem.status == 401 else Answer(problem.status, problem.detail.encode(), HTML)
