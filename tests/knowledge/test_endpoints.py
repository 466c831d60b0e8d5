"""Embedders behind HTTP: both APIs, patience with a busy server, and troubles in plain words without the key."""

import numpy as np
import pytest
from tests.knowledge.embedding_server import DIMENSIONS, embed, embedding_server

from toolcrib.core.errors import EmbedderUnavailable
from toolcrib.knowledge.embedding import Prefixes
from toolcrib.knowledge.endpoints import Endpoint, EndpointEmbedder, model_name

SECRET = "sk-very-secret-indeed"
BUSY = (429, {"retry-after": "0"}, {"error": {"message": "Rate limit reached"}})


def embedder(server, **said):
    fields = {"name": "better", "kind": server.provider, "model": "small", "url": server.url, "timeout_s": 5.0} | said
    return EndpointEmbedder(Endpoint(**fields), delays_s=(0.0, 0.0))


@pytest.mark.parametrize("provider", ["openai", "ollama"])
async def test_each_api_is_spoken_in_batches_and_in_order(provider):
    async with embedding_server(provider, key=SECRET) as server:
        made = embedder(server, key=SECRET, batch=2, prefixes=Prefixes("query: ", "passage: "))
        rows = await made.embed_documents(["ants carry", "bees dance", "whales sing"])
        asked = await made.embed_query("ants")
        await made.close()

    expected = np.asarray([embed(f"passage: {text}") for text in ("ants carry", "bees dance", "whales sing")])
    assert np.allclose(rows, expected / np.linalg.norm(expected, axis=1, keepdims=True))
    assert np.allclose(asked, np.asarray(embed("query: ants")) / np.sqrt(2))
    assert [len(body["input"]) for body in server.asked] == [2, 1, 1]
    assert (made.dimensions, rows.dtype) == (DIMENSIONS, np.float32)


async def test_a_wished_length_is_asked_for_and_checked():
    async with embedding_server() as server:
        rows = await embedder(server, dimensions=16).embed_documents(["ants"])
        server.failures = [(200, {}, {"data": [{"index": 0, "embedding": [0.5] * 8}]})]
        with pytest.raises(EmbedderUnavailable, match="vectors of 8 numbers, but 16 are expected"):
            await embedder(server, dimensions=16).embed_documents(["ants"])

    assert (rows.shape, server.asked[0]["dimensions"]) == ((1, 16), 16)


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_busy_server_is_asked_again(status):
    busy = (status, {"retry-after": "0"}, {"error": {"message": "Slow down"}})
    async with embedding_server(failures=[busy, busy]) as server:
        rows = await embedder(server).embed_documents(["ants"])

    assert (rows.shape, len(server.asked)) == ((1, DIMENSIONS), 3)


async def test_a_server_that_stays_busy_is_told_of_after_a_few_attempts():
    async with embedding_server(failures=[BUSY] * 9) as server:
        with pytest.raises(EmbedderUnavailable, match="HTTP 429: Rate limit reached"):
            await embedder(server).embed_documents(["ants"])

    assert len(server.asked) == 3


async def test_a_query_is_not_tried_again_because_somebody_waits():
    async with embedding_server(failures=[BUSY]) as server:
        with pytest.raises(EmbedderUnavailable, match="429"):
            await embedder(server).embed_query("ants")

    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("provider", "said", "says"),
    [
        ("openai", {"key": "sk-other-and-wrong"}, "its key was refused (HTTP 401: Incorrect API key provided: ['…"),
        ("openai", {"model": "huge", "key": SECRET}, "it knows no model 'huge', or url is wrong"),
        ("ollama", {"model": "huge", "key": SECRET}, "`ollama pull` it"),
    ],
)
async def test_troubles_are_told_with_what_to_do_and_without_the_key(provider, said, says):
    async with embedding_server(provider, key=SECRET) as server:
        with pytest.raises(EmbedderUnavailable) as caught:
            await embedder(server, **said).embed_documents(["ants"])

    assert says in str(caught.value)
    assert "[kb.embedders.better]" in str(caught.value)
    assert "sk-other-and-wrong" not in str(caught.value)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"<html>Welcome</html>", "holds no vectors"),
        ({"data": []}, "answered 1 texts with 0 vectors"),
        ({"data": [{"index": 0, "embedding": ["x"]}]}, "holds no vectors"),
        ({"data": [{"index": 0, "embedding": [1e99]}]}, "values that are no numbers"),
        ({"embeddings": [[1.0]]}, "holds no vectors"),
        (b"[" * 100_000, "holds no vectors"),
    ],
)
async def test_an_answer_that_makes_no_sense_is_told(body, says):
    async with embedding_server(failures=[(200, {}, body)]) as server:
        with pytest.raises(EmbedderUnavailable, match=says):
            await embedder(server).embed_documents(["ants"])


@pytest.mark.parametrize("body", [b'{"error": "caf\xe9"}', b"[" * 100_000])
async def test_an_error_that_cannot_be_read_is_told_as_an_error(body):
    """So that a search goes on by words, as with every other trouble."""
    async with embedding_server(failures=[(400, {}, body)]) as server:
        with pytest.raises(EmbedderUnavailable, match="HTTP 400"):
            await embedder(server).embed_query("ants")


async def test_a_wait_that_is_no_number_of_seconds_is_not_waited_for():
    async with embedding_server(failures=[(429, {"retry-after": "nan"}, {})]) as server:
        assert len(await embedder(server).embed_documents(["ants"])) == 1


async def test_an_endpoint_that_is_away_is_told():
    async with embedding_server() as server:
        pass
    with pytest.raises(EmbedderUnavailable, match="refused"):
        await embedder(server).embed_documents(["ants"])


def test_what_changes_the_vectors_changes_the_name():
    names = {
        model_name("openai", "small", Prefixes()),
        model_name("ollama", "small", Prefixes()),
        model_name("openai", "small", Prefixes(document="passage: ")),
    }

    assert len(names) == 3
    assert model_name("openai", "small", Prefixes("query: ")) in names
    assert SECRET not in repr(Endpoint("a", "openai", "small", key=SECRET))
