"""Live: people see each call while it runs, and may end it."""

import asyncio
from collections.abc import Awaitable

from toolcrib.calls.layers.audit import shape_of, trace_id_of
from toolcrib.calls.layers.record import code_of
from toolcrib.calls.live import CANCELLED, TOOL, Live, ended_by_person, message_of
from toolcrib.calls.pipeline import Layer, Step, Subject
from toolcrib.core.access import NATIVE
from toolcrib.core.call import ToolCall, ToolResult


def live(calls: Live) -> Layer:
    """Show each call from here to its end; a call that a person ends fails with their word, not as a cancellation."""

    def layer(subject: Subject, following: Step) -> Step:
        server, level = subject.server or NATIVE, str(subject.tool.security_level)
        begin, finish = calls.open, calls.close

        async def step(call: ToolCall) -> ToolResult:
            facts = call.facts
            if not facts:  # no audit log has looked at it
                call.trace_id = call.trace_id or trace_id_of(call.meta)
            entry = call.live = begin(call, server, level, facts["arguments"] if facts else shape_of(call.arguments))
            try:
                result = await following(call)
            except asyncio.CancelledError:
                if not entry.settles_cancellation():
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
                finish(entry, result.error.code, result.error.message)
            return result

        return step

    return layer


def at_source() -> Layer:
    """Mark the moment a call comes to its source: what is left of it is the tool's own time."""

    def layer(subject: Subject, following: Step) -> Step:
        del subject

        def step(call: ToolCall) -> Awaitable[ToolResult]:
            if call.live is not None:
                call.live.begin(TOOL)
            return following(call)

        return step

    return layer
