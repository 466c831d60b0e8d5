"""What every book of sessions promises, held against each engine there is."""

import time
from dataclasses import replace

import pytest
from msgspec import structs
from tests.doubles.coordination import MemoryHub, MemorySessionBook

from toolcrib.core.coordination import SessionEntry, session_key
from toolcrib.core.errors import StoreUnavailable
from toolcrib.stores.postgres.coordination import PgSessionBook
from toolcrib.stores.postgres.database import PgDatabase
from toolcrib.stores.shared import SharedSessionBook

ENTRY = SessionEntry(
    session_key("an id that lets in"), "anna", "", "2025-06-18", 1_700_000_000.5, {"elicitation": {}}, {"name": "t🌍\0"}
)
IDLE_S = 60.0


class Books:
    """The books of two replicas over one engine."""

    def __init__(self, kind: str, request: pytest.FixtureRequest) -> None:
        self._databases: list[PgDatabase] = []
        if kind == "postgres":
            settings = request.getfixturevalue("store_settings")
            self._databases = [PgDatabase(settings), PgDatabase(settings), PgDatabase(replace(settings, name="other"))]
            self.one, self.two, self.strange = (PgSessionBook(database, IDLE_S) for database in self._databases)
        elif kind == "values":
            hub = MemoryHub()
            self.one, self.two = (SharedSessionBook(hub.join(name), IDLE_S) for name in ("one", "two"))
            self.strange = SharedSessionBook(MemoryHub().join("other"), IDLE_S)
        else:
            self.one = self.two = MemorySessionBook(time.monotonic, IDLE_S)
            self.strange = MemorySessionBook(time.monotonic, IDLE_S)

    async def close(self) -> None:
        for database in self._databases:
            await database.close()


@pytest.fixture(params=["memory", "values", "postgres"])
async def books(request):
    made = Books(request.param, request)
    yield made
    await made.close()


async def test_another_replica_finds_a_session_as_it_was_opened(books):
    await books.one.open(ENTRY)

    assert await books.two.find(ENTRY.key) == ENTRY
    assert await books.two.find(session_key("another id")) is None


async def test_a_session_that_ended_anywhere_is_over_everywhere(books):
    """Also for whoever says at the same moment that it is in use."""
    await books.one.open(ENTRY)

    assert await books.two.end(ENTRY.key)
    assert await books.one.touch([ENTRY.key]) == {ENTRY.key}
    assert await books.one.find(ENTRY.key) is None
    assert not await books.one.end(ENTRY.key)


async def test_touching_tells_which_sessions_are_over(books):
    other = structs.replace(ENTRY, key=session_key("a second one"))
    await books.one.open(ENTRY)
    await books.one.open(other)
    await books.two.end(ENTRY.key)

    assert await books.one.touch([ENTRY.key, other.key]) == {ENTRY.key}
    assert await books.one.touch([]) == set()


async def test_sweeping_leaves_what_is_in_use(books):
    await books.one.open(ENTRY)
    await books.two.sweep()

    assert await books.one.find(ENTRY.key) == ENTRY


async def test_fleets_do_not_see_each_others_sessions(books):
    await books.one.open(ENTRY)

    assert await books.strange.find(ENTRY.key) is None
    assert await books.strange.touch([ENTRY.key]) == {ENTRY.key}
    assert not await books.strange.end(ENTRY.key)
    assert await books.one.find(ENTRY.key) == ENTRY


async def test_what_was_unused_for_too_long_has_ended(store_settings):
    """By the engine's clock: an idle time of nothing is over at once."""
    database = PgDatabase(store_settings)
    book = PgSessionBook(database, 0.0)
    await book.open(ENTRY)

    assert await book.find(ENTRY.key) is None
    assert await book.touch([ENTRY.key]) == {ENTRY.key}
    await book.sweep()
    assert await database.rows("SELECT key FROM toolcrib.session") == []
    await database.close()


async def test_only_so_many_are_kept_the_longest_unused_go_first(store_settings, monkeypatch):
    monkeypatch.setattr("toolcrib.stores.postgres.coordination.MOST", 2)
    database = PgDatabase(store_settings)
    book = PgSessionBook(database, IDLE_S)
    entries = [structs.replace(ENTRY, key=session_key(str(number))) for number in range(3)]
    for entry in entries:
        await book.open(entry)
    await book.find(entries[0].key)
    await book.sweep()

    found = [await book.find(entry.key) for entry in entries]
    await database.close()
    assert found == [entries[0], None, entries[2]]


async def test_the_id_of_a_session_is_not_in_the_database(store_settings):
    """Who can read the database cannot go on with somebody's session."""
    database = PgDatabase(store_settings)
    await PgSessionBook(database).open(ENTRY)

    rows = await database.rows("SELECT * FROM toolcrib.session")
    await database.close()
    assert "an id that lets in" not in repr(rows)


async def test_a_book_that_cannot_be_asked_says_so(store_settings):
    database = PgDatabase(replace(store_settings, url="postgresql://toolcrib@127.0.0.1:9/none", timeout_s=0.3))

    with pytest.raises(StoreUnavailable):
        await PgSessionBook(database).find(ENTRY.key)
    await database.close()
