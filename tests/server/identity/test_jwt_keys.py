"""The issuer's keys: which of them are used, where they come from, and how often they are fetched."""

import asyncio
import gc
import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.transports.issuer import AUDIENCE, ISSUER, NOW, claims, jwks, key, public, signed

from toolcrib.core.errors import ConfigError, SourceUnavailable
from toolcrib.core.events import Event, drop
from toolcrib.server.identity import jwt
from toolcrib.server.identity.jwt import (
    BODY_MAX,
    JwtPolicy,
    KeyRing,
    fetch_from,
    is_signed_by,
    read_from,
    read_jwt,
    read_keys,
)
from toolcrib.testing import ManualClock
from toolcrib.transports.http.server import HttpServer

POLICY = JwtPolicy("https://issuer.example", "toolcrib", ("RS256", "ES256"))


def named(*entries: dict) -> list[str | None]:
    return [found.key_id for found in read_keys(json.dumps({"keys": entries}).encode())]


def test_only_keys_that_can_check_signatures_are_taken():
    """Secrets, private halves, weak, broken and encryption keys are passed over; the others stay."""
    private = {**key("other").as_dict(private=True), "kid": "private"}
    entries = [
        public("rsa"),
        public("ec", use="sig", key_ops=["verify"]),
        public("ed"),
        public("oct"),
        public("weak"),
        private,
        public("other", use="enc"),
        public("other", key_ops=["encrypt"]),
        public("other", key_ops="verify"),
        public("other", key_ops=5),
        {"kty": "RSA", "n": "A" * 400, "e": "!!"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "kid": "off the curve"},
        {"kty": "new"},
        {"kty": "RSA", "e": "AQAB"},
        {"kty": "RSA", "n": 5, "e": "AQAB"},
        {},
    ]

    assert named(*entries) == ["rsa", "ec", "ed"]


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"keys":{}}', b"<html>", b'{"keys":' + b"[" * 100_000])
def test_anything_but_a_key_set_is_an_error(text):
    """A login page, say."""
    with pytest.raises(SourceUnavailable, match="JWKS"):
        read_keys(text)


@pytest.mark.parametrize(
    ("entry", "fits"),
    [
        (public("rsa"), True),
        (public("rsa", alg="RS256"), True),
        (public("rsa", alg="PS256"), False),
        (public("ec", kid="rsa"), False),
        (public("p384", kid="rsa"), False),
    ],
    ids=["plain", "said", "for another algorithm", "another type", "another curve"],
)
async def test_a_key_is_used_for_its_own_algorithm_only(entry, fits):
    """By type, curve and what it says itself."""

    async def fetch() -> bytes:
        return json.dumps({"keys": [entry]}).encode()

    ring = KeyRing(fetch, drop, ManualClock())
    await ring.refresh()
    token = read_jwt(signed(), POLICY, claims()["iat"])

    assert [is_signed_by(token, found) for found in ring.find(token)] == [True] * fits


async def test_a_symmetric_algorithm_fits_no_key():
    """Even where somebody allowed one by mistake."""
    assert not any(found.fits("HS256") for found in read_keys(jwks("rsa", "ec", "ed", "oct")))


class Issuer:
    """Counts how often it was asked; answers with the first of what it has left, the last one for ever."""

    def __init__(self, *answers: bytes | Exception) -> None:
        self.answers, self.asked = list(answers), 0
        self.events: list[Event] = []
        self.answered = asyncio.Event()

    async def fetch(self) -> bytes:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.answered.set()
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_keys_that_were_never_asked_for_may_be_there_in_a_moment():
    assert KeyRing(Issuer(jwks("rsa")).fetch, drop, ManualClock()).is_fetching is True


async def test_keys_are_wanted_at_most_every_half_minute():
    """However many strangers come with keys nobody knows."""
    issuer, clock = Issuer(jwks("rsa")), ManualClock()
    ring = KeyRing(issuer.fetch, drop, clock)
    running = asyncio.create_task(ring.run())
    await issuer.answered.wait()
    fetched = []
    for seconds in (1, 28, 1, 29):
        issuer.answered.clear()
        clock.advance(seconds)
        ring.want()
        fetched.append(ring.is_fetching)
        if ring.is_fetching:
            await issuer.answered.wait()
            await asyncio.sleep(0)
    running.cancel()

    assert fetched == [False, False, True, False]
    assert (issuer.asked, ring.is_fetching) == (2, False)


async def test_keys_are_fetched_again_when_their_time_has_come(monkeypatch):
    """Without anybody asking."""
    monkeypatch.setattr(jwt, "EVERY_S", 0.01)
    issuer = Issuer(jwks("rsa"))
    running = asyncio.create_task(KeyRing(issuer.fetch, drop, ManualClock()).run())
    for _ in range(3):
        issuer.answered.clear()
        await asyncio.wait_for(issuer.answered.wait(), 150)
    running.cancel()

    assert issuer.asked >= 3


@pytest.mark.parametrize(
    "trouble", [SourceUnavailable("down"), b"<html>", b'{"keys":[]}'], ids=["down", "odd", "empty"]
)
async def test_what_cannot_be_had_leaves_the_keys_as_they_are(trouble):
    """And is told, with what was kept."""
    issuer = Issuer(jwks("rsa"), trouble)
    ring = KeyRing(issuer.fetch, issuer.events.append, ManualClock())
    await ring.refresh()
    await ring.refresh()

    assert not ring.is_empty
    assert [(event.name, event.level, event.fields["kept"]) for event in issuer.events] == [
        ("auth.keys.failed", "warning", 1)
    ]


async def fetched(handler) -> bytes:
    server = HttpServer({"/keys": handler, "/other": lambda _, exchange: exchange.answer(200, jwks("rsa"))})
    await server.start("127.0.0.1", 0)
    try:
        return await fetch_from(f"http://{server.address}/keys")()
    finally:
        await server.close(0)


async def test_keys_come_over_http():
    """As they are."""
    assert await fetched(lambda _, exchange: exchange.answer(200, jwks("rsa"))) == jwks("rsa")


@pytest.mark.parametrize(
    "handler",
    [
        lambda _, exchange: exchange.answer(404, b"{}"),
        lambda _, exchange: exchange.answer(302, b"", headers=((b"location", b"/other"),)),
        lambda _, exchange: exchange.answer(200, b" " * (BODY_MAX + 1)),
    ],
    ids=["not found", "redirect", "too large"],
)
async def test_an_answer_that_is_not_plainly_the_keys_is_an_error(handler):
    """No redirect is followed, and no more is read than keys can be."""
    with pytest.raises(SourceUnavailable):
        await fetched(handler)


async def test_keys_come_from_a_file(tmp_path: Path):
    """One that is gone is an error with its name."""
    path = tmp_path / "keys.json"
    path.write_bytes(jwks("rsa"))

    assert await read_from(path)() == jwks("rsa")
    path.unlink()
    with pytest.raises(ConfigError, match=r"keys\.json"):
        await read_from(path)()


def test_each_algorithm_has_its_keys():
    """And there is no symmetric one among them."""
    rsa = dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), ("RSA", None))
    curves = {"ES256": {"P-256"}, "ES384": {"P-384"}, "ES512": {"P-521"}}

    assert (
        rsa | {name: ("EC", curve) for name, curve in curves.items()} | {"EdDSA": ("OKP", {"Ed25519", "Ed448"})}
        == jwt.KEY_TYPES
    )


