"""The bulletin: every reader gets all news of its topics in order, and none can hold up what it tells of."""

import asyncio
from collections.abc import Callable

import pytest

from toolcrib.calls.approvals import ApprovalReply
from toolcrib.calls.live import Live, LiveCall
from toolcrib.config.model import Config
from toolcrib.config.sections import SecurityConfig
from toolcrib.core import events
from toolcrib.core.access import EVERYTHING, Caller
from toolcrib.core.events import Event, News
from toolcrib.core.requests import Request
from toolcrib.crib.bulletin import CALLS_PER_S, FOLD_S, Attention, Bulletin, Folding, follow
from toolcrib.testing import FakeSource, ManualClock, memory_crib

OWNER = Caller("owner", "token", EVERYTHING)
CALLS = frozenset({"call"})


def bulletin(keep: int = 1000) -> Bulletin:
    return Bulletin(ManualClock(1000.0), keep)


def numbered(board: Bulletin, *numbers: int, topic: str = "server") -> None:
    for number in numbers:
        board.publish(topic, {"n": number})


async def take(reader, count: int) -> list[News]:
    return [await anext(reader) for _ in range(count)]


async def rest(reader) -> list[News]:
    """All that a reader of a closed bulletin still gets."""
    return [news async for news in reader]


def brief(found: list[News]) -> list[tuple[int, str, object]]:
    return [(news.id, news.topic, news.data.get("n", news.data)) for news in found]


async def test_a_reader_gets_what_is_told_after_it_came():
    """Whole values, numbered from one; what was told before is old."""
    board = bulletin()
    numbered(board, 1)
    reader = board.read()
    numbered(board, 2, 3)

    assert await take(reader, 2) == [News(2, "server", {"n": 2}, 1000.0), News(3, "server", {"n": 3}, 1000.0)]
    await reader.aclose()


async def test_a_reader_that_waits_is_woken():
    """And every reader gets the same."""
    board = bulletin()
    readers = [asyncio.ensure_future(anext(board.read())) for _ in range(2)]
    while board.readers < 2:
        await asyncio.sleep(0)
    numbered(board, 7)

    assert brief(await asyncio.gather(*readers)) == [(1, "server", 7)] * 2


async def test_only_the_topics_that_are_wanted_are_given():
    """The numbers are those of all news."""
    board = bulletin()
    reader = board.read(frozenset({"call", "config"}))
    numbered(board, 1, topic="server")
    numbered(board, 2, topic="call")
    numbered(board, 3, topic="config")

    assert brief(await take(reader, 2)) == [(2, "call", 2), (3, "config", 3)]
    await reader.aclose()


@pytest.mark.parametrize(("after", "got"), [(0, [1, 2, 3, 4]), (2, [3, 4]), (4, []), (-5, [1, 2, 3, 4])])
async def test_a_reader_that_comes_back_gets_what_it_has_not_seen(after, got):
    """And then what is new."""
    board = bulletin()
    numbered(board, 1, 2, 3)
    reader = board.read(after=after)
    numbered(board, 4)
    board.close()

    assert [news.id for news in await rest(reader)] == got


async def test_a_reader_that_comes_back_too_late_is_told_how_much_is_forgotten():
    """The number of that news is the last one that is gone, so that it can be the next ``after``."""
    board = bulletin(keep=3)
    numbered(board, *range(1, 11))
    reader = board.read(after=2)
    board.close()

    assert brief(await rest(reader)) == [
        (7, "missed", {"count": 5, "reason": "forgotten"}),
        (8, "server", 8),
        (9, "server", 9),
        (10, "server", 10),
    ]


async def test_a_reader_of_an_earlier_run_is_told_so_and_gets_all_there_is():
    """Its number means nothing here."""
    board = bulletin()
    numbered(board, 1, 2)
    reader = board.read(after=5000)
    board.close()

    found = brief(await rest(reader))

    assert found == [(0, "missed", {"count": 0, "reason": "earlier run"}), (1, "server", 1), (2, "server", 2)]


