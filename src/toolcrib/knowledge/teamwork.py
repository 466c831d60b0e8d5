"""Several processes at one addition, on this machine or on others: what is to be added waits in a queue."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from toolcrib.core.errors import ConfigError
from toolcrib.core.jobs import Errand, JobQueue
from toolcrib.core.knowledge import Change, KnowledgeStore
from toolcrib.knowledge.queued import Source, Worker, adding_of, errand_of
from toolcrib.knowledge.report import Intake, OnProgress, Report
from toolcrib.knowledge.survey import Adding, Known, Root, survey
from toolcrib.knowledge.walk import Skipped

if TYPE_CHECKING:
    from toolcrib.knowledge.fetch import Page
    from toolcrib.knowledge.ingest import Ingest


async def take_turns(
    ingest: "Ingest", intake: Intake, roots: Sequence[Root], sources: Sequence[Source], gone: Sequence[str]
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
    ingest: "Ingest",
    below: Sequence[Path],
    collection: str | None = None,
    on_progress: OnProgress = lambda _: None,
) -> AsyncIterator[Report]:
    """Take part in what is to be added, until nothing is left that can be read here; a report for each addition.

    Files are read only below some folders.
    """
    async with Worker(_queue_of(ingest.store), below) as worker:
        while (errand := await worker.find(collection)) is not None:
            began, report, before = time.monotonic(), Report(errand.collection), len(worker.elsewhere)
            known = await ingest.store.stamps(errand.collection)
            intake = Intake(adding_of(errand), known, report, 0, on_progress)
            await ingest.take_in(_with(worker, intake, errand), worker.groups(errand), ())
            await ingest.tidy(report)
            report.seconds = time.monotonic() - began
            report.skipped += worker.given_up
            worker.given_up, report.left = [], len(worker.elsewhere) - before
            yield report


def _with(worker: Worker, intake: Intake, errand: Errand) -> Intake:
    return replace(intake, finish=partial(worker.finish, errand), hand_over=worker.hand_over)


def _queue_of(store: KnowledgeStore) -> JobQueue:
    if store.jobs is None:
        raise ConfigError(
            "Only a knowledge base in the shared database has workers beside the one that adds.",
            hint="Set [store] url, and leave [kb] path out.",
        )
    return store.jobs
