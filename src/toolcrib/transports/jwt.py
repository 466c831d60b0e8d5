"""A JWT as bytes somebody sent: what it must look like and say before its signature is worth checking.

Nothing here believes a token; whoever calls this checks the signature over the same bytes afterwards. Reading is
stricter than the standard: one spelling for every value, no key twice, no header that points to a key.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

SIZE_MAX = 8 * 1024
SUBJECT_MAX = 128
FORBIDDEN_HEADERS = frozenset({"jku", "x5u", "x5c", "jwk", "crit", "b64", "zip", "enc"})
TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt"})
_PART = re.compile(rb"[A-Za-z0-9_-]+")


class Unfit(Exception):
    """Why a token is not accepted; for tests and logs, never for whoever sent it."""


@dataclass(frozen=True, slots=True)
class JwtPolicy:
    """Which tokens are accepted."""

    issuer: str
    audience: str
    algorithms: tuple[str, ...]
    max_age_s: float = 86400.0
    leeway_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Claims:
    """What is taken from a token."""

    subject: str
    scope: tuple[str, ...]
    expires: int


@dataclass(frozen=True, slots=True)
class Unverified:
    """A token that says the right things; whether its issuer said them is not known yet."""

    claims: Claims
    algorithm: str
    key_id: str | None
    signed: bytes
    signature: bytes


def read_jwt(presented: bytes, policy: JwtPolicy, now: float) -> Unverified:
    """Take a token apart; raises :class:`Unfit` for whatever is not exactly as it must be."""
    if len(presented) > SIZE_MAX:
        raise Unfit("too long")
    parts = presented.split(b".")
    if len(parts) != 3:
        raise Unfit("not three parts")
    header, body, signature = map(_decode_part, parts)
    algorithm, key_id = _read_header(_read_object(header), policy)
    claims = _read_claims(_read_object(body), policy, now)
    return Unverified(claims, algorithm, key_id, b".".join(parts[:2]), signature)


def _decode_part(part: bytes) -> bytes:
    """Base64url without padding; another spelling of the same bytes is refused, or one token would be many."""
    if _PART.fullmatch(part) is None:
        raise Unfit("not base64url")
    try:
        decoded = base64.urlsafe_b64decode(part + b"=" * (-len(part) % 4))
    except (binascii.Error, ValueError):
        raise Unfit("not base64url") from None
    if base64.urlsafe_b64encode(decoded).rstrip(b"=") != part:
        raise Unfit("not base64url as it must be spelt")
    return decoded


def _read_object(text: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(text.decode("utf-8"), object_pairs_hook=_without_twins, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise Unfit("not JSON") from None
    if not isinstance(value, dict):
        raise Unfit("not an object")
    return value


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Unfit("a key twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise Unfit(f"{name} is not JSON")


def _read_header(header: Mapping[str, Any], policy: JwtPolicy) -> tuple[str, str | None]:
    algorithm, key_id, kind = header.get("alg"), header.get("kid"), header.get("typ")
    if FORBIDDEN_HEADERS & header.keys():
        raise Unfit("a header that is not allowed")
    if algorithm not in policy.algorithms:
        raise Unfit("an algorithm that is not allowed")
    if key_id is not None and not isinstance(key_id, str):
        raise Unfit("kid is not a string")
    if kind is not None and (not isinstance(kind, str) or kind.lower() not in TYPES):
        raise Unfit("another type of token")
    return algorithm, key_id


def _read_claims(claims: Mapping[str, Any], policy: JwtPolicy, now: float) -> Claims:
    if claims.get("iss") != policy.issuer:
        raise Unfit("another issuer")
    audience = claims.get("aud")
    if policy.audience not in (audience if isinstance(audience, list) else [audience]):
        raise Unfit("another audience")
    expires = _check_times(claims, policy, now)
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= SUBJECT_MAX or not subject.isprintable():
        raise Unfit("no usable subject")
    return Claims(subject, _read_scope(claims.get("scope", "")), expires)


def _check_times(claims: Mapping[str, Any], policy: JwtPolicy, now: float) -> int:
    """When it expires; whole seconds only, so that no odd number means something else to somebody."""
    expires, issued, begins = (_seconds(claims, name) for name in ("exp", "iat", "nbf"))
    if expires is None:
        raise Unfit("no exp")
    if expires <= now - policy.leeway_s:
        raise Unfit("expired")
    if (issued or 0) > now + policy.leeway_s or (begins or 0) > now + policy.leeway_s:
        raise Unfit("not valid yet")
    if expires - (now + policy.leeway_s if issued is None else issued) > policy.max_age_s:
        raise Unfit("lives too long")
    return expires


def _seconds(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if name in claims and (type(value) is not int or not 0 <= value < 1 << 40):
        raise Unfit(f"{name} is not a number of seconds")
    return value


def _read_scope(scope: object) -> tuple[str, ...]:
    words = scope.split(" ") if isinstance(scope, str) else scope
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise Unfit("scope is not a list of words")
    return tuple(word for word in words if word)
