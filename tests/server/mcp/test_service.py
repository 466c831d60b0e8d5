"""The answers MCP clients get, whichever way they came in."""

import asyncio
import json
import os
from typing import Literal

import pytest

from toolcrib import tool
from toolcrib.config.model import Config, ServerConfig, ToolConfig
from toolcrib.config.sections import KbConfig, WorkspaceConfig
from toolcrib.core.access import LOCAL_USER
from toolcrib.core.errors import CallTimeout, RemoteError, SourceUnavailable
from toolcrib.core.kinds import LinkState
from toolcrib.core.limits import Rate
from toolcrib.core.offers import Tool
from toolcrib.core.requests import ErrorInfo, Request, Result
from toolcrib.core.source import SourceStatus
from toolcrib.crib.builder import open_crib
from toolcrib.crib.window import ProfileView
from toolcrib.server.mcp import service
from toolcrib.server.mcp.service import McpService, ServerIdentity
from toolcrib.stores.paths import Environment
from toolcrib.testing import FakeSource, MemoryCrib, RecordingChannel, memory_crib
from toolcrib.wire import eras
from toolcrib.wire.jsonrpc import Inbound
from toolcrib.wire.messages import Asker

OLD, NEW = Asker("2025-06-18"), Asker("2026-07-28")
ERAS = pytest.mark.parametrize("asker", [OLD, NEW], ids=["handshake", "modern"])
IDENTITY = ServerIdentity("toolcrib", "9", "Be kind.")
SIGNED = {eras.META_SERVER_INFO: IDENTITY.info}


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def answer(made: MemoryCrib, method: str, params: dict | None = None, asker: Asker = OLD, **channel: object):
    """The decoded answer to a request, without its envelope, and the HTTP status."""
    mcp = McpService(ProfileView(made.crib), IDENTITY)
    body, status = await mcp.respond(Inbound("2.0", 7, method, params), asker, RecordingChannel(**channel))
    decoded = json.loads(body)
    assert (decoded.pop("jsonrpc"), decoded.pop("id")) == ("2.0", 7)
    return decoded, status


async def call(source: FakeSource, params: dict | None = None, asker: Asker = OLD):
    async with memory_crib(source) as made:
        return await answer(made, "tools/call", {"name": "srv__work", **(params or {})}, asker)


@ERAS
async def test_a_call_is_answered_with_its_result(asker):
    """The stateless era wants to know that it is complete."""
    async with memory_crib(tools=[add]) as made:
        answered = await answer(made, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}, asker)

    stamp = {"resultType": "complete", "_meta": SIGNED} if asker is NEW else {}
    assert answered == ({"result": {"content": [{"type": "text", "text": "3"}], **stamp}}, 200)


async def test_a_servers_bytes_are_the_answer():
    """Nothing is decoded or written anew for a client of the same era."""
    raw = b'{ "content": [], "own":1.50 }'
    source = FakeSource("srv", ["work"])
    source.answers["work"] = Result(raw=raw)
    async with memory_crib(source) as made:
        request = Inbound("2.0", "r1", "tools/call", {"name": "srv__work"})
        body, _ = await McpService(ProfileView(made.crib), IDENTITY).respond(request, OLD, RecordingChannel())

    assert body == b'{"jsonrpc":"2.0","id":"r1","result":%b}' % raw


@pytest.mark.parametrize(
    ("params", "meta", "more"),
    [
        ({"_meta": {"own": 1, "progressToken": 5}}, {"own": 1}, {}),
        ({"arguments": {}, "_meta": {"own": 1, eras.META_VERSION: "x"}}, {"own": 1}, {}),
        ({"requestState": "s"}, {}, {"requestState": "s"}),
        (
            {"arguments": {}, "inputResponses": {"q": 1}, "requestState": "s"},
            {},
            {"inputResponses": {"q": 1}, "requestState": "s"},
        ),
    ],
)
async def test_meta_and_further_fields_reach_the_server(params, meta, more):
    """With or without arguments; what belongs to the connection does not."""
    source = FakeSource("srv", ["work"])

    await call(source, params)

    assert (source.calls[0].meta, source.calls[0].more) == (meta, more)


