"""Finding tools by what they are for: an index over the tools of many servers that changes server by server.

A long query often names several needs; it is then also read clause by clause, and a tool that answers one clause well
counts as an answer. What is found depends on the tools that are there, not on the order in which they came. Nothing
here knows how a tool is called.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolcrib.search.hybrid import Fusion, Segment, best, fuse, measure
from toolcrib.search.lexical import Bm25, FieldWeight, Lexical
from toolcrib.search.tokens import CAMEL, SEPARATOR, ParsedQuery, read_query
from toolcrib.search.vectors import Embedder, Floats, Mask, Vectors, cosines, nearest

Positions = NDArray[np.intp]

TOOL_FIELDS = {
    "name": FieldWeight(4.0, 0.3),
    "server": FieldWeight(1.0, 0.3),
    "description": FieldWeight(1.0, 0.6),
    "parameters": FieldWeight(1.0, 0.5),
    "details": FieldWeight(1.0, 0.7),
    "values": FieldWeight(0.2, 0.5),
}
FORMULA = Bm25(TOOL_FIELDS, k1=2.0)
FUSION = Fusion(vector=0.28)
CLAUSES = re.compile(r"(?<=[.!?;:\n])\s+|\n+|,\s+|\s+(?:and then|then|and|also|after that|finally)\s+", re.IGNORECASE)
LONG = 14  # terms; a shorter query has one need
LEAST_IN_CLAUSE = 4  # terms; less than that is no need of its own
MOST_CLAUSES = 12
CLAUSE_SHARE = np.float32(0.4)
NAME_SHARE = np.float32(0.5)  # of a tool's meaning, beside what its description says
OBJECT = (dict, Mapping)  # most are the first, which is told quickly
DEEPEST = 4  # levels of a schema that are read
MOST_VALUES = 20  # of one enumeration
MOST_PARTS = 8
NEAR = 100  # tools whose meaning is compared exactly
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
    """A segment, and for each position the tool's id and the key it was put under."""

    segment: Segment
    ids: tuple[str, ...]
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Ready:
    """Everything a query needs, made once after a change."""

    ids: list[str]
    ranks: Positions  # of each id, in alphabetical order
    lexical: Lexical
    vectors: list[Vectors]


class ToolIndex:
    """Tools by server; a server that changes is indexed anew, the others are not touched."""

    def __init__(self, embedder: Embedder | None = None, fusion: Fusion | None = None) -> None:
        self._embedder = embedder
        self._fusion = fusion or FUSION
        self._parts: list[_Part] = []
        self._made: _Ready | None = None

    def __len__(self) -> int:
        return sum(len(part.ids) for part in self._parts)

    def put(self, server: str, tools: Sequence[ToolText]) -> None:
        """These are the server's tools from now on; none means that the server is gone."""
        self.put_all({server: tools})

    def drop(self, server: str) -> None:
        """The server is gone, and its tools with it."""
        self.put_all({server: ()})

    def put_all(self, servers: Mapping[str, Sequence[ToolText]]) -> None:
        """Several servers at once, which is quicker than one by one."""
        parts = [_without(part, servers) for part in self._parts]
        pairs = [(key, tool) for key, tools in servers.items() for tool in tools]
        if pairs:
            parts.append(self._index(pairs))
        parts = [part for part in parts if part.ids]
        self._parts = [_merged(parts, [None] * len(parts))] if len(parts) > MOST_PARTS else parts
        self._made = None

    def find(self, query: str, k: int, wanted: Collection[str] | None = None) -> list[tuple[str, float]]:
        """The ids of the ``k`` best tools with scores from 0 to 1, best first, equal ones by id.

        Of the ``wanted`` ones, if given: the others take no place at any stage.
        """
        ready = self._made = self._made or self._ready()
        if not ready.ids:
            return []
        allowed = None if wanted is None else np.array([id_ in wanted for id_ in ready.ids], np.bool_)
        whole, *clauses = self._scores(ready, [read_query(text) for text in (query, *clauses_of(query))], allowed)
        scores = _with_clauses(whole, clauses)
        chosen = best(scores, k)
        if len(chosen):
            chosen = np.flatnonzero(scores >= scores[chosen[-1]])
            chosen = chosen[np.lexsort((ready.ranks[chosen], -scores[chosen]))][:k]
        return [(ready.ids[at], round(min(float(scores[at]), 1.0), 6)) for at in chosen]

    def _scores(self, ready: _Ready, readings: Sequence[ParsedQuery], allowed: Mask | None) -> list[Floats]:
        """For each reading of the query the scores of all tools."""
        terms = ready.lexical.look_up(term for reading in readings for term in reading.terms)
        lexical = [ready.lexical.score(terms[term] for term in dict.fromkeys(each.terms)) for each in readings]
        if allowed is not None:
            lexical = [each * allowed for each in lexical]
        if self._embedder is None:
            return lexical
        rare = [{term: terms[term].idf for term in reading.terms} for reading in readings]
        size = len(ready.ids)
        shares = [self._fusion.weight(measure(*each, size)) for each in zip(readings, rare, strict=True)]
        vectors = self._embedder.embed([reading.text for reading in readings])
        meanings = [_meaning(ready, *each, allowed) for each in zip(lexical, vectors, strict=True)]
        return [fuse(*each) for each in zip(lexical, meanings, shares, strict=True)]

    def _index(self, pairs: Sequence[tuple[str, ToolText]]) -> _Part:
        tools = [tool for _, tool in pairs]
        vectors = None if self._embedder is None else meanings_of(tools, self._embedder)
        segment = Segment.build([fields_of(tool) for tool in tools], vectors)
        return _Part(segment, tuple(tool.id for tool in tools), tuple(key for key, _ in pairs))

    def _ready(self) -> _Ready:
        parts = self._parts
        ids = [id_ for part in parts for id_ in part.ids]
        ranks = np.empty(len(ids), np.intp)
        ranks[sorted(range(len(ids)), key=ids.__getitem__)] = np.arange(len(ids))
        vectors = [part.segment.vectors for part in parts if part.segment.vectors is not None]
        return _Ready(ids, ranks, Lexical([part.segment.postings for part in parts], FORMULA), vectors)


