"""Keep: small results pass untouched; large ones are put aside whole, and a preview says how to read on."""

import base64
from typing import Any

import msgspec
import pytest

from toolcrib.calls.layers.keep import KeepSettings, keep
from toolcrib.calls.pipeline import Step, Subject
from toolcrib.calls.results.preview import META
from toolcrib.core.access import Caller
from toolcrib.core.errors import RemoteError, ResultNotKept, ToolFailed
from toolcrib.core.events import Event
from toolcrib.core.offers import RequestKind, Resource, Tool
from toolcrib.core.requests import ErrorInfo, Request, Result
from toolcrib.isolate.helpers import Helpers
from toolcrib.schema.check import compile_check

LIMIT = 8000
LINES = "\n".join(f"line {number} of many" for number in range(1, 5001))


class Shelf:
    """Keeps in memory, under handles that can be foreseen; or refuses."""

    def __init__(self, trouble: str = "") -> None:
        self.kept: list[tuple[bytes, str, str]] = []
        self.trouble = trouble

    async def keep(self, raw: bytes, caller: str, tool: str) -> str:
        if self.trouble:
            raise ResultNotKept(self.trouble)
        self.kept.append((raw, caller, tool))
        return f"r_{len(self.kept)}"


def call() -> Request:
    return Request("srv__read", "read", {}, "1", Caller("ann"))


def layered(outcome: Any, shelf: Shelf, tool: Tool | None = None, told: list[Event] | None = None) -> Step:
    async def source(_call: Request) -> Result:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    events = [] if told is None else told
    layer = keep(shelf, KeepSettings(LIMIT, 3600), events.append, Helpers())
    return layer(Subject("srv__read", "srv", tool or Tool("read")), source)


def text_result(text: str, **more: Any) -> Result:
    return Result(raw=msgspec.json.encode({"content": [{"type": "text", "text": text}], **more}))


@pytest.mark.parametrize(
    "outcome",
    [
        text_result("short"),
        text_result("x" * (LIMIT - 40)),
        Result({"content": [{"type": "text", "text": "short"}]}),
        Result({"content": [{"type": "text", "text": "x" * (LIMIT - 40)}]}),
        Result({"content": [{"type": "text", "text": "{}"}], "structuredContent": {}}),
        Result({"content": [{"type": "text", "text": "\udc80"}], "structuredContent": {}}),
        Result({"content": []}, error=ErrorInfo("X", "no")),
    ],
)
async def test_up_to_the_limit_a_result_passes_untouched(outcome):
    """The very same one, encoded already or not; what cannot be encoded is not this layer's trouble."""
    shelf = Shelf()

    assert await layered(outcome, shelf)(call()) is outcome
    assert shelf.kept == []


HUGE = {"key": "x" * LIMIT}


@pytest.mark.parametrize(
    "result",
    [
        {"content": [{"type": "text", "text": "short", "_meta": HUGE}]},
        {"content": [{"text": "short", "_meta": HUGE}]},
        {"content": [{"type": "text", "text": "short"}], "_meta": HUGE},
        {"content": [{"type": "text", "text": "short"}], "structuredContent": HUGE},
        {"content": [{"type": "text", "text": "short"}, {"type": "text", "text": "x" * LIMIT}]},
        {"content": [{"type": "image", "data": "x" * LIMIT, "mimeType": "image/png"}]},
    ],
)
async def test_whatever_makes_a_result_large_counts(result):
    """Not the length of its text alone."""
    shelf = Shelf()

    await layered(Result(result), shelf)(call())

    assert shelf.kept == [(msgspec.json.encode(result), "ann", "srv__read")]


async def test_an_error_whose_details_are_no_text_is_raised_as_it_is():
    """A lone surrogate cannot be encoded; the words of the error are still weighed."""
    short = ToolFailed("broken", details={"line": "\udc80"})
    long = ToolFailed("x" * (LIMIT + 1), details={"line": "\udc80"})

    with pytest.raises(ToolFailed) as raised:
        await layered(short, Shelf())(call())
    with pytest.raises(ToolFailed) as shortened:
        await layered(long, Shelf())(call())

    assert (raised.value, raised.value.message) == (short, "broken")
    assert len(shortened.value.message) <= LIMIT


