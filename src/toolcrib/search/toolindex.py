"""Finding tools by what they are for: an index over the tools of many servers that changes server by server.

A long query often names several needs; it is then also read clause by clause, and a tool that answers one clause well
counts as an answer. Nothing here knows how a tool is called.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolcrib.search.features import measure
from toolcrib.search.fuse import Fusion, fuse
from toolcrib.search.hybrid import best
from toolcrib.search.lexical import Bm25, Field, Lexical
from toolcrib.search.segment import Entry, Segment
from toolcrib.search.tokens import CAMEL, SEPARATOR, Query, read_query
from toolcrib.search.vectors import Embedder, Vectors, cosines, nearest

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]

TOOL_FIELDS = {
    "name": Field(4.0, 0.3),
    "server": Field(1.0, 0.3),
    "description": Field(1.0, 0.6),
    "parameters": Field(0.5, 0.5),
    "details": Field(0.5, 0.7),
    "values": Field(0.2, 0.5),
}
FORMULA = Bm25(TOOL_FIELDS, k1=2.0)
CLAUSES = re.compile(r"(?<=[.!?;:\n])\s+|\n+|,\s+|\s+(?:and then|then|and|also|after that|finally)\s+", re.IGNORECASE)
LONG = 10  # terms; a shorter query has one need
LEAST_IN_CLAUSE = 3  # terms; less than that is no need of its own
MOST_CLAUSES = 12
CLAUSE_SHARE = 0.4
DEEPEST = 4  # levels of a schema that are read
MOST_VALUES = 20  # of one enumeration
MOST_PARTS = 8
NEAR = 200  # tools whose meaning is compared exactly
READ_FOR_MEANING = 600  # characters; the first sentences say what a tool does


@dataclass(frozen=True, slots=True)
class ToolText:
    """What can be read of a tool before it is called."""

    id: str
    name: str
    description: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict)
    server: str = ""


@dataclass(frozen=True, slots=True)
class _Part:
    """A segment, and for each position the tool's id, the key it was put under, and whether it is still there."""

    segment: Segment
    ids: tuple[str, ...]
    keys: tuple[str, ...]
    alive: Mask


@dataclass(frozen=True, slots=True)
class _Ready:
    """Everything a query needs, made once after a change."""

    ids: list[str]
    alive: Mask
    lexical: Lexical
    vectors: list[Vectors]


class ToolIndex:
    """Tools by server; a server that changes is indexed anew, the others are not touched."""

    def __init__(self, embedder: Embedder | None = None, fusion: Fusion | None = None) -> None:
        self._embedder = embedder
        self._fusion = fusion or Fusion()
        self._parts: list[_Part] = []
        self._made: _Ready | None = None

    def __len__(self) -> int:
        return sum(int(part.alive.sum()) for part in self._parts)

    def put(self, server: str, tools: Sequence[ToolText]) -> None:
        """These are the server's tools from now on; none means that the server is gone."""
        self.put_all({server: tools})

    def put_all(self, servers: Mapping[str, Sequence[ToolText]]) -> None:
        """Several servers at once, which is quicker than one by one."""
        self._parts = [_without(part, servers) for part in self._parts]
        pairs = [(key, tool) for key, tools in servers.items() for tool in tools]
        if pairs:
            self._parts.append(self._index(pairs))
        self._parts = [part for part in self._parts if part.alive.any()]
        if len(self._parts) > MOST_PARTS:
            self._parts = [_merged(self._parts)]
        self._made = None

    def find(self, query: str, k: int, wanted: Collection[str] | None = None) -> list[tuple[str, float]]:
        """The ids of the ``k`` best tools with scores from 0 to 1, best first; of the ``wanted`` ones, if given."""
        ready = self._made = self._made or self._ready()
        if not ready.ids:
            return []
        readings = [read_query(text) for text in (query, *clauses_of(query))]
        whole, *clauses = self._scores(ready, readings)
        if clauses:
            whole = np.float32(1 - CLAUSE_SHARE) * whole + np.float32(CLAUSE_SHARE) * reduce(np.maximum, clauses)
        whole[~ready.alive] = 0
        if wanted is not None:
            whole[[id_ not in wanted for id_ in ready.ids]] = 0
        return [(ready.ids[at], round(min(float(whole[at]), 1.0), 6)) for at in best(whole, k)]

    def _scores(self, ready: _Ready, readings: Sequence[Query]) -> list[Floats]:
        """For each reading of the query the scores of all tools."""
        terms = ready.lexical.look_up(term for reading in readings for term in reading.terms)
        lexical = [ready.lexical.score(terms[term] for term in dict.fromkeys(each.terms)) for each in readings]
        if self._embedder is None:
            return lexical
        rare = {term: terms[term].idf for term in readings[0].terms}
        share = self._fusion.weight(measure(readings[0], rare, len(ready.ids)))
        vectors = self._embedder.embed([reading.text for reading in readings])
        return [fuse(*pair, share) for pair in zip(lexical, _meanings(ready, lexical, vectors), strict=True)]

    def _index(self, pairs: Sequence[tuple[str, ToolText]]) -> _Part:
        entries = [Entry(fields_of(tool)) for _, tool in pairs]
        vectors = None if self._embedder is None else self._embedder.embed([gist_of(tool) for _, tool in pairs])
        ids, keys = tuple(tool.id for _, tool in pairs), tuple(key for key, _ in pairs)
        return _Part(Segment.build(entries, vectors), ids, keys, np.ones(len(pairs), np.bool_))

    def _ready(self) -> _Ready:
        parts = self._parts
        return _Ready(
            [id_ for part in parts for id_ in part.ids],
            np.concatenate([part.alive for part in parts]) if parts else np.zeros(0, np.bool_),
            Lexical([part.segment.postings for part in parts], FORMULA),
            [part.segment.vectors for part in parts if part.segment.vectors is not None],
        )


