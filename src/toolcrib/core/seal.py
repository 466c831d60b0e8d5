"""What a stateless client carries for us from one request to the next, sealed: it counts for a limited time, for the
purpose, the caller, the offer and the arguments that it was given out for, and nobody can make or change one."""

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from toolcrib.core.access import Caller
from toolcrib.core.errors import InvalidArguments
from toolcrib.core.requests import Request

SPENT_KEPT = 10_000
ROUND_S = 3600.0
"""How long a client may take to come back with what a server of its own era asked."""
INVALID_PARAMS = -32602


class SealPurpose(StrEnum):
    """What a seal is good for; one of another purpose is none."""

    APPROVAL = "approve"
    """Our own question whether a call may happen."""
    ROUND = "round"
    """A server's ``requestState``, wrapped."""
    PARKED = "parked"
    """A call that waits here for its client's answer."""


class Unsealed(NamedTuple):
    """What was found in a seal."""

    payload: bytes
    nonce: str
    """What is different in every seal."""
    due: int


class Seal:
    """Makes and checks seals; replicas with the same key can read each other's."""

    def __init__(self, clock: Callable[[], float], key: bytes = b"") -> None:
        self._clock, self._key = clock, key or secrets.token_bytes(32)
        self._spent: dict[str, int] = {}
        """What was used, and until when it would have been valid."""

    def close(self, purpose: SealPurpose, subject: bytes, payload: bytes, lifetime_s: float) -> str:
        """A text that ``open`` gives the payload back for."""
        head = f"{int(self._clock() + lifetime_s)}.{secrets.token_hex(8)}"
        signed = f"{head}.{self._sign(purpose, subject, head, payload)}.".encode() + payload
        return prefix_of(purpose) + urlsafe_b64encode(signed).decode()

    def open(self, purpose: SealPurpose, subject: bytes, text: str) -> Unsealed | None:
        """What was sealed; ``None`` if it was tampered with, is too old or was given out for something else."""
        written = text.removeprefix(prefix_of(purpose)).encode()
        try:
            body = urlsafe_b64decode(written)
            if urlsafe_b64encode(body) != written:  # the decoder passes over what does not belong there
                return None
            due, nonce, signature, payload = body.split(b".", 3)
            head = f"{int(due)}.{nonce.decode()}"
        except ValueError:
            return None
        expected = self._sign(purpose, subject, head, payload)
        if not hmac.compare_digest(signature, expected.encode()) or int(due) < self._clock():
            return None
        return Unsealed(payload, nonce.decode(), int(due))

    def spend(self, found: Unsealed) -> bool:
        """Use a seal up; false if it was used before. What could still be used again is never forgotten, so that
        a full memory takes no more."""
        if len(self._spent) >= SPENT_KEPT:
            now = self._clock()
            self._spent = {nonce: due for nonce, due in self._spent.items() if due >= now}
        if found.nonce in self._spent or len(self._spent) >= SPENT_KEPT:
            return False
        self._spent[found.nonce] = found.due
        return True

    def _sign(self, purpose: SealPurpose, subject: bytes, head: str, payload: bytes) -> str:
        about = msgspec.json.encode((purpose, head)) + hashlib.sha256(subject).digest()
        return hmac.new(self._key, about + hashlib.sha256(payload).digest(), hashlib.sha256).hexdigest()


def prefix_of(purpose: SealPurpose) -> str:
    """How the seals of a purpose begin."""
    return f"toolcrib.{purpose}."


def is_sealed(purpose: SealPurpose, state: object) -> bool:
    """Whether something that a client brings back claims to be a seal of this purpose."""
    return isinstance(state, str) and state.startswith(prefix_of(purpose))


def subject_of(call: Request) -> bytes:
    """Who asks for what, with which arguments; their order does not matter."""
    return subject_for(call.caller, call.kind, call.name, call.arguments)


def subject_for(caller: Caller, *asked: str | Mapping[str, Any]) -> bytes:
    """The same of what a caller asked for before it became a request."""
    return msgspec.json.encode((caller.id, caller.session, *asked), order="sorted")


def invalid_state(why: str) -> InvalidArguments:
    """What a client is told whose ``requestState`` cannot be used."""
    return InvalidArguments(
        f"The requestState of this request is not valid: {why}.",
        hint="Make the request again without requestState and inputResponses.",
        details={"rpc_code": INVALID_PARAMS},
    )
