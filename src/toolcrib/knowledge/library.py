"""The knowledge base as the tools and the command line use it: one store, one index, and toolcrib's own documents."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from toolcrib.core.errors import DamagedIndex, KnowledgeUnavailable, UnknownDocument, UnreadableSource
from toolcrib.core.knowledge import Document, KnowledgeStore, Passage, Text
from toolcrib.knowledge.compact import reindex
from toolcrib.knowledge.index import Index
from toolcrib.knowledge.ingest import Ingest, ParseForeign
from toolcrib.knowledge.parse.parsed import Parsed
from toolcrib.knowledge.retrieve import Findings, Retriever, Search
from toolcrib.knowledge.survey import Adding, Root

if TYPE_CHECKING:
    from toolcrib.search.vectors import Embedder

OWN = "toolcrib"
OWN_DESCRIPTION = "How toolcrib works: its own documentation."


@dataclass(frozen=True, slots=True)
class OwnDocuments:
    """toolcrib's documentation, of one version."""

    roots: tuple[Root, ...]
    version: str


async def refuse_foreign(kind: str, content: bytes) -> Parsed:
    """A parser for where nothing foreign is expected."""
    del content
    raise UnreadableSource(f"{kind} is not read here")


class Library:
    """An open knowledge base."""

    def __init__(
        self,
        store: KnowledgeStore,
        load_embedder: "Callable[[], Embedder | None]",
        own: OwnDocuments | None = None,
        parse_foreign: ParseForeign = refuse_foreign,
    ) -> None:
        self.store = store
        self._load_embedder, self._own, self._parse_foreign = load_embedder, own, parse_foreign
        self._opening = asyncio.Lock()
        self._retriever: Retriever | None = None
        self.embedder: Embedder | None = None
        self.ingest: Ingest | None = None

    async def open(self) -> "Library":
        """Ready to be searched; the first time, toolcrib's own documents are brought up to date."""
        async with self._opening:
            if self._retriever is None:
                self.embedder = await asyncio.to_thread(self._load_embedder)
                self.ingest = Ingest(self.store, self.embedder, self._parse_foreign)
                await self._add_own(self.ingest)
                self._retriever = Retriever(self.store, Index(self.store, self.embedder))
        return self

    async def _add_own(self, ingest: Ingest) -> None:
        """Where nothing can be written, what is there must do."""
        if self._own is None:
            return
        wanted = Adding(OWN, licence="Apache-2.0", version=self._own.version)
        with suppress(KnowledgeUnavailable):
            await ingest.add(self._own.roots, wanted)
            (known,) = [each for each in await self.store.collections() if each.id == OWN]
            if not known.description:
                await self.store.put_collection(replace(known, description=OWN_DESCRIPTION))

    async def search(self, search: Search) -> Findings:
        """The best passages; an index that another version of toolcrib wrote is made anew from the texts."""
        await self.open()
        assert self._retriever is not None
        try:
            return await self._retriever.search(search)
        except DamagedIndex:
            await self.reindex(search.collections)
            return await self._retriever.search(search)

    async def reindex(self, collections: Sequence[str]) -> None:
        """Build the index of these collections anew from the texts that are kept."""
        await self.open()
        for known in await self.store.collections():
            if known.id in collections:
                await reindex(self.store, known.id, self.embedder)
                model = (self.embedder.name, self.embedder.dimensions) if self.embedder else ("", 0)
                await self.store.put_collection(replace(known, embedder=model[0], dimensions=model[1]))

    async def read(self, document: str) -> tuple[Document, Text]:
        """A document with its text; raises ``UnknownDocument``."""
        await self.open()
        found, kept = await self.store.document(document), await self.store.text(document)
        if found is None or kept is None:
            raise UnknownDocument(
                f"No document {document[:100]!r}.", hint="Take document_id from a result of kb.hybrid_search."
            )
        return found, kept

    async def passage(self, chunk: str) -> "Resolved":
        """The passage a citation means, wherever it stands now."""
        await self.open()
        document, ordinal, check = split_chunk_id(chunk)
        found = await self.store.document(document)
        passages = await self.store.passages(document) if found is not None else []
        if found is None or not passages:
            return Resolved("missing")
        if ordinal < len(passages) and passages[ordinal].check == check:
            return Resolved("stands", found, passages[ordinal])
        moved = next((passage for passage in passages if passage.check == check), None)
        if moved is not None:
            return Resolved("moved", found, moved)
        return Resolved("changed", found, passages[min(ordinal, len(passages) - 1)])

    async def close(self) -> None:
        """Let go of the store."""
        await self.store.close()


@dataclass(frozen=True, slots=True)
class Resolved:
    """What became of a cited passage: ``stands``, ``moved`` (elsewhere in its document), ``changed``, ``missing``."""

    status: str
    document: Document | None = None
    passage: Passage | None = None


def split_chunk_id(chunk: str) -> tuple[str, int, str]:
    """Document, ordinal and check of a passage id; what is none means nothing that exists."""
    document, _, rest = chunk.strip().partition("-")
    ordinal, _, check = rest.partition("-")
    return document, int(ordinal) if ordinal.isdecimal() and len(ordinal) < 10 else 0, check


def own_documents(package: Path, version: str) -> OwnDocuments | None:
    """Where this installation has its documentation: inside the package, or beside it in a checkout."""
    shipped = package / "_docs"
    if shipped.is_dir():
        return OwnDocuments((Root(shipped, OWN),), version)
    checkout = package.parent.parent
    if (checkout / "docs").is_dir() and (checkout / "pyproject.toml").is_file():
        roots: Sequence[Root] = (Root(checkout / "README.md", OWN), Root(checkout / "docs", f"{OWN}/docs"))
        return OwnDocuments(tuple(root for root in roots if root.path.exists()), version)
    return None