def _meanings(ready: _Ready, lexical: Sequence[Floats], vectors: Floats) -> list[Floats]:
    """For each reading the cosines of the tools that come into question by words or by meaning; 0 for the others."""
    masks = [None] * len(ready.vectors)
    offsets = np.cumsum([0, *map(len, ready.vectors)])
    found = []
    for words, vector in zip(lexical, vectors, strict=True):
        rows = nearest(ready.vectors, masks, vector, NEAR)
        near = np.concatenate([each + offset for each, offset in zip(rows, offsets, strict=False)])
        is_chosen = np.zeros(len(words), np.bool_)
        is_chosen[near] = True
        is_chosen[best(words, NEAR // 4)] = True
        chosen = np.flatnonzero(is_chosen)
        meaning = np.zeros(len(words), np.float32)
        meaning[chosen] = cosines(ready.vectors, vector, chosen)
        found.append(meaning)
    return found


def fields_of(tool: ToolText) -> dict[str, str]:
    """The texts of a tool by field: what it is called, what it says it does, what it takes."""
    names, details, values = [], [], []
    for name, about in _parameters(tool.schema, DEEPEST):
        names.append(name)
        details.append(str(about.get("description") or ""))
        enumeration = about.get("enum")
        values += [str(value) for value in enumeration[:MOST_VALUES]] if isinstance(enumeration, list) else []
    return {
        "name": tool.name,
        "server": tool.server,
        "description": tool.description,
        "parameters": " ".join(names),
        "details": " ".join(details),
        "values": " ".join(values),
    }


def gist_of(tool: ToolText) -> str:
    """The text a tool's meaning is taken from."""
    name = " ".join(piece for part in SEPARATOR.split(tool.name) for piece in CAMEL.split(part))
    return f"{name}. {tool.description[:READ_FOR_MEANING]}"


def clauses_of(query: str) -> list[str]:
    """The clauses of a long query that can stand for a need of their own; none when there is only one."""
    if len(read_query(query).terms) < LONG:
        return []
    clauses = [clause for clause in CLAUSES.split(query) if len(read_query(clause).terms) >= LEAST_IN_CLAUSE]
    return clauses[:MOST_CLAUSES] if len(clauses) > 1 else []


def _parameters(schema: object, depth: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every property of a schema and of what is nested in it, down to ``depth`` levels."""
    if not isinstance(schema, Mapping) or not depth:
        return
    properties = schema.get("properties")
    for name, about in properties.items() if isinstance(properties, Mapping) else ():
        if isinstance(about, Mapping):
            yield str(name), about
            yield from _parameters(about, depth - 1)
            yield from _parameters(about.get("items"), depth - 1)


def _without(part: _Part, servers: Mapping[str, object]) -> _Part:
    alive = part.alive & np.array([key not in servers for key in part.keys], np.bool_)
    return _Part(part.segment, part.ids, part.keys, alive)


def _merged(parts: Sequence[_Part]) -> _Part:
    kept = [
        (id_, key) for part in parts for id_, key, alive in zip(part.ids, part.keys, part.alive, strict=True) if alive
    ]
    segment = Segment.merge([part.segment for part in parts], [part.alive for part in parts])
    return _Part(segment, tuple(id_ for id_, _ in kept), tuple(key for _, key in kept), np.ones(len(kept), np.bool_))
