"""Batches: several messages in one, for the one revision that has them."""

import asyncio
import json

import pytest
from tests.server.mcp.test_http import Client, add, client_of
from tests.server.mcp.test_stdio import client_of as stdio_client_of

from toolcrib.core.requests import Request, Result
from toolcrib.server.mcp.batch import BATCH_MAX
from toolcrib.testing import FakeSource
from toolcrib.wire.jsonrpc import REQUEST_CANCELLED

OLD = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


def called(request_id: int, name: str = "add", **more) -> dict:
    arguments = {"a": request_id, "b": 1} if name == "add" else {}
    params = {"name": name, "arguments": arguments, **more}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}


async def greet(client: Client, version: str = "2025-03-26") -> None:
    answer = await client.post({"id": 0, "method": "initialize", "params": {**OLD, "protocolVersion": version}})
    client.session = {"mcp_session_id": answer.headers["mcp-session-id"]}


async def send(client: Client, *messages: object):
    return await client.request("POST", json.dumps(messages).encode(), **client.session)


def texts(answers: list) -> dict:
    return {answer["id"]: answer["result"]["content"][0]["text"] for answer in answers}


async def test_the_requests_of_a_batch_are_answered_in_one():
    """Notifications among them are heard, and what is wrong with one is told of that one."""
    async with client_of(tools=[add]) as client:
        await greet(client)
        notice = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        odd = [7, {"jsonrpc": "2.0", "id": 9, "method": "initialize", "params": OLD}]
        answer = await send(client, called(1), notice, called(2), *odd, called(2))
        answers = await answer.json()

        assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
        assert texts([one for one in answers if "result" in one]) == {1: "2", 2: "3"}
        assert [(one["id"], one["error"]["code"]) for one in answers if "error" in one] == [
            (None, -32600),
            (9, -32600),
            (2, -32600),
        ]


async def test_a_batch_without_requests_is_only_taken():
    async with client_of(tools=[add]) as client:
        await greet(client)
        answer = await send(client, {"jsonrpc": "2.0", "method": "notifications/initialized"})

        assert (answer.status, await answer.body()) == (202, b"")


async def test_a_batch_with_more_to_say_than_answers_is_a_stream():
    """Progress comes before the answer it belongs to; the others are there, too."""
    source = FakeSource("srv", ["work"])

    async def work(call: Request) -> Result:
        call.channel.notify("notifications/progress", b'{"progressToken":1,"progress":5}')
        return Result({"content": [{"type": "text", "text": "worked"}]})

    source.answers["work"] = work
    async with client_of(source, tools=[add]) as client:
        await greet(client)
        answer = await send(client, called(1), called(2, "srv__work", _meta={"progressToken": "mine"}))
        events = [event async for event in events_of(answer)]

        assert answer.headers["content-type"] == "text/event-stream"
        assert texts([event for event in events if "id" in event]) == {1: "2", 2: "worked"}
        assert [event["params"] for event in events if "method" in event] == [{"progressToken": "mine", "progress": 5}]


async def events_of(answer):
    while (event := await answer.event()) is not None:
        yield event


async def test_a_batch_ends_when_its_last_request_was_called_off():
    """That one is said to be cancelled."""
    source, begun = FakeSource("srv", ["work"]), asyncio.Event()

    async def work(call: Request) -> Result:
        begun.set()
        await asyncio.Event().wait()
        return Result({})

    source.answers["work"] = work
    async with client_of(source, tools=[add]) as client:
        await greet(client)
        sending = asyncio.ensure_future(send(client, called(1), called(2, "srv__work")))
        await begun.wait()
        await client.post({"method": "notifications/cancelled", "params": {"requestId": 2}}, **client.session)
        first, second = [event async for event in events_of(await sending)]

        assert (texts([first]), second["id"], second["error"]["code"]) == ({1: "2"}, 2, REQUEST_CANCELLED)


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25"])
async def test_other_revisions_have_no_batches(version):
    async with client_of(tools=[add]) as client:
        await greet(client, version)
        answer = await send(client, called(1))

        assert (answer.status, (await answer.json())["error"]["code"]) == (400, -32600)


@pytest.mark.parametrize("messages", [[], [called(n) for n in range(BATCH_MAX + 1)], [0] * 300_000])
async def test_a_batch_is_neither_empty_nor_endless(messages):
    async with client_of(tools=[add]) as client:
        await greet(client)
        answer = await send(client, *messages)

        assert (answer.status, (await answer.json())["error"]["code"]) == (400, -32600)


async def test_over_stdio_each_request_of_a_batch_is_answered():
    """One by one, by its id; and refused to clients of another revision."""
    async with stdio_client_of(tools=[add]) as client:
        await client.ask(0, "initialize", OLD)
        client.door.data_received(json.dumps([called(1), 7, called(2)]).encode() + b"\n")
        answers = {one["id"]: one for one in [await client.read() for _ in range(3)]}

        assert texts([answers[1], answers[2]]) == {1: "2", 2: "3"}
        assert answers[None]["error"]["code"] == -32600
    async with stdio_client_of(tools=[add]) as client:
        await client.ask(0, "initialize", {**OLD, "protocolVersion": "2025-11-25"})
        client.door.data_received(json.dumps([called(1)]).encode() + b"\n")

        assert (await client.read())["error"]["code"] == -32600
