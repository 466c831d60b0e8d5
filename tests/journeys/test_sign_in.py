"""Signing in at a real OpenID provider, and staying signed in."""

import asyncio
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import psycopg
import pytest
from tests.fleet.oauth import OAuthProvider, oauth_provider, sign_in

from toolcrib import open_crib
from toolcrib.catalog.standing import standing_of
from toolcrib.config.model import Config, ServerConfig
from toolcrib.config.oauth import OAuthConfig
from toolcrib.core.access import EVERYTHING, Caller
from toolcrib.core.kinds import ServerState, SignInMode, StepKind
from toolcrib.core.offers import OfferKind, RequestKind
from toolcrib.core.requests import Result
from toolcrib.credentials.oauth import CallbackRefused
from toolcrib.credentials.vault import VARIABLE
from toolcrib.crib.crib import Crib
from toolcrib.crib.subscriptions import Watcher
from toolcrib.stores.paths import Environment
from toolcrib.stores.postgres.database import StoreSettings

JWT = "urn:ietf:params:oauth:token-type:jwt"
BACK = "http://127.0.0.1:9/oauth/callback"


@pytest.fixture
def around(tmp_path: Path) -> Environment:
    return Environment(tmp_path, {"HOME": str(tmp_path), "PATH": "/usr/bin"})


def behind(provider: OAuthProvider, **oauth: object) -> Config:
    server = ServerConfig("tracker", url=provider.url, oauth=OAuthConfig(**oauth) if oauth else None)
    return Config(servers={"tracker": server})


async def signed_in(crib: Crib, name: str = "ada", caller: str = "") -> None:
    begun = await crib.sign_ins.begin("tracker", caller, redirect_uri=BACK)
    back = sign_in(begun.url, name)
    await crib.sign_ins.answer(dict(parse_qsl(urlsplit(back).query)))
    await crib.servers.refresh("tracker")


async def test_somebody_signs_in_once_and_calls_are_made_with_their_account(around: Environment):
    """From the first refusal by discovery, registration, code and token to a call; and again after a restart."""
    with oauth_provider() as provider:
        async with open_crib(behind(provider), surroundings=around) as crib:
            refused = await crib.call("tracker__whoami", {})
            await signed_in(crib)
            called = await crib.call("tracker__whoami", {})
        async with open_crib(behind(provider), surroundings=around) as crib:
            again = await crib.call("tracker__whoami", {})

        assert refused.error is not None
        assert refused.error.code == "TOOL_AUTH_REQUIRED"
        assert called.text == "ada mcp:read offline_access"
        assert again.text == called.text
        assert provider.seen()["registered"] == 1


async def test_many_calls_of_several_processes_spend_a_rotating_refresh_token_once(around: Environment):
    """Three that share the store, each with calls at once, after the token has ended: nobody presents a spent one."""
    with oauth_provider(accessS=1) as provider:
        async with open_crib(behind(provider), surroundings=around) as crib:
            await signed_in(crib)
        async with AsyncExitStack() as stack:
            opened = [open_crib(behind(provider), surroundings=around) for _ in range(3)]
            cribs = [await stack.enter_async_context(each) for each in opened]
            texts = []
            while provider.seen()["refreshes"] < 3:
                calls = [crib.call("tracker__whoami", {}) for crib in cribs for _ in range(5)]
                texts += [result.text for result in await asyncio.gather(*calls)]
        seen = provider.seen()

    assert set(texts) == {"ada mcp:read offline_access"}
    assert seen["reuse"] == 0


async def test_an_issuer_in_trouble_costs_nobody_the_account(around: Environment):
    """What fails for now is tried again; the refresh token is still there afterwards."""
    with oauth_provider(accessS=1) as provider:
        async with open_crib(behind(provider), surroundings=around) as crib:
            await signed_in(crib)
            provider.wish(tokenStatus=500)
            while (failed := await crib.call("tracker__whoami", {})).success:
                await asyncio.sleep(0.1)
            provider.wish(tokenStatus=0)
            await crib.servers.refresh("tracker")
            back = await crib.call("tracker__whoami", {})

    assert failed.error is not None
    assert failed.error.code == "TOOL_UNAVAILABLE"
    assert back.success


