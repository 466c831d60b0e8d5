"""Live calls: those under way and the last that ended, as they come."""

from dataclasses import asdict
from typing import Any

from toolcrib.core.events import CALL, MISSED, News
from toolcrib.server.answers import HttpAnswer
from toolcrib.server.rest.calls import cancel_call, known_call
from toolcrib.server.visit import PageRequest
from toolcrib.server.web.call_rows import FAILED, RUNNING, CallFilter, shown_call, waterfall
from toolcrib.server.web.render import PageRoutes, Pages, go_on, stream_news

ROUTES = PageRoutes()
SHOWN = 100
REMEMBERED = 1_000
HINT = "Only the latest are remembered; the audit log has the others."


@ROUTES.get("/calls")
async def _list(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_known()
    return pages.render(visit, "calls/list.html", **_listed(visit))


def _listed(visit: PageRequest) -> dict[str, Any]:
    view, wanted = visit.view, CallFilter.of(visit)
    seen = view.calls(REMEMBERED)
    found = [call for call in seen if wanted.fits(call)]
    codes = sorted({call.outcome for call in seen if call.outcome not in ("", "success")})
    return {
        "wanted": asdict(wanted),
        "address": wanted.address,
        "is_filtered": wanted != CallFilter(),
        "running": [shown_call(view, call) for call in found if call.is_running][:SHOWN],
        "ended": [shown_call(view, call) for call in found if not call.is_running][:SHOWN],
        "total": len(found),
        "is_watching": view.is_watching,
        "servers": sorted({call.server for call in seen if call.server}),
        "callers": sorted({call.caller for call in seen}),
        "outcomes": [RUNNING, "success", FAILED, *codes],
    }


@ROUTES.get("/calls/stream")
async def _stream(_: Pages, visit: PageRequest) -> HttpAnswer | None:
    visit.need_known()

    def concerns(news: News) -> bool:
        return news.topic == MISSED or visit.is_operator() or news.data.get("caller") == visit.caller.id

    return await stream_news(visit, frozenset({CALL}), concerns)


@ROUTES.get("/calls/{id}")
async def _show(pages: Pages, visit: PageRequest) -> HttpAnswer:
    call = shown_call(visit.view, known_call(visit, HINT))
    return pages.render(visit, "calls/show.html", call=call, fall=waterfall(call))


@ROUTES.post("/calls/{id}/cancel")
async def _cancel(_: Pages, visit: PageRequest) -> HttpAnswer:
    call = cancel_call(visit, HINT)
    place = "/calls" if visit.form().get("next") == "list" else f"/calls/{call.id}"
    return go_on(place, "ended", call.tool)
