"""Arguments: what does not fit is refused before anything runs, in words a model can act on."""

import msgspec
import pytest

from toolcrib.calls.layers.arguments import arguments
from toolcrib.calls.pipeline import Subject
from toolcrib.core.errors import InvalidArguments
from toolcrib.core.offers import Tool
from toolcrib.core.requests import Request, RequestContext, Result
from toolcrib.isolate.helpers import Helpers
from toolcrib.schema.check import compile_check

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
        self._step = arguments(lambda *words: self.unchecked.append(words), Helpers())(subject, self._source)

    async def _source(self, call: Request) -> Result:
        self.received.append(call.arguments)
        return Result({})

    async def run(self, given: dict) -> None:
        await self._step(Request("weather", "weather", given))


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


class Answering:
    """The layer around a server's tool that answers with text."""

    def __init__(self, answer: Result) -> None:
        self.received: list[dict] = []
        self.events: list = []
        self._answer = answer
        subject = Subject("met__weather", "met", Tool("weather", input_schema=SCHEMA))
        self._step = arguments(lambda *_: None, Helpers(), self.events.append)(subject, self._source)

    async def _source(self, call: Request) -> Result:
        self.received.append(call.arguments)
        return self._answer

    async def run(self, given: dict) -> tuple[Request, Result]:
        call = Request("met__weather", "weather", given, "id-1")
        return call, await self._step(call)


async def test_a_slip_in_a_servers_arguments_is_repaired_and_the_result_says_so():
    """For the model in the content, for the audit in the call, for the log in an event."""
    answering = Answering(Result(raw=b'{"content":[{"type":"text","text":"sun"}],"structuredContent":{"a":1}}'))

    call, result = await answering.run({"City": "Ulm", "days": "2"})

    repairs = ("read 'City' as 'city'", "read the text of 'days' as JSON")
    assert answering.received == [{"city": "Ulm", "days": 2}]
    assert result.text == f"sun\nNote from toolcrib on your arguments: {'; '.join(repairs)}."
    assert (result.structured, call.context.repairs) == ({"a": 1}, repairs)
    [event] = answering.events
    assert (event.name, event.fields) == (
        "call.arguments.repaired",
        {"tool": "met__weather", "id": "id-1", "repairs": list(repairs)},
    )


async def test_a_result_without_content_gets_no_note():
    """Such as a question to the client."""
    asking = Result({"resultType": "input_required", "inputRequests": {}})

    _, result = await Answering(asking).run({"City": "Ulm"})

    assert result is asking


async def test_what_cannot_be_repaired_is_told_as_it_was_written():
    """Not as a half repaired guess."""
    answering = Answering(Result({}))

    with pytest.raises(InvalidArguments, match="unknown field 'zone'"):
        await answering.run({"City": "Ulm", "zone": 1})

    assert answering.received == answering.events == []


async def echo(call: Request) -> Result:
    return Result({"content": []})


COSTLY = {"properties": {"value": {"items": {"enum": [n + 0.5 for n in range(100)]}}}}


async def test_arguments_that_may_be_costly_are_checked_beside_the_loop():
    """The verdict is the same, whoever finds it."""
    helpers = Helpers(limit_s=60.0)
    step = arguments(lambda *_: None, helpers)(Subject("t", "srv", Tool("t", input_schema=COSTLY)), echo)

    passed = await step(Request("t", "t", {"value": [0.5] * 300}))
    with pytest.raises(InvalidArguments, match=r"^t: value\[299\]: expected one of "):
        await step(Request("t", "t", {"value": [0.5] * 299 + [0.25]}))

    assert passed.success
    assert helpers.started == 1
    await helpers.close()


async def test_arguments_too_costly_to_check_are_refused():
    """Nothing runs, and the caller is told in plain words."""
    helpers = Helpers(limit_s=0.05)
    step = arguments(lambda *_: None, helpers)(Subject("t", "srv", Tool("t", input_schema=COSTLY)), echo)

    with pytest.raises(InvalidArguments, match=r"^t: the arguments are too costly to check .* Send less at once\.$"):
        await step(Request("t", "t", {"value": [99.5] * 50_000}))


async def test_ordinary_arguments_need_no_helper():
    """What is quick is checked where it is."""
    helpers = Helpers()
    step = arguments(lambda *_: None, helpers)(Subject("t", "srv", Tool("t", input_schema=COSTLY)), echo)

    await step(Request("t", "t", {"value": [0.5]}))

    assert helpers.started == 0


def deep(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("odd", [object(), "\ud800", deep(5000)], ids=["object", "text", "deep"])
@pytest.mark.parametrize("server", ["", "met"])
async def test_arguments_that_are_no_json_are_refused_in_plain_words(odd, server):
    layered = Layered(SCHEMA, server)

    with pytest.raises(InvalidArguments, match="weather: "):
        await layered.run({"city": odd})

    assert layered.received == []


@pytest.mark.parametrize(("withheld", "is_repaired"), [(frozenset(), True), (frozenset({"city"}), False)])
async def test_no_slip_is_read_as_an_argument_that_was_withheld(withheld, is_repaired):
    """What the caller may not say itself is not put into its mouth."""
    layered = Layered(SCHEMA, "met")
    call = Request("weather", "weather", {"citi": "Ulm"}, context=RequestContext(withheld=withheld))
    if is_repaired:
        await layered._step(call)
    else:
        with pytest.raises(InvalidArguments):
            await layered._step(call)

    assert layered.received == ([{"city": "Ulm"}] if is_repaired else [])


async def test_a_value_that_only_a_profile_gives_is_never_changed():
    """Not even into what it could only have meant."""
    layered = Layered(SCHEMA, "met")
    call = Request("weather", "weather", {"city": 5}, context=RequestContext(withheld=frozenset({"city"})))

    with pytest.raises(InvalidArguments):
        await layered._step(call)
    await layered._step(Request("weather", "weather", {"city": 5}))

    assert layered.received == [{"city": "5"}]


async def test_a_slip_in_large_arguments_that_are_quickly_checked_is_repaired():
    """Only what is costly to check goes to a helper, which repairs nothing."""
    answering, city = Answering(Result({})), "x" * 100_000
    check = compile_check(SCHEMA)
    encoded = msgspec.json.encode({"citi": city})

    await answering.run({"citi": city})

    assert len(encoded) > check.quick_bytes
    assert check.is_quick({"citi": city}, encoded)
    assert answering.received == [{"city": city}]


async def test_what_is_hidden_in_a_text_is_no_way_around_the_cost_of_a_check():
    """Signs that are written as escapes are counted in what comes of them, not in the text."""
    schema = {"properties": {"all": {"type": "array", "items": {"type": "array", "uniqueItems": True}}}}
    many = msgspec.json.encode([[n] for n in range(1000)]).decode()
    hidden = "".join(f"\\u{ord(sign):04x}" if sign in ",[]" else sign for sign in many)
    layered, given = Layered(schema, "met"), {"all": f'["{hidden}"]'}

    with pytest.raises(InvalidArguments):
        await layered.run(given)

    assert compile_check(schema).is_quick_for(given)
    assert layered.received == []
