"""``kb embed``: another embedder for a collection, from the command line to the file."""

import asyncio
import json
import threading
from collections.abc import Iterator

import pytest
from tests.cli.program import Program
from tests.knowledge.embedding_server import EmbeddingServer, embedding_server

KEY = "sk-very-secret-indeed"
CONFIG = """\
[kb]
docs = false
embedder = "none"
[kb.embedders.far]
kind = "openai"
model = "small"
url = "{url}"
api_key = "${{EMBEDDING_KEY}}"
timeout = "5s"
"""


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    """A server with an event loop of its own, while programs run."""
    started, stopped, made = threading.Event(), asyncio.Event(), []

    async def main():
        async with embedding_server(key=KEY) as server:
            made.append((server, asyncio.get_running_loop()))
            started.set()
            await stopped.wait()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    started.wait()
    yield made[0][0]
    made[0][1].call_soon_threadsafe(stopped.set)
    thread.join()


@pytest.fixture
def kb(toolcrib: Program, server: EmbeddingServer) -> Program:
    toolcrib.write(CONFIG.format(url=server.url))
    toolcrib.env["EMBEDDING_KEY"] = KEY
    notes = toolcrib.project / "notes"
    notes.mkdir()
    (notes / "ants.md").write_text("# Ants\n\nAnts carry leaves.\n")
    (notes / "bees.md").write_text("# Bees\n\nBees dance.\n")
    return toolcrib


def answer(program: Program, *words: str):
    result = program.run("kb", *words, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_a_collection_gets_another_embedder_and_is_searched_with_it(kb: Program, server: EmbeddingServer):
    kb.run("kb", "add", "notes", "--collection", "animals")
    later = answer(kb, "embed", "animals", "--embedder", "far", "--later")
    waiting = answer(kb, "stats")
    made = answer(kb, "embed", "animals")
    healthy = answer(kb, "stats")
    found = answer(kb, "search", "ants")
    nearest = kb.run("kb", "embed", "animals", "--embedder", "fra")

    assert (later["re_embedding"]["embedder_name"], waiting["status"]) == ("far", "degraded")
    assert "animals: re-embedding 0 % by 'far'; until then, only words count." in waiting["reasons"][0]
    assert made == made | {
        "collection_id": "animals",
        "embedder_name": "far",
        "embedder": "openai:small",
        "dimensions": 48,
        "passages": 2,
        "re_embedding": None,
    }
    assert (healthy["status"], healthy["collections"][0]["dimensions"]) == ("healthy", 48)
    assert (found["results"][0]["title"], "warnings" in found) == ("Ants", False)
    assert (nearest.returncode != 0, "Did you mean 'far'?" in nearest.stderr) == (True, True)
    kept = b"".join(path.read_bytes() for path in kb.home.rglob("kb.db*"))
    assert (b"openai:small" in kept, KEY.encode() in kept) == (True, False)


def test_what_is_added_while_the_key_is_wrong_waits_and_nothing_is_lost(kb: Program, server: EmbeddingServer):
    kb.env["EMBEDDING_KEY"] = "sk-wrong-and-secret"
    added = kb.run("kb", "add", "notes", "--collection", "animals", "--embedder", "far")
    failed = kb.run("kb", "embed", "animals")
    found = kb.run("kb", "search", "ants")
    del kb.env["EMBEDDING_KEY"]
    unset = kb.run("kb", "embed", "animals")
    kb.env["EMBEDDING_KEY"] = KEY
    made = kb.run("kb", "embed", "animals")

    assert added.returncode == 0, added.stderr
    assert "its key was refused (HTTP 401" in added.stderr
    assert "`toolcrib kb embed animals` makes them" in added.stderr
    assert (failed.returncode != 0, "run it again to go on" in failed.stderr) == (True, True)
    assert ("Ants carry leaves." in found.stdout, "only words count" in found.stderr) == (True, True)
    assert "EMBEDDING_KEY is not set" in unset.stderr
    assert "2 passages with vectors by far (openai:small, 48 numbers each)" in made.stdout, made.stderr
    assert "sk-wrong" not in added.stderr + failed.stderr + found.stderr
