"""Arguments: checked against the tool's schema before anything runs."""

from collections.abc import Awaitable, Callable

from toolcrib.calls.pipeline import Layer, Step, Subject
from toolcrib.core.call import ToolCall, ToolResult
from toolcrib.core.errors import InvalidArguments
from toolcrib.schema.check import compile_check
from toolcrib.schema.defaults import apply_defaults
from toolcrib.schema.problems import describe

OnUnchecked = Callable[[str, str], None]


def arguments(on_unchecked: OnUnchecked) -> Layer:
    """Refuse what does not fit, in words a model can act on; defaults are filled in for native tools."""

    def layer(subject: Subject, following: Step) -> Step:
        schema = subject.tool.input_schema
        check = compile_check(schema)
        if check.gap:
            on_unchecked(subject.name, f"arguments {check.gap}")
        accepts, is_native = check.accepts, not subject.server

        def step(call: ToolCall) -> Awaitable[ToolResult]:
            if is_native:
                call.arguments = apply_defaults(schema, call.arguments)
            if not accepts(call.arguments):
                message = describe(check.problems(call.arguments), schema)
                raise InvalidArguments(f"{call.name}: {message}")
            return following(call)

        return step

    return layer
