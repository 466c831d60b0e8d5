"""Signing in: a link that works once or a token; a cookie alone changes nothing."""

import re
from base64 import urlsafe_b64decode
from contextlib import nullcontext

import pytest
from tests.server.conftest import GUEST, GUEST_TOKEN, OWNER, OWNER_TOKEN, Doorman, request_to

from toolcrib.core.access import EVERYTHING, Caller
from toolcrib.core.errors import InternalError
from toolcrib.core.offers import SecurityLevel
from toolcrib.server.answers import HttpProblem, json_answer
from toolcrib.server.identity import sign_in
from toolcrib.server.identity.sign_in import (
    CONFIRMED_S,
    COOKIE,
    IDLE_S,
    KEPT_S,
    LINK_S,
    MOST_LINKS,
    MOST_NAMES,
    MOST_SESSIONS,
    OwnNames,
    PublicAddress,
    SignedIn,
    check_word,
    host_of,
    refuse_strangers,
)
from toolcrib.server.router import RouteSpec
from toolcrib.server.visit import NOT_CONFIRMED
from toolcrib.transports.http.message import HttpRequest


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


def link_word(link: str) -> str:
    return link.partition("link=")[2]


@pytest.fixture
def at_home(signing):
    """Signing in on this machine, where everybody has a name of their own."""
    admitted: list[str] = []
    signing.open(OwnNames("key", 7337, admitted.extend))
    signing.admitted = admitted
    return signing


def home_of(signing, caller) -> str:
    return host_of(signing.address.base(caller))


def cookie_of(signing, caller) -> str:
    """What the browser of ``caller`` sends after signing in at home."""
    return f"{COOKIE}={signing.begin(caller, request_to(home_of(signing, caller)))}"


def test_a_link_signs_in_once_and_not_for_ever(at_home, doorman):
    first, late = (link_word(at_home.make_link()) for _ in range(2))
    home = request_to(home_of(at_home, OWNER))

    assert at_home.use_link(first, home)
    assert at_home.use_link(first, home) is None
    doorman.clock.now += LINK_S + 1
    assert at_home.use_link(late, home) is None
    assert at_home.use_link("guessed", home) is None


def test_a_link_followed_elsewhere_is_not_used_up(at_home):
    """The browser is sent to where it counts."""
    word = link_word(at_home.make_link())

    assert at_home.use_link(word, request_to("127.0.0.1:7337")) is None
    assert at_home.place_of(word) == at_home.address.base(OWNER)
    assert at_home.use_link(word, request_to(home_of(at_home, OWNER)))


def test_a_link_signs_in_whom_it_was_made_for(at_home):
    word, home = link_word(at_home.make_link(GUEST)), home_of(at_home, GUEST)

    assert at_home.place_of(word) == at_home.address.base(GUEST)
    cookie = f"{COOKIE}={at_home.use_link(word, request_to(home))}"
    assert at_home.of(request_to(home, cookie)).caller is GUEST
    assert len(urlsafe_b64decode(word)) == 24


def test_there_are_only_so_many_links(at_home):
    first = link_word(at_home.make_link())
    for _ in range(MOST_LINKS):
        at_home.make_link()

    assert at_home.place_of(first) is None


def test_everybody_has_a_name_of_their_own_that_stays(at_home):
    """Nobody can guess it, and a guest does not learn the owner's; another port is another name."""
    owner, guest = home_of(at_home, OWNER), home_of(at_home, GUEST)
    again = OwnNames("key", 7337, lambda hosts: None)
    elsewhere, other_key = OwnNames("key", 7338, lambda hosts: None), OwnNames("other", 7337, lambda hosts: None)

    assert re.fullmatch(r"[0-9a-f]{32}\.localhost:7337", owner)
    assert host_of(again.base(OWNER)) == owner
    assert len({owner, guest, host_of(elsewhere.base(OWNER)), host_of(other_key.base(OWNER))}) == 4
    assert {owner, guest} <= set(at_home.admitted)


def test_a_cookie_counts_at_its_own_host_alone(at_home):
    """A server on another port that got hold of it cannot use it: not there, not at 127.0.0.1, not at another name."""
    cookie, home = cookie_of(at_home, OWNER), home_of(at_home, OWNER)
    name = home.partition(":")[0]
    others = ["127.0.0.1:7337", "localhost:7337", f"{name}:8000", name, home_of(at_home, GUEST), f"x.{home}", ""]

    assert at_home.of(request_to(home, cookie)).caller is OWNER
    assert at_home.of(request_to(home.upper(), cookie)).caller is OWNER
    assert [at_home.of(request_to(other, cookie)) for other in others] == [None] * len(others)


