"""Live calls: those under way and the last that ended, as they come."""

from dataclasses import asdict
from functools import partial
from typing import Any

import msgspec

from toolcrib.core.events import CALL, MISSED, News
from toolcrib.schema.text import printable
from toolcrib.server.answers import HttpAnswer
from toolcrib.server.rest.audit import ask_log
from toolcrib.server.rest.calls import cancel_call, known_call
from toolcrib.server.visit import PageRequest
from toolcrib.server.web.call_rows import FAILED, RUNNING, CallFilter, shown_call, waterfall
from toolcrib.server.web.render import PageRoutes, Pages, go_on, stream_news
from toolcrib.server.web.schema_parts import as_json
from toolcrib.server.web.tool_result import shortened
from toolcrib.stores.audit.log import AuditQuery, Stored, browse

ROUTES = PageRoutes()
SHOWN = 50
REMEMBERED = 1_000
KEPT = ("values", "result")
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
    kept = await _kept_values(visit, call.id) if visit.is_operator() else {}
    return pages.render(visit, "calls/show.html", call=call, fall=waterfall(call), kept=kept)


async def _kept_values(visit: PageRequest, call_id: str) -> dict[str, str]:
    """What the audit log has of a call's arguments and its result, where it keeps them."""
    if not visit.served.project.config.audit.values:
        return {}
    found: list[Stored] = await ask_log(visit, partial(browse, query=AuditQuery(execution=call_id), count=5))
    details = [entry.details for entry in found]
    texts = {name: next((one[name] for one in details if isinstance(one.get(name), str)), "") for name in KEPT}
    return {name: shortened(printable(_indented(text))) for name, text in texts.items()}


def _indented(text: str) -> str:
    """JSON as people read it; what was cut is no JSON any more and stays as it is."""
    try:
        return as_json(msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError):
        return text


@ROUTES.post("/calls/{id}/cancel")
async def _cancel(_: Pages, visit: PageRequest) -> HttpAnswer:
    call = cancel_call(visit, HINT)
    place = "/calls" if visit.form().get("next") == "list" else f"/calls/{call.id}"
    return go_on(place, "ended", call.tool)
