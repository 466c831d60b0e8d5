"""Sign in: a call that came before somebody signed in at its server sends them to toolcrib's own page, where they are
who they say they are first, and goes on once they have; for clients that can open an address."""

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from toolcrib.calls.elicit import ELICIT, can_visit
from toolcrib.calls.pipeline import Layer, Step, Subject
from toolcrib.core.access import Caller
from toolcrib.core.errors import NotImplementedHere, RemoteError, SignInNeeded
from toolcrib.core.offers import RequestKind
from toolcrib.core.requests import Request, Result
from toolcrib.schema.text import printable

COMPLETE = "notifications/elicitation/complete"
_ASKS_BACK = frozenset({RequestKind.CALL, RequestKind.READ, RequestKind.GET})
"""What a client of the stateless era may be answered with a question."""


class SignInWatch(Protocol):
    """Knows who signs in where."""

    def is_wanted_at(self, server: str) -> bool:
        """Whether people may have to sign in at a server."""

    async def last(self, server: str, caller: Caller) -> float | None:
        """When the account was signed in to that a caller uses at a server, zero if it never was; ``None`` if the
        caller may not do that."""

    async def wait(self, server: str, caller: Caller, after: float) -> None:
        """Return once the server can be used with an account that was signed in to after that moment."""


def sign_in(watch: SignInWatch, patience_s: float) -> Layer:
    """Nothing to do for servers where nobody signs in."""

    def layer(subject: Subject, following: Step) -> Step:
        server = subject.server
        if not server or subject.kind not in _ASKS_BACK or not watch.is_wanted_at(server):
            return following

        async def step(call: Request) -> Result:
            try:
                return await following(call)
            except SignInNeeded as needed:
                sending = Sending(call, server, needed)
                if not (sending.is_possible and await sending.is_done(watch, patience_s)):
                    raise
            result = await following(call)
            sending.tell_done()
            return result

        return step

    return layer


class Sending:
    """One caller who is sent to the page where they sign in at a server."""

    def __init__(self, call: Request, server: str, needed: SignInNeeded) -> None:
        self._call, self._server, self._needed = call, server, needed
        self._id = "" if call.channel.takes_input_required else secrets.token_hex(8)
        """What the client knows the question by, before 2026; later it has no id."""

    @property
    def is_possible(self) -> bool:
        """Whether there is such a page, and a client that can open it."""
        return bool(self._needed.details.get("link")) and can_visit(self._call)

    async def is_done(self, watch: SignInWatch, patience_s: float) -> bool:
        """Ask, and wait until they have signed in; the time this takes is not the call's own."""
        caller, context, loop = self._call.caller, self._call.context, asyncio.get_running_loop()
        last = await watch.last(self._server, caller)
        if last is None:
            return False
        began = loop.time()
        context.asking += 1
        try:
            if not await self._agrees(patience_s):
                return False
            async with asyncio.timeout(patience_s):
                await watch.wait(self._server, caller, last)
        except (TimeoutError, RemoteError, NotImplementedHere):
            return False
        finally:
            context.asking -= 1
            if not context.asking:
                context.asked_s += loop.time() - began
        return True

    async def _agrees(self, patience_s: float) -> bool:
        """Whether the person opens the address; a stateless client that does not come back has its call ended by the
        door."""
        channel, question = self._call.channel, msgspec.json.encode(self._question())
        async with asyncio.timeout(None if channel.takes_input_required else patience_s):
            answer = msgspec.json.decode(await channel.ask(ELICIT, question))
        return isinstance(answer, Mapping) and answer.get("action") == "accept"

    def _question(self) -> dict[str, Any]:
        words = f"{self._needed.message} It is done on a page of toolcrib; {self._call.name} goes on by itself then."
        known_by = {"elicitationId": self._id} if self._id else {}
        return {"mode": "url", "message": printable(words), "url": self._needed.details["link"], **known_by}

    def tell_done(self) -> None:
        """Have the client close what it shows."""
        if self._id:
            self._call.channel.notify(COMPLETE, msgspec.json.encode({"elicitationId": self._id}))