@pytest.mark.parametrize("is_encoded", [True, False])
async def test_beyond_it_the_whole_is_kept_for_the_caller_and_a_preview_is_shown(is_encoded):
    """The kept bytes are the result's own."""
    shelf, result = Shelf(), text_result(LINES)

    shown = await layered(result if is_encoded else Result(result.mcp), shelf)(call())

    assert shelf.kept == [(result.raw, "ann", "srv__read")]
    assert shown.mcp["_meta"] == {
        META: {"handle": "r_1", "bytes": len(result.raw), "tool": "srv__read", "keep_s": 3600}
    }
    assert shown.success
    assert len(shown.raw) < LIMIT


async def test_the_first_line_tells_what_it_is_and_how_to_read_on():
    """Size, shape, and arguments that work; then the beginning and the end, cut between lines."""
    shown = await layered(text_result(LINES), Shelf())(call())

    first, *rest = shown.text.split("\n")
    gap = next(number for number, line in enumerate(rest) if line.startswith("[…"))
    assert first == (
        "[Preview by toolcrib: the result of srv__read is 93.9 KB, too much to show at once; kept whole for 1 h. "
        "It is text of 88,892 characters in 5,000 lines. "
        f'Read on with result_read {{"handle": "r_1", "line": {gap + 1}, "count": 200}} or "search": "words".]'
    )
    assert rest[:gap] == LINES.split("\n")[:gap]
    assert rest[gap] == f"[… {5000 - gap - len(rest[gap + 1 :]):,} more lines, from line {gap + 1} on]"
    assert rest[gap + 1 :] == LINES.split("\n")[-len(rest[gap + 1 :]) :]


async def test_json_is_shown_by_its_shape():
    """The path of the example leads to its largest part; a tool without an output schema loses its structure."""
    rows = {"total": 900, "rows": [{"id": number, "tags": ["a"]} for number in range(900)]}
    text = msgspec.json.encode(rows).decode()

    shown = await layered(text_result(text, structuredContent=rows), Shelf())(call())

    assert "the shape {total: number, rows: [900 × {id: number, tags: [1 × string]}]}" in shown.text
    assert '{"handle": "r_1", "path": "rows"}' in shown.text
    assert "structuredContent" not in shown.mcp


async def test_attachments_are_named_and_small_ones_go_along():
    """Kind, size and path; a picture that is small enough is still seen."""
    large, small = (base64.b64encode(bytes(size)).decode() for size in (30_000, 300))
    blocks = [
        {"type": "image", "mimeType": "image/gif", "data": small},
        {"type": "image", "mimeType": "image/png", "data": large},
        {"type": "resource", "resource": {"uri": "a:b", "mimeType": "application/zip", "blob": large}},
    ]

    shown = await layered(Result({"content": blocks}), Shelf())(call())

    assert shown.text.split("\n")[1:] == [
        "- image/gif, 300 bytes: path $.content[0] hands it over",
        "- image/png, 30.0 KB: path $.content[1] hands it over",
        "- application/zip, 30.0 KB: path $.content[2] hands it over",
    ]
    assert list(shown.content[1:]) == blocks[:1]


async def test_a_failed_result_stays_failed():
    """Its code too; its message is the preview."""
    failed = Result(raw=text_result(LINES, isError=True).raw, error=ErrorInfo("X", LINES, True))

    shown = await layered(failed, Shelf())(call())

    assert shown.mcp["isError"] is True
    assert (shown.error.code, shown.error.retryable) == ("X", True)
    assert shown.error.message == shown.text


@pytest.mark.parametrize("error", [ToolFailed(LINES, hint="Do not."), ToolFailed("no", details={"content": [LINES]})])
async def test_an_error_that_says_too_much_is_kept_as_well(error):
    """It is still the same error, with a handle to the rest."""
    shelf = Shelf()

    with pytest.raises(ToolFailed) as raised:
        await layered(error, shelf)(call())

    assert len(shelf.kept) == 1
    assert raised.value is error
    assert len(str(error)) < LIMIT / 2
    assert 'result_read {"handle": "r_1"}' in error.hint
    assert error.details[META]["handle"] == "r_1"


async def test_an_error_that_says_just_so_much_is_passed_on():
    """One character more, and it is kept."""
    fits, more = ToolFailed("x" * LIMIT), ToolFailed("x" * (LIMIT + 1))
    shelf = Shelf()

    for error in (fits, more):
        with pytest.raises(ToolFailed):
            await layered(error, shelf)(call())

    assert (fits.message, len(shelf.kept), META in more.details) == ("x" * LIMIT, 1, True)


async def test_of_an_error_a_quarter_of_a_small_limit_is_shown():
    """The rest of it is for the hint and the handle."""
    error = ToolFailed("x" * 5000)

    with pytest.raises(ToolFailed):
        await layered(error, Shelf(), Tool("read", result_limit=400))(call())

    assert 50 < len(error.message) <= 100