def test_signing_out_ends_the_session_on_the_server(at_home):
    """Whoever kept the cookie has nothing."""
    cookie, home = cookie_of(at_home, OWNER), home_of(at_home, OWNER)
    other = cookie_of(at_home, OWNER)

    at_home.sign_out(request_to(home, cookie))

    assert at_home.of(request_to(home, cookie)) is None
    assert at_home.of(request_to(home, other)) is not None


def test_signing_out_everywhere_ends_all_of_ones_own(at_home):
    mine, guests = [cookie_of(at_home, OWNER) for _ in range(3)], cookie_of(at_home, GUEST)

    assert at_home.end(OWNER) == 3
    assert [at_home.of(request_to(home_of(at_home, OWNER), cookie)) for cookie in mine] == [None] * 3
    assert at_home.of(request_to(home_of(at_home, GUEST), guests)) is not None


def test_the_owner_sees_and_ends_every_session_a_guest_their_own(at_home):
    cookie_of(at_home, OWNER)
    cookie_of(at_home, GUEST)
    guest, owner = at_home.sessions(OWNER)

    assert [each.caller for each in at_home.sessions(GUEST)] == [GUEST]
    assert at_home.end(GUEST, owner.id) == 0
    assert at_home.end(OWNER, guest.id) == 1
    assert [each.caller for each in at_home.sessions(OWNER)] == [OWNER]


@pytest.mark.parametrize(("after_s", "is_in"), [(IDLE_S - 1, True), (IDLE_S, False)])
def test_a_session_ends_when_it_is_not_used(at_home, doorman, after_s: float, is_in: bool):
    cookie, home = cookie_of(at_home, OWNER), home_of(at_home, OWNER)
    doorman.clock.now += after_s

    assert (at_home.of(request_to(home, cookie)) is not None) is is_in


@pytest.mark.parametrize(("last_s", "is_in"), [(KEPT_S - 1, True), (KEPT_S, False)])
def test_a_session_ends_however_much_it_is_used(at_home, doorman, last_s: float, is_in: bool):
    """What only looks on, such as a stream, does not count as use."""
    began, cookie, home = doorman.clock.now, cookie_of(at_home, OWNER), home_of(at_home, OWNER)
    while doorman.clock.now + IDLE_S / 2 < began + last_s:
        doorman.clock.now += IDLE_S / 2
        at_home.of(request_to(home, cookie), is_seen=True)
    doorman.clock.now = began + last_s

    assert (at_home.of(request_to(home, cookie)) is not None) is is_in


def test_looking_on_does_not_keep_a_session(at_home, doorman):
    cookie, home = cookie_of(at_home, OWNER), home_of(at_home, OWNER)
    for _ in range(2):
        doorman.clock.now += IDLE_S / 2
        at_home.of(request_to(home, cookie))

    assert at_home.of(request_to(home, cookie)) is None


def test_sessions_end_with_the_token_they_came_from(at_home, doorman):
    owner, guest = cookie_of(at_home, OWNER), cookie_of(at_home, GUEST)
    doorman.is_revoked = True
    doorman.owner_token = "another-token-of-the-owner"

    assert at_home.of(request_to(home_of(at_home, OWNER), owner)) is None
    assert at_home.of(request_to(home_of(at_home, GUEST), guest)) is None


def test_a_restart_knows_nobody(at_home, doorman):
    cookie, home = cookie_of(at_home, OWNER), home_of(at_home, OWNER)
    restarted = Doorman(doorman.clock).sign_ins()
    restarted.open(at_home.address)

    assert restarted.of(request_to(home, cookie)) is None


def test_only_digests_of_what_browsers_hold_are_kept(at_home):
    cookie = cookie_of(at_home, OWNER).partition("=")[2]

    assert cookie not in repr(at_home._sessions)


def test_what_lets_a_browser_in_cannot_be_guessed_and_what_it_says_of_itself_is_cut(at_home):
    """32 random bytes, 16 for its forms; the name of a session only tells it from others."""
    agent = {b"host": home_of(at_home, OWNER).encode(), b"user-agent": b"x" * 201}
    value = at_home.begin(OWNER, HttpRequest(b"GET", b"/", agent, ("127.0.0.1", 1)))
    (session,) = at_home.sessions(OWNER)

    assert len(urlsafe_b64decode(value + "=")) == 32
    assert [len(bytes.fromhex(word)) for word in (session.csrf, session.id)] == [16, 6]
    assert session.browser == "x" * 200