async def test_a_call_that_needs_more_scopes_asks_for_the_union_and_then_works(around: Environment):
    with oauth_provider() as provider:
        async with open_crib(behind(provider), surroundings=around) as crib:
            await signed_in(crib)
            refused = await crib.call("tracker__write", {})
            await signed_in(crib)
            called = await crib.call("tracker__write", {})

    assert refused.error is not None
    assert refused.error.code == "TOOL_AUTH_REQUIRED"
    assert refused.error.details["scopes"] == ["mcp:write"]
    assert set(called.text.split()) == {"ada", "mcp:read", "mcp:write", "offline_access"}


async def test_signing_out_revokes_the_tokens_and_forgets_them(around: Environment):
    with oauth_provider() as provider:
        async with open_crib(behind(provider), surroundings=around) as crib:
            await signed_in(crib)
            _, problem = await crib.sign_ins.sign_out("tracker", "")
            left = await crib.sign_ins.kept()
            await crib.servers.restart("tracker")
            refused = await crib.call("tracker__whoami", {})
        seen = provider.seen()

    assert (problem, left, seen["revoked"]) == ("", [], 1)
    assert refused.error is not None
    assert refused.error.code == "TOOL_AUTH_REQUIRED"


async def test_toolcrib_uses_an_account_of_its_own_where_that_is_configured(around: Environment):
    around.env["SECRET"] = "by-hand-secret-0123456789"
    machine = {"mode": SignInMode.CLIENT_CREDENTIALS, "client_id": "by-hand", "client_secret": "${SECRET}"}
    with oauth_provider() as provider:
        async with open_crib(behind(provider, **machine), surroundings=around) as crib:
            called = await crib.call("tracker__whoami", {})

    assert called.text == "by-hand mcp:read"


async def test_each_caller_uses_an_account_of_their_own_and_never_anothers(around: Environment):
    """The owner is signed in, another caller is not: it is asked to sign in, whatever there is of the owner's."""
    guest = Caller("token:guest", "token", EVERYTHING)
    with oauth_provider() as provider:
        async with open_crib(behind(provider, mode=SignInMode.PER_USER), surroundings=around) as crib:
            await signed_in(crib)
            mine = await crib.call("tracker__whoami", {})
            refused = await crib.call("tracker__whoami", {}, caller=guest)
            await signed_in(crib, "grace", guest.id)
            theirs = await crib.call("tracker__whoami", {}, caller=guest)
            still_mine = await crib.call("tracker__whoami", {})

    assert refused.error is not None
    assert refused.error.code == "TOOL_AUTH_REQUIRED"
    assert [result.text.split()[0] for result in (mine, theirs, still_mine)] == ["ada", "grace", "ada"]


async def test_a_token_is_repeated_by_nobody_and_stands_nowhere(around: Environment):
    """Not in a result of the server that was given it, and not as it is in any file."""
    with oauth_provider(leak=True) as provider:
        async with open_crib(behind(provider), surroundings=around) as crib:
            await signed_in(crib)
            called = await crib.call("tracker__whoami", {})
            [account] = await crib.sign_ins.kept()
    files = [path.read_bytes() for path in around.cwd.rglob("*") if path.is_file()]

    assert called.text == "ada mcp:read offline_access ***"
    assert not [file for file in files if account.tokens.refresh_token.encode() in file]