async def test_a_slow_reader_loses_the_oldest_and_is_told_how_many():
    """Of its own topics only; whoever keeps up loses nothing."""
    board = bulletin(keep=3)
    slow, quick = board.read(CALLS), board.read(CALLS)
    numbered(board, 0, topic="call")
    first, seen = await take(slow, 1), await take(quick, 1)
    for number in range(1, 8):
        numbered(board, number, topic="call")
        numbered(board, number, topic="server")
        seen += await take(quick, 1)
    board.close()

    assert brief(first) == [(1, "call", 0)]
    assert brief(await rest(slow)) == [
        (8, "missed", {"count": 4, "reason": "slow"}),
        (10, "call", 5),
        (12, "call", 6),
        (14, "call", 7),
    ]
    assert [news.data["n"] for news in seen] == list(range(8))
    await quick.aclose()


async def test_only_so_many_news_are_kept():
    """However many were told."""
    board = bulletin(keep=5)
    numbered(board, *range(1000))
    reader = board.read(after=0)
    board.close()

    assert len(await rest(reader)) == 1 + 5


async def test_a_reader_that_goes_is_forgotten():
    """Whether it stops reading or is cancelled."""
    board = bulletin()
    stopped, cancelled = board.read(), asyncio.ensure_future(anext(waiting := board.read()))
    numbered(board, 1)
    await anext(stopped)
    while board.readers < 2:
        await asyncio.sleep(0)
    await stopped.aclose()
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    await waiting.aclose()

    assert board.readers == 0


async def test_closing_ends_those_who_wait_and_those_who_come():
    """What is told afterwards is told to nobody."""
    board = bulletin()
    reading = asyncio.ensure_future(rest(board.read()))
    while not board.readers:
        await asyncio.sleep(0)
    board.close()
    numbered(board, 1)

    assert await reading == []
    assert await rest(board.read(after=0)) == []


async def test_what_toolcrib_tells_about_itself_becomes_news():
    """If it is any."""
    board = bulletin()
    board.hear(Event(events.SERVER_LOST, "warning", {"server": "files", "error": "gone"}))
    board.hear(Event(events.CALL_FINISHED, "debug", {"tool": "files__read"}))
    board.hear(Event(events.REGISTRY_UPDATED, fields={"native": 1, "mcp": 2}))
    reader = board.read(after=0)
    board.close()

    assert [(news.topic, news.data["event"]) for news in await rest(reader)] == [
        ("server", "server.lost"),
        ("catalog", "tools.registry.updated"),
    ]


# Many calls


class Timers:
    """A loop's ``call_later`` in hand."""

    def __init__(self) -> None:
        self.due: list[tuple[float, Callable[[], None]]] = []
        self.cancelled = 0

    def later(self, seconds: float, do: Callable[[], None]) -> "Timers":
        self.due.append((seconds, do))
        return self

    def cancel(self) -> None:
        self.cancelled += 1

    def ring(self) -> list[float]:
        due, self.due = self.due, []
        for _, do in due:
            do()
        return [seconds for seconds, _ in due]


class Crowd:
    """A folding with its clock, its timers and what it told."""

    def __init__(self) -> None:
        self.clock, self.timers, self.told = ManualClock(), Timers(), []
        self.folding = Folding(lambda topic, data: self.told.append(data), self.clock, self.timers.later)
        self.live = Live(ManualClock(), ManualClock())

    def note(self, count: int) -> None:
        for number in range(count):
            self.folding.note(self.call(number))

    def call(self, number: int) -> LiveCall:
        return self.live.open(Request("files__read", "read", {}, str(number)), ("files", "read_only"), {}, 0.0)


async def test_few_calls_are_told_one_by_one():
    """As many as fit into a second, second after second."""
    crowd = Crowd()
    for _ in range(3):
        crowd.note(CALLS_PER_S)
        crowd.clock.advance(1.0)

    assert len(crowd.told) == 3 * CALLS_PER_S
    assert crowd.told[0]["tool"] == "files__read"
    assert crowd.timers.due == []


async def test_of_many_calls_only_the_number_is_told_ten_times_a_second():
    """However many there are, no more is told."""
    crowd = Crowd()
    rang = []
    for _ in range(10):
        crowd.note(500)
        rang += crowd.timers.ring()
        crowd.clock.advance(FOLD_S)
    crowd.clock.advance(0.001)
    crowd.note(1)

    folded = [data["folded"] for data in crowd.told if "folded" in data]
    assert rang == [FOLD_S] * 10
    assert folded == [450] + [500] * 9
    assert len(crowd.told) == CALLS_PER_S + 10 + 1
    assert crowd.told[-1]["id"] == "0"


