"""Approve: a call of a tool whose policy is ``ask`` waits for a person's word."""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from toolcrib.calls.approvals import Answer, Desk
from toolcrib.calls.elicit import Seal, can_elicit
from toolcrib.calls.pipeline import Layer, Step, Subject
from toolcrib.core.call import ToolCall, ToolResult

ROUNDS_KEPT = 1000
_ROUND = frozenset({"requestState", "inputResponses"})


def approve(desk: Desk, seal: Seal) -> Layer:
    """Nothing to do for tools that are allowed; for others, ask before anything else happens."""
    rounds = Rounds()

    def layer(subject: Subject, following: Step) -> Step:
        reach = subject.reach
        if reach.policy != "ask":
            return following

        async def step(call: ToolCall) -> ToolResult:
            if rounds.goes_on(call):
                call.decision = "approved once"
            elif call.channel.takes_input_required and can_elicit(call):
                if seal.is_ours(call):
                    reply = seal.open(call)
                    await desk.take(call, reach, Answer(reply) if reply is not None else None, "client")
                elif known := await desk.recall(call.caller, reach.name):
                    call.decision = known
                else:
                    call.decision = "asked"
                    return seal.ask(desk.question(call, reach), call)
            else:
                await desk.clear(call, reach)
            if not call.channel.takes_input_required:
                return await following(call)
            asked = _digest(call)
            result = await following(call)
            rounds.note(asked, result)
            return result

        return step

    return layer


class Rounds:
    """Calls that were approved and whose tool asked back itself: the next round is the same call, not a new one."""

    def __init__(self) -> None:
        self._open: dict[bytes, None] = {}

    def note(self, asked: bytes, result: ToolResult) -> None:
        """Remember what a stateless client will come back with."""
        if result.error is not None or result.mcp.get("resultType") != "input_required":
            return
        if len(self._open) >= ROUNDS_KEPT:
            self._open.pop(next(iter(self._open)))
        self._open[asked + _state(result.mcp)] = None

    def goes_on(self, call: ToolCall) -> bool:
        """Whether this is such a round; it counts once."""
        if not call.more.keys() & _ROUND:
            return False
        return self._open.pop(_digest(call) + _state(call.more), False) is None


def _digest(call: ToolCall) -> bytes:
    """Who calls what with which arguments; taken before the layers below change these."""
    identity = (call.caller.id, call.caller.session, call.name, call.arguments)
    return hashlib.sha256(msgspec.json.encode(identity, order="sorted")).digest()


def _state(carrier: Mapping[str, Any]) -> bytes:
    return hashlib.sha256(msgspec.json.encode(carrier.get("requestState"), order="sorted")).digest()
