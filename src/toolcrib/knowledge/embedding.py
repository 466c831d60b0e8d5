"""Who turns texts into vectors: the protocol, the embedders of a configuration, and the vectors of queries."""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from toolcrib.core.errors import EmbedderUnavailable, UnknownEmbedder
from toolcrib.core.knowledge import Embedding
from toolcrib.search.vectors import Embedder, Floats

NONE = "none"
"""The name of having no vectors at all."""
QUERIES_KEPT = 256
AWAY_S = 10.0
"""How long an embedder that failed is not asked for a query's vector, so that searches do not wait for it."""
TRUSTED_S = 30.0
"""How long an embedder that answered counts as being there."""
PROBE = "Is anybody there?"
"""A query to find out whether an embedder answers."""
EMBEDDED_AT_ONCE = 256


class TextEmbedder(Protocol):
    """Turns texts into vectors of length 1, waiting for as long as that takes."""

    @property
    def name(self) -> str:
        """Says which vectors may be compared: those of one name only."""
        ...

    @property
    def dimensions(self) -> int:
        """How long a vector is; zero if that is not known before the first one is made."""
        ...

    @property
    def batch(self) -> int:
        """How many texts are best given at once."""
        ...

    async def embed_documents(self, texts: Sequence[str]) -> Floats:
        """One row for each text; raises ``EmbedderUnavailable``."""
        ...

    async def embed_query(self, text: str) -> Floats:
        """The vector of what is looked for; raises ``EmbedderUnavailable`` sooner than documents would."""
        ...

    async def close(self) -> None:
        """Let go of connections and memory."""


@dataclass(frozen=True, slots=True)
class Prefixes:
    """What a model wants to read before a query and before a document, such as ``query: ``."""

    query: str = ""
    document: str = ""


NO_PREFIXES = Prefixes()


class InProcess:
    """An embedder that computes here and needs no waiting for; it runs beside the event loop."""

    batch = EMBEDDED_AT_ONCE

    def __init__(self, embedder: Embedder) -> None:
        self.direct = embedder
        self.name, self.dimensions = embedder.name, embedder.dimensions

    async def embed_documents(self, texts: Sequence[str]) -> Floats:
        """One row for each text."""
        return await asyncio.to_thread(self.direct.embed, texts)

    async def embed_query(self, text: str) -> Floats:
        """The vector of a query, which is made like any other."""
        vector: Floats = (await self.embed_documents([text]))[0]
        return vector

    async def close(self) -> None:
        """There is nothing to let go of."""


class QueryEmbedder:
    """What a searcher asks for a query's vector: made before the search begins, the last ones kept."""

    def __init__(self, embedder: TextEmbedder, embedding: Embedding) -> None:
        self._embedder, self._embedding = embedder, embedding
        self._known: OrderedDict[str, Floats] = OrderedDict()
        self._away: tuple[float, EmbedderUnavailable] | None = None
        self._answered = -math.inf

    @property
    def name(self) -> str:
        """Which model it is."""
        return self._embedding.model

    @property
    def dimensions(self) -> int:
        """How long the vectors of the collection are."""
        return self._embedding.dimensions

    def embed(self, texts: Sequence[str]) -> Floats:
        """The rows of queries that were prepared."""
        if isinstance(self._embedder, InProcess):
            return self._embedder.direct.embed(texts)
        return np.stack([self._known[text] for text in texts])

    async def prepare(self, query: str) -> None:
        """Make the vector of a query; raises ``EmbedderUnavailable``, for a while without trying again."""
        if isinstance(self._embedder, InProcess):
            return
        if query in self._known:
            self._known.move_to_end(query)
            return
        self._refuse_while_away()
        try:
            vector = await self._embedder.embed_query(query)
            check_dimensions(self._embedding.name, len(vector), self.dimensions)
        except EmbedderUnavailable as error:
            self._away = (asyncio.get_running_loop().time() + AWAY_S, error)
            raise
        self._away, self._answered = None, asyncio.get_running_loop().time()
        self._known[query] = vector
        if len(self._known) > QUERIES_KEPT:
            self._known.popitem(last=False)

    def _refuse_while_away(self) -> None:
        if self._away is not None and asyncio.get_running_loop().time() < self._away[0]:
            raise self._away[1]

    async def check(self) -> None:
        """Find out whether the embedder answers, unless it did a moment ago; raises ``EmbedderUnavailable``."""
        self._refuse_while_away()
        if asyncio.get_running_loop().time() - self._answered > TRUSTED_S:
            self._known.pop(PROBE, None)
            await self.prepare(PROBE)