async def test_what_is_folded_is_told_when_it_ends():
    """Its timer is not left behind."""
    crowd = Crowd()
    crowd.note(CALLS_PER_S + 3)
    crowd.folding.close()

    assert crowd.told[-1] == {"folded": 3}
    assert crowd.timers.cancelled == 1


# A whole Crib


async def test_calls_are_told_while_somebody_reads_and_only_counted_when_nobody_does():
    """Who comes back learns how many there were."""
    crowd, board = Crowd(), bulletin()
    crowd.folding = Folding(board.publish, crowd.clock, crowd.timers.later)
    attention = Attention(crowd.live, crowd.folding, board, crowd.timers.later)
    board.on_read = attention.pay
    reader = board.read(CALLS)
    crowd.call(1)
    assert (await anext(reader)).data["id"] == "1"

    crowd.timers.ring()
    crowd.call(2)
    assert (await anext(reader)).data["id"] == "2"

    await reader.aclose()
    crowd.timers.ring()
    crowd.call(3)
    again = board.read(CALLS, after=2)
    crowd.call(4)
    assert [news.data.get("id") or news.data for news in await take(again, 2)] == [{"folded": 2}, "4"]


async def test_calls_catalogue_and_questions_of_a_crib_are_told():
    """Without the arguments of anything, until it is let go."""
    files, live = FakeSource("files", ["write"]), Live(ManualClock(), ManualClock())
    board = bulletin()

    def add(a: int) -> int:
        return a

    async with memory_crib(files, config=Config(security=SecurityConfig(policy="ask")), live=live) as made:
        await made.crib.current()
        let_go = follow(made.crib, board)
        made.crib.register(add)
        await made.crib.inbox.look(OWNER)
        task = asyncio.create_task(made.crib.call("files__write", {"path": "hunter2"}))
        (found,) = await made.crib.inbox.look(OWNER, 60)
        made.crib.inbox.answer(found.question.id, ApprovalReply.ONCE, OWNER)
        await task
        let_go()
        made.crib.unregister("add")
        await made.crib.call("ghost")
        reader = board.read(after=0)
        board.close()
        news = await rest(reader)

    assert [(one.topic, one.data.get("state", one.data.get("outcome", ""))) for one in news] == [
        ("catalog", ""),
        ("call", ""),
        ("call", ""),
        ("approval", "waiting"),
        ("approval", "answered"),
        ("call", ""),
        ("call", ""),
        ("call", "success"),
    ]
    assert news[0].data == {"version": 3, "native": 1, "mcp": 1}
    assert news[3].data["tool"] == "files__write"
    assert news[3].data["id"] == news[1].data["id"]
    assert "hunter2" not in repr(news)


async def test_a_question_that_nobody_answers_is_told_as_withdrawn():
    """A page takes it away."""
    files, board = FakeSource("files", ["write"]), bulletin()
    async with memory_crib(files, config=Config(security=SecurityConfig(policy="ask"))) as made:
        follow(made.crib, board)
        await made.crib.inbox.look(OWNER)
        task = asyncio.create_task(made.crib.call("files__write"))
        await made.crib.inbox.look(OWNER, 60)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        reader = board.read(frozenset({"approval"}), after=0)
        board.close()

        assert [news.data["state"] for news in await rest(reader)] == ["waiting", "withdrawn"]


async def test_a_change_of_the_catalogue_is_told_once():
    """By the catalogue, not by the event as well."""
    board = bulletin()
    async with memory_crib() as made:
        let_go = follow(made.crib, board)
        board.hear(Event(events.REGISTRY_UPDATED, fields={"native": 1, "mcp": 2}))
        let_go()
        board.hear(Event(events.REGISTRY_UPDATED, fields={"native": 1, "mcp": 2}))
        reader = board.read(after=0)
        board.close()

        assert len(await rest(reader)) == 1


async def test_a_storm_of_calls_reaches_a_reader_as_a_few_news():
    """Nothing is lost: what is not told one by one is counted."""
    files, live, board = FakeSource("files", ["read"]), Live(ManualClock(), ManualClock()), bulletin()
    async with memory_crib(files, live=live) as made:
        follow(made.crib, board)
        reader = board.read(CALLS)
        for _ in range(500):
            await made.crib.call("files__read")
        told = 0
        count = 0
        while told < 1000:
            news = await anext(reader)
            told += news.data.get("folded", 1)
            count += 1
        await reader.aclose()

    assert told == 1000
    assert count < 500
