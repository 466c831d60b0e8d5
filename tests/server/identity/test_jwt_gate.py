"""JWTs at the door: the good ones are let in, each bad one for one reason only is not."""

import json
import sys

import pytest
from tests.transports.issuer import (
    AUDIENCE,
    ISSUER,
    NOW,
    as_text,
    b64,
    claims,
    confused,
    jwks,
    public,
    signed,
    unsigned,
)

from toolcrib.core.errors import ConfigError
from toolcrib.core.events import drop
from toolcrib.server.identity import jwt
from toolcrib.server.identity.jwt import KEYS_PENDING, Claims, JwtGate, JwtPolicy, KeyRing, require_joserfc
from toolcrib.testing import ManualClock

USUAL = ("RS256", "ES256", "EdDSA")


async def opened(keys: bytes, algorithms: tuple[str, ...] = USUAL, clock: ManualClock | None = None) -> JwtGate:
    """A gate whose keys are there already."""

    async def fetch() -> bytes:
        return keys

    ring = KeyRing(fetch, drop, ManualClock())
    await ring.refresh()
    return JwtGate(JwtPolicy(ISSUER, AUDIENCE, algorithms), ring, clock or ManualClock(NOW))


@pytest.mark.parametrize(("kind", "alg"), [("rsa", "RS256"), ("ec", "ES256"), ("ed", "EdDSA")])
async def test_a_good_token_tells_whose_it_is(kind, alg):
    """With each of the usual algorithms."""
    gate = await opened(jwks("rsa", "ec", "ed"))

    assert gate.check(signed(kind=kind, alg=alg)) == Claims("ann", (), NOW + 600)


GOOD = {
    "audiences": claims(aud=["other", AUDIENCE]),
    "no iat": claims(iat=None),
    "nbf": claims(nbf=NOW),
    "nbf long ago": claims(nbf=0),
    "clocks that differ": claims(iat=NOW + 20, nbf=NOW + 20, exp=NOW - 20 + 600),
    "just expired": claims(iat=NOW - 600, exp=NOW - 20),
    "jti": claims(jti="1"),
    "as long as it may live": claims(iat=NOW, exp=NOW + 86400),
    "as long as it may live from now": claims(iat=None, exp=NOW + 30 + 86400),
    "scope words": claims(scope="a  b"),
    "scope list": claims(scope=["a", "b"]),
}


@pytest.mark.parametrize("body", GOOD.values(), ids=GOOD)
async def test_what_issuers_rightly_do_is_accepted(body):
    """Lists of audiences, optional claims, clocks that differ by a few seconds."""
    gate = await opened(jwks("rsa"))

    found = gate.check(signed(body))

    assert isinstance(found, Claims)
    assert found.scope == (("a", "b") if "scope" in body else ())


HEADER = {"alg": "RS256", "kid": "rsa"}
TWICE = b'{"iss":"https://issuer.example","aud":"toolcrib","sub":"ann","sub":"root","exp":1800000600}'