def _meaning(ready: _Ready, words: Floats, vector: Floats, allowed: Mask | None) -> Floats:
    """The cosines of the tools that come into question by words or by meaning; 0 for the others."""
    offsets = np.cumsum([0, *map(len, ready.vectors)])
    masks = [None if allowed is None else allowed[start:end] for start, end in pairwise(offsets)]
    rows = nearest(ready.vectors, masks, vector, NEAR)
    is_chosen = np.zeros(len(words), np.bool_)
    for each, offset in zip(rows, offsets, strict=False):
        is_chosen[each + offset] = True
    is_chosen[best(words, NEAR // 2)] = True
    chosen = np.flatnonzero(is_chosen)
    meaning = np.zeros(len(words), np.float32)
    meaning[chosen] = cosines(ready.vectors, vector, chosen)
    return meaning


def _with_clauses(whole: Floats, clauses: Sequence[Floats]) -> Floats:
    """What answers the whole query or one of its clauses; weak clauses are lifted, so that each need has its say."""
    highest = [float(each.max()) for each in clauses]
    strongest = max(highest, default=0.0)
    if not strongest:
        return whole
    level = float(whole.max()) / strongest**0.5
    of_clauses = np.zeros_like(whole)
    for each, high in zip(clauses, highest, strict=True):
        np.maximum(of_clauses, each * np.float32(level / max(high, 1e-9) ** 0.5), out=of_clauses)
    result: Floats = (1 - CLAUSE_SHARE) * whole + CLAUSE_SHARE * of_clauses
    return result


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


def meanings_of(tools: Sequence[ToolText], embedder: Embedder) -> Floats:
    """What each tool is for, as a vector: its name counts the same however long its description is."""
    names = embedder.embed([_spoken(f"{tool.server} {tool.name}") for tool in tools])
    texts = embedder.embed([tool.description[:READ_FOR_MEANING] for tool in tools])
    sums = NAME_SHARE * names + texts
    result: Floats = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), np.float32(1e-9))
    return result


def _spoken(name: str) -> str:
    return " ".join(piece for part in SEPARATOR.split(name) for piece in CAMEL.split(part))


def clauses_of(query: str) -> list[str]:
    """The clauses of a long query that can stand for a need of their own; none when there is only one."""
    if len(read_query(query).terms) < LONG:
        return []
    clauses = [clause for clause in CLAUSES.split(query) if len(read_query(clause).terms) >= LEAST_IN_CLAUSE]
    return clauses[:MOST_CLAUSES] if len(clauses) > 1 else []


def _parameters(schema: object, depth: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every property of a schema and of what is nested in it, down to ``depth`` levels."""
    properties = schema.get("properties") if depth and isinstance(schema, OBJECT) else None
    if not isinstance(properties, OBJECT):
        return
    for name, about in properties.items():
        if isinstance(about, OBJECT):
            yield str(name), about
            if "properties" in about:
                yield from _parameters(about, depth - 1)
            if "items" in about:
                yield from _parameters(about["items"], depth - 1)


def _without(part: _Part, servers: Mapping[str, object]) -> _Part:
    """What remains when these servers are gone; nothing is read again."""
    is_kept = np.array([key not in servers for key in part.keys], np.bool_)
    return part if is_kept.all() else _merged([part], [is_kept])


def _merged(parts: Sequence[_Part], keeps: Sequence[Mask | None]) -> _Part:
    pairs = [pair for part, keep in zip(parts, keeps, strict=True) for pair in _kept(part, keep)]
    segment = Segment.merge([part.segment for part in parts], keeps)
    return _Part(segment, tuple(id_ for id_, _ in pairs), tuple(key for _, key in pairs))


def _kept(part: _Part, keep: Mask | None) -> Iterable[tuple[str, str]]:
    pairs = zip(part.ids, part.keys, strict=True)
    return pairs if keep is None else compress(pairs, keep)
