"""Parked calls among replicas: a client's answers that come to another one are passed on to the one that holds the
call, and what comes of them is passed back."""

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any

import msgspec

from toolcrib.core.coordination import Coordination
from toolcrib.core.errors import CoordinationUnavailable
from toolcrib.core.tasks import OnFailure, TaskScope
from toolcrib.core.topic import Topic
from toolcrib.server.mcp.parking import Parked, ParkedTicket, ParkingLot, Waiter, ended
from toolcrib.wire.jsonrpc import RpcError, encode_error

TOPIC = "parked"
CONFIRM_S = 5.0
"""So soon the replica that holds a call says so."""
BEAT_S = 10.0
SILENT_S = 35.0
"""A replica that has said nothing for so long is gone."""


class ClientAnswers(msgspec.Struct, tag=True, array_like=True):
    """A client came back to a replica that does not hold its call."""

    ask: str
    call: str
    round: str
    responses: dict[str, Any]


class ParkedHere(msgspec.Struct, tag=True, array_like=True):
    """The call is here, and goes on."""

    ask: str


class ParkedOutcome(msgspec.Struct, tag=True, array_like=True):
    """What came of it: an answer to the client, whose request id is left to whoever has the client."""

    ask: str
    body: bytes
    status: int


class ClientLeft(msgspec.Struct, tag=True, array_like=True):
    """The client did not wait for it."""

    ask: str


ParkedWord = ClientAnswers | ParkedHere | ParkedOutcome | ClientLeft
_word: msgspec.msgpack.Decoder[ParkedWord] = msgspec.msgpack.Decoder(ParkedWord)


class _Asking:
    """Somebody here who waits for another replica."""

    def __init__(self) -> None:
        self.outcome: asyncio.Future[tuple[bytes, int]] = asyncio.get_running_loop().create_future()
        self.was_heard = False


class ParkedElsewhere:
    """Ties the parked calls of this replica to the clients of all."""

    def __init__(self, coordination: Coordination, on_failure: OnFailure) -> None:
        self._topic = Topic(coordination, TOPIC, self._hear, _miss)
        self._tasks = TaskScope(on_failure)
        self._lots: list[ParkingLot] = []
        self._asking: dict[str, _Asking] = {}
        self._held: dict[str, Parked] = {}
        """Calls of ours that go on for a client at another replica."""

    def add(self, lot: ParkingLot) -> None:
        """Pass on what comes here for calls that are elsewhere, and to this lot what comes there."""
        self._lots.append(lot)
        lot.elsewhere = self.resume

    async def open(self) -> None:
        """Begin to hear of clients that came to another replica."""
        await self._topic.open()
        self._tasks.spawn(self._beat(), "parked.beat")

    def _say(self, word: ParkedWord) -> None:
        self._topic.say(msgspec.msgpack.encode(word))

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            self.beat()

    def beat(self) -> None:
        """Say of each call that goes on for a client elsewhere that it does."""
        for ask in self._held:
            self._say(ParkedHere(ask))

    async def resume(self, ticket: ParkedTicket, responses: Mapping[str, Any]) -> tuple[bytes, int]:
        """What comes of a client's answers at the replica that holds the call."""
        ask = secrets.token_hex(8)
        asking = self._asking[ask] = _Asking()
        try:
            word = ClientAnswers(ask, ticket.call, ticket.round, dict(responses))
            await self._topic.tell(msgspec.msgpack.encode(word))
            return await self._outcome(asking)
        except CoordinationUnavailable:
            raise ended("the replicas cannot reach each other, and another one holds it") from None
        except asyncio.CancelledError:
            self._say(ClientLeft(ask))
            raise
        finally:
            del self._asking[ask]

    async def _outcome(self, asking: _Asking) -> tuple[bytes, int]:
        wait_s = CONFIRM_S
        while True:
            asking.was_heard = False
            await asyncio.wait([asking.outcome], timeout=wait_s)
            if asking.outcome.done():
                return asking.outcome.result()
            if not asking.was_heard:
                raise ended("the replica that held it is gone, or it was answered or cancelled before")
            wait_s = SILENT_S

    def _hear(self, body: bytes) -> None:
        try:
            word = _word.decode(body)
        except msgspec.DecodeError:  # a replica of another version says more than we understand
            return
        match word:
            case ClientAnswers():
                self._take(word)
            case ParkedHere():
                if (asking := self._asking.get(word.ask)) is not None:
                    asking.was_heard = True
            case ParkedOutcome():
                self._settle(word)
            case ClientLeft():
                if (parked := self._held.pop(word.ask, None)) is not None:
                    parked.cancel()

    def _settle(self, word: ParkedOutcome) -> None:
        asking = self._asking.get(word.ask)
        if asking is not None and not asking.outcome.done():
            asking.outcome.set_result((word.body, word.status))

    def _take(self, word: ClientAnswers) -> None:
        parked = next((found for lot in self._lots if (found := lot.find(word.call)) is not None), None)
        if parked is None:
            return

        def deliver(body: bytes, status: int) -> None:
            self._held.pop(word.ask, None)
            self._say(ParkedOutcome(word.ask, body, status))

        self._held[word.ask] = parked
        self._say(ParkedHere(word.ask))
        try:
            parked.resume(word.round, word.responses, Waiter(0, deliver))
        except RpcError as error:
            deliver(encode_error(0, error), 400)

    async def close(self) -> None:
        """Hear no more."""
        await self._tasks.close()
        await self._topic.close()


def _miss() -> None:
    """Nothing: who waits for what was missed finds out by the silence."""