async def test_a_servers_own_error_keeps_its_number():
    """Clients go by it."""
    with pytest.raises(RemoteError) as raised:
        await layered(RemoteError(-32050, "no", data={"all": LINES}), Shelf())(call())

    assert raised.value.details["rpc_code"] == -32050


async def test_a_question_to_the_client_is_never_touched():
    """However large."""
    asked = Result(raw=msgspec.json.encode({"resultType": "input_required", "inputRequests": {"a": LINES}}))
    shelf = Shelf()

    assert await layered(asked, shelf)(call()) is asked
    assert shelf.kept == []


async def test_what_cannot_be_kept_is_passed_on_whole_and_told():
    """Nothing is ever lost."""
    result, told = text_result(LINES), []

    assert await layered(result, Shelf("the disk is full"), told=told)(call()) is result
    assert [(event.name, event.level, event.fields["error"]) for event in told] == [
        ("result.not_kept", "warning", "the disk is full")
    ]


@pytest.mark.parametrize(("limit", "is_kept"), [(0, False), (200_000, False), (4000, True)])
async def test_a_tools_own_limit_counts_first(limit, is_kept):
    """Zero is none."""
    shelf = Shelf()

    await layered(text_result(LINES), shelf, Tool("read", result_limit=limit))(call())

    assert bool(shelf.kept) is is_kept


def test_the_tool_that_reads_on_has_no_such_layer():
    """Its answers fit by themselves."""

    async def source(_call: Request) -> Result:
        return Result({})

    layer = keep(Shelf(), KeepSettings(LIMIT, 3600), [].append, Helpers())

    assert layer(Subject("result_read", "", Tool("result_read")), source) is source
    assert layer(Subject("srv__result_read", "srv", Tool("result_read")), source) is not source


OPEN = {"type": "object", "properties": {"rows": {"type": "array", "items": {"type": "integer"}}}, "required": ["rows"]}
CLOSED = {**OPEN, "additionalProperties": False}
TEXT = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}
FIXED = {"type": "object", "properties": {"text": {"type": "string", "pattern": "^[a-z]+$"}}, "required": ["text"]}


async def test_a_declared_structure_is_shortened_and_says_so_in_itself():
    """Clients demand structured content that fits; a note beside it tells that this is not all."""
    result = text_result("rows", structuredContent={"rows": list(range(9000))})

    shown = await layered(result, Shelf(), Tool("read", output_schema=OPEN))(call())

    assert compile_check(OPEN).accepts(shown.structured)
    assert shown.structured["rows"] == list(range(20))
    assert shown.structured[META]["handle"] == "r_1"
    assert "isError" not in shown.mcp


async def test_long_strings_say_it_themselves():
    """Where the schema allows no note beside them."""
    result = text_result("text", structuredContent={"text": LINES})

    shown = await layered(result, Shelf(), Tool("read", output_schema=TEXT))(call())

    assert shown.structured.keys() == {"text"}
    assert shown.structured["text"].startswith(LINES[:100])
    assert shown.structured["text"].endswith(
        '[shortened by toolcrib, 86.9 KB more: result_read {"handle": "r_1", "path": "text"}]'
    )


@pytest.mark.parametrize(
    ("schema", "structured"), [(CLOSED, {"rows": list(range(9000))}), (FIXED, {"text": "x" * 9000}), (OPEN, None)]
)
async def test_data_that_would_only_look_whole_is_not_given(schema, structured):
    """Clients take a result without structured content only as an error; it is marked as one, and says why."""
    result = text_result(LINES, **({} if structured is None else {"structuredContent": structured}))

    shown = await layered(result, Shelf(), Tool("read", output_schema=schema))(call())

    assert "structuredContent" not in shown.mcp
    assert shown.mcp["isError"] is True
    assert shown.success
    assert "The call succeeded." in shown.content[1]["text"]


async def test_a_preview_of_very_much_is_put_together_by_a_helper():
    """The same words, whoever writes them."""
    helpers, subject = Helpers(limit_s=60.0), Subject("srv__read", "srv", Tool("read", output_schema=OPEN))
    large = text_result("rows", structuredContent={"rows": [*range(100_000)]})

    async def source(_call: Request) -> Result:
        return large

    shown = await keep(Shelf(), KeepSettings(LIMIT, 3600), [].append, helpers)(subject, source)(call())

    assert helpers.started == 1
    assert shown.structured["rows"] == list(range(20))
    assert shown.structured[META]["handle"] == "r_1"
    await helpers.close()


