"""Result: structured content must fit the output schema that the tool itself declared."""

from toolcrib.calls.layers.arguments import OnUnchecked
from toolcrib.calls.pipeline import Layer, Step, Subject
from toolcrib.core.call import ToolCall, ToolResult
from toolcrib.core.errors import ToolFailed
from toolcrib.schema.check import compile_check
from toolcrib.schema.problems import describe


def result(on_unchecked: OnUnchecked) -> Layer:
    """Tools without an output schema pass untouched."""

    def layer(subject: Subject, following: Step) -> Step:
        schema = subject.tool.output_schema
        if schema is None:
            return following
        check = compile_check(schema)
        if check.gap:
            on_unchecked(subject.name, f"results {check.gap}")
        if check.unchecked_reason:
            return following

        async def step(call: ToolCall) -> ToolResult:
            outcome = await following(call)
            structured = outcome.structured
            if outcome.error is None and structured is not None and not check.accepts(structured):
                problems = describe(check.problems(structured), schema)
                raise ToolFailed(
                    f"{call.name} returned data that does not fit its own output schema: {problems}",
                    hint="The call was carried out; the fault is the tool's.",
                    details={"content": list(outcome.content)},
                )
            return outcome

        return step

    return layer