def test_there_are_only_so_many_sessions(at_home):
    first, home = cookie_of(at_home, OWNER), home_of(at_home, OWNER)
    for _ in range(MOST_SESSIONS):
        cookie_of(at_home, OWNER)

    assert at_home.of(request_to(home, first)) is None
    assert len(at_home.sessions(OWNER)) == MOST_SESSIONS


def test_who_signed_in_is_believed_for_a_few_minutes_and_then_asked_again(at_home, doorman):
    """By a token of the same person; nobody else's will do."""
    cookie, home = cookie_of(at_home, OWNER), home_of(at_home, OWNER)
    request = request_to(home, cookie)
    fresh = at_home.of(request).is_confirmed
    doorman.clock.now += CONFIRMED_S
    stale = at_home.of(request).is_confirmed
    wrong = [at_home.confirm(request, token) for token in ("", "wrong", GUEST_TOKEN)]
    still = at_home.of(request).is_confirmed

    assert at_home.confirm(request, OWNER_TOKEN)
    assert (fresh, stale, wrong, still) == (True, False, [False] * 3, False)
    assert at_home.of(request).is_confirmed
    assert not at_home.confirm(request_to(home), OWNER_TOKEN)


async def test_what_reaches_furthest_needs_somebody_who_was_asked_lately(at_home, doorman, serve):
    """With a cookie; a token says each time who it is."""

    async def reach(visit):
        visit.need_operator(SecurityLevel.SYSTEM)
        return json_answer({})

    async with serve([RouteSpec("GET", "/far", reach)], None) as browser:
        cookie = f"{COOKIE}={at_home.begin(OWNER, request_to(browser.address))}"
        fresh = await browser.send("GET", "/far", cookie=cookie)
        doorman.clock.now += CONFIRMED_S
        stale = await browser.send("GET", "/far", cookie=cookie)
        token = await browser.send("GET", "/far", authorization=f"Bearer {OWNER_TOKEN}")

    assert (fresh.status, stale.status, token.status) == (200, 403, 200)
    assert stale.json["code"] == NOT_CONFIRMED


def test_a_wrong_token_signs_nobody_in(at_home):
    assert at_home.use_token("") is None
    assert at_home.use_token("wrong") is None
    assert at_home.use_token(OWNER_TOKEN) is OWNER
    assert at_home.use_token(GUEST_TOKEN) is GUEST


def test_the_cookie_is_out_of_reach_of_scripts_other_sites_and_other_hosts(at_home):
    kept = at_home.cookie_header("x")[1]

    assert all(word in kept for word in (b"HttpOnly", b"SameSite=Strict", b"Path=/"))
    assert b"Domain" not in kept
    assert b"Secure" not in kept


def test_over_tls_the_cookie_is_tied_to_this_very_host(signing):
    signing.open(PublicAddress("https://tools.example:443"))
    kept = signing.cookie_header("x")[1]
    value = signing.begin(OWNER, request_to("tools.example"))

    assert kept.startswith(b"__Host-toolcrib=x; Path=/;")
    assert kept.endswith(b"; Secure")
    assert signing.of(request_to("tools.example", f"__Host-toolcrib={value}")) is not None
    assert signing.of(request_to("tools.example", f"{COOKIE}={value}")) is None
    assert signing.of(request_to("tools.example:8080", f"__Host-toolcrib={value}")) is None


@pytest.mark.parametrize(
    ("host", "leads"),
    [
        ("127.0.0.1:7337", True),
        ("localhost", True),
        ("[::1]:7337", True),
        ("abc.localhost:7337", True),
        ("10.0.0.5:7337", False),
        ("tools.example", False),
        ("localhost.evil.example", False),
    ],
)
def test_a_browser_on_another_machine_is_not_sent_to_a_name_it_would_look_for_at_home(at_home, host: str, leads: bool):
    assert at_home.can_send_on(request_to(host)) is leads


def test_the_owners_name_stays_however_many_guests_come():
    admitted: list[tuple[str, ...]] = []
    names = OwnNames("key", 7337, admitted.append)
    owner = host_of(names.base(OWNER))
    for number in range(MOST_NAMES + 5):
        names.base(Caller(f"token:{number}", "token", EVERYTHING))

    assert owner in admitted[-1]
    assert len(admitted[-1]) == MOST_NAMES