@pytest.mark.parametrize(("kind", "alg"), [("ec", "RS256"), ("rsa", "ES256"), ("p384", "ES256"), ("ed", "RS256")])
def test_a_key_of_another_kind_has_signed_nothing(kind, alg):
    """It is not even tried with the algorithm."""
    token = read_jwt(signed(), JwtPolicy(ISSUER, AUDIENCE, ("RS256",)), NOW)
    [other] = read_keys(jwks(kind))

    assert not is_signed_by(replace(token, algorithm=alg), other)


@pytest.mark.parametrize(
    ("error", "told"), [(SourceUnavailable("It is away."), "It is away."), (TimeoutError(), "no answer within 10 s")]
)
async def test_why_keys_could_not_be_fetched_is_told(error, told):
    events: list[Event] = []

    async def fetch() -> bytes:
        raise error

    await KeyRing(fetch, events.append, ManualClock()).refresh()

    assert [event.fields for event in events] == [{"error": told, "kept": 0}]


@pytest.mark.parametrize(
    ("kind", "curve", "algorithm", "fits"),
    [
        ("RSA", None, None, {"RS256", "PS256"}),
        ("RSA", None, "RS256", {"RS256"}),
        ("EC", "P-256", None, {"ES256"}),
        ("EC", "P-384", None, {"ES384"}),
        ("EC", "P-384", "ES256", set()),
        ("OKP", "Ed25519", None, {"EdDSA"}),
        ("OKP", "X25519", None, set()),
        ("oct", None, None, set()),
    ],
)
def test_a_key_fits_the_algorithms_of_its_kind_and_curve(kind, curve, algorithm, fits):
    """And of those only the one it names, if it names one; symmetric ones fit none."""
    asked = ("RS256", "PS256", "ES256", "ES384", "EdDSA", "HS256", "none")
    found = jwt.PublicKey(None, kind, curve, algorithm, None)

    assert {one for one in asked if found.fits(one)} == fits


async def test_keys_that_could_not_be_had_are_asked_for_soon_again(monkeypatch):
    """Until there is one, nobody can come in."""
    monkeypatch.setattr(jwt, "AT_MOST_EVERY_S", 0.01)
    issuer = Issuer(SourceUnavailable("down"))
    running = asyncio.create_task(KeyRing(issuer.fetch, drop, ManualClock()).run())
    for _ in range(3):
        issuer.answered.clear()
        await asyncio.wait_for(issuer.answered.wait(), 150)
    running.cancel()

    assert issuer.asked >= 3


async def test_whoever_has_fetched_the_keys_hangs_up():
    """Before they are used, whoever else is still connected."""
    hung_up = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        assert await reader.read() == b""
        hung_up.set()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    gc.disable()  # nobody else may tidy up what was left open
    try:
        assert await fetch_from(f"http://127.0.0.1:{port}/keys")() == b"{}"
        await asyncio.wait_for(hung_up.wait(), 150)
    finally:
        gc.enable()
        server.close()


async def test_a_token_that_names_its_key_is_checked_with_no_other():
    """One that names none is checked only if there is no choice."""
    issuer = Issuer(jwks("rsa", "other"), jwks("rsa"))
    ring = KeyRing(issuer.fetch, drop, ManualClock())
    named_rsa = read_jwt(signed(), POLICY, NOW)
    nameless = replace(named_rsa, key_id=None)

    await ring.refresh()
    of_two = [[found.key_id for found in ring.find(token)] for token in (named_rsa, nameless)]
    await ring.refresh()
    of_one = [[found.key_id for found in ring.find(token)] for token in (named_rsa, nameless)]

    assert (of_two, of_one) == ([["rsa"], []], [["rsa"], ["rsa"]])