@ERAS
async def test_a_servers_failed_result_is_passed_on(asker):
    """As a result: the model can read it and do better."""
    source = FakeSource("srv", ["work"])
    failed = b'{"content":[{"type":"text","text":"no"}],"isError":true}'
    source.answers["work"] = Result(raw=failed, error=ErrorInfo("TOOL_EXECUTION_FAILED", "no"))

    answered, status = await call(source, asker=asker)

    stamp = {"resultType": "complete", "_meta": SIGNED} if asker is NEW else {}
    assert (answered, status) == ({"result": {**json.loads(failed), **stamp}}, 200)


@ERAS
@pytest.mark.parametrize(
    ("rpc_code", "status"), [(-32042, 200), (-32602, 400), (-32601, 404)], ids=["own", "params", "method"]
)
async def test_a_servers_json_rpc_error_stays_one(asker, rpc_code, status):
    """Code, words and data; the stateless era mirrors some codes in the status."""
    source = FakeSource("srv", ["work"])
    source.answers["work"] = RemoteError(rpc_code, "its words", data={"a": 1})

    answered = await call(source, asker=asker)

    error = {"code": rpc_code, "message": "its words", "data": {"a": 1}}
    assert answered == ({"error": error}, status if asker is NEW else 200)


async def test_trouble_of_ours_is_a_failed_result_with_its_code():
    """Told in words for the model, and in a code for programs."""
    source = FakeSource("srv", ["work"])
    source.answers["work"] = CallTimeout("Too late.", details={"timeout_s": 3})

    answered, _ = await call(source)

    assert answered == {
        "result": {
            "content": [{"type": "text", "text": "Too late."}],
            "isError": True,
            "_meta": {"toolcrib/error": {"code": "TOOL_TIMEOUT", "retryable": True, "details": {"timeout_s": 3}}},
        }
    }


@ERAS
async def test_an_unknown_tool_is_a_parameter_error_with_suggestions(asker):
    """As the protocol has it."""
    async with memory_crib(tools=[add]) as made:
        answered, status = await answer(made, "tools/call", {"name": "ad"}, asker)

    assert answered == {
        "error": {
            "code": -32602,
            "message": "No tool named 'ad'. Did you mean 'add'?",
            "data": {"code": "TOOL_NOT_FOUND", "unknown": "tool", "similar": ["add"]},
        }
    }
    assert status == (400 if asker is NEW else 200)


@pytest.mark.parametrize(
    "params", [{}, {"name": 5}, {"name": None}, {"name": "add", "arguments": []}, {"name": "add", "arguments": "x"}]
)
async def test_a_call_that_is_none_is_refused(params):
    """A name is a text, arguments are an object."""
    async with memory_crib(tools=[add]) as made:
        answered, _ = await answer(made, "tools/call", params)

    assert answered["error"]["code"] == -32602


async def test_the_list_is_the_same_bytes_until_the_tools_change():
    """Clients and caches can rely on it."""
    source = FakeSource("srv", ["b", "a"])
    async with memory_crib(source, tools=[add]) as made:
        mcp = McpService(ProfileView(made.crib), IDENTITY)

        async def listed() -> bytes:
            return (await mcp.respond(Inbound("2.0", 1, "tools/list"), OLD, RecordingChannel()))[0]

        first, second = await listed(), await listed()
        await made.crib.refresh("srv")
        third = await listed()
        source.tools = (Tool("c"),)
        await made.crib.refresh("srv")
        changed = json.loads(await listed())

    assert first == second == third
    assert [tool["name"] for tool in json.loads(first)["result"]["tools"]] == ["add", "srv__a", "srv__b"]
    assert [tool["name"] for tool in changed["result"]["tools"]] == ["add", "srv__c"]


async def test_a_list_that_is_not_complete_says_so_to_those_who_cache():
    """A server that hangs is left out for now."""
    quick, hanging = FakeSource("quick", ["a"]), FakeSource("hanging")
    hanging.listing.hold()
    async with memory_crib(quick, hanging) as made:
        await made.crib.current(0.001)
        incomplete, _ = await answer(made, "tools/list", asker=NEW)
        hanging.listing.release()
        await made.crib.refresh()
        complete, _ = await answer(made, "tools/list", asker=NEW)

    assert [listed["result"]["ttlMs"] for listed in (incomplete, complete)] == [1_000, 300_000]


async def test_a_cursor_nobody_gave_out_is_refused():
    """The whole list comes in one page."""
    async with memory_crib() as made:
        answered, _ = await answer(made, "tools/list", {"cursor": "x"})

    assert answered["error"]["code"] == -32602


