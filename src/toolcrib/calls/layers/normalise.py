"""Normalise: parameter names a model wrote in another style become the server's own (native tools untouched)."""

from collections.abc import Awaitable, Mapping

from toolcrib.calls.pipeline import Layer, Step, Subject
from toolcrib.core import events
from toolcrib.core.call import ToolCall, ToolResult
from toolcrib.core.events import Emit, Event
from toolcrib.schema.arguments import Renamer

STATIC_RENAMES: Mapping[str, Mapping[str, str]] = {
    "control_zwave_device": {"device_name": "deviceName", "command": "action"},
}
"""Tools known to be called with other names than their schema's."""


def normalise(emit: Emit) -> Layer:
    """Static renames of a tool first, then snake_case to camelCase where the schema has the camelCase name."""

    def layer(subject: Subject, following: Step) -> Step:
        if not subject.server:
            return following
        static = {**STATIC_RENAMES.get(subject.tool.name, {}), **subject.tool.renames}
        renamer = Renamer.for_schema(subject.tool.input_schema, static)
        if renamer is None:
            return following

        def step(call: ToolCall) -> Awaitable[ToolResult]:
            arguments, renames = renamer.apply(call.arguments)
            if renames:
                call.arguments = arguments
                emit(
                    Event(events.ARGUMENTS_RENAMED, "info", {"tool": call.name, "id": call.id, "names": dict(renames)})
                )
            return following(call)

        return step

    return layer
