"""Live: people see each call while it runs, and may end it."""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any

from toolcrib.calls.layers.audit import shape_of, trace_id_of
from toolcrib.calls.layers.record import code_of
from toolcrib.calls.live import CANCELLED, UNFIT, Live, ended_by_person, message_of
from toolcrib.calls.pipeline import Layer, Step, Subject
from toolcrib.core.access import NATIVE
from toolcrib.core.call import ToolCall, ToolResult
from toolcrib.core.errors import InvalidArguments


def live(calls: Live) -> Layer:
    """Show each call from here to its end; a call that a person ends fails with their word, not as a cancellation."""

    def layer(subject: Subject, following: Step) -> Step:
        about = subject.server or NATIVE, str(subject.tool.security_level)
        begin, finish = calls.open, calls.close

        async def step(call: ToolCall) -> ToolResult:
            facts = call.facts or _facts(call)
            entry = call.live = begin(call, about, facts["arguments"])
            try:
                result = await following(call)
            except asyncio.CancelledError:
                if not calls.settles_cancellation(entry):
                    finish(entry, CANCELLED, "The caller gave up.")
                    raise
                ended = ended_by_person(call.name)
                finish(entry, ended.code, ended.message)
                raise ended from None
            except BaseException as error:
                finish(entry, code_of(error), message_of(error))
                raise
            if result.error is None:
                finish(entry)
            else:
                code, message = result.error.code, result.error.message
                finish(entry, code, UNFIT if code == InvalidArguments.code else message)
            return result

        return step

    return layer


def _facts(call: ToolCall) -> Mapping[str, Any]:
    """What the audit log, where there is one, has found out already."""
    call.trace_id = call.trace_id or trace_id_of(call.meta)
    return {"arguments": shape_of(call.arguments)}


def at_source() -> Layer:
    """Mark the moment a call comes to its source: what is left of it is the tool's own time."""

    def layer(subject: Subject, following: Step) -> Step:
        del subject

        def step(call: ToolCall) -> Awaitable[ToolResult]:
            if call.live is not None:
                call.live.reach_tool()
            return following(call)

        return step

    return layer