async def test_an_answer_counts_once_and_only_if_it_was_asked_for(around: Environment):
    with oauth_provider() as provider:
        async with open_crib(behind(provider), surroundings=around) as crib:
            begun = await crib.sign_ins.begin("tracker", "", redirect_uri=BACK)
            query = dict(parse_qsl(urlsplit(sign_in(begun.url)).query))
            with pytest.raises(CallbackRefused, match="no sign-in that was begun"):
                await crib.sign_ins.answer({**query, "state": "another"})
            await crib.sign_ins.answer(query)
            with pytest.raises(CallbackRefused, match="used before"):
                await crib.sign_ins.answer(query)
            begun = await crib.sign_ins.begin("tracker", "", redirect_uri=BACK)
            query = dict(parse_qsl(urlsplit(sign_in(begun.url)).query))
            with pytest.raises(CallbackRefused, match="no issuer"):
                await crib.sign_ins.answer({name: value for name, value in query.items() if name != "iss"})


# Refusals


BODIES = {
    "nothing": ("text/plain", ""),
    "a page": ("text/html", "<html><h1>Bad Gateway</h1></html>"),
    "an error of its own": ("application/json", '{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Oops"}}'),
    "a result": ("application/json", '{"jsonrpc":"2.0","id":1,"result":{}}'),
    "an error of OAuth": ("application/json", '{"error":"invalid_token","error_description":"No."}'),
    "something else": ("application/json", '[{"error": {"status": 500}}]'),
    "what is no JSON": ("application/json", '{"error":'),
    "a stream": ("text/event-stream", 'data: {"jsonrpc":"2.0","id":1,"result":{}}\n\n'),
    "a lot": ("application/json", '{"error": "' + "x" * 3_000_000 + '"}'),
}


@pytest.mark.parametrize("body", BODIES)
async def test_a_refusal_is_shown_as_one_whatever_its_body_says(around: Environment, body: str):
    """A 401 wants somebody to sign in, a 403 says that they may not do this; neither is ever anything else."""
    kind, text = BODIES[body]
    with oauth_provider() as provider:
        provider.wish(refusal={"type": kind, "body": text})
        async with open_crib(behind(provider), surroundings=around) as crib:
            unsigned = await crib.call("tracker__whoami", {})
            state = standing_of(crib.shelves["tracker"]).state
            await signed_in(crib)
            provider.wish(forbids=True)
            forbidden = await crib.call("tracker__whoami", {})
            await crib.servers.restart("tracker")
            standing = standing_of(crib.shelves["tracker"])

    assert unsigned.error is not None
    assert unsigned.error.code == "TOOL_AUTH_REQUIRED"
    assert state is ServerState.SIGN_IN
    assert forbidden.error is not None
    assert forbidden.error.details["http_status"] == 403
    assert "The server answered with HTTP 403" in forbidden.text
    assert "toolcrib accounts" in forbidden.text
    assert "HTTP 403" in (standing.cause or "")
    assert standing.next is not None
    assert standing.next.kind is StepKind.EDIT


