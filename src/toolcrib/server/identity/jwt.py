"""A JWT as bytes somebody sent: what it must look like and say before its signature is worth checking.

Nothing here believes a token; whoever calls this checks the signature over the same bytes afterwards. Reading is
stricter than the standard: one spelling for every value, no key twice, no header that points to a key.
"""

import asyncio
import base64
import binascii
import json
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from toolcrib.core.errors import ConfigError, SourceUnavailable, ToolcribError
from toolcrib.core.events import Emit, Event
from toolcrib.core.network import Network
from toolcrib.transports.http.client import HttpPool, PoolLimits
from toolcrib.transports.http.message import Refusal

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


KEYS_MAX = 64
BODY_MAX = 256 * 1024
FETCH_S = 10.0
EVERY_S = 3600.0
AT_MOST_EVERY_S = 30.0
RSA_BITS = range(2048, 8193)

Fetch = Callable[[], Awaitable[bytes]]

KEY_TYPES: Mapping[str, tuple[str, frozenset[str] | None]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), ("RSA", None)),
    "ES256": ("EC", frozenset({"P-256"})),
    "ES384": ("EC", frozenset({"P-384"})),
    "ES512": ("EC", frozenset({"P-521"})),
    "EdDSA": ("OKP", frozenset({"Ed25519", "Ed448"})),
}
"""Algorithm → the type and curves of the keys it may be used with; symmetric ones are not here on purpose."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """One key of the issuer, and what it may be used for."""

    key_id: str | None
    kind: str
    curve: str | None
    algorithm: str | None
    key: Any

    def fits(self, algorithm: str) -> bool:
        """Whether it is a key for this algorithm."""
        kind, curves = KEY_TYPES.get(algorithm, ("none", None))
        return (
            self.kind == kind
            and (curves is None or self.curve in curves)
            and (self.algorithm is None or self.algorithm == algorithm)
        )


def read_keys(text: bytes) -> tuple[PublicKey, ...]:
    """The keys of a JWKS document that can check signatures; others, private ones among them, are passed over."""
    try:
        found = msgspec.json.decode(text)["keys"]
    except (msgspec.MsgspecError, TypeError, KeyError, RecursionError):
        found = None
    if not isinstance(found, list):
        raise SourceUnavailable("This is not a JWKS document.", hint="Look at what `jwks` points to.")
    keys = (_read_key(entry) for entry in found[:KEYS_MAX] if isinstance(entry, dict))
    return tuple(key for key in keys if key is not None)


def _read_key(entry: dict[str, Any]) -> PublicKey | None:
    from joserfc.errors import JoseError
    from joserfc.jwk import JWKRegistry

    if not _is_public(entry) or not _may_verify(entry):
        return None
    try:
        key = JWKRegistry.import_key(entry)
    except (JoseError, ValueError, TypeError, KeyError, AttributeError):
        return None
    if entry["kty"] == "RSA" and getattr(key.raw_value, "key_size", 0) not in RSA_BITS:
        return None
    names = (entry.get(name) for name in ("kid", "crv", "alg"))
    key_id, curve, algorithm = (name if isinstance(name, str) else None for name in names)
    return PublicKey(key_id, entry["kty"], curve, algorithm, key)


def _is_public(entry: Mapping[str, Any]) -> bool:
    """Whether it is the public half of a pair; a short RSA one is not even looked at."""
    kind, modulus = entry.get("kty"), entry.get("n")
    if kind == "RSA" and (not isinstance(modulus, str) or len(modulus) * 6 < RSA_BITS.start):
        return False
    return kind in ("RSA", "EC", "OKP") and "d" not in entry


def _may_verify(entry: Mapping[str, Any]) -> bool:
    operations = entry.get("key_ops", ["verify"])
    return entry.get("use", "sig") == "sig" and isinstance(operations, list) and "verify" in operations


class KeyRing:
    """The keys known right now; ``run`` keeps them fresh."""

    def __init__(self, fetch: Fetch, emit: Emit, clock: Callable[[], float]) -> None:
        self._fetch, self._emit, self._clock = fetch, emit, clock
        self._keys: tuple[PublicKey, ...] = ()
        self._asked = -AT_MOST_EVERY_S
        self._wanted = asyncio.Event()
        self.is_fetching = True
        """Whether keys may be there in a moment that are not there now."""
        self.version = 0
        """Another one whenever the keys are others."""

    @property
    def is_empty(self) -> bool:
        """Whether no key was ever had."""
        return not self._keys

    def find(self, token: Unverified) -> list[PublicKey]:
        """The keys a token may be signed with: by its ``kid``; without one, only if there is no choice."""
        fitting = [key for key in self._keys if key.fits(token.algorithm)]
        if token.key_id is not None:
            return [key for key in fitting if key.key_id == token.key_id]
        return fitting if len(fitting) == 1 else []

    def want(self) -> None:
        """Have the keys fetched again, unless that was done a moment ago."""
        if self._clock() - self._asked >= AT_MOST_EVERY_S:
            self.is_fetching = True
            self._wanted.set()

    async def run(self) -> None:
        """Fetch, and fetch again when somebody wants it or the time has come; until cancelled."""
        while True:
            await self.refresh()
            with suppress(TimeoutError):
                async with asyncio.timeout(AT_MOST_EVERY_S if self.is_empty else EVERY_S):
                    await self._wanted.wait()

    async def refresh(self) -> None:
        """Fetch now; what cannot be had leaves the keys as they are."""
        self._asked, self.is_fetching = self._clock(), True
        self._wanted.clear()
        try:
            async with asyncio.timeout(FETCH_S):
                self._take(read_keys(await self._fetch()))
        except (ToolcribError, TimeoutError) as error:
            reason = str(error) or f"no answer within {FETCH_S:g} s"
            self._emit(Event("auth.keys.failed", "warning", {"error": reason, "kept": len(self._keys)}))
        finally:
            self.is_fetching = False

    def _take(self, keys: tuple[PublicKey, ...]) -> None:
        if not keys:
            raise SourceUnavailable("The issuer offers no key that can check signatures.")
        self._keys = keys
        self.version += 1


def is_signed_by(token: Unverified, key: PublicKey) -> bool:
    """Whether the signature over the token's own bytes is the key's."""
    from joserfc.errors import JoseError
    from joserfc.jws import JWSRegistry

    algorithm = JWSRegistry.algorithms[token.algorithm]
    try:
        algorithm.check_key(key.key)
        return algorithm.verify(token.signed, token.signature, key.key)
    except (JoseError, ValueError):
        return False


def fetch_from(address: str, network: Network | None = None) -> Fetch:
    """Fetches from an address; no redirect is followed and no more than a small document is taken."""

    async def fetch() -> bytes:
        pool = HttpPool(address, network=network, limits=PoolLimits(connections=1, body_bytes=BODY_MAX))
        try:
            answer = await pool.request("GET", pool.origin.target, ((b"accept", b"application/json"),))
        finally:
            await pool.close()
        if answer.status != 200:
            raise SourceUnavailable(f"{address} answered {answer.status}.")
        return answer.body

    return fetch


def read_from(path: Path) -> Fetch:
    """Reads a file, beside the event loop."""

    async def fetch() -> bytes:
        try:
            return await asyncio.to_thread(_read, path)
        except OSError as error:
            raise ConfigError(f"The issuer's keys cannot be read: {error.strerror}.", where=str(path)) from error

    return fetch


def _read(path: Path) -> bytes:
    """A pipe that took its place keeps nobody waiting: it holds no keys."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
        return file.read(BODY_MAX) or b""


