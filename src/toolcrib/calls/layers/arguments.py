"""Arguments: checked against the tool's schema before anything runs."""

from collections.abc import Awaitable, Callable

from toolcrib.calls.pipeline import Layer, Step, Subject
from toolcrib.core import events
from toolcrib.core.call import ToolCall, ToolResult
from toolcrib.core.errors import InvalidArguments
from toolcrib.core.events import Emit, Event, drop
from toolcrib.schema.check import Check, compile_check
from toolcrib.schema.defaults import apply_defaults
from toolcrib.schema.problems import describe
from toolcrib.schema.repair import repair

OnUnchecked = Callable[[str, str], None]


def arguments(on_unchecked: OnUnchecked, emit: Emit = drop) -> Layer:
    """Refuse what does not fit, in words a model can act on; defaults are filled in for native tools.

    What a server's tool would be refused for a slip of the pen is repaired instead, and the result says so.
    """

    def layer(subject: Subject, following: Step) -> Step:
        schema = subject.tool.input_schema
        check = compile_check(schema)
        if check.gap:
            on_unchecked(subject.name, f"arguments {check.gap}")
        accepts, is_native = check.accepts, not subject.server

        def step(call: ToolCall) -> Awaitable[ToolResult]:
            if is_native:
                call.arguments = apply_defaults(schema, call.arguments)
            if accepts(call.arguments):
                return following(call)
            if is_native or not _repair(call, subject, check):
                message = describe(check.problems(call.arguments), schema)
                raise InvalidArguments(f"{call.name}: {message}")
            fields = {"tool": call.name, "id": call.id, "repairs": list(call.repairs)}
            emit(Event(events.ARGUMENTS_REPAIRED, "info", fields))
            return _run_with_note(following, call)

        return step

    return layer


def _repair(call: ToolCall, subject: Subject, check: Check) -> bool:
    found = repair(subject.tool.input_schema, call.arguments, check.accepts)
    if found is None or not call.withheld.isdisjoint(found[0].keys() - call.arguments.keys()):
        return False
    call.arguments, call.repairs = found
    return True


async def _run_with_note(following: Step, call: ToolCall) -> ToolResult:
    """The result with a block of text that tells what was repaired; one without content stays as it is."""
    result = await following(call)
    content = result.mcp.get("content")
    if not isinstance(content, list):
        return result
    note = {"type": "text", "text": f"Note from toolcrib on your arguments: {'; '.join(call.repairs)}."}
    return ToolResult({**result.mcp, "content": [*content, note]}, error=result.error)