async def test_a_server_that_wants_a_key_is_not_taken_for_one_that_people_sign_in_at(around: Environment):
    """Nothing is there that lets people in: whoever is told to sign in is told of the other way, too."""
    refusing = await asyncio.start_server(refuse_all, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{refusing.sockets[0].getsockname()[1]}/mcp"
    async with (
        refusing,
        open_crib(Config(servers={"keyed": ServerConfig("keyed", url=url)}), surroundings=around) as crib,
    ):
        called = await crib.call("keyed__whoami", {})

    assert called.error is not None
    assert called.error.code == "TOOL_AUTH_REQUIRED"
    assert "if it takes a key instead, set that under `headers`" in called.text


async def refuse_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    status = b"401 Unauthorized" if head.startswith(b"POST /mcp") else b"404 Not Found"
    writer.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
    await writer.drain()
    writer.close()


# Every path


async def everything(crib: Crib, caller: Caller) -> dict[str, Result]:
    """One request of each kind."""
    complete = crib.request(
        "tracker__greet", {"argument": {"name": "word", "value": "a"}}, caller, kind=RequestKind.COMPLETE
    )
    return {
        "call": await crib.call("tracker__whoami", {}, caller=caller),
        "read": await crib.read("tracker__diary://today", caller=caller),
        "read by template": await crib.read("tracker__diary://tomorrow", caller=caller),
        "get": await crib.get("tracker__greet", {}, caller=caller),
        "complete": await crib.run(complete),
    }


@pytest.mark.parametrize("mode", [SignInMode.SHARED, SignInMode.PER_USER])
async def test_an_account_is_used_for_everything_that_a_server_is_asked(around: Environment, mode: SignInMode):
    """Calls, reads, prompts, completions, subscriptions and lists, each as whoever asks; a guest without an account of
    their own gets nothing on any of these ways, whatever there is of the owner's."""
    guest = Caller("token:guest", "token", EVERYTHING)
    told = asyncio.Event()
    with oauth_provider(full=True) as provider:
        async with open_crib(behind(provider, mode=mode), surroundings=around) as crib:
            await signed_in(crib)
            refused = await everything(crib, guest) if mode is SignInMode.PER_USER else {}
            if mode is SignInMode.PER_USER:
                await signed_in(crib, "grace", guest.id)
            strangers = provider.seen()["unsigned"]
            answers = await everything(crib, guest)
            route = crib.catalog.find(RequestKind.READ, "tracker__diary://today")
            watcher = Watcher(guest, lambda _: told.set())
            stop = await crib.subscriptions.add(route, "tracker__diary://today", watcher)
            await crib.call("tracker__touch", {}, caller=guest)
            async with asyncio.timeout(150):
                await told.wait()
            stop()
            offers = {kind: len(await crib.offers(kind)) for kind in (OfferKind.RESOURCE, OfferKind.PROMPT)}
            seen = provider.seen()

    who = "grace" if mode is SignInMode.PER_USER else "ada"
    codes = [result.error and result.error.code for result in refused.values()]
    assert codes == ["TOOL_AUTH_REQUIRED"] * len(refused)
    assert {name: who in str(result.mcp) for name, result in answers.items()} == dict.fromkeys(answers, True)
    assert offers == {OfferKind.RESOURCE: 1, OfferKind.PROMPT: 1}
    assert set(seen["asked"]) >= {"tools/list", "resources/list", "prompts/list", "resources/subscribe", "GET"}
    assert seen["unsigned"] == strangers


# The ways in which nobody signs in


async def test_a_token_from_elsewhere_is_exchanged_for_one_of_the_server(around: Environment):
    """RFC 8693 at a real provider; anew when it has ended, and refused in the provider's own words."""
    exchange = {"mode": SignInMode.TOKEN_EXCHANGE, "client_id": "by-hand", "client_secret": "${SECRET}"}
    exchange |= {"subject_token": "${SUBJECT}", "subject_token_type": JWT}
    around.env["SECRET"] = "by-hand-secret-0123456789"
    with oauth_provider(signs=True, accessS=1) as provider:
        around.env["SUBJECT"] = provider.mint(sub="ada", aud="elsewhere")
        async with open_crib(behind(provider, **exchange), surroundings=around) as crib:
            called = await crib.call("tracker__whoami", {})
            while len(provider.seen()["exchanged"]) < 3:
                assert (await crib.call("tracker__whoami", {})).text == called.text
        around.env["SUBJECT"] = "no-token-at-all"
        async with open_crib(behind(provider, **exchange), surroundings=around) as crib:
            refused = await crib.call("tracker__whoami", {})
        asked = provider.seen()["exchanged"][0]

    assert called.text == "ada mcp:read"
    assert (asked["resource"], asked["subject_token_type"]) == (provider.url, JWT)
    assert refused.error is not None
    assert refused.error.code == "TOOL_AUTH_REQUIRED"
    assert f"{provider.issuer}: the token exchange failed: invalid_grant: the subject token is not good" in refused.text
    assert "[servers.tracker.oauth]" in refused.text
    assert "no-token-at-all" not in refused.text


async def test_an_identity_provider_vouches_for_whoever_calls(around: Environment):
    """Two providers: the one that knows people gives an assertion for the other (ID-JAG), which gives the token."""
    around.env["SECRET"] = "by-hand-secret-0123456789"
    with oauth_provider(signs=True) as home, oauth_provider(idp=home.issuer) as provider:
        around.env["SUBJECT"] = home.mint(sub="grace", aud="by-hand")
        vouched = {"mode": SignInMode.IDENTITY_ASSERTION, "client_id": "by-hand", "client_secret": "${SECRET}"}
        vouched |= {"idp": home.issuer, "idp_client_id": "by-hand", "idp_client_secret": "${SECRET}"}
        vouched |= {"subject_token": "${SUBJECT}"}
        async with open_crib(behind(provider, **vouched), surroundings=around) as crib:
            called = await crib.call("tracker__whoami", {})
        [asked] = home.seen()["exchanged"]

    assert called.text == "grace mcp:read"
    assert asked["requested_token_type"] == "urn:ietf:params:oauth:token-type:id-jag"
    assert (asked["audience"], asked["resource"]) == (provider.issuer, provider.url)


# What replicas share


async def test_two_processes_share_accounts_in_postgresql(around: Environment, store_settings: StoreSettings):
    """One of them is signed in to, the other uses that, and both renew its token one at a time; with another key it is
    of no use. Nothing of it stands in the database as it is."""
    here = {"HOME": str(around.cwd / "here"), VARIABLE: "the same key for all replicas"}
    there = {"HOME": str(around.cwd / "there"), VARIABLE: here[VARIABLE]}
    (around.cwd / "toolcrib.toml").write_text(f'[store]\nurl = "{store_settings.url}"\n[kb]\nenabled = false\n')
    with oauth_provider(accessS=2) as provider:
        with (around.cwd / "toolcrib.toml").open("a") as file:
            file.write(f'[servers.tracker]\nurl = "{provider.url}"\n')
        config = around.cwd / "toolcrib.toml"
        async with open_crib(config, surroundings=Environment(around.cwd, here)) as crib:
            await signed_in(crib)
            [account] = await crib.sign_ins.kept()
            command = [sys.executable, "-c", CALLER, str(config), str(enough := around.cwd / "enough")]
            other = await asyncio.create_subprocess_exec(*command, cwd=around.cwd, env=there, stdout=subprocess.PIPE)
            texts = set()
            while other.returncode is None and provider.seen()["refreshes"] < 4:
                texts.add((await crib.call("tracker__whoami", {})).text)
            enough.touch()
            out, _ = await other.communicate()
        strange = Environment(around.cwd, {**there, VARIABLE: "another key altogether"})
        async with open_crib(config, surroundings=strange) as crib:
            refused = await crib.call("tracker__whoami", {})
        seen = provider.seen()
    with psycopg.connect(store_settings.url) as connection:
        rows = connection.execute("SELECT sealed FROM toolcrib.credential").fetchall()

    assert texts == {"ada mcp:read offline_access"}
    assert set(out.decode().splitlines()) == texts
    assert other.returncode == 0
    assert seen["reuse"] == 0
    assert seen["refreshes"] >= 4
    assert rows
    assert not [row for row in rows if account.tokens.refresh_token.encode() in bytes(row[0])]
    assert refused.error is not None
    assert "sealed with another key" in refused.text


CALLER = """
import asyncio, sys
from pathlib import Path
from toolcrib import open_crib
from toolcrib.stores.paths import Environment
from toolcrib.stores.postgres.database import StoreSettings

async def main():
    async with open_crib(Path(sys.argv[1]), surroundings=Environment()) as crib:
        print((await crib.call("tracker__whoami", {})).text)
        while not Path(sys.argv[2]).exists():
            print((await crib.call("tracker__whoami", {})).text)

asyncio.run(main())
"""
