"""Files become documents: read, parsed, cut, indexed and stored, some at a time, each time all or nothing.

Whatever was stored stays if the work is interrupted, and is not done again when it is taken up.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePath
from typing import TypeGuard

from msgspec import structs

from toolcrib.core.errors import ConfigError, EmbedderUnavailable, UnreadableSource
from toolcrib.core.events import Emit, drop
from toolcrib.core.knowledge import (
    Arrival,
    Collection,
    CollectionChange,
    DocumentInfo,
    JobBatch,
    JobQueue,
    KnowledgeStore,
    Stamp,
    document_id,
)
from toolcrib.knowledge.builder import Builder, Compaction, Relay, Spare, compact
from toolcrib.knowledge.chunk import chunk
from toolcrib.knowledge.embedding import Embedders
from toolcrib.knowledge.fill import Arriving, choose_embedder
from toolcrib.knowledge.parse.parsed import FOREIGN, SAMPLE, Parsed, to_utc, type_of
from toolcrib.knowledge.parse.reading import parse, size_max
from toolcrib.knowledge.queued import (
    AdditionReport,
    Intake,
    OnProgress,
    Progress,
    Source,
    Worker,
    adding_of,
    at_once,
    errand_of,
)
from toolcrib.knowledge.survey import (
    YOUNG_NS,
    Adding,
    Content,
    FileCandidate,
    Known,
    Page,
    Skipped,
    SourceRoot,
    fetch,
    read,
    survey,
)
from toolcrib.search.vectors import Embedder


async def take_turns(
    ingest: "Ingest", intake: Intake, roots: Sequence[SourceRoot], sources: Sequence[Source], gone: Sequence[str]
) -> None:
    """Add sources together with whoever comes; what others did counts, too."""
    errand = errand_of(intake.wanted)
    async with Worker(_queue_of(ingest.store), [root.path for root in roots]) as worker:
        await worker.put(intake.wanted, sources)
        await ingest.take_in(_with(worker, intake, errand), worker.groups(errand), gone)
        intake.report.skipped += worker.given_up
    told = intake.seen | {each.source for each in worker.given_up}
    others = [each.source for each in sources if each.source not in told]
    if others:
        _count(others, intake, await ingest.store.stamps(intake.wanted.collection))


def _count(others: Sequence[str], intake: Intake, done: Known) -> None:
    """Report what became of the sources that other workers had."""
    report, known = intake.report, intake.known
    for source in others:
        if source not in done:
            report.skipped.append(Skipped(source, "another worker could not read it"))
        elif source not in known:
            report.added += 1
        else:
            report.changed += done[source][1].hash != known[source][1].hash


async def put(ingest: "Ingest", roots: Sequence[SourceRoot], wanted: Adding, pages: "Sequence[Page]" = ()) -> int:
    """Leave it to workers to bring a collection up to date; how many sources they have to look at."""
    jobs = _queue_of(ingest.store)
    await ingest.prepare_collection(wanted)
    known = await ingest.store.stamps(wanted.collection)
    found = await asyncio.to_thread(survey, roots, known, wanted)
    if found.gone:
        await ingest.store.apply(CollectionChange(wanted.collection, removals=tuple(found.gone)))
    sources: list[Source] = [*found.to_read, *pages]
    await Worker(jobs).put(wanted, sources)
    return len(sources)


async def work(
    ingest: "Ingest",
    below: Sequence[Path],
    collection: str | None = None,
    on_progress: OnProgress = lambda _: None,
) -> AsyncIterator[AdditionReport]:
    """Take part in what is to be added, until nothing is left that can be read here; a report for each addition.

    Files are read only below some folders.
    """
    async with Worker(_queue_of(ingest.store), below) as worker:
        while (errand := await worker.find(collection)) is not None:
            began, report, before = time.monotonic(), AdditionReport(errand.collection), len(worker.elsewhere)
            known = await ingest.store.stamps(errand.collection)
            intake = Intake(adding_of(errand), known, report, 0, on_progress)
            await ingest.take_in(_with(worker, intake, errand), worker.groups(errand), ())
            await ingest.tidy(report)
            report.seconds = time.monotonic() - began
            report.skipped += worker.given_up
            worker.given_up, report.left = [], len(worker.elsewhere) - before
            yield report


def _with(worker: Worker, intake: Intake, errand: JobBatch) -> Intake:
    return replace(intake, finish=partial(worker.finish, errand), hand_over=worker.hand_over)


def _queue_of(store: KnowledgeStore) -> JobQueue:
    if store.jobs is None:
        raise ConfigError(
            "Only a knowledge base in the shared database has workers beside the one that adds.",
            hint="Set [store] url, and leave [kb] path out.",
        )
    return store.jobs


PASSAGES_AT_ONCE = 4000
SECONDS_AT_ONCE = 1.0
FEWER = 4  # steps, where several workers would make many small parts of the index
UNDER_WAY = 2
"""Batches that are indexed and stored while the next one is read."""
AHEAD = 4
FILES_AT_ONCE = 64
BYTES_AT_ONCE = 4_000_000

ParseForeign = Callable[[str, bytes], Awaitable[Parsed]]
FetchPage = Callable[[Page], Awaitable[Content]]


@dataclass(frozen=True, slots=True)
class _Same:
    """A file whose bytes are what they were, with newer signs."""

    source: str
    document: str
    stamp: Stamp


@dataclass(frozen=True, slots=True)
class _Foreign:
    """What is parsed in a process of its own."""

    candidate: FileCandidate | Page
    kind: str
    content: bytes
    stamp: Stamp


_Outcome = Arrival | _Same | Skipped
_Taken = _Outcome | _Foreign | Page


class Ingest:
    """Adds documents to a store; one addition to a collection at a time."""

    def __init__(
        self,
        store: KnowledgeStore,
        embedder: Embedders | Embedder | None,
        parse_foreign: ParseForeign,
        fetch_page: FetchPage = fetch,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.store, self._embedders, self._clock_ns = store, Embedders.of(embedder), clock_ns
        self._parse_foreign, self._fetch_page = parse_foreign, fetch_page
        self._spare = Spare()
        self.emit: Emit = drop
        """Hears of what went another way than it should have, without harm."""

    async def add(
        self,
        roots: Sequence[SourceRoot],
        wanted: Adding,
        on_progress: OnProgress = lambda _: None,
        pages: Sequence[Page] = (),
    ) -> AdditionReport:
        """Bring a collection up to date with what is below the roots and on the pages; a new collection is made."""
        began = time.monotonic()
        report = AdditionReport(wanted.collection)
        await self.prepare_collection(wanted)
        known = await self.store.stamps(wanted.collection)
        found = await asyncio.to_thread(survey, roots, known, wanted)
        report.unchanged, report.skipped = found.unchanged, list(found.skipped)
        to_read: list[FileCandidate | Page] = [*found.to_read, *pages]
        intake = Intake(wanted, known, report, len(to_read), on_progress)
        if self.store.jobs is None or any(root.label for root in roots):
            await self.take_in(intake, at_once(to_read), found.gone)
        else:
            await take_turns(self, intake, roots, to_read, found.gone)
        await self.tidy(report)
        report.seconds = time.monotonic() - began
        return report

    async def take_in(
        self, intake: Intake, groups: AsyncIterator[Sequence[FileCandidate | Page]], gone: Sequence[str]
    ) -> None:
        """Read, parse, index and store, some at a time."""
        wanted, known, report, began = intake.wanted, intake.known, intake.report, time.monotonic()
        patience_s = SECONDS_AT_ONCE * (1 if self.store.remote is None else FEWER)
        batch, passages, done = _Batch(patience_s, removals=list(gone)), 0, 0
        async with (
            Builder(self.emit, self._spare) as builder,
            Compaction(self.store, wanted.collection, builder.merge) as compaction,
            Relay(UNDER_WAY) as relay,
        ):
            arriving = Arriving(self.store, self._embedders, wanted.collection, builder, compaction.nudge)
            async for outcome in self._prepared(groups, known, wanted):
                if outcome is not None:
                    done += 1
                    passages += batch.take(outcome, known, report)
                    intake.seen.add(outcome.document.source if isinstance(outcome, Arrival) else outcome.source)
                    intake.on_progress(Progress(done, intake.total, passages, time.monotonic() - began))
                if self.store.remote is None and outcome is not None and _is_long(passages, done / intake.total):
                    builder.want()
                if outcome is None or (batch.is_full and done != intake.total):
                    await self._send(batch, intake, arriving, relay)
                    batch = _Batch(patience_s)
            await self._send(batch, intake, arriving, relay)
        report.trouble = arriving.trouble

    async def tidy(self, report: AdditionReport) -> None:
        """Have the index follow what was added."""
        await compact(self.store, report.collection, drop_dead=bool(report.removed or report.changed))
        if self.store.remote is not None:
            await self.store.remote.tidy(report.collection)

    async def close(self) -> None:
        """Let go of what is kept for the next addition."""
        await self._spare.close()

    async def prepare_collection(self, wanted: Adding) -> None:
        """Make it if it is new; if another model is to make its vectors, note that they have to be made anew."""
        name = wanted.collection
        known = {collection.id: collection for collection in await self.store.collections()}.get(name)
        if known is None:
            made = await self._embedders.embedding(wanted.embedder or self._embedders.default)
            created = to_utc(self._clock_ns() / 1e9)
            new = Collection(name, name, "", {}, made.model, made.dimensions, created, made.name)
            await self.store.put_collection(new)
        elif wanted.embedder:
            await choose_embedder(self.store, self._embedders, name, wanted.embedder)
        elif (usual := (known.coming or known.embedding).name or self._embedders.default) in self._embedders.names:
            with suppress(EmbedderUnavailable):  # then what comes in waits for its vectors
                await choose_embedder(self.store, self._embedders, name, usual)

    async def _prepared(
        self, groups: AsyncIterator[Sequence[FileCandidate | Page]], known: Known, wanted: Adding
    ) -> AsyncIterator[_Outcome | None]:
        """Each candidate in order: files are taken some at a time, and a few that need waiting are worked on ahead.

        After an empty group comes nothing, once all before it are there.
        """
        waiting: deque[asyncio.Task[_Outcome]] = deque()
        try:
            async for group in groups:
                left = iter(group)
                while some := await asyncio.to_thread(self._take_some, left, known, wanted):
                    for taken in some:
                        if not waiting and _is_ready(taken, known, wanted):
                            yield taken
                            continue
                        waiting.append(asyncio.create_task(self._finish(taken, known, wanted)))
                        if len(waiting) >= AHEAD:
                            yield await waiting.popleft()
                if not group:
                    while waiting:
                        yield await waiting.popleft()
                    yield None
            while waiting:
                yield await waiting.popleft()
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    def _take_some(self, left: Iterator[FileCandidate | Page], known: Known, wanted: Adding) -> "list[_Taken]":
        """The next files, until it is enough for one trip to another thread; pages are left as they are."""
        taken, size = list[_Taken](), 0
        for candidate in left:
            one = candidate if isinstance(candidate, Page) else self._take(candidate, None, known, wanted)
            taken.append(one)
            size += len(one.text) if isinstance(one, Arrival) else len(one.content) if isinstance(one, _Foreign) else 0
            if len(taken) >= FILES_AT_ONCE or size >= BYTES_AT_ONCE:
                break
        return taken

    def _take(self, candidate: FileCandidate | Page, page: Content | None, known: Known, wanted: Adding) -> "_Taken":
        """From the bytes to passages; foreign formats stay bytes."""
        try:
            content = page or read(candidate, size_max(candidate.name))  # type: ignore[arg-type]
            digest = wanted.digest(content.bytes)
            stamp = structs.replace(content.stamp, hash=digest, mtime_ns=self._trusted(content.stamp.mtime_ns))
            before = known.get(candidate.source)
            if before is not None and wanted.is_same(digest, before[1]):
                return _Same(candidate.source, before[0], structs.replace(stamp, hash=before[1].hash))
            kind = content.type or type_of(candidate.name, content.bytes[:SAMPLE])
            if kind in FOREIGN:
                return _Foreign(candidate, kind, content.bytes, stamp)
            return self._arrive(candidate, parse(kind, content.bytes), stamp, wanted)
        except Exception as error:  # the edge of the parsers: no file, whatever is in it, stops the others
            return _skip(candidate, error)

    async def _finish(self, taken: "_Taken", known: Known, wanted: Adding) -> _Outcome:
        """What has to be waited for: pages, foreign formats, and what was said when a document was added before."""
        if isinstance(taken, Page):
            taken = await self._fetched(taken, known, wanted)
        if isinstance(taken, _Foreign):
            taken = await self._parsed(taken, wanted)
        if isinstance(taken, Arrival) and not _is_ready(taken, known, wanted):
            previous = await self.store.document(known[taken.document.source][0])
            return taken if previous is None else _as_said(taken, previous)
        return taken

    async def _fetched(self, page: Page, known: Known, wanted: Adding) -> "_Outcome | _Foreign":
        try:
            content = await self._fetch_page(page)
        except Exception as error:  # the edge of the net
            return _skip(page, error)
        taken = await asyncio.to_thread(self._take, page, content, known, wanted)
        assert not isinstance(taken, Page)
        return taken

    async def _parsed(self, taken: "_Foreign", wanted: Adding) -> Arrival | Skipped:
        try:
            parsed = await self._parse_foreign(taken.kind, taken.content)
            return await asyncio.to_thread(self._arrive, taken.candidate, parsed, taken.stamp, wanted)
        except Exception as error:  # the edge of the parsers
            return _skip(taken.candidate, error)

    def _trusted(self, mtime_ns: int) -> int:
        return mtime_ns if self._clock_ns() - mtime_ns > YOUNG_NS else 0

    def _arrive(self, candidate: FileCandidate | Page, parsed: Parsed, stamp: Stamp, wanted: Adding) -> Arrival:
        if not parsed.text.strip():
            raise UnreadableSource("there is no text in it")
        document = DocumentInfo(
            id=document_id(wanted.collection, candidate.source),
            collection=wanted.collection,
            source=candidate.source,
            title=wanted.title or parsed.title or PurePath(candidate.name).stem,
            type=parsed.type,
            stamp=stamp,
            date=parsed.date or to_utc((stamp.mtime_ns or self._clock_ns()) / 1e9),
            licence=wanted.licence or parsed.licence,
            version=wanted.version or parsed.version,
            metadata={**parsed.metadata, **wanted.metadata},
            added=to_utc(self._clock_ns() / 1e9),
        )
        return Arrival(document, parsed.text, chunk(parsed.text, parsed.outline), parsed.outline)

    async def _send(self, batch: "_Batch", intake: Intake, arriving: Arriving, relay: Relay) -> None:
        """On its way to the store, where it comes after those sent before."""

        async def store(change: CollectionChange) -> None:
            if batch.same:
                await self.store.restamp({same.document: same.stamp for same in batch.same})
            if batch.arrivals or batch.removals:
                sources = [arrival.document.source for arrival in batch.arrivals]
                await arriving.store(structs.replace(change, jobs=intake.hand_over(sources)))
                intake.report.removed += len(batch.removals)
                intake.report.passages += batch.passages
            await intake.finish([*(same.source for same in batch.same), *batch.skipped])

        if not batch.is_empty:
            await relay.put(partial(arriving.prepare, batch.arrivals, batch.removals), store)


@dataclass(slots=True)
class _Batch:
    """What is stored in one step."""

    patience_s: float
    arrivals: list[Arrival] = field(default_factory=list)
    removals: list[str] = field(default_factory=list)
    same: list[_Same] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    passages: int = 0
    began: float = field(default_factory=time.monotonic)

    def take(self, outcome: _Outcome, known: Known, report: AdditionReport) -> int:
        """How many passages have come with it."""
        if isinstance(outcome, Skipped):
            report.skipped.append(outcome)
            self.skipped.append(outcome.source)
        elif isinstance(outcome, _Same):
            report.unchanged += 1
            self.same.append(outcome)
        else:
            is_new = outcome.document.source not in known
            report.added += is_new
            report.changed += not is_new
            self.arrivals.append(outcome)
            self.passages += len(outcome.places)
            return len(outcome.places)
        return 0

    @property
    def is_empty(self) -> bool:
        return not (self.arrivals or self.removals or self.same or self.skipped)

    @property
    def is_full(self) -> bool:
        is_due = time.monotonic() - self.began >= self.patience_s
        return self.passages >= PASSAGES_AT_ONCE or (is_due and bool(self.arrivals))


def _is_ready(taken: _Taken, known: Known, wanted: Adding) -> TypeGuard[_Outcome]:
    """Whether nothing has to be waited for, nor looked up."""
    if isinstance(taken, Arrival):
        return bool(wanted.says) or taken.document.source not in known
    return isinstance(taken, _Same | Skipped)


def _is_long(passages: int, share: float) -> bool:
    """Whether there will be a second full batch, going by the share that is done."""
    return passages >= PASSAGES_AT_ONCE / 4 and passages / share >= 2 * PASSAGES_AT_ONCE


def _as_said(arrival: Arrival, previous: DocumentInfo) -> Arrival:
    """With the licence and version of before, where the new one says nothing."""
    document = arrival.document
    licence, version = document.licence or previous.licence, document.version or previous.version
    return structs.replace(arrival, document=structs.replace(document, licence=licence, version=version))


def _skip(candidate: FileCandidate | Page, error: Exception) -> Skipped:
    if isinstance(error, UnreadableSource):
        return Skipped(candidate.source, error.message)
    return Skipped(candidate.source, f"it cannot be parsed ({type(error).__name__}: {str(error)[:200]})")