async def test_of_what_takes_too_long_to_look_into_only_the_handle_is_shown():
    """It is kept whole all the same, and says that the call succeeded."""
    subject = Subject("srv__read", "srv", Tool("read", output_schema=OPEN))
    large = text_result("x" * 300_000, structuredContent={})

    async def source(_call: Request) -> Result:
        return large

    keeping = keep(Shelf(), KeepSettings(LIMIT, 3600), [].append, Helpers(limit_s=0.000_01))
    shown = await keeping(subject, source)(call())

    assert 'Read it with result_read {"handle": "r_1"}' in shown.content[0]["text"]
    assert "The call succeeded." in shown.content[1]["text"]
    assert shown.mcp["isError"] is True


@pytest.mark.parametrize(("name", "server", "has_layer"), [("add", "", True), ("result_read", "srv", True)])
def test_only_the_native_tool_of_that_name_is_the_one_that_reads_on(name, server, has_layer):
    async def source(_call: Request) -> Result:
        return text_result("")

    step = keep(Shelf(), KeepSettings(LIMIT, 3600), lambda _: None, Helpers())(
        Subject(name, server, Tool(name)), source
    )

    assert (step is not source) is has_layer


@pytest.mark.parametrize(("error", "is_encoded"), [(None, True), (ErrorInfo("X", "no"), False)])
async def test_a_result_that_was_encoded_to_be_weighed_is_not_encoded_again(error, is_encoded):
    """Unless it is an error, which doors put in words of their own."""
    result = {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    outcome = Result(result, error=error)

    await layered(outcome, Shelf())(call())

    assert outcome.raw == (msgspec.json.encode(result) if is_encoded else None)


@pytest.mark.parametrize("content", [None, {}, {"a": 1}, "x", ["x"], [None], [{"type": "text", "text": 5}]])
async def test_a_result_of_an_odd_shape_is_weighed_as_it_is(content):
    """It is not this layer's to say what is wrong with it."""
    outcome = Result({"content": content})

    assert await layered(outcome, Shelf())(call()) is outcome


async def test_plain_text_that_cannot_be_too_large_is_not_encoded_to_be_weighed():
    outcome = Result({"content": [{"type": "text", "text": "short"}]})

    await layered(outcome, Shelf())(call())

    assert outcome.raw is None


def reading(outcome: Result, shelf: Shelf) -> Step:
    async def source(_call: Request) -> Result:
        return outcome

    layer = keep(shelf, KeepSettings(LIMIT, 3600), lambda _: None, Helpers())
    return layer(Subject("srv__file:///a", "srv", Resource("file:///a"), kind=RequestKind.READ), source)


def read_for_model() -> Request:
    asked = Request("srv__file:///a", "file:///a", {}, "1", Caller("ann"))
    asked.context.for_model = True
    return asked


PART = {"uri": "file:///a", "mimeType": "application/pdf", "blob": "AAAA"}


@pytest.mark.parametrize(
    ("part", "block"),
    [
        ({"uri": "file:///a", "mimeType": "text/plain", "text": "hello"}, {"type": "text", "text": "hello"}),
        (
            {"uri": "file:///a", "mimeType": "image/png", "blob": "AAAA"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        ),
        (PART, {"type": "resource", "resource": PART}),
    ],
)
async def test_what_a_model_reads_comes_as_a_tool_would_have_given_it(part, block):
    """Texts and pictures as such; all else is embedded."""
    outcome = Result({"contents": [part]})

    assert (await reading(outcome, Shelf())(read_for_model())).mcp == {"content": [block]}


async def test_much_that_a_model_reads_is_put_aside_like_any_result():
    """Whatever form it came in."""
    shelf = Shelf()
    outcome = Result({"contents": [{"uri": "file:///a", "text": LINES}]})

    shown = await reading(outcome, shelf)(read_for_model())

    assert msgspec.json.decode(shelf.kept[0][0]) == {"content": [{"type": "text", "text": LINES}]}
    assert shown.mcp["_meta"][META]["handle"] == "r_1"


async def test_a_large_failure_that_is_not_encoded_yet_is_put_aside_too():
    shelf = Shelf()
    outcome = Result({"content": [{"type": "text", "text": LINES}], "isError": True}, error=ErrorInfo("X", LINES))

    await layered(outcome, shelf)(call())

    assert msgspec.json.decode(shelf.kept[0][0]) == outcome.mcp
