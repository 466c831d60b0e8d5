"""A large result looks like a small one, and is decoded elsewhere."""

import msgspec
import pytest

from toolcrib.calls.results.shown import encode_result
from toolcrib.core.errors import ToolFailed
from toolcrib.core.requests import ErrorInfo, Request, RequestContext, Result
from toolcrib.isolate.helpers import Helpers
from toolcrib.schema.check import QUICK_BYTES

CALL = Request("work", "work", {}, "7", context=RequestContext(trace_id="ab" * 16))
FAILURE = ErrorInfo("TOOL_EXECUTION_FAILED", "no luck", details={"when": "now"})


@pytest.mark.parametrize("error", [None, FAILURE])
async def test_a_large_result_is_shown_by_a_helper_as_a_small_one_is_here(error):
    helpers, shown = Helpers(), []
    for size in (10, QUICK_BYTES):
        parts = {"content": [{"type": "text", "text": "x" * size}], "structuredContent": {"n": [1]}}
        result = Result(raw=msgspec.json.encode(parts), error=error)
        shown.append(msgspec.json.decode(await encode_result(helpers, result, CALL, 1.5)))
        shown[-1]["content"][0]["text"] = shown[-1]["content"][0]["text"].replace("x" * size, "whole")
    started = helpers.started
    await helpers.close()

    assert started == 1
    assert shown[0] == shown[1]
    assert shown[0]["structuredContent"] == {"n": [1]}
    assert shown[0]["content"] == [{"type": "text", "text": "whole"}]
    assert (shown[0]["executionId"], shown[0]["traceId"], shown[0]["durationMs"]) == ("7", "ab" * 16, 1.5)
    assert (shown[0].get("error") or {}).get("details") == (error and {"when": "now"})


async def test_one_that_takes_too_long_is_given_up():
    helpers = Helpers(limit_s=0.05)
    result = Result(raw=b'{"content":[],"structuredContent":{"n":[%b1]}}' % (b"{}," * 2_000_000))

    with pytest.raises(ToolFailed, match="The call was carried out"):
        await encode_result(helpers, result, CALL, 1.5)
    await helpers.close()
