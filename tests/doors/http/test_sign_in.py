"""Signing in: a link that works once or a token; a cookie alone changes nothing."""

import pytest
from tests.doors.http.conftest import GUEST_TOKEN, OWNER_TOKEN

from toolcrib.doors.http.answers import json_answer
from toolcrib.doors.http.router import RouteSpec
from toolcrib.doors.http.sign_in import COOKIE, KEPT_S, LINK_S, cookie_header


async def who(visit):
    word = visit.signed_in.csrf if visit.signed_in else ""
    return json_answer({"caller": visit.caller.id, "known": visit.is_known, "csrf": word})


ROUTES = [RouteSpec("GET", "/who", who), RouteSpec("POST", "/who", who)]


@pytest.fixture
def signing(doorman):
    """One ``SignIns`` for what the test does and what the server asks."""
    made = doorman.sign_ins()
    doorman.sign_ins = lambda: made
    return made


def test_a_link_signs_in_once_and_not_for_ever(signing, doorman):
    first, late = signing.make_link(), signing.make_link()

    assert signing.use_link(first).startswith("o.")
    assert signing.use_link(first) is None
    doorman.clock.now += LINK_S + 1
    assert signing.use_link(late) is None
    assert signing.use_link("guessed") is None


def test_there_are_only_so_many_links(signing):
    first = signing.make_link()
    for _ in range(100):
        signing.make_link()

    assert signing.use_link(first) is None


async def test_the_owners_cookie_survives_a_restart_and_ends_with_the_token(signing, doorman, serve):
    cookie = f"{COOKIE}={signing.use_token(OWNER_TOKEN)}"
    restarted = type(signing)(signing._owner, lambda: doorman.owner_token, signing._tokens, doorman.clock)
    doorman.sign_ins = lambda: restarted
    async with serve(ROUTES, None) as browser:
        assert (await browser.send("GET", "/who", cookie=cookie)).json["caller"] == "owner@page"
        doorman.owner_token = "another-token-of-the-owner"
        assert (await browser.send("GET", "/who", cookie=cookie)).status == 401


@pytest.mark.parametrize("change", [lambda value: value[:-1] + "-", lambda value: value.replace("o.2", "o.9", 1)])
async def test_a_changed_cookie_is_nobodys(signing, serve, change):
    forged = change(signing.use_token(OWNER_TOKEN))
    async with serve(ROUTES, None) as browser:
        assert (await browser.send("GET", "/who", cookie=f"{COOKIE}={forged}")).status == 401


async def test_cookies_end(signing, doorman, serve):
    """The owner's and a guest's by time, a guest's also with the token."""
    owner, guest = signing.use_token(OWNER_TOKEN), signing.use_token(GUEST_TOKEN)
    async with serve(ROUTES, None) as browser:
        sent = [f"other=1; {COOKIE}={value}" for value in (owner, guest)]
        assert [(await browser.send("GET", "/who", cookie=each)).status for each in sent] == [200, 200]
        doorman.is_revoked = True
        assert [(await browser.send("GET", "/who", cookie=each)).status for each in sent] == [200, 401]
        doorman.clock.now += KEPT_S + 1
        assert [(await browser.send("GET", "/who", cookie=each)).status for each in sent] == [401, 401]


def test_a_wrong_token_signs_nobody_in(signing):
    assert signing.use_token("") is None
    assert signing.use_token("wrong") is None


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites():
    assert all(word in cookie_header("x")[1] for word in (b"HttpOnly", b"SameSite=Strict", b"Path=/"))


async def test_a_change_needs_the_word_and_this_very_address(signing, serve):
    """Another program's page on this machine has another port, and so another origin."""
    value = signing.use_token(OWNER_TOKEN)
    async with serve(ROUTES, None) as browser:
        own = f"http://{browser.address}"
        word = (await browser.send("GET", "/who", cookie=f"{COOKIE}={value}")).json["csrf"]

        async def post(body: bytes = b"", **headers: str) -> int:
            return (await browser.send("POST", "/who", body, cookie=f"{COOKIE}={value}", **headers)).status

        form = {"content_type": "application/x-www-form-urlencoded"}
        assert await post(origin=own, x_csrf=word) == 200
        assert await post(sec_fetch_site="same-origin", x_csrf=word) == 200
        assert await post(f"csrf={word}".encode(), origin=own, **form) == 200
        assert await post(origin=own) == 403
        assert await post(origin=own, x_csrf="0" * 32) == 403
        assert await post(x_csrf=word) == 403
        assert await post(origin="http://127.0.0.1:1", x_csrf=word) == 403
        assert await post(b"csrf=wrong", origin=own, **form) == 403


async def test_a_page_of_another_site_gets_nothing(serve):
    """Neither by a form nor by an image; a link to here is fine."""
    async with serve(ROUTES) as browser:
        form = await browser.send("POST", "/who", sec_fetch_site="cross-site", sec_fetch_mode="navigate")
        image = await browser.send("GET", "/who", sec_fetch_site="cross-site", sec_fetch_mode="no-cors")
        link = await browser.send("GET", "/who", sec_fetch_site="cross-site", sec_fetch_mode="navigate")

        assert (form.status, image.status, link.status) == (403, 403, 200)


async def test_whoever_comes_without_a_token_is_not_known(serve):
    """Where a token is not needed, one still counts; a wrong one is refused rather than passed over."""
    async with serve(ROUTES) as browser:
        nobody = await browser.send("GET", "/who")
        owner = await browser.send("GET", "/who", authorization=f"Bearer {OWNER_TOKEN}")
        wrong = await browser.send("GET", "/who", authorization="Bearer wrong")

        assert (nobody.json["caller"], nobody.json["known"]) == ("local", False)
        assert (owner.json["caller"], owner.json["known"]) == ("owner@page", True)
        assert wrong.status == 401
