"""Result: structured content fits the tool's own output schema, or the tool has failed."""

import msgspec
import pytest

from toolcrib.calls.layers.result import QUICK_BYTES, result
from toolcrib.calls.pipeline import Step, Subject
from toolcrib.core.errors import ToolFailed
from toolcrib.core.offers import Tool
from toolcrib.core.requests import ErrorInfo, Request, Result
from toolcrib.isolate.helpers import Helpers
from toolcrib.schema.check import compile_check

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
CALL = Request("count", "count", {})


def answering(outcome: Result) -> Step:
    async def source(call: Request) -> Result:
        return outcome

    return source


def checked(source: Step, schema: dict | None = SCHEMA, told: list | None = None) -> Step:
    notes = [] if told is None else told
    subject = Subject("count", "srv", Tool("count", output_schema=schema))
    return result(lambda *words: notes.append(words), Helpers())(subject, source)


@pytest.mark.parametrize(
    "outcome",
    [
        Result({"content": [], "structuredContent": {"n": 1}}),
        Result(raw=b'{"content":[],"structuredContent":{"n":1}}'),
        Result({"content": []}),
        Result({"content": [], "structuredContent": {"n": "x"}, "isError": True}, error=ErrorInfo("X", "no")),
        Result({"resultType": "input_required"}),
    ],
)
async def test_what_fits_or_says_nothing_passes_untouched(outcome):
    """The very same result; a failed one is not held against its schema."""
    assert await checked(answering(outcome))(CALL) is outcome


async def test_data_that_does_not_fit_is_the_tools_failure():
    """The reason is told, and what the tool said is kept."""
    block = {"type": "text", "text": "done"}

    with pytest.raises(ToolFailed) as failed:
        await checked(answering(Result({"content": [block], "structuredContent": {"n": "x"}})))(CALL)

    assert str(failed.value).startswith(
        "count returned data that does not fit its own output schema: n: expected integer, got"
    )
    assert failed.value.hint == "The call was carried out; the fault is the tool's."
    assert failed.value.details == {"content": [block]}


def test_a_tool_without_an_output_schema_has_no_such_layer():
    """Nothing is decoded for it."""
    source = answering(Result({}))

    assert checked(source, None) is source


@pytest.mark.parametrize(
    ("outcome", "is_compared"),
    [
        (Result({"contents": []}), True),
        (Result({"resultType": "input_required"}), False),
        (Result({"isError": True}, error=ErrorInfo("X", "no")), False),
    ],
    ids=["given", "a question", "failed"],
)
async def test_what_an_app_gives_is_compared_with_what_was_accepted(outcome, is_compared):
    """A question and a failure are not yet what it gives."""
    compared, subject = [], Subject("page", "srv", Tool("page"))
    subject.settle = compared.append

    passed = await result(lambda *_: None, Helpers())(subject, answering(outcome))(CALL)

    assert passed is outcome
    assert compared == ([outcome] if is_compared else [])


def test_a_schema_that_cannot_be_checked_is_told_and_not_used():
    """Results pass unchecked."""
    source, told = answering(Result({})), []

    assert checked(source, {"type": "no such type"}, told) is source
    assert told[0][1].startswith("results are not checked")


COSTLY = {"properties": {"value": {"items": {"enum": [n + 0.5 for n in range(100)]}}}}


def beside(helpers: Helpers, outcome: Result) -> Step:
    subject = Subject("count", "srv", Tool("count", output_schema=COSTLY))
    return result(lambda *_: None, helpers)(subject, answering(outcome))


def valued(*numbers: float) -> Result:
    return Result(raw=msgspec.json.encode({"content": [], "structuredContent": {"value": numbers}}))


async def test_a_result_that_may_be_costly_is_checked_beside_the_loop():
    """The verdict is the same, whoever finds it, and the result is the very same."""
    helpers, fits = Helpers(limit_s=60.0), valued(*[0.5] * 300)

    passed = await beside(helpers, fits)(CALL)
    with pytest.raises(ToolFailed, match=r"does not fit its own output schema: value\[1\]: expected one of"):
        await beside(helpers, valued(0.5, 0.25, *[0.5] * 300))(CALL)

    assert passed is fits
    assert helpers.started == 1
    await helpers.close()