@pytest.mark.parametrize(
    ("method", "handshake", "modern"),
    [
        ("ping", 200, 404),
        ("server/discover", 200, 200),
        ("initialize", 200, 404),
        ("skills/list", 200, 404),
        ("", 200, 404),
    ],
)
async def test_each_era_has_its_own_methods(method, handshake, modern):
    """What the other era knows is not found."""
    async with memory_crib() as made:
        answers = [await answer(made, method, asker=asker) for asker in (OLD, NEW)]

    found = [("error" not in decoded) or decoded["error"]["code"] for decoded, _ in answers]
    assert [status for _, status in answers] == [handshake, modern]
    assert found == [method == "ping" or -32601, method == "server/discover" or -32601]


async def test_a_greeting_waits_for_servers_nobody_has_heard_of():
    """A client is told once what there is: what a server says of itself and can do is in it, and nothing else."""
    source = FakeSource("srv", ["a"])
    source.instructions, source.features = "Ask first.", ("logging",)
    source.listing.hold()
    async with memory_crib(source) as made:
        mcp = McpService(ProfileView(made.crib), ServerIdentity("toolcrib", "9"))
        greeting = asyncio.ensure_future(mcp.initialize(OLD))
        discovery = asyncio.ensure_future(mcp.respond(Inbound("2.0", 1, "server/discover"), NEW, RecordingChannel()))
        await source.listing.reached.wait()
        source.listing.release()
        said = [json.loads(await greeting), json.loads((await discovery)[0])["result"]]

    tasks = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    there = {"tools": {"listChanged": True}, "logging": {}}
    assert [each["capabilities"] for each in said] == [there, there | tasks]
    assert [each["instructions"] for each in said] == ["Ask first."] * 2


async def test_the_channel_and_the_caller_travel_with_the_call():
    """Whoever works on it can ask back."""
    channel, source = RecordingChannel(wants_progress=True), FakeSource("srv", ["work"])

    def work(running: Request) -> str:
        running.channel.notify("notifications/progress", b'{"progress":1}')
        return "done"

    source.answers["work"] = work
    async with memory_crib(source) as made:
        request = Inbound("2.0", 1, "tools/call", {"name": "srv__work"})
        await McpService(ProfileView(made.crib), IDENTITY).respond(request, OLD, channel)

    assert channel.told == [("notifications/progress", {"progress": 1})]


@pytest.mark.parametrize(
    ("schema", "declared"),
    [
        ({"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A"}}}, {("a",): "A"}),
        ({"type": "object", "x-mcp-header": "A"}, {}),
        ({"type": "object"}, {}),
    ],
)
async def test_declared_headers_are_those_of_the_exposed_tool(schema, declared):
    """None for an invalid declaration or an unknown tool."""
    async with memory_crib(FakeSource("srv", [Tool("work", input_schema=schema)])) as made:
        await made.crib.current()
        mcp = McpService(ProfileView(made.crib), IDENTITY)

        assert mcp.declared_headers("srv__work", LOCAL_USER) == declared
        assert mcp.declared_headers("nobody", LOCAL_USER) == {}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (Inbound("2.0", method="notifications/cancelled", params={"requestId": 5}), 5),
        (Inbound("2.0", method="notifications/cancelled", params={"requestId": "a"}), "a"),
        (Inbound("2.0", method="notifications/cancelled", params={"requestId": [5]}), None),
        (Inbound("2.0", method="notifications/cancelled", params={"requestId": True}), None),
        (Inbound("2.0", method="notifications/cancelled", params={"requestId": 5.0}), None),
        (Inbound("2.0", method="notifications/cancelled"), None),
        (Inbound("2.0", method="notifications/other", params={"requestId": 5}), None),
    ],
)
def test_a_cancellation_names_its_request_or_none(message, expected):
    """Whatever a client sends."""
    assert service.cancelled_id(message) == expected


async def test_an_unavailable_server_is_told_with_what_is_known():
    """Details for programs, words for the model."""
    source = FakeSource("srv")
    source.trouble = SourceUnavailable("The server will not start.")
    source.state = SourceStatus(LinkState.FAILING, details={"phase": "starting"})

    answered, _ = await call(source)

    assert answered["result"]["isError"] is True
    assert answered["result"]["_meta"]["toolcrib/error"] == {
        "code": "TOOL_UNAVAILABLE",
        "retryable": True,
        "details": {"phase": "starting"},
    }


