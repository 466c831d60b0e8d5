"""What every place for tokens promises; the file's own rules are in tests/stores/test_access_tokens.py."""

import asyncio
import time

import psycopg
import pytest
from tests.fleet.engines import a_postgres

from toolcrib.core.access import Grants
from toolcrib.core.errors import CallerError, StoreUnavailable
from toolcrib.core.offers import SecurityLevel
from toolcrib.stores.access_tokens import NewToken, NoSuchToken, TokenFile
from toolcrib.stores.postgres.database import StoreSettings
from toolcrib.stores.postgres.tokens import COUNTS_S, LOOK_S, PgTokens
from toolcrib.testing.doubles import ManualClock

READ = Grants(SecurityLevel.READ_ONLY)
WIDE = Grants(SecurityLevel.ADMIN, ("git*",), ("a", "b"), frozenset({"net"}))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000.0)


@pytest.fixture(params=["file", "postgres"])
def open_tokens(request, tmp_path, clock):
    if request.param == "file":
        return lambda: TokenFile(tmp_path / "tokens.json", clock)
    settings = request.getfixturevalue("store_settings")
    return lambda: PgTokens(settings, clock)


def test_a_token_is_recognised_with_what_it_grants_and_nothing_like_it(open_tokens):
    tokens = open_tokens()
    token, text = tokens.create(NewToken("ci", WIDE, "agent"))
    caller = tokens.identify(text.encode())

    assert caller is not None
    assert (caller.id, caller.kind, caller.grants) == (f"token:{token.id}", "agent", WIDE)
    assert tokens.identify(text[:-1].encode()) is None
    assert tokens.identify(b"tc_000000000000_x") is None
    assert (tokens.is_active(token.id), tokens.has_ended(token.id)) == (True, False)
    assert tokens.names() == {token.id: "ci"}


def test_a_token_that_ended_is_kept_but_works_no_more(open_tokens, clock):
    tokens = open_tokens()
    short, short_text = tokens.create(NewToken("short", READ, lifetime_s=10))
    gone, gone_text = tokens.create(NewToken("gone", READ))
    tokens.revoke("gone")
    clock.advance(10)

    assert [tokens.identify(text.encode()) for text in (short_text, gone_text)] == [None, None]
    assert [token.state(clock()) for token in tokens.read()] == ["expired", "revoked"]
    assert not tokens.is_active(short.id)
    assert not tokens.is_active(gone.id)
    assert [tokens.has_ended(token.id) for token in (short, gone)] == [True, True]


def test_a_name_in_use_is_refused_by_every_process_and_free_once_its_token_ended(open_tokens):
    one, other = open_tokens(), open_tokens()
    first, _ = one.create(NewToken("ci", READ))
    with pytest.raises(CallerError, match="already"):
        other.create(NewToken("ci", READ))
    other.revoke(first.id)
    second, _ = one.create(NewToken("ci", READ))

    assert [token.id for token in other.read()] == [first.id, second.id]
    with pytest.raises(NoSuchToken):
        one.revoke("nobody")


async def test_many_who_create_at_once_lose_nothing(open_tokens):
    books = [open_tokens() for _ in range(3)]
    await asyncio.gather(
        *(asyncio.to_thread(book.create, NewToken(f"{n}-{m}", READ)) for n, book in enumerate(books) for m in range(4))
    )

    assert len(open_tokens().read()) == 12


async def until(holds, within_s: float) -> float:
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < within_s
        await asyncio.sleep(0.005)
    return time.monotonic() - began


async def test_what_one_replica_creates_or_revokes_counts_on_another_without_being_asked(open_tokens):
    here, there = open_tokens(), open_tokens()
    following = asyncio.create_task(there.follow())
    try:
        there.read()
        _, text = await asyncio.to_thread(here.create, NewToken("ci", READ))
        await until(lambda: there.identify(text.encode()) is not None, within_s=150)
        await asyncio.to_thread(here.revoke, "ci")
        await until(lambda: there.identify(text.encode()) is None, within_s=150)
    finally:
        following.cancel()


# The database's own rules


async def test_a_change_that_nobody_was_told_of_is_found_by_looking_every_second(store_settings, clock):
    """Telling may get lost, as behind a pooler."""
    assert LOOK_S < 1
    tokens = PgTokens(store_settings, clock)
    _, text = tokens.create(NewToken("ci", READ))
    following = asyncio.create_task(tokens.follow())
    try:
        with psycopg.connect(store_settings.url) as connection:
            connection.execute("DELETE FROM toolcrib.token")
            connection.execute("UPDATE toolcrib.mark SET stamp = gen_random_uuid()")
        await until(lambda: tokens.identify(text.encode()) is None, within_s=150)
    finally:
        following.cancel()


def test_tokens_of_another_fleet_do_not_count(store_settings, clock):
    theirs = PgTokens(StoreSettings(store_settings.url, "other"), clock)
    ours = PgTokens(store_settings, clock)
    _, text = theirs.create(NewToken("ci", READ))

    assert ours.read() == ()
    assert ours.identify(text.encode()) is None


def test_a_damaged_token_lets_nobody_in(store_settings, clock):
    tokens = PgTokens(store_settings, clock)
    tokens.create(NewToken("ci", READ))
    with psycopg.connect(store_settings.url) as connection:
        connection.execute("UPDATE toolcrib.token SET body = '{}'")

    with pytest.raises(StoreUnavailable, match="damaged"):
        PgTokens(store_settings, clock).read()


async def test_while_the_database_is_away_the_copy_counts_for_a_minute_and_then_nobody_comes_in():
    with a_postgres() as engine:
        steady = ManualClock(0.0)
        tokens = PgTokens(StoreSettings(engine.fresh_database(), timeout_s=1), time.time, steady)
        token, text = tokens.create(NewToken("ci", READ))
        following = asyncio.create_task(tokens.follow())
        try:
            await asyncio.to_thread(engine.stop)
            steady.advance(COUNTS_S)
            within = tokens.identify(text.encode())
            steady.advance(0.1)
            with pytest.raises(StoreUnavailable, match="none is accepted"):
                tokens.identify(text.encode())
            active, ended = tokens.is_active(token.id), tokens.has_ended(token.id)
            with pytest.raises(StoreUnavailable):
                await asyncio.to_thread(tokens.read)
            await asyncio.to_thread(engine.start)
            await until(lambda: tokens.is_active(token.id), within_s=150)
        finally:
            following.cancel()

        assert within is not None
        assert (active, ended) == (False, False)
        assert tokens.identify(text.encode()) == within
