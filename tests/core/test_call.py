"""Calls and results as values."""

import pytest

from toolcrib.core.call import SILENT, ErrorInfo, ToolResult
from toolcrib.core.errors import CallTimeout, NotImplementedHere

TEXTS = {"content": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]}


def test_a_result_gives_its_text_and_its_data():
    """Structured content is the useful part where there is any, even if it is empty."""
    plain, structured, empty = (
        ToolResult(TEXTS),
        ToolResult({**TEXTS, "structuredContent": {"n": 1}}),
        ToolResult({**TEXTS, "structuredContent": {}}),
    )

    assert [result.text for result in (plain, structured)] == ["a\nb"] * 2
    assert [result.data for result in (plain, structured, empty)] == ["a\nb", {"n": 1}, {}]


def test_bytes_are_decoded_once_and_only_when_somebody_looks():
    """The same object afterwards."""
    result = ToolResult(raw=b'{"content":[{"type":"text","text":"a"}]}')

    assert result.mcp is result.mcp
    assert result.text == "a"


@pytest.mark.parametrize(
    "raw",
    [None, b"{}", b'{"content":null}', b'{"content":"x"}', b'{"content":[1,null]}', b'{"content":[{"type":"text"}]}'],
)
def test_a_result_with_odd_content_has_no_text(raw):
    """And no exception."""
    result = ToolResult(raw=raw)

    assert (result.text, result.success, result.to_dict()["data"]) == ("", True, "")


@pytest.mark.parametrize("raw", [b"[]", b"\xff", b'{"n":1e999}', b'{"a":' + b"[" * 100_000])
def test_what_no_value_can_hold_is_shown_as_the_text_it_is(raw):
    """Readable by a person, at least."""
    assert ToolResult(raw=raw).text == raw.decode(errors="replace")


def test_a_failure_of_ours_is_worded_for_a_model():
    """Message and hint as text, the code beside it."""
    result = ToolResult.failed(CallTimeout("Too late.", hint="Ask for less.", details={"timeout_s": 3}))

    assert result.error == ErrorInfo("TOOL_TIMEOUT", "Too late. Ask for less.", True, {"timeout_s": 3})
    assert result.mcp == {"content": [{"type": "text", "text": "Too late. Ask for less."}], "isError": True}
    assert result.to_dict() == {
        "success": False,
        "data": None,
        "error": {
            "code": "TOOL_TIMEOUT",
            "message": "Too late. Ask for less.",
            "retryable": True,
            "details": {"timeout_s": 3},
        },
        "content": [{"type": "text", "text": "Too late. Ask for less."}],
    }
    assert repr(result) == "ToolResult(success=False, 'TOOL_TIMEOUT')"


async def test_without_a_client_nothing_is_told_and_questions_are_refused():
    """Calls from programs have nobody to ask."""
    SILENT.notify("notifications/progress", b"{}")

    with pytest.raises(NotImplementedHere, match="roots/list"):
        await SILENT.ask("roots/list", b"{}")