@ERAS
async def test_a_refusal_says_when_to_try_again_in_words_and_as_a_number(asker):
    """For the model in the text, for the program around it in the metadata."""
    limits = {"work": ToolConfig(rate=Rate(1, 3600.0))}
    config = Config({"srv": ServerConfig("srv", command="srv", tools=limits)})
    async with memory_crib(FakeSource("srv", ["work"]), config=config) as made:
        await made.crib.call("srv__work")
        answered, status = await answer(made, "tools/call", {"name": "srv__work"}, asker)

    told = answered["result"]["_meta"]["toolcrib/error"]
    wait_s = told["details"]["retry_after_s"]
    in_words = f"{wait_s:.1f}".removesuffix(".0")
    assert (status, answered["result"]["isError"]) == (200, True)
    assert (told["code"], told["retryable"], 3590 < wait_s <= 3600) == ("TOOL_RATE_LIMITED", True, True)
    assert answered["result"]["content"] == [
        {
            "type": "text",
            "text": f"srv__work was refused: this tool has used up its 1 call per 1h. Try again in {in_words} s.",
        }
    ]


@pytest.mark.parametrize("said", ["complete", None])
async def test_a_handshake_client_is_told_nothing_of_the_stateless_era(said):
    """Whether or not somebody looked at the result on its way."""
    source = FakeSource("srv", ["work"])
    source.answers["work"] = Result(raw=b'{"resultType":"complete","content":[]}', result_type=said)

    assert await call(source, asker=OLD) == ({"result": {"content": []}}, 200)


@ERAS
@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("kb_get_document", {"document_id": "nowhere"}, "nowhere"),
        ("kb_hybrid_search", {"query": "x", "collection_ids": ["nowhere"]}, "No collection named 'nowhere'."),
        ("task_view", {"id": 99}, "There is no task 99."),
    ],
)
async def test_what_a_tool_could_not_find_is_its_answer_and_no_error_of_the_protocol(
    tmp_path, asker, name, arguments, words
):
    """The model reads it, and looks for another document, collection or task."""
    around = Environment(tmp_path, {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}, elsewhere=True)
    (tmp_path / "work").mkdir()
    config = Config(workspace=WorkspaceConfig(enabled=True, root="work"), kb=KbConfig(enabled=True, expose="always"))
    async with open_crib(config, surroundings=around) as crib:
        mcp = McpService(ProfileView(crib), IDENTITY)
        asked = Inbound("2.0", 7, "tools/call", {"name": name, "arguments": arguments})
        body, _ = await mcp.respond(asked, asker, RecordingChannel())

    result = json.loads(body)["result"]
    assert (result["isError"], result["_meta"]["toolcrib/error"]["code"]) == (True, "TOOL_NOT_FOUND")
    assert words in result["content"][0]["text"]


@ERAS
async def test_what_cannot_be_a_tools_name_is_an_error_of_the_protocol(asker):
    """As any tool is that nobody has."""
    async with memory_crib(tools=[add]) as made:
        answered, _ = await answer(made, "tools/call", {"name": "__add"}, asker)

    assert answered["error"]["code"] == -32602
    assert answered["error"]["data"] == {"code": "TOOL_INVALID_INPUT", "unknown": "tool"}


@ERAS
async def test_values_for_a_tools_parameter_are_completed(asker):
    """What its author suggests, then what examples and the schema name; of a tool that is not there, an error."""

    @tool(completions={"place": ["Berlin", "Bonn", "Paris"]}, examples=[{"place": "Bergen"}])
    def weather(place: str, unit: Literal["celsius", "kelvin"] = "celsius") -> str:
        return f"{place} {unit}"

    async def complete(name, argument, value):
        params = {"ref": {"type": "ref/tool", "name": name}, "argument": {"name": argument, "value": value}}
        return (await answer(made, "completion/complete", params, asker))[0]

    async with memory_crib(tools=[weather]) as made:
        cities = await complete("weather", "place", "B")
        units = await complete("weather", "unit", "")
        wrong = [await complete("whether", "place", ""), await complete("weather", "plase", "")]

    assert cities["result"]["completion"] == {"values": ["Berlin", "Bonn", "Bergen"], "total": 3, "hasMore": False}
    assert units["result"]["completion"]["values"] == ["celsius", "kelvin"]
    assert [each["error"]["code"] for each in wrong] == [-32602, -32602]
    assert "Did you mean 'place'?" in wrong[1]["error"]["message"]
