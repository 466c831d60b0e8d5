"""The public keys of an issuer: fetched in the background, kept until better ones are there."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from toolcrib.core.errors import ConfigError, SourceUnavailable, ToolcribError
from toolcrib.core.events import Emit, Event
from toolcrib.transports.http_client import HttpPool, PoolLimits
from toolcrib.transports.jwt import Unverified

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


def fetch_from(address: str) -> Fetch:
    """Fetches from an address; no redirect is followed and no more than a small document is taken."""

    async def fetch() -> bytes:
        pool = HttpPool(address, limits=PoolLimits(connections=1, body_bytes=BODY_MAX))
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
