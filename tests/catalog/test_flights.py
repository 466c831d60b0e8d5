"""Replicas ask a server once for all of them, and follow what any of them finds."""

import asyncio

from tests.doubles.replicas import Common, replica, so

from toolcrib.catalog import flights, refresh
from toolcrib.config.model import Config, ServerConfig
from toolcrib.config.sections import SecurityConfig
from toolcrib.core.errors import SourceUnavailable, StoreUnavailable
from toolcrib.core.offers import Tool
from toolcrib.stores.lockfile import MemoryRecords
from toolcrib.testing import FakeSource

AT_AN_ADDRESS = Config(servers={"srv": ServerConfig("srv", url="http://127.0.0.1:9/mcp")})


def names(member) -> list[str]:
    return sorted(member.made.crib.catalog.routes)


async def test_of_several_that_need_a_server_at_once_one_asks_it():
    common, sources = Common(), [FakeSource("srv", ["read"]) for _ in range(3)]
    sources[0].listing.hold()
    async with (
        replica(common, "a", sources[0]) as a,
        replica(common, "b", sources[1]) as b,
        replica(common, "c", sources[2]) as c,
    ):
        first = asyncio.create_task(a.made.crib.current())
        await sources[0].listing.reached.wait()
        others = [asyncio.create_task(one.made.crib.current()) for one in (b, c)]
        await so(lambda: all(one.made.crib.shelves["srv"].flight for one in (b, c)))
        sources[0].listing.release()
        await asyncio.gather(first, *others)

        assert [source.listed for source in sources] == [1, 0, 0]
        assert [names(one) for one in (a, b, c)] == [["srv__read"]] * 3


async def test_what_another_one_found_lately_is_not_asked_again():
    common, asked, spared = Common(), FakeSource("srv", ["read"]), FakeSource("srv", ["read"])
    async with replica(common, "a", asked) as a, replica(common, "b", spared) as b:
        await a.made.crib.refresh("srv")
        await b.made.crib.current()

        assert (spared.listed, names(b)) == (0, ["srv__read"])


async def test_when_the_one_that_asks_dies_another_one_does_it(monkeypatch):
    """Its turn ends by itself; nobody is told."""
    monkeypatch.setattr(flights, "SLACK_S", -0.7)
    monkeypatch.setattr(flights, "LOOK_S", 0.05)
    common, dead, alive = Common(), FakeSource("srv", ["read"]), FakeSource("srv", ["read"])
    config = Config(servers={"srv": ServerConfig("srv", command="srv", discovery_timeout_s=1.0)})
    dead.listing.hold()
    async with replica(common, "a", dead, config=config) as a, replica(common, "b", alive, config=config) as b:
        a.made.crib.servers.wake()
        await dead.listing.reached.wait()
        a.coordination.die()
        await b.made.crib.current()

        assert (alive.listed, names(b)) == (1, ["srv__read"])


async def test_a_server_that_could_not_be_asked_there_is_asked_here():
    """A program that is missing on one machine says nothing of another."""
    common, broken, whole = Common(), FakeSource("srv"), FakeSource("srv", ["read"])
    broken.trouble = SourceUnavailable("It cannot be started.")
    async with replica(common, "a", broken) as a, replica(common, "b", whole) as b:
        await a.made.crib.current()
        await b.made.crib.current()

        assert names(b) == ["srv__read"]


async def test_a_changed_listing_reaches_the_clients_of_all_replicas():
    common, one, other = Common(), FakeSource("srv", ["read"]), FakeSource("srv", ["read"])
    async with replica(common, "a", one) as a, replica(common, "b", other) as b:
        await a.made.crib.current()
        await b.made.crib.current()
        told: list[int] = []
        b.made.crib.on_change(lambda: told.append(b.made.crib.catalog.version))
        one.change("read", "write")
        await so(lambda: "srv__write" in names(b))

        assert (len(told), other.listed) == (1, 0)


async def test_what_is_accepted_at_one_replica_is_accepted_at_all():
    strict = Config(security=SecurityConfig(pins="strict"))
    common, one, other = Common(), FakeSource("srv", ["read"]), FakeSource("srv", ["read"])
    async with replica(common, "a", one, config=strict) as a, replica(common, "b", other, config=strict) as b:
        await a.made.crib.current()
        await b.made.crib.current()
        held = b.made.crib.lookup("srv__read").held
        await a.made.crib.servers.approve("srv")
        await so(lambda: not b.made.crib.lookup("srv__read").held)

        assert held


async def test_a_program_is_compared_with_its_pins_by_the_replica_that_runs_it():
    """What another one's process shows says nothing of ours, so the first call looks."""
    common, theirs = Common(), FakeSource("srv", ["read"])
    ours = FakeSource("srv", [Tool("read", "Now with a hidden purpose.")])
    async with replica(common, "a", theirs) as a, replica(common, "b", ours) as b:
        await a.made.crib.current()
        await b.made.crib.current()
        result = await b.made.crib.call("srv__read")

        assert (result.error.code, ours.calls) == ("TOOL_PERMISSION_DENIED", [])


async def test_an_address_is_compared_once_for_all():
    """It is the same server, whoever asks."""
    common, theirs, ours = Common(), FakeSource("srv", ["read"]), FakeSource("srv", ["read"])
    async with (
        replica(common, "a", theirs, config=AT_AN_ADDRESS) as a,
        replica(common, "b", ours, config=AT_AN_ADDRESS) as b,
    ):
        await a.made.crib.current()
        await b.made.crib.current()
        await b.made.crib.call("srv__read")

        assert (ours.listed, len(ours.calls)) == (0, 1)


async def test_while_the_others_cannot_be_reached_each_asks_for_itself():
    common, source = Common(), FakeSource("srv", ["read"])
    async with replica(common, "a", source) as a:
        a.coordination.cut()
        await a.made.crib.current()

        assert (source.listed, names(a)) == (1, ["srv__read"])


async def test_what_was_missed_is_read_when_the_others_are_back():
    common, one, other = Common(), FakeSource("srv", ["read"]), FakeSource("srv", ["read"])
    async with replica(common, "a", one) as a, replica(common, "b", other) as b:
        await a.made.crib.current()
        await b.made.crib.current()
        b.coordination.cut()
        one.change("read", "write")
        await so(lambda: "srv__write" in names(a))
        missed = names(b)
        b.coordination.mend()
        await so(lambda: "srv__write" in names(b))

        assert missed == ["srv__read"]


async def test_news_that_came_while_the_store_was_away_is_not_lost(monkeypatch):
    monkeypatch.setattr(refresh, "AGAIN_S", 0.01)
    common, one, other = Common(), FakeSource("srv", ["read"]), FakeSource("srv", ["read"])

    class Failing(MemoryRecords):
        """Cannot be read a few times."""

        left = 0

        async def read(self):
            if self.left:
                self.left -= 1
                raise StoreUnavailable("The shared database cannot be used.")
            return await common.records.read()

    async with replica(common, "a", one) as a:
        await a.made.crib.current()
        theirs = Common(common.hub, common.book, failing := Failing())
        async with replica(theirs, "b", other) as b:
            failing.left = 3
            one.change("read", "write")
            await so(lambda: "srv__write" in names(b))

            assert (failing.left, other.listed) == (0, 0)


async def test_asking_on_purpose_asks():
    """``refresh`` does not make do with what another one found."""
    common, one, other = Common(), FakeSource("srv", ["read"]), FakeSource("srv", ["read"])
    async with replica(common, "a", one) as a, replica(common, "b", other) as b:
        await a.made.crib.current()
        await b.made.crib.refresh("srv")

        assert other.listed == 1
