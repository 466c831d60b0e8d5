"""Calls of stateless clients that wait here while their client answers a server that asked in the middle of them.

The client is given the questions as an ``input_required`` result and calls again with its answers; what it carries is
sealed. The call itself goes on in its own task: only whom its outcome goes to changes.
"""

import asyncio
import itertools
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, Raw

from toolcrib.core.access import Caller
from toolcrib.core.errors import ProtocolError, RateLimited
from toolcrib.core.seal import ROUND_S, Seal, SealPurpose, is_sealed, subject_for
from toolcrib.wire import messages
from toolcrib.wire.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    Inbound,
    RequestId,
    RpcError,
    decode_error,
    decode_outbound,
    encode,
    encode_error,
    encode_result,
)

PARKED_MAX = 1000
PARKED_PER_CALLER = 25
"""Each keeps a place on its server, of which others want some, too."""
ROUNDS_MAX = 10
OUTCOME_MAX = 1024 * 1024
"""Bytes of a result that are kept for a client that has not come back yet."""
OUTCOMES_MAX = 64 * OUTCOME_MAX
"""The same of all of them."""
_NOT_ASKED = frozenset({"_meta", "requestState", "inputResponses"})


class ParkedChannel(Protocol):
    """What must be known of the request that a parked call began with."""

    @property
    def message(self) -> Inbound | None:
        """What the client sent."""

    @property
    def caller(self) -> Caller:
        """Who sent it."""

    def finish(self, body: bytes, status: int) -> None:
        """Answer it."""

    def cancel(self) -> None:
        """End the work on it."""


Deliver = Callable[[bytes, int], None]
Notify = Callable[[str, bytes], None]


@dataclass(frozen=True, slots=True)
class Waiter:
    """A request that waits for the next thing that comes of a parked call."""

    request_id: RequestId
    deliver: Deliver
    notify: Notify | None = None
    """How it hears of progress."""


class ParkedTicket(msgspec.Struct, array_like=True):
    """What is sealed for the client."""

    replica: str
    call: str
    round: str


_ticket = msgspec.json.Decoder(ParkedTicket)


ResumeElsewhere = Callable[[ParkedTicket, Mapping[str, Any]], Awaitable[tuple[bytes, int]]]


