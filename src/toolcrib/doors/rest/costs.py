"""What the tools cost in tokens over REST; what of it is used is told to those who may see the tallies."""

import asyncio

from toolcrib.core.access import AUDIT, METRICS
from toolcrib.doors.http.answers import Answer, json_answer
from toolcrib.doors.http.premises import Premises
from toolcrib.doors.http.router import RouteSpec
from toolcrib.doors.http.visit import Visit
from toolcrib.doors.rest.about import About, Param, count
from toolcrib.doors.rest.cost_shapes import CostReport
from toolcrib.doors.views.costs import DAYS, Asked, cost_report, profiles_of, usage_of
from toolcrib.stores.audit_usage import Usage

PATH = "/api/v1/costs"
MOST_DAYS = 3650
MOST_PAIRS = 50


def cost_routes(premises: Premises) -> list[RouteSpec]:
    """The one route."""

    async def show(visit: Visit) -> Answer:
        days = max(1, visit.number("days", DAYS, MOST_DAYS))
        pairs = visit.number("pairs", 0, MOST_PAIRS)
        if pairs:
            visit.need_known()
        usage = await _usage(premises, visit, days)
        routes = premises.crib.catalog.visible_to(visit.caller.grants)
        profiles = profiles_of(premises.crib.catalog, premises.project.config.profiles, visit.caller.grants)
        asked = Asked(days, usage, profiles, pairs)
        return json_answer(await asyncio.to_thread(cost_report, routes, asked))

    detail = (
        "Of the tools the caller may use. `usage`, `calls` and `proposal` are for operators and for tokens with the "
        "capability `audit` or `metrics`, `null` for others; `pairs` needs a token."
    )
    about = About(
        "Show what the tools cost in tokens", "tools", CostReport, detail, params=PARAMS, problems=(422,), is_open=True
    )
    return [RouteSpec("GET", PATH, show, about)]


PARAMS = (
    Param("days", "how far back to look for calls", count(DAYS)),
    Param("pairs", f"how many pairs of tools to name that are easily confused, up to {MOST_PAIRS}", count(0)),
)


async def _usage(premises: Premises, visit: Visit, days: int) -> Usage | None:
    granted = visit.caller.grants.capabilities or ()
    if visit.is_operator() or (visit.is_known and (AUDIT in granted or METRICS in granted)):
        return await asyncio.to_thread(usage_of, premises.project.audit_log, days)
    return None
