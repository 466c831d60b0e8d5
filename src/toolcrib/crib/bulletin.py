"""The bulletin: all news in one place, for as many readers as like; none of them can hold up what it tells of."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from itertools import dropwhile
from typing import Any

import msgspec

from toolcrib.calls.approvals import ApprovalQuestion
from toolcrib.calls.live import Live, LiveCall
from toolcrib.core import events
from toolcrib.core.events import APPROVAL, CALL, CATALOG, MISSED, Event, News, news_of
from toolcrib.crib.crib import Crib

CALLS_PER_S = 50
"""News of calls that are told one by one; what is beyond is folded."""
FOLD_S = 0.1
ATTENTION_S = 10.0
"""How long calls are told after the last reader has gone, who may come back for what it missed."""

Publish = Callable[[str, Mapping[str, Any]], None]
Later = Callable[[float, Callable[[], None]], asyncio.TimerHandle]


def _nothing() -> None:
    """The default listener: does nothing."""


class Bulletin:
    """Keeps the latest news, and hands new ones to its readers."""

    def __init__(self, wall: Callable[[], float], keep: int = 1000) -> None:
        self._wall, self._keep = wall, keep
        self._kept: deque[News] = deque(maxlen=keep)
        self._last = 0
        self._readers: set[_Reader] = set()
        self._closed = False
        self.on_read: Callable[[], None] = _nothing
        """Called before a new subscriber starts to read."""
        self.is_following = False
        """Whether the catalogue tells of its changes itself, so that the event is no news."""

    @property
    def readers(self) -> int:
        """How many read right now."""
        return len(self._readers)

    def publish(self, topic: str, data: Mapping[str, Any]) -> None:
        """Publish to all subscribers of the topic; never waits."""
        if self._closed:
            return
        self._last += 1
        news = News(self._last, topic, data, self._wall())
        self._kept.append(news)
        for reader in self._readers:
            reader.put(news)

    def hear(self, event: Event) -> None:
        """Take what toolcrib tells about itself; what is no news is left to the log."""
        if self.is_following and event.name == events.REGISTRY_UPDATED:
            return
        found = news_of(event)
        if found is not None:
            self.publish(*found)

    def read(self, topics: frozenset[str] | None = None, after: int | None = None) -> AsyncGenerator[News, None]:
        """News from now on, or all that is kept after an id; ends when the bulletin is closed.

        A reader that cannot be told everything gets news ``missed``, with how many at most, and why: it was too
        ``slow``, what it asks for is ``forgotten``, or its id is of an ``earlier run``: then all that is kept follows.
        """
        self.on_read()
        return self._read(topics, self._last if after is None else after)

    async def _read(self, topics: frozenset[str] | None, after: int) -> AsyncGenerator[News, None]:
        reader = _Reader(topics, self._keep, self._wall)
        self._catch_up(reader, after)
        self._readers.add(reader)
        try:
            while True:
                while (news := reader.take()) is not None:
                    yield news
                if self._closed:
                    return
                await reader.wait()
        finally:
            self._readers.discard(reader)

    def _catch_up(self, reader: "_Reader", after: int) -> None:
        """Give a reader what it has not seen."""
        is_strange = after > self._last
        after = 0 if is_strange else max(after, 0)
        forgotten = self._last - len(self._kept)
        if is_strange or after < forgotten:
            reader.miss(max(forgotten - after, 0), "earlier run" if is_strange else "forgotten", forgotten)
        for news in dropwhile(lambda kept: kept.id <= after, self._kept):
            reader.put(news)

    def close(self) -> None:
        """Let all readers end, once they have read what they were given."""
        self._closed = True
        for reader in self._readers:
            reader.wake()


class _Reader:
    """What one reader has yet to read."""

    def __init__(self, topics: frozenset[str] | None, keep: int, wall: Callable[[], float]) -> None:
        self._topics, self._keep, self._wall = topics, keep, wall
        self._unread: deque[News] = deque()
        self._missed: tuple[int, str, int] | None = None
        self._arrived = asyncio.Event()

    def put(self, news: News) -> None:
        """Append; drops the oldest entry when full."""
        if self._topics is not None and news.topic not in self._topics:
            return
        if len(self._unread) >= self._keep:
            count = self._missed[0] if self._missed is not None else 0
            self._missed = count + 1, "slow", self._unread.popleft().id
        self._unread.append(news)
        self._arrived.set()

    def miss(self, count: int, reason: str, last_id: int) -> None:
        """Note that there was more, up to an id."""
        self._missed = count, reason, last_id
        self._arrived.set()

    def take(self) -> News | None:
        """The next news, if there is one."""
        if self._missed is not None:
            (count, reason, last_id), self._missed = self._missed, None
            return News(last_id, MISSED, {"count": count, "reason": reason}, self._wall())
        return self._unread.popleft() if self._unread else None

    async def wait(self) -> None:
        """Wait for more."""
        self._arrived.clear()
        await self._arrived.wait()

    def wake(self) -> None:
        """Have a look, even if there is nothing."""
        self._arrived.set()


class Folding:
    """Tells of calls one by one while they are few; of the others only how many there were, ten times a second."""

    def __init__(self, publish: Publish, clock: Callable[[], float], later: Later) -> None:
        self._publish, self._clock, self._later = publish, clock, later
        self._second, self._told = clock(), 0
        self._folded = 0
        self._timer: asyncio.TimerHandle | None = None

    def note(self, call: LiveCall) -> None:
        """A call has begun, moved on or ended."""
        now = self._clock()
        if now - self._second >= 1.0:
            self._second, self._told = now, 0
        if self._told < CALLS_PER_S:
            self._told += 1
            self._publish(CALL, msgspec.to_builtins(call.view()))
            return
        self._folded += 1
        if self._timer is None:
            self._timer = self._later(FOLD_S, self._flush)

    def _flush(self) -> None:
        folded, self._folded, self._timer = self._folded, 0, None
        self._publish(CALL, {"folded": folded})

    def skip(self, count: int) -> None:
        """So many came while nobody listened."""
        if count:
            self._publish(CALL, {"folded": count})

    def close(self) -> None:
        """Tell what is left."""
        if self._timer is not None:
            self._timer.cancel()
            self._flush()


class Attention:
    """Turns on events for calls while there are subscribers, and a little longer; without any they cost nothing."""

    def __init__(self, live: Live, calls: Folding, bulletin: Bulletin, later: Later) -> None:
        self._live, self._calls, self._bulletin, self._later = live, calls, bulletin, later
        self._forget: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._begun = live.begun
        self.pay()

    def pay(self) -> None:
        """Listen, if nobody does; who comes back learns how many calls began and ended meanwhile, as far as known."""
        if self._forget is None:
            self._forget = self._live.on_change(self._calls.note)
            self._calls.skip(2 * (self._live.begun - self._begun))
            self._timer = self._later(ATTENTION_S, self._doze)

    def _doze(self) -> None:
        if self._bulletin.readers:
            self._timer = self._later(ATTENTION_S, self._doze)
            return
        self._begun = self._live.begun
        self.end()

    def end(self) -> None:
        """Listen no longer."""
        if self._timer is not None:
            self._timer.cancel()
        if self._forget is not None:
            self._forget()
            self._forget = None


def follow(crib: Crib, bulletin: Bulletin) -> Callable[[], None]:
    """Have the bulletin tell of a Crib's calls, catalogue and questions, until what is returned is called."""
    loop = asyncio.get_running_loop()
    calls = Folding(bulletin.publish, loop.time, loop.call_later)

    def tell_catalog() -> None:
        native, mcp = crib.catalog.counts()
        bulletin.publish(CATALOG, {"version": crib.catalog.version, "native": native, "mcp": mcp})

    def tell_question(question: ApprovalQuestion, state: str) -> None:
        shown = {name: str(getattr(question, name)) for name in ("id", "tool", "server", "level", "caller")}
        bulletin.publish(APPROVAL, {**shown, "state": state})

    forget = [crib.on_change(tell_catalog), crib.inbox.on_change(tell_question)]
    if crib.live is not None:
        attention = Attention(crib.live, calls, bulletin, loop.call_later)
        bulletin.on_read = attention.pay
        forget.append(attention.end)
    bulletin.is_following = True

    def let_go() -> None:
        bulletin.is_following, bulletin.on_read = False, _nothing
        for end in forget:
            end()
        calls.close()

    return let_go