class Parked:
    """One call that has asked its client something."""

    def __init__(self, lot: "ParkingLot", channel: ParkedChannel, subject: bytes) -> None:
        self.id, self.caller = secrets.token_hex(8), channel.caller
        self._lot, self._channel, self._subject = lot, channel, subject
        message = channel.message
        self._waiter: Waiter | None = Waiter(_id_of(message), channel.finish)
        self._loop = asyncio.get_running_loop()
        self._numbers, self._rounds, self._round = itertools.count(1), 0, ""
        self._open: dict[str, asyncio.Future[bytes]] = {}
        self._unsent: dict[str, Mapping[str, Any]] = {}
        self._handed: dict[str, Mapping[str, Any]] = {}
        """What the client was given in this round."""
        self._is_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._outcome: tuple[bytes, int] | None = None

    @property
    def kept_bytes(self) -> int:
        """How much of a result is kept for the client."""
        return 0 if self._outcome is None else len(self._outcome[0])

    @property
    def is_waiting(self) -> bool:
        """Whether it is the client's turn."""
        return self._waiter is None

    async def ask(self, method: str, params: bytes) -> bytes:
        """Ask the client; what is asked in one turn of the loop goes into one round."""
        key = f"q{next(self._numbers)}"
        future: asyncio.Future[bytes] = self._loop.create_future()
        self._open[key] = future
        self._unsent[key] = {"method": method, "params": Raw(params)}
        self._hand_over_soon()
        try:
            return await future
        finally:
            self._open.pop(key, None)
            self._unsent.pop(key, None)

    def notify(self, method: str, params: bytes) -> None:
        """Tell whoever waits for the call now."""
        if self._waiter is not None and self._waiter.notify is not None:
            self._waiter.notify(method, params)

    def _hand_over_soon(self) -> None:
        if self._waiter is not None and not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._hand_over)

    def _hand_over(self) -> None:
        """Answer whoever waits with the questions; from now on it is the client's turn, for a limited time."""
        self._is_due, waiter = False, self._waiter
        if waiter is None or not self._unsent:
            return
        if self._rounds >= ROUNDS_MAX:
            self._refuse(ProtocolError(f"The server asked back more than {ROUNDS_MAX} times."))
            return
        self._rounds, self._round = self._rounds + 1, secrets.token_hex(8)
        self._handed, self._unsent, self._waiter = self._unsent, {}, None
        self._timer = self._loop.call_later(self._lot.patience_s, self._expire)
        asked = {"resultType": "input_required", "inputRequests": self._handed, "requestState": self._seal()}
        waiter.deliver(encode_result(waiter.request_id, encode(asked)), 200)

    def _refuse(self, error: Exception) -> None:
        for key in self._unsent:
            if not self._open[key].done():
                self._open[key].set_exception(error)

    def _seal(self) -> str:
        ticket = encode(ParkedTicket(self._lot.replica, self.id, self._round))
        return self._lot.seal.close(SealPurpose.PARKED, self._subject, ticket, ROUND_S)

    def resume(self, word: str, responses: Mapping[str, Any], waiter: Waiter) -> None:
        """Go on with the client's answers; what it left out is asked again."""
        if word != self._round or not self.is_waiting:
            raise _invalid("these questions were answered before")
        self._round, self._waiter = "", waiter
        if self._timer is not None:
            self._timer.cancel()
        for key, request in self._handed.items():
            future, response = self._open.get(key), responses.get(key)
            if future is None or future.done():
                continue
            if isinstance(response, Mapping):
                future.set_result(encode(response))
            else:
                self._unsent[key] = request
        self._handed = {}
        if self._outcome is not None:
            self.finish(*self._outcome)
        elif self._unsent:
            self._hand_over_soon()

    def finish(self, body: bytes, status: int) -> None:
        """The call has ended: answer whoever waits, or keep the outcome until somebody does."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            self._leave()
            waiter.deliver(readdressed(body, waiter.request_id), status)
        elif len(body) <= OUTCOME_MAX and self._lot.kept_bytes + len(body) <= OUTCOMES_MAX:
            self._outcome = body, status
        else:
            too_large = RpcError(INTERNAL_ERROR, "The call ended meanwhile; its result was too large to be kept.")
            self._outcome = encode_error(None, too_large), 200

    def _expire(self) -> None:
        """The client did not come back."""
        self.cancel()

    def cancel(self) -> None:
        """End the call; its server is told."""
        self._leave()
        self._channel.cancel()

    def abandon(self) -> None:
        """The call was cancelled: whoever waits is told so."""
        waiter, self._waiter = self._waiter, None
        self._leave()
        if waiter is not None:
            waiter.deliver(encode_error(waiter.request_id, RpcError(INTERNAL_ERROR, "The call was cancelled.")), 200)

    def _leave(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._lot.forget(self)


class ParkingLot:
    """The calls of one door that wait for their clients, within limits."""

    def __init__(self, seal: Seal, patience_s: float, replica: str = "", profile: str = "") -> None:
        """``profile`` is the one that its clients see: a call goes on only where it was made."""
        self.seal, self.patience_s, self.replica, self._profile = seal, patience_s, replica, profile
        self.elsewhere: ResumeElsewhere | None = None
        """How to go on with a call that another replica holds."""
        self._parked: dict[str, Parked] = {}
        self._counts: Counter[str] = Counter()

    @property
    def kept_bytes(self) -> int:
        """How much is kept of results whose clients have not come back yet."""
        return sum(parked.kept_bytes for parked in self._parked.values())

    def park(self, channel: ParkedChannel) -> Parked:
        """A place for a call that has something to ask."""
        if len(self._parked) >= PARKED_MAX or self._counts[channel.caller.id] >= PARKED_PER_CALLER:
            raise RateLimited(
                "Too many calls wait for their clients to answer questions.",
                hint="Answer or drop some of them first.",
            )
        parked = Parked(self, channel, self._subject(channel.message, channel.caller))
        self._parked[parked.id] = parked
        self._counts[parked.caller.id] += 1
        return parked

    def forget(self, parked: Parked) -> None:
        """Give the place to another."""
        if self._parked.pop(parked.id, None) is not None:
            self._counts[parked.caller.id] -= 1
            if not self._counts[parked.caller.id]:
                del self._counts[parked.caller.id]

    def _subject(self, message: Inbound | None, caller: Caller) -> bytes:
        """Who asks for what, and where: what is the same in each round."""
        if message is None:
            return subject_for(caller, self._profile)
        asked = {key: value for key, value in messages.request_params(message).items() if key not in _NOT_ASKED}
        return subject_for(caller, self._profile, str(message.method), asked)

    async def resume(self, message: Inbound, caller: Caller, notify: Notify | None) -> tuple[bytes, int]:
        """The answer to a request that goes on with a parked call: its outcome, or its next questions."""
        params = messages.request_params(message)
        found = self.seal.open(SealPurpose.PARKED, self._subject(message, caller), str(params.get("requestState")))
        if found is None:
            raise _invalid("it is too old, was changed, or was given out for another request")
        ticket = _ticket.decode(found.payload)
        parked = self._parked.get(ticket.call)
        responses = params.get("inputResponses")
        given = responses if isinstance(responses, Mapping) else {}
        if parked is None:
            return await self._resume_elsewhere(ticket, given, _id_of(message))
        answered: asyncio.Future[tuple[bytes, int]] = asyncio.get_running_loop().create_future()

        def deliver(body: bytes, status: int) -> None:
            if not answered.done():
                answered.set_result((body, status))

        parked.resume(ticket.round, given, Waiter(_id_of(message), deliver, notify))
        try:
            return await answered
        except asyncio.CancelledError:
            parked.cancel()
            raise

    async def _resume_elsewhere(
        self, ticket: ParkedTicket, given: Mapping[str, Any], request_id: RequestId
    ) -> tuple[bytes, int]:
        """The same of a call that another replica holds."""
        if self.elsewhere is None or ticket.replica == self.replica:
            raise ended(f"its questions wait {self.patience_s:g} s for an answer, then it is cancelled")
        body, status = await self.elsewhere(ticket, given)
        return readdressed(body, request_id), status

    def find(self, call: str) -> Parked | None:
        """The call of that id, while it is here."""
        return self._parked.get(call)

    def leave(self, caller: Caller) -> None:
        """A client is gone that alone could answer: end what waits for it."""
        for parked in list(self._parked.values()):
            if (parked.caller.id, parked.caller.session) == (caller.id, caller.session) and parked.is_waiting:
                parked.cancel()


def is_retry(params: Mapping[str, Any]) -> bool:
    """Whether a request claims to go on with a parked call."""
    return is_sealed(SealPurpose.PARKED, params.get("requestState"))


def _id_of(message: Inbound | None) -> RequestId:
    request_id = UNSET if message is None else message.id
    return request_id if request_id is not UNSET and request_id is not None else 0


def readdressed(body: bytes, request_id: RequestId) -> bytes:
    """An answer as the answer to another request."""
    message = decode_outbound(body)
    if message.result is not UNSET:
        return encode_result(request_id, message.result)
    error = decode_error(b"{}" if message.error is UNSET else message.error)
    return encode_error(request_id, RpcError(error.code, error.message, error.data))


def ended(why: str) -> RpcError:
    """What a client is told that comes back for a call that is not there any more."""
    return RpcError(
        INTERNAL_ERROR,
        f"The call that asked this has ended: {why}. Whether it took effect is not known; check before you call again.",
        {"code": "TOOL_CANCELLED", "retryable": False, "details": {"outcome": "unknown"}},
    )


def _invalid(why: str) -> RpcError:
    return RpcError(
        INVALID_PARAMS, f"The requestState of this request is not valid: {why}. Make the request again without it."
    )
