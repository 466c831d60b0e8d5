"""What a JWT must look like and say, before anybody asks who signed it."""

from typing import Any

import pytest
from tests.transports.issuer import AUDIENCE, ISSUER, NOW, as_text, b64, claims

from toolcrib.server.identity.jwt import SIZE_MAX, Claims, JwtPolicy, Unfit, read_jwt

POLICY = JwtPolicy(ISSUER, AUDIENCE, ("RS256",), max_age_s=1000.0, leeway_s=30.0)


def read(body: dict[str, Any] | None = None, **header: Any) -> Claims:
    """What is taken from a token with this body and header; its signature is of no interest here."""
    head = {"alg": "RS256", **header}
    return read_jwt(b".".join(b64(as_text(part)) for part in (head, body or claims(), b"x")), POLICY, NOW).claims


@pytest.mark.parametrize(("size", "why"), [(SIZE_MAX, "not three parts"), (SIZE_MAX + 1, "too long")])
def test_a_token_may_be_so_long_and_no_longer(size, why):
    with pytest.raises(Unfit, match=why):
        read_jwt(b"x" * size, POLICY, 0.0)


@pytest.mark.parametrize("kind", ["JWT", "jwt", "at+jwt", "AT+JWT", "application/at+jwt", None])
def test_the_type_of_a_token_may_be_said(kind):
    assert read(typ=kind).subject == "ann"


@pytest.mark.parametrize("kind", ["", "logout+jwt", 5, ["jwt"]])
def test_a_token_of_another_type_is_unfit(kind):
    with pytest.raises(Unfit, match="another type"):
        read(typ=kind)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"exp": NOW - 29}, ""),
        ({"exp": NOW - 30}, "expired"),
        ({"iat": NOW + 30}, ""),
        ({"iat": NOW + 31}, "not valid yet"),
        ({"nbf": NOW + 30}, ""),
        ({"nbf": NOW + 31}, "not valid yet"),
        ({"nbf": 0, "iat": NOW}, ""),
        ({"nbf": -1}, "nbf is not a number"),
        ({"nbf": True}, "nbf is not a number"),
        ({"exp": NOW + 1000}, ""),
        ({"exp": NOW + 1001}, "lives too long"),
        ({"exp": NOW + 1030, "iat": None}, ""),
        ({"exp": NOW + 1031, "iat": None}, "lives too long"),
        ({"sub": "x" * 128}, ""),
        ({"sub": "x"}, ""),
        ({"sub": "x" * 129}, "no usable subject"),
        ({"sub": ""}, "no usable subject"),
        ({"sub": "a\u200bb"}, "no usable subject"),
        ({"aud": ["other", AUDIENCE]}, ""),
        ({"aud": ["other"]}, "another audience"),
        ({"scope": {}}, "scope is not"),
        ({"scope": ["a", 1]}, "scope is not"),
    ],
)
def test_what_a_token_says_counts_to_the_very_bound(changes, why):
    """Of time, of life, of names."""
    body = claims(**changes)
    if not why:
        assert read(body).expires == body["exp"]
        return
    with pytest.raises(Unfit, match=why):
        read(body)


def test_the_words_of_a_scope_are_taken_without_what_is_between_them():
    assert [read(claims(scope=scope)).scope for scope in ("a  b ", ["a", "", "b"], "")] == [("a", "b"), ("a", "b"), ()]
