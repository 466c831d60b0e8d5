"""Several processes at one addition, on this machine or on others: what is to be added waits in a queue."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from toolcrib.core.errors import ConfigError
from toolcrib.core.jobs import JobQueue
from toolcrib.core.knowledge import Change, KnowledgeStore
from toolcrib.knowledge.queued import Source, Worker, adding_of, errand_of
from toolcrib.knowledge.report import Intake, OnProgress, Report
from toolcrib.knowledge.survey import Adding, Root, survey
from toolcrib.knowledge.walk import Skipped

if TYPE_CHECKING:
    from toolcrib.knowledge.fetch import Page
    from toolcrib.knowledge.ingest import Ingest


async def take_turns(ingest: "Ingest", intake: Intake, sources: Sequence[Source], gone: Sequence[str]) -> None:
    """Add sources together with whoever comes; what others did counts, too."""
    errand, report = errand_of(intake.wanted), intake.report
    async with Worker(_queue_of(ingest.store)) as worker:
        await worker.put(intake.wanted, sources)
        await ingest.take_in(replace(intake, finish=partial(worker.finish, errand)), worker.groups(errand), gone)
        report.skipped += _given_up(worker)
    others = [each.source for each in sources if each.source not in intake.seen]
    if not others:
        return
    done = await ingest.store.stamps(intake.wanted.collection)
    for source in others:
        if source in done:
            report.added += source not in intake.known
            report.changed += source in intake.known and done[source][1].hash != intake.known[source][1].hash


async def put(ingest: "Ingest", roots: Sequence[Root], wanted: Adding, pages: "Sequence[Page]" = ()) -> int:
    """Leave it to workers to bring a collection up to date; how many sources they have to look at."""
    jobs = _queue_of(ingest.store)
    await ingest.prepare_collection(wanted)
    known = await ingest.store.stamps(wanted.collection)
    found = await asyncio.to_thread(survey, roots, known, wanted)
    if found.gone:
        await ingest.store.apply(Change(wanted.collection, removals=tuple(found.gone)))
    sources: list[Source] = [*found.to_read, *pages]
    await Worker(jobs).put(wanted, sources)
    return len(sources)


async def work(
    ingest: "Ingest", collection: str | None = None, on_progress: OnProgress = lambda _: None
) -> AsyncIterator[Report]:
    """Take part in what is to be added, until nothing is left that can be read here; a report for each addition."""
    async with Worker(_queue_of(ingest.store), is_guest=True) as worker:
        while (errand := await worker.find(collection)) is not None:
            began, report = time.monotonic(), Report(errand.collection)
            known = await ingest.store.stamps(errand.collection)
            intake = Intake(adding_of(errand), known, report, 0, on_progress, partial(worker.finish, errand))
            await ingest.take_in(intake, worker.groups(errand), ())
            await ingest.tidy(report)
            report.seconds = time.monotonic() - began
            report.skipped += _given_up(worker)
            yield report


def _given_up(worker: Worker) -> list[Skipped]:
    sources, worker.given_up = worker.given_up, []
    return [Skipped(source, "no worker came back from it") for source in sources]


def _queue_of(store: KnowledgeStore) -> JobQueue:
    if store.jobs is None:
        raise ConfigError(
            "Only a knowledge base in the shared database has workers beside the one that adds.",
            hint="Set [store] url, and leave [kb] path out.",
        )
    return store.jobs
