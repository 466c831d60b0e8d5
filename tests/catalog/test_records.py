"""Quarantine in a running Crib: exactly the changed tool is neither listed nor called until somebody accepts it."""

import asyncio
from dataclasses import replace

import pytest

from toolcrib.catalog import pins
from toolcrib.catalog.records import AskedElsewhere, Quarantine, ServerShelf
from toolcrib.catalog.standing import IN_ORDER
from toolcrib.config.lock import Pin, Record
from toolcrib.config.model import Config, ServerConfig
from toolcrib.config.sections import SecurityConfig
from toolcrib.core import events
from toolcrib.core.errors import PermissionDenied, UnknownTool
from toolcrib.core.kinds import HoldReason
from toolcrib.core.offers import Tool
from toolcrib.stores.lockfile import MemoryRecords
from toolcrib.testing import FakeSource, MemoryCrib, memory_crib

CHANGED, MOVED, NEW, TOO_MANY = HoldReason


def tool(name: str, text: str = "first", **more: object) -> Tool:
    return Tool(name, text, **more)


async def listed(made: MemoryCrib) -> list[str]:
    return [found.name for found in await made.crib.tools()]


async def test_a_call_is_compared_by_its_own_process_although_another_toolcrib_asks():
    """What the other one's process shows says nothing of the process that the call goes to."""
    records, asked, there = MemoryRecords(), [], AskedElsewhere(IN_ORDER, "")
    async with memory_crib(FakeSource("files", [tool("read")]), records=records) as made:
        await made.crib.refresh()
    changed = FakeSource("files", [tool("read", "now with a twist")])

    async def ask(name: str) -> AskedElsewhere:
        asked.append(name)
        return there

    async with memory_crib(changed, records=records) as made:
        await made.crib.servers.fresh.follow({"files": there}, ask)
        result = await made.crib.call("files__read")

    assert (result.error.code, changed.calls, asked) == ("TOOL_PERMISSION_DENIED", [], [])


