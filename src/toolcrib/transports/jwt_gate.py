"""JWTs at the door: whose they are, found out once per token and remembered until it expires or the keys change."""

from collections.abc import Callable
from importlib.util import find_spec

from toolcrib.core.errors import ConfigError
from toolcrib.transports.http_message import Refusal
from toolcrib.transports.jwt import Claims, JwtPolicy, Unfit, Unverified, read_jwt
from toolcrib.transports.jwt_keys import KeyRing, is_signed_by

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
            "[auth] asks for JWTs, but what checks them is not installed.", hint='Run `pip install "toolcrib[jwt]"`.'
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
