"""Calls and results as values."""

import msgspec
import pytest

from toolcrib.core.errors import CallTimeout, NotImplementedHere
from toolcrib.core.requests import SILENT, ErrorInfo, Request, Result

TEXTS = {"content": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]}


def test_a_result_gives_its_text_and_its_data():
    """Structured content is the useful part where there is any, even if it is empty."""
    plain, structured, empty = (
        Result(TEXTS),
        Result({**TEXTS, "structuredContent": {"n": 1}}),
        Result({**TEXTS, "structuredContent": {}}),
    )

    assert [result.text for result in (plain, structured)] == ["a\nb"] * 2
    assert [result.data for result in (plain, structured, empty)] == ["a\nb", {"n": 1}, {}]


def test_bytes_are_decoded_once_and_only_when_somebody_looks():
    """The same object afterwards."""
    result = Result(raw=b'{"content":[{"type":"text","text":"a"}]}')

    assert result.mcp is result.mcp
    assert result.text == "a"


@pytest.mark.parametrize(
    "raw",
    [None, b"{}", b'{"content":null}', b'{"content":"x"}', b'{"content":[1,null]}', b'{"content":[{"type":"text"}]}'],
)
def test_a_result_with_odd_content_has_no_text(raw):
    """And no exception."""
    result = Result(raw=raw)

    assert (result.text, result.success, result.data) == ("", True, "")


@pytest.mark.parametrize("raw", [b"[]", b"\xff", b'{"n":1e999}', b'{"a":' + b"[" * 100_000])
def test_what_no_value_can_hold_is_shown_as_the_text_it_is(raw):
    """Readable by a person, at least."""
    assert Result(raw=raw).text == raw.decode(errors="replace")


def test_a_failure_of_ours_is_worded_for_a_model():
    """Message and hint as text, the code beside it."""
    result = Result.failed(CallTimeout("Too late.", hint="Ask for less.", details={"timeout_s": 3}))

    assert result.error == ErrorInfo("TOOL_TIMEOUT", "Too late. Ask for less.", True, {"timeout_s": 3})
    assert result.mcp == {"content": [{"type": "text", "text": "Too late. Ask for less."}], "isError": True}
    assert repr(result) == "Result(success=False, 'TOOL_TIMEOUT')"


async def test_without_a_client_nothing_is_told_and_questions_are_refused():
    """Calls from programs have nobody to ask."""
    SILENT.notify("notifications/progress", b"{}")

    with pytest.raises(NotImplementedHere, match="roots/list"):
        await SILENT.ask("roots/list", b"{}")


def test_a_request_is_never_changed_and_what_is_learned_of_it_is_shared():
    """A layer that wants other arguments passes on another request, in the same context."""
    first = Request("srv__a", "a", {"n": 1})
    second = msgspec.structs.replace(first, arguments={"n": 2})
    second.context.decision = "allowed"

    with pytest.raises(AttributeError):
        first.arguments = {}  # type: ignore[misc]
    assert (first.arguments, first.context.decision) == ({"n": 1}, "allowed")
    assert Request("srv__a", "a", {}).context is not first.context


def test_arguments_are_encoded_once_and_again_only_when_they_were_replaced():
    """Of one request, everybody gets the same bytes; never those of another's arguments."""
    first = Request("srv__a", "a", {"n": 1})
    second = msgspec.structs.replace(first, arguments={"n": 2})
    encoded = first.encode_arguments()

    assert first.encode_arguments() is encoded
    assert (second.encode_arguments(), first.encode_arguments()) == (b'{"n":2}', b'{"n":1}')


@pytest.mark.parametrize(
    ("result", "asks"),
    [
        (Result(raw=b'{"resultType":"input_required"}'), True),
        (Result(raw=b"{}", result_type="input_required"), True),
        (Result(raw=b'{"resultType":"input_required"}', result_type=""), False),
        (Result({"content": []}), False),
    ],
)
def test_whether_a_result_asks_back_is_read_only_where_its_source_did_not(result, asks):
    """What the source has read of it counts."""
    assert result.asks_back is asks