BAD = {
    "alg none": unsigned(),
    "alg none with a signature": unsigned(signature=b"AAAA"),
    "alg None": unsigned("None"),
    "HS256 with the public key": confused(),
    "HS256 with a shared key": signed(kind="oct", alg="HS256", header={"alg": "HS256", "kid": "oct"}),
    "an algorithm that is not on the list": signed(alg="RS384", header={"alg": "RS384", "kid": "rsa"}),
    "another algorithm than it was signed with": signed(header={"alg": "ES256", "kid": "rsa"}),
    "the key of another kind": signed(header={"alg": "RS256", "kid": "ec"}),
    "alg as a list": signed(header={"alg": ["RS256"], "kid": "rsa"}),
    "no alg": signed(header={"kid": "rsa"}),
    "another key": signed(kind="other", header=HEADER),
    "a weak key": signed(kind="weak"),
    "kid unknown": signed(header={"alg": "RS256", "kid": "who"}),
    "kid a path": signed(header={"alg": "RS256", "kid": "../../dev/null"}),
    "kid a number": signed(header={"alg": "RS256", "kid": 1}),
    "no kid, two keys": signed(header={"alg": "RS256"}, kind="other"),
    "jku": signed(header={**HEADER, "jku": "https://evil.example/keys"}),
    "x5u": signed(header={**HEADER, "x5u": "https://evil.example/cert"}),
    "x5c": signed(header={**HEADER, "x5c": ["AAAA"]}),
    "jwk": signed(header={"alg": "RS256", "jwk": public("other")}, kind="other"),
    "crit": signed(header={**HEADER, "crit": ["exp"]}),
    "b64": signed(header={**HEADER, "b64": False}),
    "enc": signed(header={**HEADER, "enc": "A256GCM"}),
    "zip": signed(header={**HEADER, "zip": "DEF"}),
    "another type": signed(header={**HEADER, "typ": "logout+jwt"}),
    "header twice": signed(header=b'{"alg":"none","alg":"RS256","kid":"rsa"}'),
    "header a list": signed(header=b'["RS256"]'),
    "header in UTF-16": signed(header=json.dumps(HEADER).encode("utf-16")),
    "header with a BOM": signed(header=b"\xef\xbb\xbf" + as_text(HEADER)),
    "expired": signed(claims(iat=NOW - 600, exp=NOW - 30)),
    "no exp": signed(claims(exp=None)),
    "exp a string": signed(claims(exp=str(NOW + 600))),
    "exp a float": signed(claims(exp=NOW + 600.5)),
    "exp a whole float": signed(claims(exp=float(NOW + 600))),
    "exp true": signed(claims(exp=True)),
    "exp NaN": signed(claims(exp=float("nan"))),
    "exp Infinity": signed(claims(exp=float("inf"))),
    "exp 1e999": signed(as_text(claims()).replace(b"1800000600", b"1e999")),
    "exp in the year 9999": signed(claims(exp=253402300799)),
    "exp in the year 9999, no iat": signed(claims(exp=253402300799, iat=None)),
    "exp of many digits": signed(as_text(claims()).replace(b"1800000600", b"9" * 5000)),
    "exp negative": signed(claims(exp=-1)),
    "lives too long": signed(claims(exp=NOW + 86401)),
    "lived too long": signed(claims(iat=NOW - 86400, exp=NOW + 60)),
    "iat in the future": signed(claims(iat=NOW + 60)),
    "iat a string": signed(claims(iat="now")),
    "nbf in the future": signed(claims(nbf=NOW + 60)),
    "nbf negative": signed(claims(nbf=-1)),
    "wrong iss": signed(claims(iss="https://issuer.example/")),
    "no iss": signed(claims(iss=None)),
    "iss a list": signed(claims(iss=[ISSUER])),
    "wrong aud": signed(claims(aud="Toolcrib")),
    "aud longer": signed(claims(aud="toolcrib2")),
    "no aud": signed(claims(aud=None)),
    "aud an object": signed(claims(aud={"toolcrib": 1})),
    "no sub": signed(claims(sub=None)),
    "sub empty": signed(claims(sub="")),
    "sub too long": signed(claims(sub="x" * 129)),
    "sub with a line break": signed(claims(sub="ann\nroot")),
    "sub a number": signed(claims(sub=1)),
    "scope a number": signed(claims(scope=1)),
    "scope of numbers": signed(claims(scope=[1])),
    "duplicate claims": signed(TWICE),
    "duplicate keys deep inside": signed(as_text(claims())[:-1] + b',"x":{"a":1,"a":2}}'),
    "body a list": signed(b"[]"),
    "body not UTF-8": signed(as_text(claims())[:-1] + b',"x":"\xff"}'),
    "body deep": signed(as_text(claims())[:-1] + b',"x":' + b"[" * 4000 + b"]" * 4000 + b"}"),
    "oversize": signed(claims(more="x" * 8192)),
    "padding": signed(claims(pad="1")) + b"=",
    "padding inside": signed().replace(b".", b"=.", 1),
    "truncated": signed()[:-1],
    "truncated by a lot": signed()[:-100],
    "trailing garbage": signed() + b"AAAA",
    "trailing dot": signed() + b".",
    "trailing newline": signed() + b"\n",
    "leading space": b" " + signed(),
    "standard base64": signed().replace(b"-", b"+").replace(b"_", b"/") + b"+",
    "another spelling of the same signature": signed()[:-1] + bytes([signed()[-1] + 1]),
    "four parts": signed() + b"." + b64(b"x"),
    "two parts": b".".join(signed().split(b".")[:2]),
    "no signature": b".".join(signed().split(b".")[:2]) + b".",
    "empty parts": b"..",
    "not ASCII": signed() + b"\xc3\xa9",
    "the body of another": b".".join(
        (signed().split(b".")[0], b64(as_text(claims(sub="root"))), signed().split(b".")[2])
    ),
}


@pytest.mark.parametrize("token", BAD.values(), ids=BAD)
async def test_a_bad_token_is_nobodys(token):
    """Asked twice: nothing bad is remembered as good."""
    gate = await opened(jwks("rsa", "ec", "weak", "oct") if token != BAD["no kid, two keys"] else jwks("rsa", "other"))

    assert [gate.check(token), gate.check(token)] == [None, None]


