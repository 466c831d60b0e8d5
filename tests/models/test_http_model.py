"""Answers by models behind HTTP, with a real server that says what it is told to."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from toolcrib.core.errors import SourceUnavailable
from toolcrib.knowledge.answer import NOTHING, Answerer
from toolcrib.knowledge.dialects import Lines, Message
from toolcrib.knowledge.library import Library
from toolcrib.knowledge.models import HttpModel, ModelSettings
from toolcrib.knowledge.retrieve import Search
from toolcrib.stores.knowledge import SqliteKnowledge

EVENTS = {
    "openai": lambda text: {"choices": [{"delta": {"content": text}}]},
    "anthropic": lambda text: {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}},
    "ollama": lambda text: {"message": {"role": "assistant", "content": text}, "done": False},
}
PATHS = {"openai": "/chat/completions", "anthropic": "/messages", "ollama": "/api/chat"}


@asynccontextmanager
async def model_server(provider, pieces, status=200, body=b""):
    """A model's API that streams these pieces; what it was asked is kept in ``asked``."""
    asked = []

    async def serve(reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        size = int(next(line.split(":")[1] for line in head.lower().split("\r\n") if line.startswith("content-length")))
        asked.append((head, json.loads(await reader.readexactly(size))))
        if status != 200:
            writer.write(b"HTTP/1.1 %d No\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body))
        else:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            for piece in pieces:
                event = json.dumps(EVENTS[provider](piece)).encode()
                line = event + b"\n" if provider == "ollama" else b"event: x\ndata: %b\n\n" % event
                for part in (line[:7], line[7:]):
                    writer.write(b"%x\r\n%b\r\n" % (len(part), part))
                    await writer.drain()
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


def settings(provider, url, key="sk-very-secret"):
    return ModelSettings(provider, "small", url, key, 10.0)


@pytest.mark.parametrize("provider", ["openai", "anthropic", "ollama"])
async def test_each_api_is_spoken_and_streams(provider):
    async with model_server(provider, ["Hel", "lo ", "there"]) as (url, asked):
        model = HttpModel(settings(provider, url))
        said = [piece async for piece in model.complete([Message("system", "Be kind."), Message("user", "Hi")], 99)]
    ((head, body),) = asked

    assert said == ["Hel", "lo ", "there"]
    assert head.startswith(f"POST {PATHS[provider]} HTTP/1.1")
    assert "sk-very-secret" in head
    assert body["model"] == "small"
    assert body["messages"][-1] == {"role": "user", "content": "Hi"}
    assert "Be kind." in json.dumps(body)
    assert "99" in json.dumps(body)


async def test_a_refusal_is_told_without_the_key():
    async with model_server("openai", [], 401, b'{"error": "wrong key sk-very-secret"}') as (url, _):
        with pytest.raises(SourceUnavailable, match=r"HTTP 401: .*wrong key …") as caught:
            [piece async for piece in HttpModel(settings("openai", url)).complete([Message("user", "Hi")], 9)]

    assert "sk-very-secret" not in str(caught.value)
    assert "sk-very-secret" not in repr(settings("openai", url))


async def test_a_model_that_is_not_there_is_told():
    async with model_server("openai", []) as (url, _):
        pass
    with pytest.raises(SourceUnavailable, match="refused"):
        [piece async for piece in HttpModel(settings("openai", url)).complete([Message("user", "Hi")], 9)]


def test_events_survive_any_way_the_network_cuts_them():
    stream = b'event: a\ndata: {"n": 1}\n\ndata: {"n": 2}\r\n\r\ndata: [DONE]\n\n'
    for cut in range(len(stream)):
        lines = Lines(is_lines=False)
        assert [*lines.feed(stream[:cut]), *lines.feed(stream[cut:])] == [b'{"n": 1}', b'{"n": 2}']


@pytest.fixture
async def library(base, files, tmp_path):
    await base.add(
        files(
            ants_dot_md="# Ants\n\nAnts carry leaves that weigh 50 times as much as they do.",
            bees_dot_md="# Bees\n\nBees dance to tell each other where flowers are.",
        )
    )
    made = Library(SqliteKnowledge(base.path), lambda: base.embedder)
    yield made
    await made.close()


async def ask(library, provider, pieces, question="How much do ants carry?"):
    async with model_server(provider, pieces) as (url, asked):
        answered = await Answerer(HttpModel(settings(provider, url))).answer(library, Search(question, ("notes",)))
    return answered, asked


async def test_a_generated_answer_is_cited_and_checked_sentence_by_sentence(library):
    text = "Ants carry leaves of 50 times their weight [1]. They also drive small cars [1]. Nobody knows why."
    answered, asked = await ask(library, "openai", [text])
    shown = answered.to_json()

    assert shown["mode"] == "generated"
    assert shown["model"] == "openai:small"
    assert [citation["marker"] for citation in shown["citations"]] == ["[1]"]
    assert shown["citations"][0]["content"].startswith("# Ants")
    assert [entry["supported"] for entry in shown["support"]] == [True, False, False]
    assert "[1] Ants › Ants\n# Ants" in asked[0][1]["messages"][1]["content"]


async def test_a_number_that_is_not_in_the_source_is_not_supported(library):
    answered, _ = await ask(library, "openai", ["Ants carry leaves of 70 times their weight [1]."])

    assert [each.is_supported for each in answered.support] == [False]


async def test_markers_that_mean_nothing_are_no_citations(library):
    answered, _ = await ask(library, "ollama", ["Ants carry leaves [9]."])

    assert (answered.numbers, [each.is_supported for each in answered.support]) == ((), [False])


async def test_a_model_that_finds_no_answer_is_believed(library):
    answered, _ = await ask(library, "anthropic", [NOTHING[:10], NOTHING[10:]])

    assert (answered.text, answered.mode, answered.numbers) == (NOTHING, "none", ())


async def test_a_model_is_not_asked_when_nothing_was_found(library):
    answered, asked = await ask(library, "openai", ["Made up."], "Who invented quantum chromodynamics?")

    assert (answered.text, answered.mode, asked) == (NOTHING, "none", [])
