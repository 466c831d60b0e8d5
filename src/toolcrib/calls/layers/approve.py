"""Approve: a call of a tool whose policy is ``ask`` waits for a person's word."""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from toolcrib.calls.approvals import ApprovalAnswer, ApprovalReply, Approvals
from toolcrib.calls.elicit import ApprovalSeal, can_elicit, not_valid, without_answer
from toolcrib.calls.marks import Marks
from toolcrib.calls.pipeline import Layer, Step, Subject
from toolcrib.core.access import Decision, decided_by
from toolcrib.core.kinds import Ruling
from toolcrib.core.requests import Request, Result
from toolcrib.core.seal import ROUND_S, subject_of

ROUNDS_KEPT = 1000
_ROUND = frozenset({"requestState", "inputResponses"})


def approve(desk: Approvals, seal: ApprovalSeal) -> Layer:
    """Nothing to do for tools that are allowed; for others, ask before anything else happens."""
    rounds = Rounds(desk.marks)

    def layer(subject: Subject, following: Step) -> Step:
        reach = subject.reach
        if decided_by(reach.policy) is not Decision.ASK:
            return following

        async def step(call: Request) -> Result:
            if await rounds.goes_on(call):
                call.context.decision = Ruling.APPROVED_ONCE
            elif call.channel.takes_input_required and can_elicit(call):
                if seal.is_ours(call):
                    reply = await _open(seal, call, desk.marks)
                    call = without_answer(call)
                    await desk.take(call, reach, ApprovalAnswer(reply) if reply is not None else None, "client")
                elif known := await desk.recall(call.caller, reach.key):
                    call.context.decision = known
                else:
                    call.context.decision = Ruling.ASKED
                    return seal.ask(desk.question(call, reach), call)
            else:
                await desk.clear(call, reach)
            if not call.channel.takes_input_required:
                return await following(call)
            asked = _digest(call)
            result = await following(call)
            await rounds.note(asked, result)
            return result

        return step

    return layer


class Rounds:
    """Calls that were approved and whose tool asked back itself: the next round is the same call, not a new one."""

    def __init__(self, marks: Marks | None = None) -> None:
        self._open: dict[bytes, bool] = {}
        self._marks = marks
        """Where the next round may come to another replica."""

    async def note(self, asked: bytes, result: Result) -> None:
        """Remember what a stateless client will come back with."""
        if result.error is not None or not result.asks_back:
            return
        if self._marks is not None:
            await self._marks.note(_named(asked + _state(result.mcp)), ROUND_S)
            return
        if len(self._open) >= ROUNDS_KEPT:
            self._open.pop(next(iter(self._open)))
        self._open[asked + _state(result.mcp)] = True

    async def goes_on(self, call: Request) -> bool:
        """Whether this is such a round; it counts once."""
        if not call.more.keys() & _ROUND:
            return False
        asked = _digest(call) + _state(call.more)
        if self._marks is not None:
            name = _named(asked)
            return await self._marks.holds(name) and await self._marks.spend(name, ROUND_S)
        return self._open.pop(asked, False)


async def _open(seal: ApprovalSeal, call: Request, marks: Marks | None) -> ApprovalReply | None:
    """The person's answer; it counts once, whichever replica it comes to."""
    reply, nonce = seal.open(call)
    if marks is not None and not await marks.spend(f"seal:{nonce}", seal.lifetime_s + 1):
        raise not_valid()
    return reply


def _named(asked: bytes) -> str:
    return f"round:{asked.hex()}"


def _digest(call: Request) -> bytes:
    """Who calls what with which arguments; taken before the layers below change these."""
    return hashlib.sha256(subject_of(call)).digest()


def _state(carrier: Mapping[str, Any]) -> bytes:
    return hashlib.sha256(msgspec.json.encode(carrier.get("requestState"), order="sorted")).digest()