def test_the_matrix_holds_what_it_says():
    """Each bad token differs from a good one by the thing it is named after."""
    assert len(BAD["oversize"]) > 8192
    assert len({bytes(token) for token in BAD.values()}) == len(BAD)


async def test_a_good_token_is_remembered_until_it_expires():
    """The second time costs a look-up; the clock still counts."""
    clock = ManualClock(NOW)
    gate = await opened(jwks("rsa"), clock=clock)
    token = signed()
    first = gate.check(token)

    clock.advance(600 + 29.5)
    again = gate.check(token)
    clock.advance(0.5)

    assert again is first
    assert gate.check(token) is None


async def test_a_token_without_kid_is_checked_with_the_only_key_there_is():
    """Small issuers name none."""
    gate = await opened(jwks("rsa", "ec"))

    assert isinstance(gate.check(signed(header={"alg": "RS256"})), Claims)


async def test_tokens_are_forgotten_when_the_keys_change():
    """A key that was withdrawn takes its tokens with it."""
    offered = [jwks("rsa"), jwks("other")]

    async def fetch() -> bytes:
        return offered.pop(0)

    ring = KeyRing(fetch, drop, ManualClock())
    await ring.refresh()
    gate = JwtGate(JwtPolicy(ISSUER, AUDIENCE, USUAL), ring, ManualClock(NOW))
    before = gate.check(signed())
    await ring.refresh()

    assert isinstance(before, Claims)
    assert gate.check(signed()) is None


async def test_while_keys_are_fetched_the_answer_is_try_again():
    """At the start, and after an unknown ``kid``; once the keys are there, a stranger is a stranger."""
    offered = [jwks("ec"), jwks("ec", "rsa")]

    async def fetch() -> bytes:
        return offered.pop(0)

    clock = ManualClock()
    ring = KeyRing(fetch, drop, clock)
    gate = JwtGate(JwtPolicy(ISSUER, AUDIENCE, USUAL), ring, ManualClock(NOW))
    answers = [gate.check(signed())]
    await ring.refresh()
    answers.append(gate.check(signed()))
    clock.advance(30)
    answers.append(gate.check(signed()))
    await ring.refresh()
    answers.append(gate.check(signed()))

    assert answers == [KEYS_PENDING, None, KEYS_PENDING, Claims("ann", (), NOW + 600)]
    assert KEYS_PENDING.status == 503


async def test_without_any_key_nobody_is_told_that_the_token_is_wrong():
    """An issuer that cannot be reached is not the client's fault."""

    async def fetch() -> bytes:
        return b"{}"

    ring = KeyRing(fetch, drop, ManualClock())
    await ring.refresh()

    assert JwtGate(JwtPolicy(ISSUER, AUDIENCE, USUAL), ring, ManualClock(NOW)).check(signed()) is KEYS_PENDING


async def test_so_many_good_tokens_are_remembered_and_one_more_has_them_forgotten(monkeypatch):
    """What is remembered is the very same; one that has expired makes room."""
    monkeypatch.setattr(jwt, "KNOWN_MAX", 2)
    clock = ManualClock(NOW)
    gate = await opened(jwks("rsa"), clock=clock)
    short, second, third, fourth = (signed(claims(jti=str(n), exp=NOW + (60 if n == 0 else 600))) for n in range(4))
    first_seen = [gate.check(token) for token in (short, second)]
    both = [gate.check(token) for token in (short, second)]
    clock.advance(91)
    ended = gate.check(short)
    gate.check(third)
    in_its_place = gate.check(second)
    gate.check(fourth)
    forgotten = gate.check(second)

    assert [known is seen for known, seen in zip(both, first_seen, strict=True)] == [True, True]
    assert (ended, in_its_place is first_seen[1]) == (None, True)
    assert (forgotten == first_seen[1], forgotten is first_seen[1]) == (True, False)


def test_what_is_needed_for_jwts_is_asked_for_by_name(monkeypatch):
    """Where it is installed nothing is said."""
    require_joserfc()
    monkeypatch.setitem(sys.modules, "joserfc", None)

    with pytest.raises(ConfigError, match=r"toolcrib extras add jwt"):
        require_joserfc()


@pytest.mark.parametrize("length", [1, 128])
async def test_a_subject_has_one_character_at_least_and_so_many_at_most(length):
    gate = await opened(jwks("rsa"))

    assert gate.check(signed(claims(sub="x" * length))) == Claims("x" * length, (), NOW + 600)