KNOWN_MAX = 1024

KEYS_PENDING = Refusal(
    503,
    "HTTP_KEYS_PENDING",
    "The keys of the token's issuer are being fetched. Try again in a moment.",
    ((b"retry-after", b"2"),),
)


def require_joserfc() -> None:
    """Complain in plain words where JWTs are configured but cannot be checked."""
    if find_spec("joserfc") is None:
        raise ConfigError(
            "[auth] asks for JWTs, but what checks them is not installed.", hint="Run `toolcrib extras add jwt`."
        )


class JwtGate:
    """Knows which tokens of one issuer are good."""

    def __init__(self, policy: JwtPolicy, keys: KeyRing, now: Callable[[], float]) -> None:
        self._policy, self._keys, self._now = policy, keys, now
        self._known: dict[bytes, Claims] = {}
        self._version = keys.version

    def check(self, presented: bytes) -> Claims | Refusal | None:
        """What a token says if it is good; ``None`` if it is not; a refusal while that cannot be told."""
        if self._keys.version != self._version:
            self._known.clear()
            self._version = self._keys.version
        known = self._known.get(presented)
        if known is not None and self._now() < known.expires + self._policy.leeway_s:
            return known
        try:
            return self._verify(presented, read_jwt(presented, self._policy, self._now()))
        except Unfit:
            self._known.pop(presented, None)
            return None

    def _verify(self, presented: bytes, token: Unverified) -> Claims | Refusal | None:
        candidates = self._keys.find(token)
        if not candidates:
            self._keys.want()
            return KEYS_PENDING if self._keys.is_fetching or self._keys.is_empty else None
        if not any(is_signed_by(token, key) for key in candidates):
            return None
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known[presented] = token.claims
        return token.claims
