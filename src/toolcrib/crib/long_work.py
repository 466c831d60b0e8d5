"""One call that may go on when its client has gone on, too: what it asks and says then is asked and said by a task."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from toolcrib.core.errors import NotImplementedHere, ProtocolError
from toolcrib.core.long_work import without_tasks
from toolcrib.core.requests import PROGRESS, BackChannel, Request, Result

ROUNDS_MAX = 10
MESSAGE_MAX = 1000

_encode = msgspec.json.Encoder().encode
_progress = msgspec.json.Decoder(dict[str, Any])

Encode = Callable[[Result], tuple[bytes, bytes]]
"""A result as a client is shown it, or the JSON-RPC error that it is shown instead; one of them is empty."""


@dataclass(frozen=True, slots=True)
class Ways:
    """How the door that a call came through runs it."""

    run: Callable[[Request], Awaitable[Result]]
    again: Callable[[Request, Mapping[str, Any]], Request]
    """The same call once more, with what its client answered."""
    encode: Encode
    must_be_task: bool = False
    """Whether the client takes nothing else."""
    ttl_s: float | None = None
    """How long the client wants it kept."""


class LongWork:
    """One call that may go on when its client has gone on, too."""

    def __init__(self, call: Request, ways: Ways, changed: Callable[["LongWork"], None]) -> None:
        self.is_out = False
        """Whether the client was given a task."""
        self.may_go_out = True
        self.wanted = asyncio.get_running_loop().create_future()
        """Done when it asks something that the client can only be asked by a task, or its server answers later."""
        self.message = ""
        self.task_id, self.caller = "", call.caller
        self.running: asyncio.Task[Result] | None = None
        self._call = replace(call, channel=WorkChannel(call.channel, self))
        call.context.is_long = self._go_out
        self._until = 0.0
        self._ways, self._changed = ways, changed
        self._asked: dict[str, dict[str, Any]] = {}
        self._answers: dict[str, asyncio.Future[bytes]] = {}
        self._number = 0

    async def work(self) -> Result:
        """The result of the call; what it asks back after the client was given a task is asked by that."""
        call = self._call
        for _ in range(ROUNDS_MAX):
            result = await self._ways.run(call)
            if not self.is_out or result.error is not None or not result.asks_back:
                return result
            call = self._ways.again(call, await self._round(result.mcp))
            call.context.may_last_until, call.context.is_long = self._until, self._go_out
        return Result.failed(ProtocolError(f"The server of {call.name} asked back more than {ROUNDS_MAX} times."))

    def may_last(self, seconds: float) -> None:
        """Let it go on for so long: nobody waits for it any more."""
        self._until = self._call.context.may_last_until = asyncio.get_running_loop().time() + seconds

    async def _round(self, required: Mapping[str, Any]) -> dict[str, Any]:
        """The answers to all that a result asks, and the state that belongs to them."""
        asked = required.get("inputRequests")
        wanted = {key: one for key, one in asked.items() if isinstance(one, Mapping)} if isinstance(asked, dict) else {}
        said = await asyncio.gather(*(self.ask(str(one.get("method")), one.get("params")) for one in wanted.values()))
        answers = {key: msgspec.json.decode(answer) for key, answer in zip(wanted, said, strict=True)}
        more: dict[str, Any] = {"inputResponses": answers} if answers else {}
        state = required.get("requestState")
        return more if state is None else more | {"requestState": state}

    async def ask(self, method: str, params: Any) -> bytes:
        """Ask the client by the task, and wait for what it answers; no two questions have the same key."""
        if not self.may_go_out:
            raise NotImplementedHere(f"The caller has too many tasks to be asked {method!r} by another.")
        self._number += 1
        key = f"q{self._number}"
        self._asked[key] = {"method": method} if params is None else {"method": method, "params": params}
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._answers[key] = answer
        self._go_out()
        self._changed(self)
        try:
            return await answer
        finally:
            del self._asked[key], self._answers[key]
            self._changed(self)

    def _go_out(self) -> None:
        """Have the client given a task now, if it has none."""
        if not self.wanted.done():
            self.wanted.set_result(None)

    def answer(self, answers: Mapping[str, Any]) -> None:
        """Take what the client says to what is asked right now; all else it says is of no use."""
        for key, said in answers.items():
            waiting = self._answers.get(key)
            if waiting is not None and not waiting.done():
                waiting.set_result(_encode(said))

    def tell(self, params: bytes) -> None:
        """Take the words of a progress notification as those of the task."""
        with suppress(msgspec.DecodeError):
            message = _progress.decode(params).get("message")
            if type(message) is str and message:
                self.message = message[:MESSAGE_MAX]
                self._changed(self)

    @property
    def requests(self) -> bytes:
        """What it asks right now, as the JSON of ``inputRequests``; empty if nothing."""
        open_ones = {key: asked for key, asked in self._asked.items() if not self._answers[key].done()}
        return _encode(open_ones) if open_ones else b""


class WorkChannel:
    """The way back of a call that may become a task: what it says is said of the task then."""

    wants_progress = True

    def __init__(self, client: BackChannel, work: LongWork) -> None:
        self._client, self._work = client, work
        self.takes_input_required, self.log_level = client.takes_input_required, client.log_level

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """The client's; one with too many tasks gets no more of them."""
        declared = self._client.capabilities
        return declared if self._work.may_go_out else without_tasks(declared)

    def notify(self, method: str, params: bytes) -> None:
        """Tell the client while it waits; afterwards only progress is of use."""
        if self._work.is_out:
            if method == PROGRESS:
                self._work.tell(params)
        elif method != PROGRESS or self._client.wants_progress:
            self._client.notify(method, params)

    async def ask(self, method: str, params: bytes) -> bytes:
        """Ask the client: itself if it waits and can be asked, else by the task."""
        if not self._work.is_out and not self._client.takes_input_required:
            return await self._client.ask(method, params)
        return await self._work.ask(method, msgspec.json.decode(params))
