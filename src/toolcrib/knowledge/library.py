"""The knowledge base as the tools and the command line use it: one store, one index, and toolcrib's own documents."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from msgspec import structs

from toolcrib.core.errors import (
    DamagedIndex,
    EmbedderUnavailable,
    KnowledgeUnavailable,
    UnknownDocument,
    UnreadableSource,
)
from toolcrib.core.events import Emit, drop
from toolcrib.core.knowledge import (
    OWN_COLLECTION,
    Collection,
    CollectionChange,
    CollectionCounts,
    DocumentInfo,
    DocumentText,
    KnowledgeStore,
    Passage,
    document_id,
)
from toolcrib.core.network import Network
from toolcrib.knowledge.builder import compact, reindex
from toolcrib.knowledge.embedding import Embedders
from toolcrib.knowledge.fill import (
    Background,
    OnFilling,
    choose_embedder,
    fill,
    find_collection,
    vector_complaints,
)
from toolcrib.knowledge.index import Index, check_collections
from toolcrib.knowledge.ingest import Ingest, put, work
from toolcrib.knowledge.parse.parsed import Parsed
from toolcrib.knowledge.parse.reading import Parsers
from toolcrib.knowledge.queued import AdditionReport, OnProgress
from toolcrib.knowledge.retrieve import Retriever, Search, SearchResults
from toolcrib.knowledge.survey import Adding, AllowedFolders, FileCandidate, Page, SourceRoot, fetch, is_address, opened
from toolcrib.knowledge.transfer import HINT, ExportedPart, Imported, OnRead, export_part, import_lines
from toolcrib.search.hybrid import Segment
from toolcrib.search.vectors import Embedder

OWN = OWN_COLLECTION
OWN_DESCRIPTION = "How toolcrib works: its own documentation."


@dataclass(frozen=True, slots=True)
class OwnDocuments:
    """toolcrib's documentation, of one version."""

    roots: tuple[SourceRoot, ...]
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
        load_embedder: Callable[[], Embedder | None],
        own: OwnDocuments | None = None,
        parsers: Parsers | None = None,
        embedders: Embedders | None = None,
        add_from: AllowedFolders = AllowedFolders(),  # noqa: B008 - it is immutable
    ) -> None:
        self.store = store
        self._embedders, self._add_from = embedders, add_from
        self._background: Background | None = None
        self._load_embedder, self._own, self._parsers = load_embedder, own, parsers
        self._opening = asyncio.Lock()
        self._retriever: Retriever | None = None
        self.embedder: Embedder | None = None
        """Compares sentences with each other, whatever makes the vectors of the collections."""
        self.ingest: Ingest | None = None
        self.emit: Emit = drop
        """Hears of what went another way than it should have, without harm."""
        self.network: Network | None = None
        """The way to pages; ``None`` leaves it to the environment of this process."""

    async def open(self) -> "Library":
        """Ready to be searched; the first time, toolcrib's own documents are brought up to date."""
        async with self._opening:
            if self._retriever is None:
                self.embedder = await asyncio.to_thread(self._load_embedder)
                self._embedders = self._embedders or Embedders.of(self.embedder)
                fetch_page = partial(fetch, network=self.network)
                self.ingest = Ingest(self.store, self._embedders, self._parsers or refuse_foreign, fetch_page)
                self.ingest.emit = self.emit
                await self._add_own(self.ingest)
                self._retriever = Retriever(self.store, Index(self.store, self._embedders))
        return self

    @property
    def embedders(self) -> Embedders:
        """Who can make vectors here; the library must be open."""
        assert self._embedders is not None
        return self._embedders

    async def fill_in_background(self) -> None:
        """From now until it is closed, make vectors that are missing while nobody waits for them."""
        await self.open()
        if self._background is None:
            self._background = Background(self.store, self.embedders)
            self._background.start()

    async def fill(self, collection: str, on_filling: OnFilling = lambda _: None) -> None:
        """Make the vectors that a collection lacks, now; raises ``EmbedderUnavailable``."""
        await self.open()
        await fill(self.store, self.embedders, collection, on_filling)

    async def complaints(self, collection: Collection, held: CollectionCounts) -> list[str]:
        """What keeps a collection from being searched by meaning as it should be."""
        if self._background is not None:
            await self._background.look()
        return await vector_complaints(self.embedders, collection, held)

    async def _add_own(self, ingest: Ingest) -> None:
        """Where nothing can be written, what is there must do."""
        if self._own is None:
            return
        wanted = Adding(OWN, licence="Apache-2.0", version=self._own.version)
        with suppress(KnowledgeUnavailable):
            at_hand = await self.embedders.at_hand()
            named = {each.id: each.embedder_name for each in await self.store.collections()}
            await ingest.add(self._own.roots, wanted if named.get(OWN) else replace(wanted, embedder=at_hand))
            (known,) = [each for each in await self.store.collections() if each.id == OWN]
            if known.coming is not None and known.coming.name == at_hand:
                await fill(self.store, self.embedders, OWN)
            if not known.description:
                await self.store.put_collection(structs.replace(known, description=OWN_DESCRIPTION))

    async def search(self, search: Search) -> SearchResults:
        """The best passages; an index that another version of toolcrib wrote is made anew from the texts."""
        await self.open()
        assert self._retriever is not None
        if self._background is not None:
            await self._background.look()
        try:
            return await self._retriever.search(search)
        except DamagedIndex:
            await self.reindex(search.collections)
            return await self._retriever.search(search)

    async def add(
        self, sources: Sequence[str], wanted: Adding, on_progress: OnProgress, on_filling: OnFilling
    ) -> AdditionReport:
        """Bring a collection up to date with files, folders and pages, and make the vectors it lacks."""
        roots, pages = await asyncio.to_thread(self._split, sources)
        report = await self._opened_ingest().add(roots, wanted, on_progress, pages)
        if not report.trouble:
            try:
                await self.fill(wanted.collection, on_filling)
            except EmbedderUnavailable as error:
                report.trouble = str(error)
        return report

    async def add_later(self, sources: Sequence[str], wanted: Adding) -> int:
        """Leave it to workers; how many sources they have to look at."""
        roots, pages = await asyncio.to_thread(self._split, sources)
        return await put(self._opened_ingest(), roots, wanted, pages)

    def _opened_ingest(self) -> Ingest:
        assert self.ingest is not None
        return self.ingest

    def _split(self, sources: Sequence[str]) -> tuple[list[SourceRoot], list[Page]]:
        """Paths, as far as documents may be added from there, and addresses."""
        paths = [source for source in sources if not is_address(source)]
        roots = [self._add_from.find(path) for path in paths]
        return roots, [Page(source) for source in sources if is_address(source)]

    def work(
        self, below: Sequence[Path], collection: str | None, on_progress: OnProgress
    ) -> AsyncIterator[AdditionReport]:
        """Take part in what others left to workers; files are read only below some folders."""
        return work(self._opened_ingest(), below, collection, on_progress)

    async def export(self, collections: Sequence[str], after: str, most: int) -> ExportedPart:
        """Some documents of these collections as they are written down; of all collections, if none is named."""
        await check_collections(self.store, collections)
        chosen = collections or [each.id for each in await self.store.collections()]
        return await export_part(self.store, chosen, after, most)

    async def import_file(self, source: str, on_read: OnRead, on_filling: OnFilling) -> Imported:
        """Take in the documents of a file that an export was written to, and make the vectors they lack."""
        root = await asyncio.to_thread(self._add_from.find, source)
        if root.within is None or root.path.is_dir():
            raise UnreadableSource(f"{source[:200]!r} is a folder.", hint=HINT)
        candidate = FileCandidate(root.within, root.path.relative_to(root.within).parts)
        with opened(candidate) as (descriptor, status), os.fdopen(descriptor, "rb", closefd=False) as file:
            imported = await import_lines(self.store, self.embedders, file, partial(on_read, status.st_size))
        try:
            for collection in imported.collections:
                await self.fill(collection, on_filling)
        except EmbedderUnavailable as error:
            imported.trouble = str(error)
        return imported

    async def damaged(self) -> dict[str, str]:
        """Collections with a part of the index that cannot be read, and why."""
        found: dict[str, str] = {}
        for record in await self.store.segments():
            encoded = await self.store.segment_bytes(record.id)
            try:
                size = record.size if encoded is None else len(Segment.from_bytes(encoded))
            except DamagedIndex as error:
                found[record.collection] = str(error)
                continue
            if size != record.size:
                found[record.collection] = f"A part of its index has {size} passages instead of {record.size}."
        return found

    async def remove(self, collection: str, names: Sequence[str] | None) -> int:
        """Take documents out, by ids, sources or folders, or the whole collection; how many left."""
        await self.open()
        known = await self.store.documents((await find_collection(self.store, collection)).id)
        if names is None:
            await self.store.remove_collection(collection)
            return len(known)
        chosen: dict[str, None] = {}
        for name in names:
            if not (found := _named(known, name, self._add_from.base)):
                raise UnknownDocument(f"No document {name[:200]!r} in {collection!r}.", hint="See `toolcrib kb ls`.")
            chosen |= dict.fromkeys(found)
        await self.store.apply(CollectionChange(collection, removals=tuple(chosen)))
        await compact(self.store, collection, drop_dead=True)
        return len(chosen)

    async def choose_embedder(self, collection: str, name: str, *, again: bool) -> None:
        """Have a collection's vectors made by another embedder; without a name, by the one it has or was to get."""
        await self.open()
        known = await find_collection(self.store, collection)
        name = name or (known.coming or known.embedding).name or self.embedders.default
        await choose_embedder(self.store, self.embedders, known.id, name, again=again)

    async def reindex(self, collections: Sequence[str]) -> None:
        """Build the index of these collections anew from the texts that are kept."""
        await self.open()
        for known in await self.store.collections():
            if known.id in collections:
                await self.rebuild(known.id)
                with suppress(EmbedderUnavailable):  # then words do, and the vectors follow later
                    await self.fill(known.id)

    async def rebuild(self, collection: str) -> None:
        """Build the index of one collection anew, without making vectors."""
        await reindex(self.store, await find_collection(self.store, collection))

    async def read(self, document: str) -> tuple[DocumentInfo, DocumentText]:
        """A document with its text; raises ``UnknownDocument``."""
        await self.open()
        found = await self.store.document(document) or await self._by_source(document)
        kept = None if found is None else await self.store.text(found.id)
        if found is None or kept is None:
            raise UnknownDocument(
                f"No document {document[:100]!r}.", hint="Take document_id from a result of kb_hybrid_search."
            )
        return found, kept

    async def _by_source(self, source: str) -> DocumentInfo | None:
        """The document of a path or address, in whichever collection."""
        for collection in await self.store.collections():
            if (found := await self.store.document(document_id(collection.id, source))) is not None:
                return found
        return None

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
        """Let go of the store, and of whoever made vectors."""
        if self._background is not None:
            await self._background.close()
        if self.ingest is not None:
            await self.ingest.close()
        if self._embedders is not None:
            await self._embedders.close()
        if self._parsers is not None:
            self._parsers.close()
        await self.store.close()


def _named(known: Sequence[DocumentInfo], name: str, base: Path) -> list[str]:
    """Ids of the documents that a name means: an id, a source, or a folder of sources."""
    path = os.path.normpath(base / name)
    return [
        document.id
        for document in known
        if document.id == name
        or document.source in (name, path)
        or document.source.startswith((f"{path}/", f"{name.rstrip('/')}/"))
    ]


@dataclass(frozen=True, slots=True)
class Resolved:
    """What became of a cited passage: ``stands``, ``moved`` (elsewhere in its document), ``changed``, ``missing``."""

    status: str
    document: DocumentInfo | None = None
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
        return OwnDocuments((SourceRoot(shipped, OWN),), version)
    checkout = package.parent.parent
    if (checkout / "docs").is_dir() and (checkout / "pyproject.toml").is_file():
        roots: Sequence[SourceRoot] = (
            SourceRoot(checkout / "README.md", OWN),
            SourceRoot(checkout / "docs", f"{OWN}/docs"),
        )
        return OwnDocuments(tuple(root for root in roots if root.path.exists()), version)
    return None