class Embedders:
    """The embedders of a configuration by name, each made when it is first needed."""

    def __init__(self, makers: Mapping[str, Callable[[], TextEmbedder]], default: str) -> None:
        self._makers, self.default = makers, default
        self._made: dict[str, TextEmbedder] = {}
        self._asking: dict[Embedding, QueryEmbedder] = {}
        self._making = asyncio.Lock()

    @classmethod
    def of(cls, given: "Embedders | Embedder | None") -> "Embedders":
        """A single embedder, or none, as if it were a configuration."""
        if isinstance(given, Embedders):
            return given
        return cls({}, NONE) if given is None else cls({given.name: lambda: InProcess(given)}, given.name)

    @property
    def names(self) -> list[str]:
        """What may be chosen."""
        return [*self._makers, NONE]

    def check(self, name: str) -> str:
        """The name if there is such an embedder; raises ``UnknownEmbedder`` with the nearest ones."""
        if name not in self.names:
            raise UnknownEmbedder(name, known=self.names)
        return name

    async def get(self, name: str) -> TextEmbedder | None:
        """The embedder of that name, nobody for none; raises ``EmbedderUnavailable`` if it cannot be made here."""
        if self.check(name) == NONE:
            return None
        async with self._making:
            if name not in self._made:
                self._made[name] = await asyncio.to_thread(self._makers[name])
        return self._made[name]

    async def embedding(self, name: str) -> Embedding:
        """The vectors that the embedder of that name makes."""
        embedder = await self.get(name)
        return Embedding(name, embedder.name, embedder.dimensions) if embedder else Embedding(NONE)

    async def at_hand(self) -> str:
        """The usual embedder if it computes here, else one that does: for what must not wait for a network."""
        for name in sorted(self._makers, key=lambda name: name != self.default) if self.default != NONE else ():
            with suppress(EmbedderUnavailable):
                if isinstance(await self.get(name), InProcess):
                    return name
        return NONE

    async def find(self, wanted: Embedding) -> TextEmbedder | None:
        """Who makes such vectors, whatever it is called here; nobody if they are none, raises if nobody can."""
        if not wanted.model:
            return None
        trouble: EmbedderUnavailable | None = None
        for name in sorted(self._makers, key=lambda name: name != wanted.name):
            try:
                embedder = await self.get(name)
            except EmbedderUnavailable as error:
                trouble = error if name == wanted.name else trouble
                continue
            if embedder is not None and fits(embedder, wanted):
                return embedder
        raise trouble or EmbedderUnavailable(
            f"No embedder here makes vectors of {wanted.model!r}.",
            hint=f"Configure it under [kb.embedders], or choose another: `toolcrib kb embed`. Here are: {self._shown}.",
        )

    @property
    def _shown(self) -> str:
        return ", ".join(sorted(self.names))

    async def asking(self, wanted: Embedding) -> QueryEmbedder | None:
        """Who makes the vectors of queries for such an embedding; nobody if it is none."""
        embedder = await self.find(wanted)
        return None if embedder is None else self._asking.setdefault(wanted, QueryEmbedder(embedder, wanted))

    async def close(self) -> None:
        """Let go of all that were made."""
        for embedder in self._made.values():
            await embedder.close()


def fits(embedder: TextEmbedder, wanted: Embedding) -> bool:
    """Whether an embedder makes vectors like these, as far as is known."""
    return is_same(Embedding("", embedder.name, embedder.dimensions), wanted)


def is_same(one: Embedding, other: Embedding) -> bool:
    """Whether vectors are of one model and length, as far as is known, whatever their embedders are called."""
    same_size = one.dimensions == other.dimensions or not (one.dimensions and other.dimensions)
    return one.model == other.model and same_size


def check_dimensions(name: str, found: int, wanted: int) -> None:
    """Raise ``EmbedderUnavailable`` for vectors of another length than those that are there."""
    if wanted and found != wanted:
        raise EmbedderUnavailable(
            f"The embedder {name!r} makes vectors of {found} numbers, but {wanted} are expected.",
            hint="Check its model and dimensions; `toolcrib kb embed COLLECTION --again` makes all vectors anew.",
        )


def to_unit(rows: Floats, name: str) -> Floats:
    """Rows of length 1 (or 0 for one that says nothing); raises for what cannot be a vector."""
    if not np.isfinite(rows).all():
        raise EmbedderUnavailable(f"The embedder {name!r} made vectors with values that are no numbers.")
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    result: Floats = (rows / np.maximum(lengths, 1e-9)).astype(np.float32)
    return result
