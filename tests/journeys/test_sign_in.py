"""Signing in at a real OpenID provider, and staying signed in."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from tests.fleet.oauth import OAuthProvider, oauth_provider, sign_in

from toolcrib import open_crib
from toolcrib.config.model import Config, ServerConfig
from toolcrib.config.oauth import OAuthConfig
from toolcrib.core.access import EVERYTHING, Caller
from toolcrib.core.kinds import SignInMode
from toolcrib.credentials.oauth import CallbackRefused
from toolcrib.crib.crib import Crib
from toolcrib.stores.paths import Environment

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