async def test_a_result_too_costly_to_check_is_the_tools_failure():
    """A client that checks it would be held up even longer."""
    with pytest.raises(ToolFailed, match="too costly to check against its own output schema"):
        await beside(Helpers(limit_s=0.05), valued(*[99.5] * 50_000))(CALL)


async def test_a_result_without_data_is_not_held_against_the_schema_whoever_looks():
    """However large its text."""
    helpers = Helpers(limit_s=60.0)
    text = Result(raw=msgspec.json.encode({"content": [{"type": "text", "text": "," * 400_000}]}))

    assert await beside(helpers, text)(CALL) is text
    assert helpers.started == 1
    await helpers.close()


async def test_a_native_result_is_encoded_once():
    """What was encoded to know its size is what the door sends."""
    outcome = Result({"content": [], "structuredContent": {"value": [0.5]}})

    await beside(Helpers(), outcome)(CALL)

    assert outcome.raw == b'{"content":[],"structuredContent":{"value":[0.5]}}'


async def test_an_ordinary_result_needs_no_helper():
    """What is quick is checked where it is."""
    helpers = Helpers()
    outcome = Result({"content": [], "structuredContent": {"n": 1}})
    layer = result(lambda *_: None, helpers)

    assert (
        await layer(Subject("count", "srv", Tool("count", output_schema=SCHEMA)), answering(outcome))(CALL) is outcome
    )
    assert helpers.started == 0


async def test_data_pass_as_they_were_checked():
    """A client that reads the first of two members of one name gets to see what was held against the schema."""
    outcome = Result(raw=b'{"content":[],"structuredContent":{"n":1,"of":[{"a":1,"a":2}]}}')

    passed_on = await checked(answering(outcome))(CALL)

    assert passed_on.raw == b'{"content":[],"structuredContent":{"n":1,"of":[{"a":2}]}}'


async def test_what_cannot_be_encoded_and_fits_is_left_for_the_door_to_tell():
    """There is nothing yet in which a member could stand twice."""
    outcome = Result({"content": [], "structuredContent": {"n": 1, "text": "\ud800"}})

    passed_on = await checked(answering(outcome))(CALL)

    assert (passed_on is outcome, passed_on.raw) == (True, None)


class Beside:
    """Somebody who checks what is handed over, and notes that it was."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []

    async def run(self, kind: str, parts: tuple[bytes, bytes], subject: str) -> bytes:
        self.asked.append(parts[1])
        return b""


UNIQUE = {"type": "object", "properties": {"n": {"type": "array", "uniqueItems": True}}}


@pytest.mark.parametrize(
    ("size", "items", "is_here"),
    [
        (compile_check(UNIQUE).quick_bytes, 0, True),
        (compile_check(UNIQUE).quick_bytes + 1, 0, True),
        (QUICK_BYTES + 1, 0, False),
        (QUICK_BYTES, 1000, False),
    ],
    ids=["small", "larger, with little to check", "larger", "much to check"],
)
async def test_a_result_is_checked_here_if_it_is_small_or_has_little_to_check(size, items, is_here):
    """Anything else is handed over as it is."""
    parts = b'{"content":[],"structuredContent":{"n":%s},"more":"' % msgspec.json.encode(list(range(items)))
    raw = parts + b"x" * (size - len(parts) - 2) + b'"}'
    beside, subject = Beside(), Subject("count", "", Tool("count", output_schema=UNIQUE))

    await result(lambda *_: None, beside)(subject, answering(Result(raw=raw)))(CALL)

    assert len(raw) == size
    assert beside.asked == ([] if is_here else [raw])


def deep(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("odd", [object(), "\ud800", deep(5000)], ids=["object", "text", "deep"])
async def test_data_that_are_no_json_fail_in_plain_words(odd):
    with pytest.raises(ToolFailed, match="returned data that does not fit"):
        await checked(answering(Result({"content": [], "structuredContent": {"n": odd}})))(CALL)
