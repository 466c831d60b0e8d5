"""What every place for connected clients promises, and what the authorization server makes of it."""

import asyncio

import psycopg
import pytest

from toolcrib.core.errors import CallerError, StoreUnavailable
from toolcrib.core.offers import SecurityLevel
from toolcrib.stores.connections import (
    ConnectedClient,
    ConnectionFile,
    NoSuchConnection,
    RegisteredClient,
    revoke_connection,
    signing_key,
)
from toolcrib.stores.postgres.connections import PgConnections
from toolcrib.stores.postgres.database import StoreSettings
from toolcrib.stores.postgres.tokens import COUNTS_S
from toolcrib.testing.doubles import ManualClock

CURSOR = ConnectedClient("c1", 9_000.0, "id", "Cursor", "owner@page", "owner", SecurityLevel.WRITE, resource="r")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000.0)


@pytest.fixture(params=["file", "postgres"])
def open_book(request, tmp_path, clock):
    if request.param == "file":
        return lambda: ConnectionFile(tmp_path / "oauth.json", clock)
    settings = request.getfixturevalue("store_settings")
    return lambda: PgConnections(settings, clock)


def keep(book, *records):
    with book.changing() as desk:
        for record in records:
            desk.put(record)


def test_what_was_kept_is_found_by_every_process_until_it_is_forgotten(open_book, clock):
    one, other = open_book(), open_book()
    short = RegisteredClient("r1", 1_010.0, 'Näme \\ "x"', ("http://127.0.0.1/cb",))
    keep(one, CURSOR, short)
    with other.changing() as desk:
        found = desk.get(RegisteredClient, "r1"), desk.get(ConnectedClient, "r1"), desk.all(ConnectedClient)
    clock.advance(10)
    keep(one, RegisteredClient("r2", 2_000.0))

    assert found == (short, None, [CURSOR])
    assert [client.id for client in other.read(RegisteredClient)] == ["r2"]


def test_a_change_that_fails_leaves_everything_as_it_was(open_book):
    book = open_book()
    keep(book, CURSOR)

    def fail() -> None:
        with book.changing() as desk:
            desk.drop(ConnectedClient, CURSOR.id)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert book.read(ConnectedClient) == [CURSOR]


async def test_many_who_change_at_once_lose_nothing_and_get_one_key(open_book):
    def add(book, name: str) -> bytes:
        keep(book, RegisteredClient(name, 9_000.0))
        return signing_key(book)

    books = [open_book() for _ in range(3)]
    keys = await asyncio.gather(
        *(asyncio.to_thread(add, book, f"{n}-{m}") for n, book in enumerate(books) for m in range(3))
    )

    assert len(books[0].read(RegisteredClient)) == 9
    assert {*keys} == {signing_key(open_book())}


def test_a_revoked_client_is_known_to_be_one_and_found_by_id_or_by_a_name_that_only_it_has(open_book, clock):
    book = open_book()
    keep(book, CURSOR, ConnectedClient("c2", 9_000.0, "id", "Cursor"), ConnectedClient("c3", 9_000.0, "id", "claude"))
    with pytest.raises(CallerError, match="2 connected clients"):
        revoke_connection(book, "Cursor", clock(), "enough")
    revoke_connection(book, "c1", clock(), "enough")
    revoke_connection(book, "claude", clock(), "enough")
    with pytest.raises(NoSuchConnection):
        revoke_connection(book, "claude", clock(), "again")

    known = book.look().connections
    assert [known[name].state(clock()) for name in ("c1", "c2", "c3")] == ["revoked", "active", "revoked"]
    assert known["c1"].reason == "enough"


async def test_what_one_replica_revokes_counts_on_another_without_being_asked(open_book, clock):
    here, there = open_book(), open_book()
    keep(here, CURSOR)
    following = asyncio.create_task(there.follow())
    try:
        there.read(ConnectedClient)
        await asyncio.to_thread(revoke_connection, here, "c1", clock(), "enough")
        async with asyncio.timeout(150):
            while there.look().connections["c1"].revoked is None:
                await asyncio.sleep(0.005)
    finally:
        following.cancel()


# The database's own rules


def test_the_copy_counts_for_a_minute_and_other_fleets_do_not_count(store_settings, clock):
    steady = ManualClock(0.0)
    book, other = (
        PgConnections(store_settings, clock, steady),
        PgConnections(StoreSettings(store_settings.url, "other"), clock),
    )
    with pytest.raises(StoreUnavailable):
        book.look()
    keep(book, CURSOR)
    steady.advance(COUNTS_S)

    assert book.look().connections == {"c1": CURSOR}
    assert other.read(ConnectedClient) == []
    steady.advance(0.1)
    with pytest.raises(StoreUnavailable, match="not known for certain"):
        book.look()


def test_a_damaged_row_lets_nobody_in(store_settings, clock):
    book = PgConnections(store_settings, clock)
    keep(book, CURSOR)
    with psycopg.connect(store_settings.url) as connection:
        connection.execute("UPDATE toolcrib.oauth SET body = '{}'")

    with pytest.raises(StoreUnavailable, match="damaged"):
        book.read(ConnectedClient)
