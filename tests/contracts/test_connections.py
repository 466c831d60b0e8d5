"""What every place for connected clients promises, and what the authorization server makes of it."""

import asyncio
import base64
import hashlib
import signal
import subprocess
import sys
from urllib.parse import parse_qsl, urlencode, urlsplit

import psycopg
import pytest
from tests.fleet.launcher import popen

from toolcrib.core.access import Grants
from toolcrib.core.errors import CallerError, StoreUnavailable
from toolcrib.core.offers import SecurityLevel
from toolcrib.server.identity.authentication import PERSON, is_endpoint
from toolcrib.server.identity.oauth import BuiltinAuthorizationServer, ResourceIdentity
from toolcrib.server.identity.oauth_clients import ClientDirectory, ClientMetadata, OAuthProblem, fetch_document
from toolcrib.server.identity.oauth_tokens import ConnectedCallers
from toolcrib.stores.access_tokens import NewToken, TokenFile
from toolcrib.stores.connections import (
    INVITED_S,
    ConnectedClient,
    ConnectionFile,
    InvitationOver,
    NoSuchConnection,
    RegisteredClient,
    accept_invitation,
    find_invitation,
    invite,
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


# What the authorization server makes of it

VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
CALLBACK = "http://127.0.0.1:33418/callback"


@pytest.fixture
def people(tmp_path, clock) -> TokenFile:
    return TokenFile(tmp_path / "tokens.json", clock)


@pytest.fixture
def replica(open_book, people, clock):
    """Makes an authorization server on the same book, as every replica has one."""

    def make() -> BuiltinAuthorizationServer:
        book, resource = open_book(), ResourceIdentity((), SecurityLevel.WRITE, is_endpoint)
        resource.base = "https://tools.example"
        clients = ClientDirectory(book, fetch_document(None), clock)
        return BuiltinAuthorizationServer(resource, clients, ConnectedCallers(book, people, clock), clock)

    return make


async def code_of(server: BuiltinAuthorizationServer) -> dict[str, str]:
    """What a client sends that a person has just let in."""
    client = server.clients.register(ClientMetadata(client_name="Cursor", redirect_uris=(CALLBACK,)))
    asked = {"response_type": "code", "client_id": client.id, "redirect_uri": CALLBACK}
    asked |= {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}
    request = await server.read_request(urlencode(asked).encode())
    back = await server.approve(request, PERSON, SecurityLevel.WRITE, "the owner")
    code = dict(parse_qsl(urlsplit(back).query))["code"]
    sent = {"grant_type": "authorization_code", "client_id": client.id, "code": code, "code_verifier": VERIFIER}
    return {**sent, "redirect_uri": CALLBACK}


def refreshing(token: str) -> dict[str, str]:
    return {"grant_type": "refresh_token", "refresh_token": token}


def is_let_in(server: BuiltinAuthorizationServer, tokens: dict[str, object]) -> bool:
    callers = ConnectedCallers(server.book, server._callers.users, server.now)
    server.book.read(ConnectedClient)  # what another replica is told of without being asked
    return callers.identify(str(tokens["access_token"]).encode()) is not None


async def all_at_once(servers: list[BuiltinAuthorizationServer], sent: dict[str, str]):
    """What each server makes of the same request: tokens, or why there are none."""
    return await asyncio.gather(*(server.give_tokens(sent) for server in servers), return_exceptions=True)


async def test_a_code_that_several_replicas_get_at_once_is_taken_once_and_then_ends_what_it_was_taken_for(replica):
    servers = [replica() for _ in range(4)]
    outcomes = await all_at_once(servers, await code_of(servers[0]))
    given = [each for each in outcomes if isinstance(each, dict)]
    problems = [each for each in outcomes if isinstance(each, OAuthProblem)]

    assert (len(given), [each.error for each in problems]) == (1, ["invalid_grant"] * 3)
    assert [each.ended is not None for each in problems].count(True) == 1
    assert not is_let_in(replica(), given[0])
    with pytest.raises(OAuthProblem, match="not connected any more"):
        await servers[0].give_tokens(refreshing(given[0]["refresh_token"]))


async def test_a_refresh_token_that_several_replicas_get_at_once_ends_the_whole_family(replica):
    servers = [replica() for _ in range(4)]
    first = await servers[0].give_tokens(await code_of(servers[0]))
    outcomes = await all_at_once(servers, refreshing(first["refresh_token"]))
    given = [each for each in outcomes if isinstance(each, dict)]

    assert len(given) == 1
    assert not is_let_in(replica(), first)
    assert not is_let_in(replica(), given[0])
    with pytest.raises(OAuthProblem, match="not connected any more"):
        await servers[1].give_tokens(refreshing(given[0]["refresh_token"]))


async def test_each_refresh_gives_tokens_that_work_and_a_token_of_long_ago_ends_them_after_a_restart_too(replica):
    server = replica()
    tokens = [await server.give_tokens(await code_of(server))]
    for _ in range(5):
        tokens.append(await replica().give_tokens(refreshing(tokens[-1]["refresh_token"])))
    worked = is_let_in(replica(), tokens[-1])
    with pytest.raises(OAuthProblem, match="used before") as caught:
        await replica().give_tokens(refreshing(tokens[1]["refresh_token"]))

    assert worked
    assert len({each["refresh_token"] for each in tokens}) == 6
    assert caught.value.ended.reason == "a refresh token was used twice"
    assert not is_let_in(replica(), tokens[-1])


async def test_one_connection_that_ends_leaves_all_others(replica):
    server = replica()
    one, other = [await server.give_tokens(await code_of(server)) for _ in range(2)]
    ended = await server.revoke({"token": one["refresh_token"]})

    assert ended.reason == "its client gave it back"
    assert [is_let_in(server, each) for each in (one, other)] == [False, True]


async def test_no_token_and_no_code_is_kept_as_it_is(replica, open_book, tmp_path, request):
    server = replica()
    sent = await code_of(server)
    tokens = await server.give_tokens(sent)
    if "postgres" in request.node.name:
        with psycopg.connect(request.getfixturevalue("store_settings").url) as connection:
            kept = str(connection.execute("SELECT body FROM toolcrib.oauth").fetchall())
    else:
        kept = (tmp_path / "oauth.json").read_text()

    assert "Cursor" in kept
    assert not [word for word in (sent["code"], tokens["access_token"], tokens["refresh_token"]) if word in kept]


RENEWING = """
import asyncio, sys
from pathlib import Path
from toolcrib.core.offers import SecurityLevel
from toolcrib.server.identity.authentication import is_endpoint
from toolcrib.server.identity.oauth import BuiltinAuthorizationServer, ResourceIdentity
from toolcrib.server.identity.oauth_clients import ClientDirectory, fetch_document
from toolcrib.server.identity.oauth_tokens import ConnectedCallers
from toolcrib.stores.access_tokens import NewToken, TokenFile
from toolcrib.stores.connections import ConnectionFile
from toolcrib.stores.postgres.connections import PgConnections
from toolcrib.stores.postgres.database import StoreSettings

place, name, token = sys.argv[1:]
now = lambda: 1000.0
book = PgConnections(StoreSettings(place, name), now) if name else ConnectionFile(Path(place), now)
callers = ConnectedCallers(book, TokenFile(Path("tokens.json"), now), now)
resource = ResourceIdentity((), SecurityLevel.WRITE, is_endpoint)
server = BuiltinAuthorizationServer(resource, ClientDirectory(book, fetch_document(None), now), callers, now)

async def main(token):
    while True:
        given = await server.give_tokens({"grant_type": "refresh_token", "refresh_token": token})
        token = given["refresh_token"]
        print(token, flush=True)

asyncio.run(main(token))
"""
"""Renews tokens until it is killed."""


async def test_whoever_is_killed_while_renewing_leaves_a_book_that_knows_every_used_token(replica, tmp_path, request):
    """At whatever point it dies: the last token counts, or its successor did; none before counts again."""
    settings = request.getfixturevalue("store_settings") if "postgres" in request.node.name else None
    where = [str(tmp_path / "oauth.json"), ""] if settings is None else [settings.url, settings.name]
    server = replica()
    first = (await server.give_tokens(await code_of(server)))["refresh_token"]
    process = popen((sys.executable, "-c", RENEWING, *where, first), stdout=subprocess.PIPE, cwd=tmp_path)
    seen = [first, *(process.stdout.readline().decode().strip() for _ in range(5))]
    process.send_signal(signal.SIGKILL)
    seen += process.stdout.read().decode().split("\n")[:-1]
    process.stdout.close()
    process.wait(150)
    with pytest.raises(OAuthProblem, match="used before"):
        await replica().give_tokens(refreshing(seen[-2]))

    assert [each.state(1_000.0) for each in server.book.read(ConnectedClient)] == ["revoked"]
    for token in seen:
        with pytest.raises(OAuthProblem, match="not connected any more"):
            await server.give_tokens(refreshing(token))


def test_an_invitation_is_accepted_once_by_whoever_has_its_link(open_book, people, clock):
    book = open_book()
    word = invite(book, people, "ada", Grants(SecurityLevel.READ_ONLY, ("docs",)), clock())
    shown = find_invitation(open_book(), word, clock())
    token, text = accept_invitation(open_book(), people, word, clock())

    assert (shown.name, token.name, token.kind) == ("ada", "ada", "person")
    assert people.identify(text.encode()).grants == Grants(SecurityLevel.READ_ONLY, ("docs",))
    for again in (word, "another"):
        with pytest.raises(InvitationOver):
            accept_invitation(book, people, again, clock())
        with pytest.raises(InvitationOver):
            find_invitation(book, again, clock())


def test_an_invitation_ends_and_is_not_spent_where_the_person_cannot_be_made_a_user(open_book, people, clock):
    book = open_book()
    word = invite(book, people, "ada", Grants(SecurityLevel.WRITE), clock())
    late = invite(book, people, "grace", Grants(SecurityLevel.WRITE), clock())
    people.create(make_wish("ada"))
    with pytest.raises(CallerError, match="token called 'ada' already"):
        accept_invitation(book, people, word, clock())
    with pytest.raises(CallerError, match="token called 'ada' already"):
        invite(book, people, "ada", Grants(SecurityLevel.WRITE), clock())
    people.revoke("ada")
    accept_invitation(book, people, word, clock())
    clock.advance(INVITED_S)

    with pytest.raises(InvitationOver):
        accept_invitation(book, people, late, clock())


def make_wish(name: str) -> NewToken:
    return NewToken(name, Grants(SecurityLevel.WRITE))


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
