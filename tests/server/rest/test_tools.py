"""The catalogue over REST, and calls: what ran has a result, what never ran is a problem."""

import http.client
import json

from tests.fleet.running import until
from tests.server.rest.api import ROOT, serving_api


def test_tools_are_listed_without_starting_anything(api):
    """What nobody has asked for yet is not there, and the list says that it lacks it."""
    listed = api.get("/tools")

    assert [tool["name"] for tool in listed["tools"]] == ["result_read"]
    assert {"server": "tiny", "status": "never", "reason": "It has not been asked for its tools yet."} in listed[
        "missing"
    ]
    assert api.program.starts == 0


def test_tools_are_found_by_words_and_by_what_they_are(api):
    """Words stand in the name or the description, in any order."""
    api.send("POST", "/servers/tiny/refresh")

    def names(query):
        return [tool["name"] for tool in api.get(f"/tools?{query}")["tools"]]

    assert names("q=json+GIVE") == ["tiny__echo"]
    assert names("server=native") == ["result_read"]
    assert names("server=tiny&level=read_only") == ["tiny__echo"]
    assert names("policy=deny") == []
    assert [api.send("GET", f"/tools?{wrong}").status for wrong in ("level=high", "policy=maybe", "limit=x")] == [
        422
    ] * 3


def test_tools_are_ranked_by_what_they_are_for(api):
    """Best first, with a score and a line to call them from; filters hold before."""
    api.send("POST", "/servers/tiny/refresh")

    found = api.get("/tools?query=show+me+a+picture&server=tiny&limit=2")

    assert found["tools"][0]["name"] == "tiny__picture"
    assert found["tools"][0]["signature"] == "tiny__picture() - tiny tool: picture"
    assert 0 < found["tools"][0]["score"] <= 1
    assert (found["total"], found["nextCursor"]) == (len(found["tools"]), None)
    assert api.get("/tools?query=picture&server=native")["tools"] == []


def test_pages_follow_each_other_until_the_end(api):
    """Each tool once, by name."""
    api.send("POST", "/servers/tiny/refresh")
    seen, cursor = [], ""
    while cursor is not None:
        page = api.get(f"/tools?limit=2&cursor={cursor}")
        seen += [tool["name"] for tool in page["tools"]]
        cursor = page["nextCursor"]

    assert seen == sorted(seen)
    assert len(seen) == page["total"] == 6


def test_definitions_come_in_a_providers_form_with_the_way_back(api):
    """For whoever may use the tools; an unknown form is told the known ones."""
    api.send("POST", "/servers/tiny/refresh")
    shown = api.get("/definitions?format=gemini&server=tiny")
    wrong = api.send("GET", "/definitions?format=gemni")

    assert shown["definitions"][0]["parametersJsonSchema"]["required"] == ["text"]
    assert shown["names"]["tiny__echo"] == "tiny__echo"
    assert (shown["format"], len(shown["definitions"]), shown["leftOut"]) == ("gemini", 5, {})
    assert api.get("/definitions")["definitions"][0]["name"] == "result_read"
    assert (wrong.status, "openai-responses" in wrong.json["detail"]) == (422, True)


def test_one_tool_is_shown_with_everything_about_it(api):
    """Definition, rules, pin, why, and the tally of its calls."""
    api.call("tiny__echo", {"text": "hi"})
    shown = api.get("/tools/tiny__echo")

    assert shown["inputSchema"]["required"] == ["text"]
    assert (shown["level"], shown["policy"], shown["pin"]["state"]) == ("read_only", "allow", "accepted")
    assert (shown["why"]["verdict"], shown["tally"]["executed"]) == ("available", 1)


def test_whoever_comes_without_a_token_is_told_no_more_of_a_tool_than_mcp_tells(api):
    """Not where it is configured, nor who called it."""
    api.call("tiny__echo", {"text": "hi"}, token="")
    reply = api.send("GET", "/tools/tiny__echo", token="")

    assert (reply.status, reply.json["why"], reply.json["tally"]) == (200, None, None)
    assert b"toolcrib.toml" not in reply.body


def test_a_call_gives_what_the_tool_gave(api):
    """The useful part, the content, how long it took, and its id."""
    reply = api.call("tiny__echo", {"text": "hi"}, token="")

    assert reply.status == 200
    assert json.loads(reply.json["data"]) == {"text": "hi"}
    assert reply.json["content"] == [{"type": "text", "text": reply.json["data"]}]
    assert reply.json["durationMs"] > 0
    assert reply.json["executionId"] in {call["id"] for call in api.get("/calls")["calls"]}


def test_a_tool_that_fails_has_a_result(api):
    """The call ran, so this is no problem of HTTP."""
    reply = api.call("tiny__fail")

    assert (reply.status, reply.json["success"]) == (200, False)
    assert (reply.json["error"]["code"], reply.json["error"]["message"]) == ("TOOL_EXECUTION_FAILED", "it went wrong")


