"""What the tools cost, over REST: the price for everybody, the use for those who may know."""

import pytest
from tests.server.rest.api import serving_api
from tests.server.rest.test_audit import wait_for_calls


def test_the_owner_learns_price_and_use(api):
    """What was called is used, the rest is not."""
    api.call("tiny__echo", {"text": "hi"})
    wait_for_calls(api, 1)

    told = api.get("/costs?days=7")

    assert told["total"]["tokens"] == sum(tool["tokens"] for tool in told["tools"])
    assert {tool["name"]: tool["calls"] for tool in told["tools"]}["tiny__echo"] == 1
    assert (told["usage"]["days"], told["usage"]["used"]) == (7, 1)
    assert told["proposal"]["tools"] == ["tiny__echo"]


def test_without_a_token_only_the_price_is_told(api):
    """Use is nobody else's business; pairs cost work, so they need a token."""
    api.call("tiny__echo", {"text": "hi"})
    told = api.get("/costs", token="")

    assert {tool["name"]: tool["calls"] for tool in told["tools"]}["tiny__echo"] is None
    assert (told["usage"], told["proposal"]) == (None, None)
    assert api.send("GET", "/costs?pairs=3", token="").status == 401
    assert isinstance(api.get("/costs?pairs=3")["confusable"], list)


def test_a_token_sees_its_own_tools_and_only_auditors_their_use(program):
    """What is beyond its reach is not in its account."""
    clerk = program.json("tokens", "create", "clerk", "--tool", "tiny__e*")["token"]
    auditor = program.json("tokens", "create", "auditor", "--capability", "audit")["token"]
    with serving_api(program) as api:
        api.call("tiny__echo", {"text": "hi"})
        wait_for_calls(api, 1)
        narrow, wide = api.get("/costs", token=clerk), api.get("/costs", token=auditor)

    assert "tiny__fail" not in {tool["name"] for tool in narrow["tools"]}
    assert narrow["usage"] is None
    assert wide["usage"] is not None


@pytest.mark.parametrize("query", ["days=soon", "pairs=-1"])
def test_what_is_no_number_is_refused(api, query):
    """Not guessed at."""
    assert api.send("GET", f"/costs?{query}").status == 422
