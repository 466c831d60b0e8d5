"""News for pages that are open: server-sent events that say something is new, never what; the page asks for that."""

from collections.abc import Callable
from contextlib import aclosing

import msgspec

from toolcrib.core.news import News
from toolcrib.doors.http.answers import Answer, Problem
from toolcrib.doors.http.pauses import with_pauses
from toolcrib.doors.http.visit import Visit
from toolcrib.doors.web.headers import GUARDING, NO_STORE
from toolcrib.doors.web.render import Pages

EVENT_STREAM = b"text/event-stream"
PAUSE_S = 15.0
"""After so long without news a line is sent all the same, and it is looked whether the visitor is still signed in."""

Concerns = Callable[[News], bool]


async def stream_news(
    pages: Pages, visit: Visit, topics: frozenset[str], concerns: Concerns, beat: Callable[[], object] = lambda: None
) -> Answer | None:
    """Tell a page of news that concern its visitor until it is closed; ``beat`` is called now and then meanwhile."""
    bulletin = pages.premises.bulletin
    if bulletin is None:
        raise Problem(503, "TOOL_UNAVAILABLE", "No news are gathered here.")
    headers = (NO_STORE, (b"x-accel-buffering", b"no"), *GUARDING)
    if visit.request.method == b"HEAD":
        return Answer(200, b"", EVENT_STREAM, headers)
    exchange = visit.exchange
    exchange.start_stream(200, EVENT_STREAM, headers)
    exchange.write(b"retry: 3000\n: toolcrib\n\n")
    try:
        async with aclosing(with_pauses(bulletin.read(topics), PAUSE_S)) as told:
            async for news in told:
                if not _is_signed_in(pages, visit):
                    return None
                beat()
                if news is None or not concerns(news):
                    exchange.write(b": still here\n\n" if news is None else b"")
                else:
                    exchange.write(_event(news))
                await exchange.drain()
    finally:
        if exchange.streaming:
            exchange.end()
    return None


def _is_signed_in(pages: Pages, visit: Visit) -> bool:
    sign_ins = pages.premises.sign_ins
    return sign_ins.may_stay(visit.caller) if visit.signed_in is None else sign_ins.of(visit.request) is not None


def _event(news: News) -> bytes:
    told = {name: news.data[name] for name in ("id", "state", "outcome") if name in news.data}
    return b"event: news\ndata: %b\n\n" % msgspec.json.encode({"topic": news.topic, **told}, enc_hook=str)