def test_a_call_that_never_ran_is_a_problem(program):
    """Arguments that do not fit, no such tool, refused, a server that does not start."""
    program.write(program.tiny(), program.broken(), '[security.policies]\ntiny__paint = "deny"')
    with serving_api(program) as api:
        replies = [api.call(name) for name in ("tiny__echo", "tiny__nope", "tiny__paint", "broken__tool")]

    assert [(reply.status, reply.json["code"]) for reply in replies] == [
        (422, "TOOL_INVALID_INPUT"),
        (404, "TOOL_NOT_FOUND"),
        (403, "TOOL_PERMISSION_DENIED"),
        (503, "TOOL_UNAVAILABLE"),
    ]
    assert all(reply.json["executionId"] for reply in replies)
    assert "missing required field 'text'" in replies[0].json["detail"]


def test_too_many_calls_are_told_when_to_come_back(program):
    """In the header and in the body."""
    program.write(program.tiny(more='rate = "1/1h"'))
    with serving_api(program) as api:
        replies = [api.call("tiny__echo", {"text": "hi"}) for _ in range(2)]

    assert [reply.status for reply in replies] == [200, 429]
    assert int(replies[1].headers["retry-after"]) > 0
    assert replies[1].json["retryAfterSeconds"] > 0


def test_a_tool_that_takes_too_long_has_a_result_and_a_server_that_does_is_a_problem(program):
    """The one ran, the other did not."""
    program.write(program.tiny(), '[servers.hangs]\ncommand = "sleep"\nargs = ["600"]')
    with serving_api(program) as api:
        ran = api.send("POST", "/tools/tiny__hang/call", {"timeoutSeconds": 1})
        never = api.send("POST", "/tools/hangs__x/call", {"timeoutSeconds": 0.3})

    assert (ran.status, ran.json["error"]["code"]) == (200, "TOOL_TIMEOUT")
    assert (never.status, never.json["code"]) == (504, "TOOL_TIMEOUT")


def test_whoever_goes_away_has_called_off_the_call(api):
    """The tool is told, and the record says so."""
    connection = http.client.HTTPConnection("127.0.0.1", api.serving.port, timeout=150)
    headers = {"content-type": "application/json", "authorization": f"Bearer {api.token}"}
    connection.request("POST", f"{ROOT}/tools/tiny__hang/call", "{}", headers)
    until(lambda: api.program.has_noted("called hang"), deadline_s=150, what="the call")
    assert [call["outcome"] for call in api.get("/calls")["calls"]] == [""]

    connection.close()

    until(
        lambda: [call["outcome"] for call in api.get("/calls")["calls"]] == ["TOOL_CANCELLED"],
        deadline_s=150,
        what="the end of the call",
    )


def test_bodies_that_are_no_call_are_refused(api):
    """By what is wrong with them."""
    path = "/tools/tiny__echo/call"
    replies = [
        api.raw("POST", path, b"{}", content_type="text/plain"),
        api.raw("POST", path, b"{", content_type="application/json"),
        api.raw("POST", path, b'{"arguments": {"text": "\xff"}}', content_type="application/json"),
        api.raw("POST", path, b'{"arguments": []}', content_type="application/json"),
        api.raw("POST", path, b'{"arguments": {}, "timeoutSeconds": 0}', content_type="application/json"),
        api.raw("POST", path, b"[" * 100_000, content_type="application/json"),
        api.raw("POST", path, b" " * (4 * 1024 * 1024 + 1), content_type="application/json"),
    ]

    assert [reply.status for reply in replies] == [415, 422, 422, 422, 422, 422, 413]
    assert {reply.headers["content-type"] for reply in replies} == {"application/problem+json"}
    assert all(reply.json["code"] and reply.json["detail"] for reply in replies)


def test_a_token_sees_and_calls_what_it_was_granted(program):
    """A tool out of reach is not there."""
    token = program.json("tokens", "create", "reader", "--level", "read_only")["token"]
    with serving_api(program) as api:
        api.send("POST", "/servers/tiny/refresh")
        names = [tool["name"] for tool in api.get("/tools", token=token)["tools"]]
        hidden = [api.send("GET", f"/tools/{name}", token=token) for name in ("tiny__fail", "tiny__nope")]
        called = [api.call(name, token=token) for name in ("tiny__fail", "tiny__nope")]

    assert names == ["result_read", "tiny__echo"]
    assert [reply.status for reply in hidden] == [404, 404]
    assert [reply.status for reply in called] == [403, 403]
    assert called[0].json["detail"] == called[1].json["detail"]


def test_an_argument_is_completed_from_what_the_tool_names(api):
    """The same values that MCP clients and the page are offered."""
    api.send("POST", "/servers/tiny/refresh")

    found = api.get("/tools/tiny__echo/complete?argument=times&value=")
    refused = [api.send("GET", f"/tools/{path}").status for path in ("none/complete", "tiny__echo/complete")]

    assert found == {"values": ["1"], "total": 1, "hasMore": False}
    assert refused == [404, 422]
