"""Embedders behind an HTTP API: those that speak OpenAI's, and Ollama's own."""

import asyncio
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from toolcrib.core.errors import ConfigError, EmbedderUnavailable, SourceUnavailable
from toolcrib.core.network import Network
from toolcrib.knowledge.embedding import NO_PREFIXES, Prefixes, check_dimensions, to_unit
from toolcrib.search.vectors import Floats
from toolcrib.transports.http.client import HttpPool, PoolLimits, Response
from toolcrib.transports.http.dial import encode_own_headers

BATCH = 64
ERROR_SHOWN = 300
QUERY_TIMEOUT_S = 3.0
DELAYS_S = (0.5, 1.0, 2.0, 4.0)
"""Between attempts; the server's own wish counts more, up to the longest wait."""
LONGEST_WAIT_S = 30.0
REFUSED = frozenset({401, 403})
HOPELESS = frozenset({501, 505})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Which model, where, and with what key; the key is shown nowhere."""

    name: str
    """What the configuration calls it."""
    kind: str
    model: str
    url: str = ""
    key: str = field(default="", repr=False)
    dimensions: int = 0
    batch: int = 0
    timeout_s: float = 30.0
    prefixes: Prefixes = NO_PREFIXES
    network: Network | None = None
    """The way there; ``None`` leaves it to the environment of this process."""


@dataclass(frozen=True, slots=True)
class Speech:
    """One API: where it is, and where the vectors are in what comes back."""

    base_url: str
    path: str
    rows: Callable[[Mapping[str, Any]], list[list[float]]]
    more: Mapping[str, Any]
    """What is always sent along."""


def _openai_rows(answer: Mapping[str, Any]) -> list[list[float]]:
    return [each["embedding"] for each in sorted(answer["data"], key=lambda each: int(each["index"]))]


SPEECHES: Mapping[str, Speech] = {
    "openai": Speech("https://api.openai.com/v1", "/embeddings", _openai_rows, {"encoding_format": "float"}),
    "ollama": Speech("http://127.0.0.1:11434", "/api/embed", lambda answer: list(answer["embeddings"]), {}),
}


class EndpointEmbedder:
    """A model that is reached over HTTP; asked again when it is busy, told of in plain words when it fails."""

    def __init__(self, endpoint: Endpoint, delays_s: Sequence[float] = DELAYS_S) -> None:
        self._endpoint, self._delays_s = endpoint, delays_s
        self._speech = SPEECHES[endpoint.kind]
        self._url = (endpoint.url or self._speech.base_url).rstrip("/") + self._speech.path
        self._pool: HttpPool | None = None
        self.name = model_name(endpoint.kind, endpoint.model, endpoint.prefixes)
        self.dimensions = endpoint.dimensions
        self.batch = endpoint.batch or BATCH

    async def embed_documents(self, texts: Sequence[str]) -> Floats:
        """One row for each text, some at a time."""
        prefixed = [self._endpoint.prefixes.document + text for text in texts]
        parts = [prefixed[at : at + self.batch] for at in range(0, len(prefixed), self.batch)]
        rows = [await self._patiently(part) for part in parts]
        return np.concatenate(rows) if rows else np.zeros((0, self.dimensions), np.float32)

    async def embed_query(self, text: str) -> Floats:
        """The vector of a query: one attempt, and not a long one, because a person or an agent waits."""
        response = await self._ask([self._endpoint.prefixes.query + text], QUERY_TIMEOUT_S)
        vector: Floats = self._read(response, 1)[0]
        return vector

    async def _patiently(self, texts: Sequence[str]) -> Floats:
        for delay_s in self._delays_s:
            response = await self._ask(texts, self._endpoint.timeout_s)
            if not _is_busy(response.status):
                return self._read(response, len(texts))
            await asyncio.sleep(_wished(response, delay_s))
        return self._read(await self._ask(texts, self._endpoint.timeout_s), len(texts))

    async def _ask(self, texts: Sequence[str], timeout_s: float) -> Response:
        body: dict[str, Any] = {"model": self._endpoint.model, "input": list(texts), **self._speech.more}
        if self._endpoint.dimensions:
            body["dimensions"] = self._endpoint.dimensions
        try:
            pool = self._pool = self._pool or self._open_pool()
            async with asyncio.timeout(min(timeout_s, self._endpoint.timeout_s)):
                return await pool.exchange(self._head(pool), msgspec.json.encode(body), replayable=True)
        except TimeoutError:
            raise self._trouble(f"{pool.origin} did not answer in time", "Is it running, and not busy?") from None
        except (SourceUnavailable, ConfigError) as error:
            raise self._trouble(self._masked(error.message).rstrip("."), "Is it running, and url right?") from error

    def _open_pool(self) -> HttpPool:
        return HttpPool(self._url, network=self._endpoint.network, limits=PoolLimits(connections=4))

    def _head(self, pool: HttpPool) -> bytes:
        headers = {"content-type": "application/json", "accept": "application/json"}
        if self._endpoint.key:
            headers["authorization"] = f"Bearer {self._endpoint.key}"
        return pool.encode_head("POST", pool.origin.target, encode_own_headers(self._endpoint.name, headers))

    def _read(self, response: Response, count: int) -> Floats:
        if response.status != 200:
            raise self._refusal(response)
        try:
            with np.errstate(over="ignore"):
                rows = np.asarray(self._speech.rows(msgspec.json.decode(response.body)), np.float32)
        except (msgspec.DecodeError, KeyError, TypeError, ValueError, RecursionError):
            raise self._trouble("its answer holds no vectors", f"Does {self._url} make embeddings?") from None
        if rows.ndim != 2 or len(rows) != count or not rows.shape[1]:
            raise self._trouble(f"it answered {count} texts with {len(rows)} vectors", "Check its model.")
        check_dimensions(self._endpoint.name, rows.shape[1], self.dimensions)
        self.dimensions = rows.shape[1]
        return to_unit(rows, self._endpoint.name)

    def _refusal(self, response: Response) -> EmbedderUnavailable:
        said = self._masked(_said(response.body))
        if response.status in REFUSED:
            return self._trouble(f"its key was refused (HTTP {response.status}: {said})", "Check api_key.")
        if response.status == 404:
            shown = f"it knows no model {self._endpoint.model!r}, or url is wrong (HTTP 404: {said})"
            pull = " For Ollama: `ollama pull` it." if self._endpoint.kind == "ollama" else ""
            return self._trouble(shown, f"Check model and url.{pull}")
        return self._trouble(f"it answered HTTP {response.status}: {said}", "Try again, or check its settings.")

    def _trouble(self, what: str, hint: str) -> EmbedderUnavailable:
        place = f"See [kb.embedders.{self._endpoint.name}]."
        return EmbedderUnavailable(f"The embedder {self._endpoint.name!r}: {what}.", hint=f"{hint} {place}")

    def _masked(self, text: str) -> str:
        key = self._endpoint.key
        return (text.replace(key, "…") if key else text)[:ERROR_SHOWN]

    async def close(self) -> None:
        """Close the connections."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()


def model_name(kind: str, model: str, prefixes: Prefixes) -> str:
    """Says which vectors may be compared; what stands before documents changes them."""
    mark = hashlib.sha256(prefixes.document.encode()).hexdigest()[:8] if prefixes.document else ""
    return f"{kind}:{model}" + (f"#{mark}" if mark else "")


def _is_busy(status: int) -> bool:
    return status in (408, 429) or (status >= 500 and status not in HOPELESS)


def _wished(response: Response, delay_s: float) -> float:
    """How long to wait: what the server asks for, if it asks in seconds and not for too much."""
    asked = (response.header(b"retry-after") or b"").decode("latin-1").strip()
    try:
        wished = float(asked)
    except ValueError:
        return delay_s
    return delay_s if math.isnan(wished) else min(max(wished, 0.0), LONGEST_WAIT_S)


def _said(body: bytes) -> str:
    """The reason in an error's body, in whichever of the usual places it is."""
    text = body.decode(errors="replace")
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text
    error = found.get("error", found) if isinstance(found, dict) else found
    if isinstance(error, dict):
        error = error.get("message", error)
    return error if isinstance(error, str) else text
