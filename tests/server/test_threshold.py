"""The way in to the page: open addresses, and where whoever must sign in wanted to go."""

import pytest

from toolcrib.server.answers import HttpProblem
from toolcrib.server.identity.sign_in import refuse_strangers
from toolcrib.server.router import STRANGER, Entering, Threshold, is_own_origin, wanted_place
from toolcrib.transports.http.message import HttpRequest


def request(method: bytes = b"GET", target: bytes = b"/", **headers: bytes) -> HttpRequest:
    sent = {name.replace("_", "-").encode(): value for name, value in headers.items()}
    return HttpRequest(method, target, {b"host": b"127.0.0.1:7337", **sent}, None)


@pytest.fixture
def threshold(doorman) -> Threshold:
    return Threshold(Entering(doorman.sign_ins(), doorman.identify), lambda path: path == b"/signin")


def test_open_addresses_are_for_everybody_as_nobody(threshold):
    """Even with a cookie or a token: who one is does not matter there."""
    visit = threshold(request(target=b"/signin", authorization=b"Bearer nonsense"), None)

    assert (visit.caller, visit.is_known, visit.signed_in) == (STRANGER, False, None)


def test_whoever_must_sign_in_is_remembered_with_their_wish(threshold):
    """A form that was sent is not sent again afterwards."""
    with pytest.raises(HttpProblem) as looked:
        threshold(request(target=b"/servers?q=a", hx_request=b"true"), None)
    with pytest.raises(HttpProblem) as sent:
        threshold(request(b"POST", b"/servers/add"), None)

    assert (looked.value.status, looked.value.more) == (401, {"wanted": "/servers?q=a", "is_fragment": True})
    assert sent.value.more == {"wanted": "/", "is_fragment": False}


def test_pages_of_other_addresses_cannot_use_the_open_ones(threshold):
    """A script elsewhere is stopped; a link followed from there is fine."""
    with pytest.raises(HttpProblem):
        threshold(request(b"POST", b"/signin", sec_fetch_site=b"cross-site", sec_fetch_mode=b"no-cors"), None)

    assert threshold(request(target=b"/signin", sec_fetch_site=b"cross-site", sec_fetch_mode=b"navigate"), None)


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        (b"http://127.0.0.1:7337", True),
        (b"https://127.0.0.1:7337", True),
        (b"http://127.0.0.1:1", False),
        (b"null", False),
    ],
)
def test_a_form_comes_from_this_address_or_not(origin: bytes, expected: bool):
    assert is_own_origin(request(origin=origin)) is expected


def test_the_wish_keeps_its_query():
    assert wanted_place(request(target=b"/a%20b?x=1&y=2")) == "/a%20b?x=1&y=2"


@pytest.mark.parametrize(
    ("method", "headers", "passes"),
    [
        (b"POST", {}, True),
        (b"POST", {"sec_fetch_site": b"same-origin"}, True),
        (b"POST", {"sec_fetch_site": b"none"}, True),
        (b"POST", {"sec_fetch_site": b"cross-site"}, False),
        (b"GET", {"sec_fetch_site": b"cross-site"}, False),
        (b"GET", {"sec_fetch_site": b"cross-site", "sec_fetch_mode": b"navigate"}, True),
        (b"POST", {"sec_fetch_site": b"cross-site", "sec_fetch_mode": b"navigate"}, False),
        (b"POST", {"sec_fetch_site": b"same-site", "origin": b"http://other"}, True),
    ],
)
def test_what_a_page_of_another_address_sends_is_stopped(method, headers, passes):
    """Following a link is fine, and who names an origin is judged by that elsewhere."""
    if passes:
        refuse_strangers(request(method, **headers))
        return
    with pytest.raises(HttpProblem) as refused:
        refuse_strangers(request(method, **headers))

    assert (refused.value.status, refused.value.code) == (403, "HTTP_WRONG_ORIGIN")


@pytest.mark.parametrize("origin", [None, b"http://", b"http://127.0.0.1:7337"])
def test_without_a_host_nothing_but_no_origin_is_ones_own(origin):
    """``http://`` followed by nothing is what such a request has as its own."""
    sent = HttpRequest(b"POST", b"/", {} if origin is None else {b"origin": origin}, None)

    assert is_own_origin(sent) is (origin in (None, b"http://"))
