"""Arguments: what does not fit is refused before anything runs, in words a model can act on."""

import pytest

from toolcrib.calls.layers.arguments import arguments
from toolcrib.calls.pipeline import Subject
from toolcrib.core.call import ToolCall, ToolResult
from toolcrib.core.errors import InvalidArguments
from toolcrib.core.tool import Tool

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 3, "minimum": 1}},
    "required": ["city"],
    "additionalProperties": False,
}


class Layered:
    """The layer around a source that notes the arguments it gets."""

    def __init__(self, schema: dict, server: str = "") -> None:
        self.received: list[dict] = []
        self.unchecked: list[tuple[str, str]] = []
        subject = Subject("weather", server, Tool("weather", input_schema=schema))
        self._step = arguments(lambda *words: self.unchecked.append(words))(subject, self._source)

    async def _source(self, call: ToolCall) -> ToolResult:
        self.received.append(call.arguments)
        return ToolResult({})

    async def run(self, given: dict) -> None:
        await self._step(ToolCall("weather", "weather", given))


async def test_native_tools_get_their_defaults_filled_in():
    """What the caller left out and the schema knows; the caller's own object stays as it was."""
    layered, given = Layered(SCHEMA), {"city": "Ulm"}

    await layered.run(given)

    assert layered.received == [{"city": "Ulm", "days": 3}]
    assert given == {"city": "Ulm"}


async def test_servers_fill_in_their_own_defaults():
    """Their arguments pass as they were given."""
    layered = Layered(SCHEMA, server="met")

    await layered.run({"city": "Ulm"})

    assert layered.received == [{"city": "Ulm"}]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "weather: missing required field 'city' (string)"),
        ({"citi": "Ulm"}, "you sent 'citi', did you mean 'city'?"),
        ({"city": 5}, "city: expected string, got 5"),
        ({"city": "Ulm", "days": 0}, "days: expected at least 1, got 0"),
        ({"city": "Ulm", "dys": 2}, "unknown field 'dys'; did you mean 'days'?"),
    ],
)
async def test_what_does_not_fit_is_refused_with_the_reason_and_what_is_required(given, words):
    """The tool never runs."""
    layered = Layered(SCHEMA)

    with pytest.raises(InvalidArguments) as refused:
        await layered.run(given)

    assert layered.received == []
    assert words in str(refused.value)
    assert str(refused.value).endswith("Required fields: city.")


async def test_a_schema_that_cannot_be_checked_is_told_and_lets_everything_pass():
    """A server's broken schema is no reason to lock its tool away."""
    layered = Layered({"type": "no such type"}, server="met")

    await layered.run({"anything": 1})

    assert layered.received == [{"anything": 1}]
    assert [(tool, reason.partition(":")[0]) for tool, reason in layered.unchecked] == [
        ("weather", "arguments are not checked")
    ]
