"""Signing in: by a link that works once, or by a token; whoever guesses is slowed down, and nobody is led astray."""

import re
from urllib.parse import urlsplit

import pytest
from tests.server.web.site import Visitor, opened

from toolcrib.server.web.sign_in_page import GUESSES, GUESSES_S, Guesses, safe_place
from toolcrib.server.web.static_files import CONTENT_SECURITY_POLICY


def test_whoever_is_not_signed_in_is_sent_to_where_that_can_be_done(tiny):
    """They come back to where they wanted to go; htmx is told in its own way."""
    with tiny.serving("serve") as serving:
        stranger = Visitor(serving.port)

        assert stranger.get("/").place == "/signin"
        assert stranger.get("/nowhere?x=1").place == "/signin?next=%2Fnowhere%3Fx%3D1"
        fragment = stranger.get("/", hx_request="true")
        assert (fragment.status, fragment.headers["hx-redirect"]) == (204, "/signin")


def printed_link(serving) -> str:
    serving.wait_for("over stdio")
    return re.search(r"(http://[0-9a-f]{32}\.localhost:\d+/signin\?link=\S+)", serving.output)[1]


def test_the_link_signs_in_once(tiny):
    """Wherever it is followed it leads to the page's own address; asking for its head does not use it up."""
    with tiny.serving("up") as serving:
        link = printed_link(serving)
        first, second = Visitor(serving.port), Visitor(serving.port)
        second.send("HEAD", f"/signin?{urlsplit(link).query}", host=urlsplit(link).netloc)
        sent_on = first.get(f"/signin?{urlsplit(link).query}&next=/connect")

        assert (sent_on.status, first.cookie) == (303, "")
        assert first.follow(sent_on.place).place == "/connect"
        assert first.get("/").status == 200
        used = second.follow(link)
        assert (used.status, second.cookie) == (403, "")
        assert "toolcrib open" in used.text


def test_a_link_followed_from_another_site_arrives(tiny):
    """Browsers hold back a strict cookie there, so a page of ours sends them on."""
    with tiny.serving("up") as serving:
        parts = urlsplit(printed_link(serving))
        visitor = Visitor(serving.port, parts.netloc)

        reply = visitor.get(f"/signin?{parts.query}", sec_fetch_site="cross-site", sec_fetch_mode="navigate")

        assert reply.status == 200
        assert '<meta http-equiv="refresh" content="0;url=/">' in reply.text


def test_a_cookie_works_at_the_name_of_the_page_alone_and_nobody_is_told_that_name(tiny):
    """What another server here gets hold of is worth nothing at 127.0.0.1, nor at a name it makes up."""
    with opened(tiny) as owner:
        hosts = [f"127.0.0.1:{owner.port}", f"localhost:{owner.port}"]
        elsewhere = [owner.get("/", host=host).place for host in hosts]
        made_up = owner.get("/", host=f"{'0' * 32}.localhost:{owner.port}")
        over_rest = owner.get("/api/v1/health", host=hosts[0])
        stranger, label = Visitor(owner.port), owner.host.partition(".")[0]
        paths = ["/", "/signin", "/nowhere", "/signin?link=x", "/api/v1/health", "/api/v1/tools", "/prove?number=1"]
        replies = [stranger.get(path, host=host) for path in paths for host in hosts]
        replies.append(stranger.forge("/signin", token="wrong-token-wrong"))

        assert elsewhere == ["/signin", "/signin"]
        assert (made_up.status, over_rest.status) == (421, 401)
        assert owner.get("/").status == 200
        assert not [reply for reply in replies if label in f"{reply.headers}{reply.text}"]


ELSEWHERE = ("--allow-host", "tools.example", "--allow-origin", "http://tools.example")


def test_from_another_machine_nobody_is_sent_to_a_name_of_this_one(tiny):
    """The page says what to set instead."""
    with tiny.serving("serve", *ELSEWHERE) as serving:
        visitor = Visitor(serving.port, "tools.example")
        visitor.get("/signin")
        reply = visitor.forge("/signin", token=(tiny.home / "state/toolcrib/token").read_text())

        assert reply.status == 403
        assert "public_url" in reply.text
        assert "localhost:" not in reply.text


def test_the_token_is_never_shown_only_where_it_is(tiny):
    """The page says the path of the file."""
    with tiny.serving("serve") as serving:
        page = Visitor(serving.port).get("/signin").text

        assert "~/state/toolcrib/token" in page
        assert (tiny.home / "state/toolcrib/token").read_text().strip() not in page


def test_wrong_tokens_are_refused_and_never_keep_a_right_one_out(tiny):
    """On this machine whoever guesses has the owner's address; the owner signs in all the same."""
    with tiny.serving("serve") as serving:
        visitor = Visitor(serving.port)
        statuses = [visitor.forge("/signin", token=f"wrong-{number}").status for number in range(GUESSES + 1)]
        cookie = visitor.cookie
        right = visitor.sign_in((tiny.home / "state/toolcrib/token").read_text())

        assert statuses == [403] * GUESSES + [429]
        assert cookie == ""
        assert right.status == 303


def test_guesses_are_forgiven_after_a_minute():
    """Per address: others are not slowed down."""
    now = 100.0
    guesses = Guesses(lambda: now)
    waits = [guesses.note_wrong("10.0.0.1") for _ in range(GUESSES + 1)]

    assert waits == [0.0] * GUESSES + [GUESSES_S]
    assert guesses.note_wrong("10.0.0.2") == 0.0
    now += GUESSES_S
    assert guesses.note_wrong("10.0.0.1") == 0.0


def test_another_site_cannot_sign_somebody_in(tiny):
    """It would have them work in an account that is not theirs."""
    with tiny.serving("serve") as serving:
        visitor = Visitor(serving.port)

        assert visitor.forge("/signin", origin="http://127.0.0.1:1", token="x").status == 403


@pytest.mark.parametrize(
    "place", ["//evil.example", "/\\evil.example", "https://evil.example", "evil", "/x\r\nset-cookie: a=b", "/signin?x"]
)
def test_signing_in_leads_nowhere_else(place: str):
    """Whatever could leave this page becomes the overview."""
    assert safe_place(place) == "/"


def test_signing_out_ends_it(tiny):
    """The cookie is thrown away, and worth nothing to whoever kept it; a form without the page's word does nothing."""
    with opened(tiny) as visitor:
        assert visitor.forge("/signout", csrf="wrong").status == 403
        kept = visitor.cookie
        left = visitor.post("/signout")
        visitor.cookie = kept

        assert left.place == "/signin"
        assert "Max-Age=0" in left.headers["set-cookie"]
        assert visitor.get("/").place == "/signin"


@pytest.mark.parametrize("path", ["/", "/signin", "/nowhere", "/static/x/style.css", "/palette.json", "/a/b/c"])
def test_every_answer_carries_the_policy(tiny, path: str):
    """Scripts and styles come from files of ours alone, and nobody frames the page."""
    with opened(tiny) as visitor:
        reply = visitor.get(path)

        assert reply.headers["content-security-policy"] == CONTENT_SECURITY_POLICY.decode()
        assert reply.headers["x-content-type-options"] == "nosniff"


def test_a_page_that_is_not_there_says_what_to_do(tiny):
    """With the navigation, for whoever is signed in."""
    with opened(tiny) as visitor:
        reply = visitor.get("/no<b>where")

        assert reply.status == 404
        assert "Check the address" in reply.text
        assert "<b>where" not in reply.text
        assert 'aria-label="Main"' in reply.text
