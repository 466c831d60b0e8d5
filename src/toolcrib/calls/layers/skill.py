"""Skill: the content of a skill's file is what its entry promised, or nobody gets it."""

import asyncio
import base64
import binascii
from functools import partial

import msgspec

from toolcrib.calls.pipeline import Layer, Step, Subject
from toolcrib.core.errors import ToolFailed
from toolcrib.core.offers import RequestKind
from toolcrib.core.requests import Request, Result
from toolcrib.core.skills import Promise, promise_of, why_broken

LARGE_BYTES = 64 * 1024
"""More than this is looked at beside the event loop."""
NOT_HANDED_ON = "Nothing of it was handed on. If its author changed it, the server has to list it anew."


class _Content(msgspec.Struct):
    text: str | None = None
    blob: str | None = None


class _Contents(msgspec.Struct):
    contents: list[_Content]


_contents = msgspec.json.Decoder(_Contents)


def skill() -> Layer:
    """Only reads of what belongs to a skill are looked at."""

    def layer(subject: Subject, following: Step) -> Step:
        promise = promise_of(subject.offer.extra, subject.offer.name) if subject.kind is RequestKind.READ else None
        if promise is None:
            return following

        async def step(call: Request) -> Result:
            outcome = await following(call)
            if outcome.error is None and outcome.result_type != "input_required":
                wrong = await _judge(promise, outcome)
                if wrong:
                    raise ToolFailed(f"{call.name} is not what it should be: {wrong}.", hint=NOT_HANDED_ON)
            return outcome

        return step

    return layer


async def _judge(promise: Promise, outcome: Result) -> str:
    raw = msgspec.json.encode(outcome.mcp) if outcome.raw is None else outcome.raw
    look = partial(_look, promise, raw)
    is_quick = len(raw) <= LARGE_BYTES and promise.frontmatter is None
    return look() if is_quick else await asyncio.to_thread(look)


def _look(promise: Promise, raw: bytes) -> str:
    try:
        found = _contents.decode(raw).contents
        if len(found) != 1:
            return f"it came in {len(found)} parts"
        content = found[0].text.encode() if found[0].text is not None else base64.b64decode(found[0].blob or "")
    except (msgspec.DecodeError, binascii.Error, ValueError):
        return "it cannot be read"
    return why_broken(promise, content)
