"""Live calls: those under way and the last that ended, as they come."""

from dataclasses import asdict
from typing import Any

from toolcrib.calls.live import LiveCall
from toolcrib.core.events import CALL, MISSED, News
from toolcrib.server.answers import HttpAnswer, HttpProblem, not_found
from toolcrib.server.router import RouteSpec
from toolcrib.server.visit import PageRequest
from toolcrib.server.web.call_rows import FAILED, RUNNING, CallFilter, call_row, may_see, waterfall
from toolcrib.server.web.render import Pages, go_on, stream_news

SHOWN = 100
REMEMBERED = 1_000


def calls_routes(pages: Pages) -> list[RouteSpec]:
    """The routes of the calls."""

    async def ls(visit: PageRequest) -> HttpAnswer:
        visit.need_known()
        return pages.render(visit, "calls/list.html", **_listed(pages, visit))

    async def stream(visit: PageRequest) -> HttpAnswer | None:
        visit.need_known()

        def concerns(news: News) -> bool:
            return news.topic == MISSED or visit.is_operator() or news.data.get("caller") == visit.caller.id

        return await stream_news(pages, visit, frozenset({CALL}), concerns)

    async def show(visit: PageRequest) -> HttpAnswer:
        call = _known_call(pages, visit)
        row = call_row(call, pages.premises.crib.live)
        return pages.render(
            visit,
            "calls/show.html",
            call=call,
            row=row,
            fall=waterfall(call, row["duration_s"] * 1000),
        )

    async def cancel(visit: PageRequest) -> HttpAnswer:
        call, live = _known_call(pages, visit), pages.premises.crib.live
        if live is None or not live.cancel(call.id):
            raise HttpProblem(409, "HTTP_CONFLICT", "This call has ended already.")
        place = "/calls" if visit.form().get("next") == "list" else f"/calls/{call.id}"
        return go_on(place, "ended", call.tool)

    return [
        RouteSpec("GET", "/calls", ls),
        RouteSpec("GET", "/calls/stream", stream),
        RouteSpec("GET", "/calls/{id}", show),
        RouteSpec("POST", "/calls/{id}/cancel", cancel),
    ]


def _listed(pages: Pages, visit: PageRequest) -> dict[str, Any]:
    live, wanted = pages.premises.crib.live, CallFilter.of(visit)
    seen = [call for call in live.recent(REMEMBERED) if may_see(visit, call)] if live is not None else []
    found = [call for call in seen if wanted.fits(call)]
    codes = sorted({call.outcome for call in seen if call.outcome not in ("", "success")})
    return {
        "wanted": asdict(wanted),
        "address": wanted.address,
        "is_filtered": wanted != CallFilter(),
        "running": [call_row(call, live) for call in found if call.is_running][:SHOWN],
        "ended": [call_row(call, live) for call in found if not call.is_running][:SHOWN],
        "total": len(found),
        "is_watching": live is not None,
        "servers": sorted({call.server for call in seen if call.server}),
        "callers": sorted({call.caller for call in seen}),
        "outcomes": [RUNNING, "success", FAILED, *codes],
    }


def _known_call(pages: Pages, visit: PageRequest) -> LiveCall:
    visit.need_known()
    live = pages.premises.crib.live
    call = live.find(visit.params["id"]) if live is not None else None
    if call is None or not may_see(visit, call):
        raise not_found("call", visit.params["id"], "Only the latest are remembered; the audit log has the others.")
    return call