class SlowRecords(MemoryRecords):
    """Records whose next change waits until it is let through."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.reached = asyncio.Event()

    async def update(self, server, change) -> None:
        self.reached.set()
        await self.gate.wait()
        await super().update(server, change)


async def test_only_the_changed_tool_is_held_and_approval_lets_it_go():
    """It is not listed, a call does not reach its server, the refusal says what to do; the others go on."""
    files, other = FakeSource("files", [tool("read"), tool("stat")]), FakeSource("other", [tool("read")])
    async with memory_crib(files, other) as made:
        await made.crib.current()
        files.tools = (tool("read", "now with a twist"), tool("stat"))
        await made.crib.refresh("files")
        names = await listed(made)
        results = [await made.crib.call(name) for name in ("files__read", "files__stat", "other__read")]
        reached = [call.target for call in files.calls]
        approved = await made.crib.servers.approve("files__read")
        after = await made.crib.call("files__read")

    assert names == ["files__stat", "other__read"]
    assert results[0].error.code == "TOOL_PERMISSION_DENIED"
    assert CHANGED in results[0].error.message
    assert "toolcrib approve files__read" in results[0].error.message
    assert [result.text for result in results[1:]] == ["stat ran", "read ran"]
    assert (reached, approved, after.text) == (["stat"], ["files__read"], "read ran")
    assert made.told(events.TOOL_HELD) == [{"server": "files", "tool": "read", "reason": CHANGED}]


async def test_the_chain_of_a_tool_that_was_called_before_is_built_anew_when_it_is_held():
    """A held tool cannot be called by those who called it a moment ago either."""
    files = FakeSource("files", [tool("read")])
    async with memory_crib(files) as made:
        before = await made.crib.call("files__read")
        files.tools = (tool("read", annotations={"readOnlyHint": False}),)
        await made.crib.refresh("files")
        after = await made.crib.call("files__read")

    assert (before.success, after.error.code, len(files.calls)) == (True, "TOOL_PERMISSION_DENIED", 1)


async def test_a_default_that_python_takes_for_the_same_is_still_a_change():
    """From 0 to false."""
    files = FakeSource("files", [tool("read", input_schema={"type": "object", "default": 0})])
    async with memory_crib(files) as made:
        await made.crib.current()
        files.tools = (tool("read", input_schema={"type": "object", "default": False}),)
        await made.crib.refresh("files")

        assert await listed(made) == []


async def test_what_is_accepted_is_what_was_there_when_it_was_asked_for():
    """While an acceptance is being stored the server changes again: the third version is held, the second accepted."""
    records, files = SlowRecords(), FakeSource("files", [tool("read")])
    async with memory_crib(files, records=records) as made:
        await made.crib.refresh()
        files.tools = (tool("read", "second"),)
        await made.crib.refresh()
        records.gate.clear()
        records.reached.clear()
        accepting = asyncio.create_task(made.crib.servers.approve("files__read"))
        await records.reached.wait()
        changed = asyncio.Event()
        made.crib.on_change(changed.set)
        files.change(tool("read", "third"))
        await changed.wait()
        records.gate.set()
        await accepting
        shelf = made.crib.shelves["files"]

        assert await listed(made) == []
        assert shelf.held == {"read": CHANGED}
        assert shelf.record.pins["read"].definition["description"] == "second"


async def test_strict_waits_for_approval_of_whatever_is_new_and_off_asks_for_none():
    """By the name of a server all that is held of it is accepted."""
    for mode, first, after in (("strict", [], ["files__read"]), ("off", ["files__read"], ["files__read"])):
        files = FakeSource("files", [tool("read")])
        async with memory_crib(files, config=Config(security=SecurityConfig(pins=mode))) as made:
            at_first = await listed(made)
            held = dict(made.crib.shelves["files"].held)
            await made.crib.servers.approve("files")
            accepted = await listed(made)
            files.tools = (tool("read", "other"),)
            await made.crib.refresh()

            assert (at_first, held) == (first, {"read": NEW} if mode == "strict" else {})
            assert accepted == after
            assert await listed(made) == ([] if mode == "strict" else ["files__read"])


async def test_with_the_same_records_a_new_crib_holds_what_the_old_one_held():
    """And pins made by it still count."""
    records, files = MemoryRecords(), FakeSource("files", [tool("read"), tool("stat")])
    async with memory_crib(files, records=records) as made:
        await made.crib.current()
        files.tools = (tool("read", "second"), tool("stat"))
        await made.crib.refresh()
    later = FakeSource("files", [tool("read", "second"), tool("stat", "second")])
    async with memory_crib(later, records=records) as made:
        at_start = [route.name for route in made.crib.catalog.routes.values() if route.held]
        await made.crib.refresh()

        assert at_start == ["files__read"]
        assert made.crib.shelves["files"].held == {"read": CHANGED, "stat": CHANGED}


async def test_a_tool_nobody_pinned_is_pinned_even_if_others_were_and_are_gone():
    """As many pins as tools is not the same as a pin for each."""
    records = MemoryRecords()
    strict, first = (Config(security=SecurityConfig(pins=mode)) for mode in ("strict", "first"))
    async with memory_crib(FakeSource("files", ["old"]), config=strict, records=records) as made:
        await made.crib.refresh()
        await made.crib.servers.approve("files")
    async with memory_crib(FakeSource("files", ["new"]), config=strict, records=records) as made:
        await made.crib.refresh()
    async with memory_crib(FakeSource("files", ["new"]), config=first, records=records) as made:
        await made.crib.refresh()

        assert set(made.crib.shelves["files"].record.pins) == {"old", "new"}


async def test_another_command_holds_everything_an_edit_of_the_environment_nothing():
    """What a server is, is its command; what it is given is not."""
    async with memory_crib(FakeSource("files", [tool("read")])) as made:
        await made.crib.refresh()
        made.upcoming["files"] = FakeSource("files", [tool("read")])
        await made.crib.servers.apply({"files": ServerConfig("files", command="files", env={"A": "1"})})
        await made.crib.refresh()
        environment = await listed(made)
        made.upcoming["files"] = FakeSource("files", [tool("read")])
        await made.crib.servers.apply({"files": ServerConfig("files", command="files", args=("--evil",))})
        await made.crib.refresh()

        assert environment == ["files__read"]
        assert await listed(made) == []
        assert made.crib.shelves["files"].held == {"read": MOVED}


async def test_what_another_process_accepted_counts_after_reloading():
    """Both ways: an acceptance opens what we see, and closes what we see no longer."""
    records, ours, theirs = MemoryRecords(), FakeSource("files", [tool("read")]), FakeSource("files", [tool("read")])
    async with memory_crib(ours, records=records) as made, memory_crib(theirs, records=records) as other:
        await made.crib.refresh()
        await other.crib.refresh()
        theirs.tools = (tool("read", "second"),)
        await other.crib.refresh()
        await other.crib.servers.approve("files__read")
        await made.crib.servers.fresh.reload_pins()
        still_first = await listed(made)
        ours.tools = theirs.tools
        await made.crib.refresh()

        assert still_first == []
        assert await listed(made) == ["files__read"]


async def test_a_name_that_is_not_there_is_an_error_and_accepts_nothing():
    """All or nothing."""
    files = FakeSource("files", [tool("read")])
    async with memory_crib(files) as made:
        await made.crib.refresh()
        files.tools = (tool("read", "second"),)
        await made.crib.refresh()
        with pytest.raises(UnknownTool):
            await made.crib.servers.approve("files__read", "ghost__tool")

        assert made.crib.shelves["files"].held == {"read": CHANGED}


async def test_nothing_is_accepted_that_is_no_longer_what_was_looked_at():
    """Who accepts is asked in the last moment, after the decision was written down."""
    files = FakeSource("files", [tool("read")])

    def still() -> None:
        raise PermissionDenied("It changed again.")

    async with memory_crib(files) as made:
        await made.crib.current()
        files.tools = (tool("read", "now with a twist"),)
        await made.crib.refresh("files")
        with pytest.raises(PermissionDenied, match="changed again"):
            await made.crib.servers.approve("files__read", still=still)
        held = made.crib.catalog.routes["files__read"].held

    assert held == CHANGED


@pytest.mark.parametrize("barred", [MOVED, None])
async def test_a_server_that_is_let_go_is_asked_anew_and_any_other_is_left_as_it_is(barred):
    shelf = ServerShelf(
        ServerConfig("files", command="files"), None, None, fresh_until=5.0, barred=barred, is_compared=True
    )
    shelf.settled.set()

    Quarantine.unbar(shelf)

    assert (shelf.barred, shelf.is_compared, shelf.settled.is_set()) == (None, not barred, not barred)
    assert shelf.fresh_until == (0.0 if barred else 5.0)


LISTED, OTHER = "manifest:files=one", "manifest:files=other"
READ = {"name": "read", "description": "first"}


def shelf_of(entry: str = "", accepted: str = "", **more: object) -> ServerShelf:
    """What is known of a server that shows one tool, as nobody has accepted it yet."""
    record = Record("files", tools=(READ,), entry=accepted)
    return ServerShelf(ServerConfig("files", command="files", entry=entry), None, record, (tool("read"),), **more)


@pytest.mark.parametrize(("mode", "barred"), [("off", None), ("first", MOVED), ("strict", MOVED)])
def test_a_server_of_which_the_list_says_something_else_is_in_quarantine_unless_that_is_off(mode, barred):
    shelf = shelf_of(OTHER, accepted=LISTED)

    Quarantine(mode, events.drop).bar(shelf, shelf.record, {})

    assert shelf.barred == barred


@pytest.mark.parametrize(
    ("is_compared", "is_new", "is_pinned", "is_looked_at"),
    [
        (False, False, True, True),
        (True, True, True, True),
        (True, False, False, True),
        (True, False, True, False),
    ],
    ids=["first of a run", "another listing", "a tool nobody pinned", "as it was"],
)
def test_tools_are_compared_with_their_pins_only_where_something_may_be_different(
    is_compared, is_new, is_pinned, is_looked_at
):
    """What is looked at differs from what the lock holds here, so one can tell."""
    quarantine, shelf = Quarantine("first", events.drop), shelf_of(is_compared=is_compared)
    wrong = Pin("another hash", quarantine.comparison(shelf).identity, "then")
    shelf.record = replace(shelf.record, pins={"read": wrong} if is_pinned else {})

    pins = quarantine.settle(shelf, {READ["name"]: READ}, is_new)

    assert (pins != shelf.record.pins, shelf.is_compared) == (is_looked_at, True)


@pytest.mark.parametrize(
    ("barred", "stored", "is_changed", "still_barred"),
    [
        (None, None, False, None),
        (None, Record("files", entry=OTHER), False, None),
        (MOVED, None, False, MOVED),
        (MOVED, Record("files", entry=LISTED), False, MOVED),
        (MOVED, Record("files", entry=OTHER), True, None),
        (None, Record("files", pins={"read": Pin("else", "", "then")}), True, None),
        (MOVED, Record("files", entry=LISTED, pins={"read": Pin("else", "", "then")}), True, MOVED),
    ],
    ids=[
        "nothing stored",
        "never barred",
        "nobody accepted it",
        "accepted as it was",
        "accepted as it is",
        "a pin",
        "a pin only",
    ],
)
def test_what_another_process_accepted_is_taken_over(barred, stored, is_changed, still_barred):
    """A server is let go only if it is the one that was accepted; and whether anything is different is told."""
    shelf = shelf_of(OTHER, accepted=LISTED, barred=barred)
    before = shelf.record

    assert Quarantine("first", events.drop).take_over(shelf, stored) is is_changed
    assert (shelf.barred, shelf.record is before) == (still_barred, not is_changed)
    assert bool(shelf.held) is bool(is_changed and (still_barred or stored.pins))


@pytest.mark.parametrize(("entry", "kept"), [(OTHER, OTHER), ("", LISTED)], ids=["listed elsewhere", "not listed"])
async def test_a_server_is_accepted_as_it_is_listed_now_or_was_before(entry, kept):
    shelf, records = shelf_of(entry, accepted=LISTED, barred=MOVED), MemoryRecords()

    await Quarantine("first", events.drop).accept(shelf, ["read"], records)

    assert shelf.barred is None
    assert (shelf.record.entry, shelf.stored.entry, (await records.read())["files"].entry) == (kept, kept, kept)


async def test_tools_beyond_those_accepted_unasked_are_held_and_told_of_once(monkeypatch):
    """A server that shows ever more tools fills neither the lock nor the log; a person may accept them."""
    monkeypatch.setattr(pins, "PINS_MAX", 2)
    files = FakeSource("files", [tool("a"), tool("b"), tool("c"), tool("d")])
    async with memory_crib(files) as made:
        await made.crib.refresh("files")
        names = await listed(made)
        await made.crib.servers.approve("files__d")
        after = await listed(made)

    assert (names, after) == (["files__a", "files__b"], ["files__a", "files__b", "files__d"])
    assert made.told(events.TOOL_HELD) == [{"server": "files", "tool": "c", "reason": TOO_MANY}]


async def test_of_all_that_changed_each_is_told_of():
    """Only what is too much anyway is told of once."""
    files = FakeSource("files", [tool("a"), tool("b")])
    async with memory_crib(files) as made:
        await made.crib.current()
        files.tools = (tool("a", "second"), tool("b", "second"))
        await made.crib.refresh("files")

    told = [(held["tool"], held["reason"]) for held in made.told(events.TOOL_HELD)]
    assert sorted(told) == [("a", CHANGED), ("b", CHANGED)]


def choosing(*words: str) -> Tool:
    """A tool whose default is a list of words."""
    return tool("read", input_schema={"type": "object", "properties": {"fields": {"default": list(words)}}})


async def test_words_in_another_order_are_told_of_when_they_are_first_seen():
    """The tool is not held; whoever reads the log learns which field does not count by its order any more."""
    files = FakeSource("files", [choosing("key", "summary")])
    async with memory_crib(files) as made:
        await made.crib.current()
        for words in (("summary", "key"), ("key", "summary")):
            files.tools = (choosing(*words),)
            await made.crib.refresh("files")

        assert await listed(made) == ["files__read"]

    fields = ["inputSchema.properties.fields.default"]
    assert made.told(events.TOOL_DISORDERED) == [{"server": "files", "tool": "read", "fields": fields}]
