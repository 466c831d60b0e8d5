"""Embedding APIs as OpenAI, its imitators and Ollama really answer, over real HTTP."""

import asyncio
import json
import re
import zlib
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

DIMENSIONS = 48


def embed(text, size=DIMENSIONS):
    """Counts words into buckets; not of length 1, as some servers send them."""
    row = [0.0] * size
    for word in re.findall(r"\w+", text.lower()):
        row[zlib.crc32(word.encode()) % size] += 1.0
    return row


@dataclass
class EmbeddingServer:
    """Says what it is told to; what it was asked is kept."""

    provider: str
    key: str = ""
    size: int = DIMENSIONS
    failures: list = field(default_factory=list)
    """Answers to give first: (status, headers, body)."""
    fails_at: int = 0
    """The number of the request that fails."""
    asked: list = field(default_factory=list)
    heads: list = field(default_factory=list)
    url: str = ""
    gate: asyncio.Event | None = None
    """Where set, answers wait for it after the first."""

    @property
    def texts(self):
        return [text for body in self.asked for text in body["input"]]

    def answer(self, path, head, body):
        if self.failures:
            return self.failures.pop(0)
        if len(self.asked) == self.fails_at:
            return 500, {}, {"error": {"message": "The server had an error"}}
        if self.key and f"authorization: bearer {self.key}".lower() not in head.lower():
            message = f"Incorrect API key provided: {re.findall('(?i)bearer (.*)', head)[:1]}"
            return 401, {}, {"error": {"message": message, "type": "invalid_request_error", "code": "invalid_api_key"}}
        if body["model"] != "small":
            if self.provider == "ollama":
                return 404, {}, {"error": f'model "{body["model"]}" not found, try pulling it first'}
            return 404, {}, {"error": {"message": "The model does not exist", "code": "model_not_found"}}
        rows = [embed(text, body.get("dimensions", self.size)) for text in body["input"]]
        if self.provider == "ollama":
            assert path == "/api/embed"
            return 200, {}, {"model": "small", "embeddings": rows, "total_duration": 1, "prompt_eval_count": 1}
        assert path == "/v1/embeddings"
        data = [{"object": "embedding", "index": at, "embedding": row} for at, row in enumerate(rows)]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return 200, {}, {"object": "list", "data": data[::-1], "model": "small", "usage": usage}

    async def serve(self, reader, writer):
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                head = head.decode()
                length = next(line for line in head.lower().split("\r\n") if line.startswith("content-length"))
                body = json.loads(await reader.readexactly(int(length.split(":")[1])))
                self.heads.append(head)
                self.asked.append(body)
                if self.gate is not None and len(self.asked) > 1:
                    await self.gate.wait()
                status, headers, answer = self.answer(head.split(" ")[1], head, body)
                encoded = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                extra = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()
                writer.write(
                    b"HTTP/1.1 %d X\r\n%bcontent-length: %d\r\n\r\n%b" % (status, extra, len(encoded), encoded)
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def embedding_server(provider="openai", **said):
    made = EmbeddingServer(provider, **said)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}" + ("/v1" if provider == "openai" else "")
    try:
        yield made
    finally:
        server.close()
