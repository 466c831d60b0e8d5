"""News over REST, as server-sent events: calls, servers, catalogue, questions and configuration."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from toolcrib.core.news import TOPICS, News
from toolcrib.doors.http.answers import Answer, Problem
from toolcrib.doors.http.pauses import with_pauses
from toolcrib.doors.http.premises import Premises
from toolcrib.doors.http.router import RouteSpec
from toolcrib.doors.http.visit import Visit
from toolcrib.doors.rest.about import About, Param
from toolcrib.transports.http_server import Exchange

PATH = "/api/v1/events"
PAUSE_S = 15.0
"""After so long without news a line is sent all the same, so that whoever is in between keeps the line open."""
EVENT_STREAM = b"text/event-stream"
_HEADERS = ((b"cache-control", b"no-store"), (b"x-accel-buffering", b"no"))


def event_routes(premises: Premises, pause_s: float = PAUSE_S) -> list[RouteSpec]:
    """The route of the news."""

    async def listen(visit: Visit) -> Answer | None:
        visit.need_operator()
        topics, bulletin = _topics(visit), premises.bulletin
        if bulletin is None:
            raise Problem(503, "TOOL_UNAVAILABLE", "No news are gathered here.")
        if visit.request.method == b"HEAD":
            return Answer(200, b"", EVENT_STREAM, _HEADERS)
        told = _while_current(bulletin.read(topics, _after(visit)), pause_s, premises, visit)
        await _stream(visit.exchange, told)
        return None

    about = About(
        "Follow the news",
        "events",
        str,
        "Server-sent events: `event` is the topic, `data` is JSON, `id` can be sent back as `Last-Event-ID` to read on"
        " where a stream ended. News `missed` says that there were more than could be told.",
        params=(
            Param("topics", f"some of {', '.join(sorted(TOPICS))}, separated by commas [all]"),
            Param("Last-Event-ID", "the id of the last event that was read", place="header"),
        ),
        problems=(403, 422, 503),
        media="text/event-stream",
    )
    return [RouteSpec("GET", PATH, listen, about)]


def _topics(visit: Visit) -> frozenset[str] | None:
    given = visit.query.get("topics")
    if given is None:
        return None
    found = frozenset(given.split(","))
    if not found <= TOPICS:
        raise Problem(422, "TOOL_INVALID_INPUT", f"`topics` must be some of {', '.join(sorted(TOPICS))}.")
    return found


def _after(visit: Visit) -> int | None:
    """Where a reader left off; what is no id of ours counts as none."""
    given = visit.request.header(b"last-event-id") or b""
    return int(given) if given.isdigit() and len(given) < 16 else None


async def _while_current(
    news: AsyncGenerator[News, None], pause_s: float, premises: Premises, visit: Visit
) -> AsyncGenerator[News | None, None]:
    """The news and the pauses between them, until the token they were asked for with ends."""
    async with aclosing(with_pauses(news, pause_s)) as told:
        async for item in told:
            if not premises.sign_ins.may_stay(visit.caller):
                return
            yield item


async def _stream(exchange: Exchange, news: AsyncGenerator[News | None, None]) -> None:
    """Tell until the news end or the client goes; its task is cancelled then."""
    exchange.start_stream(200, EVENT_STREAM, _HEADERS)
    exchange.write(b": toolcrib\n\n")
    try:
        async with aclosing(news) as told:
            async for item in told:
                exchange.write(b": still here\n\n" if item is None else _event(item))
                await exchange.drain()
    finally:
        if exchange.streaming:
            exchange.end()


def _event(news: News) -> bytes:
    data = msgspec.json.encode({"at": news.at, **news.data}, enc_hook=str)
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (news.id, news.topic.encode(), data)