async def test_a_change_needs_the_word_and_this_very_address(signing, serve):
    """Another program's page on this machine has another port, and so another origin."""
    async with serve(ROUTES, None) as browser:
        value = signing.begin(OWNER, request_to(browser.address))
        own = f"http://{browser.address}"
        word = (await browser.send("GET", "/who", cookie=f"{COOKIE}={value}")).json["csrf"]

        async def post(body: bytes = b"", **headers: str) -> int:
            return (await browser.send("POST", "/who", body, cookie=f"{COOKIE}={value}", **headers)).status

        form = {"content_type": "application/x-www-form-urlencoded"}
        assert await post(origin=own, x_csrf=word) == 200
        assert await post(origin=f"https://{browser.address}", x_csrf=word) == 200
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


@pytest.mark.parametrize("is_revoked", [False, True])
def test_who_may_stay_is_the_tokens_to_say(at_home, doorman, is_revoked):
    doorman.is_revoked = is_revoked

    assert at_home.may_stay(GUEST) is not is_revoked


def test_a_link_works_up_to_the_moment_it_ends(at_home, doorman):
    word = link_word(at_home.make_link())
    doorman.clock.now += LINK_S - 1
    before = at_home.place_of(word)
    doorman.clock.now += 1

    assert (before is not None, at_home.place_of(word)) == (True, None)


def test_sessions_that_are_over_make_room_before_any_other(at_home, doorman, monkeypatch):
    """Not whoever came first, if they are still there."""
    monkeypatch.setattr(sign_in, "MOST_SESSIONS", 2)
    there, gone = (cookie_of(at_home, OWNER) for _ in range(2))
    home = home_of(at_home, OWNER)
    for _ in range(2):
        doorman.clock.now += IDLE_S * 0.6
        assert at_home.of(request_to(home, cookie=there), is_seen=True)
    new = cookie_of(at_home, OWNER)

    found = [at_home.of(request_to(home, cookie=cookie)) is not None for cookie in (there, gone, new)]
    assert found == [True, False, True]


def test_a_request_without_a_host_is_nobodys(at_home):
    cookie = cookie_of(at_home, OWNER)

    assert at_home.of(HttpRequest(b"GET", b"/", {b"cookie": cookie.encode()}, None)) is None


def test_a_change_that_says_no_host_did_not_come_from_a_page_of_ours():
    """Even with the right word."""
    browser = SignedIn(OWNER, "word", is_confirmed=True, session="one")
    sent = HttpRequest(b"POST", b"/", {b"origin": b"http://127.0.0.1:7337"}, None)

    with pytest.raises(HttpProblem, match="did not come from a page"):
        check_word(sent, browser, "word")


def test_the_owners_name_is_there_from_the_beginning(signing):
    admitted: list[str] = []
    signing.open(OwnNames("key", 7337, admitted.extend))

    assert len(admitted) == 1


def test_nobody_signs_in_before_it_is_said_where_the_page_is(signing):
    with pytest.raises(InternalError, match="where the page is"):
        signing.make_link()


def test_a_cookie_is_kept_for_as_long_as_a_session_and_an_empty_one_is_thrown_away(at_home):
    """No page can read it, and no other site has it sent."""
    (_, kept), (_, gone) = at_home.cookie_header("value"), at_home.cookie_header("")

    assert kept.decode() == f"{COOKIE}=value; Path=/; Max-Age={KEPT_S}; HttpOnly; SameSite=Strict"
    assert gone.decode() == f"{COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"


def test_how_long_ago_something_was_is_told_by_the_clock_of_the_sessions(at_home, doorman):
    began = doorman.clock.now
    doorman.clock.now += 5

    assert at_home.age_s(began) == 5


def test_a_session_ends_where_its_caller_is_no_longer_at_home(at_home):
    cookie, home = cookie_of(at_home, OWNER), home_of(at_home, OWNER)

    at_home.open(OwnNames("another key", 7337, lambda hosts: None))

    assert at_home.of(request_to(home, cookie)) is None


@pytest.mark.parametrize("origin", [b"https://elsewhere.example", None])
def test_what_another_page_sends_is_stopped_unless_its_origin_says_whose_it_is(origin):
    """Whether that one may is asked elsewhere."""
    headers = {b"host": b"127.0.0.1:7337", b"sec-fetch-site": b"cross-site", b"sec-fetch-mode": b"cors"}
    sent = HttpRequest(b"GET", b"/", headers if origin is None else {**headers, b"origin": origin}, ("127.0.0.1", 1))

    with pytest.raises(HttpProblem) if origin is None else nullcontext():
        refuse_strangers(sent)
