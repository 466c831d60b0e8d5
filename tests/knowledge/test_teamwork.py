"""Several workers at one addition in the shared database: nothing is lost, nothing is doubled, whoever dies."""

import asyncio
import json
import shutil
import sys

import psycopg
import pytest
from tests.fleet.running import until
from tests.knowledge.conftest import Base

from toolcrib.core.errors import ConfigError
from toolcrib.knowledge.queued import ATTEMPTS_MAX, Worker, adding_of, decode, encode, errand_of
from toolcrib.knowledge.survey import Adding, Root
from toolcrib.knowledge.teamwork import put, work
from toolcrib.knowledge.walk import Candidate
from toolcrib.stores.knowledge_memory import MemoryKnowledge

COUNT = 30


@pytest.fixture
def place(store_settings):
    return store_settings


@pytest.fixture
async def other(place, embedder):
    made = Base(place, embedder)
    yield made
    await made.store.close()


def many(files, count=COUNT):
    return files(**{f"f{n}_dot_md": f"# Note {n}\n\nAbout topic{n} and all that." for n in range(count)})


async def all_reports(base, collection=None):
    return [report async for report in work(base.ingest, collection)]


async def sources(base):
    return [each.source.rpartition("/")[2] for each in await base.store.documents("notes")]


def waiting(place):
    with psycopg.connect(place.url) as connection:
        return connection.execute("SELECT count(*) FROM toolcrib.kb_job").fetchone()[0]


async def test_what_is_noted_is_added_by_whoever_works(base, other, files, place):
    root = many(files)
    count = await put(base.ingest, [Root(root)], Adding("notes", licence="CC0"))
    noted = waiting(place)
    (report,) = await all_reports(other)

    assert (count, noted, waiting(place)) == (COUNT, COUNT, 0)
    assert (report.collection, report.added, report.skipped) == ("notes", COUNT, [])
    assert await base.found("topic7", top_k=1) == ["f7.md"]
    assert {each.licence for each in await base.store.documents("notes")} == {"CC0"}
    assert await base.store.verify() == []


async def test_who_adds_and_who_helps_do_each_source_once_and_the_report_counts_both(base, other, files, place):
    root = many(files, 200)
    await put(base.ingest, [Root(root)], Adding("notes"))
    report, helped = await asyncio.gather(base.add(root), all_reports(other))

    assert report.added == 200
    assert sum(each.added for each in helped) <= 200
    assert (len(await base.store.documents("notes")), waiting(place)) == (200, 0)
    assert await base.store.verify() == []


async def test_what_is_as_it_was_or_cannot_be_read_does_not_wait_again(base, files, place):
    root = many(files, 3)
    (root / "picture.png").write_bytes(b"\x89PNG\0")
    first = await base.add(root)
    again = await base.add(root)

    assert (first.added, len(first.skipped), again.added, again.unchanged) == (3, 1, 0, 3)
    assert waiting(place) == 0


async def test_sources_of_another_machine_are_left_to_it(base, other, files, place, tmp_path):
    root = many(files, 3)
    await put(base.ingest, [Root(root)], Adding("notes"))
    shutil.move(root / "f1.md", tmp_path / "away.md")
    (report,) = await all_reports(other)
    left = waiting(place)
    shutil.move(tmp_path / "away.md", root / "f1.md")
    (rest,) = await all_reports(base)

    assert (report.added, left, rest.added, waiting(place)) == (2, 1, 1, 0)


async def test_a_source_that_no_worker_came_back_from_is_left_out(base, files, place):
    root = many(files, 2)
    await put(base.ingest, [Root(root)], Adding("notes"))
    with psycopg.connect(place.url) as connection:
        connection.execute("UPDATE toolcrib.kb_job SET attempts = %s WHERE source LIKE '%%f1.md'", (ATTEMPTS_MAX,))
    (report,) = await all_reports(base)

    assert (report.added, [each.reason for each in report.skipped]) == (1, ["no worker came back from it"])
    assert waiting(place) == 0


async def test_what_a_worker_has_is_not_taken_by_another_until_it_is_given_back(base, other, files):
    root, wanted = many(files, 4), Adding("notes")
    await put(base.ingest, [Root(root)], wanted)
    jobs, errand = base.store.jobs, errand_of(wanted)
    async with Worker(jobs) as worker:
        taken = await jobs.take(worker.name, errand, 3, [])
        free = await other.store.jobs.take("other", errand, 10, [])
        left = await jobs.left(errand, worker.name, [])
    back = await other.store.jobs.take("other", errand, 10, [])

    assert (len(taken), len(free), left, len(back)) == (3, 1, 1, 3)
    assert {job.attempts for job in back} == {1}


async def test_a_lease_that_ends_frees_its_sources(base, other, files):
    root, wanted = many(files, 2), Adding("notes")
    await put(base.ingest, [Root(root)], wanted)
    base.store.jobs.lease_s = 0
    gone = await base.store.jobs.take("gone", errand_of(wanted), 10, [])
    taken = await other.store.jobs.take("other", errand_of(wanted), 10, [])

    assert ([job.attempts for job in gone], [job.attempts for job in taken]) == ([1, 1], [2, 2])


PROGRAM = """
import asyncio, sys
from toolcrib.knowledge import ingest
from toolcrib.knowledge.library import refuse_foreign
from toolcrib.knowledge.teamwork import work
from toolcrib.stores.postgres.database import StoreSettings
from toolcrib.stores.postgres.knowledge import PgKnowledge

async def main():
    ingest.SECONDS_AT_ONCE = 0
    store = PgKnowledge(StoreSettings(sys.argv[1]))
    store.jobs.lease_s = 2
    async for _ in work(ingest.Ingest(store, None, refuse_foreign)):
        pass

asyncio.run(main())
"""


async def test_a_killed_worker_loses_nothing_and_doubles_nothing(base, files, place):
    """It is killed when it has stored some and taken more; another does the rest once the lease has ended."""
    root = many(files, 300)
    await put(base.ingest, [Root(root)], Adding("notes"))
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAM, place.url)
    await asyncio.to_thread(until, lambda: waiting(place) < 300, deadline_s=60, what="the worker stores something")
    process.kill()
    await process.wait()
    stored = len(await base.store.documents("notes"))
    reports = await all_reports(base)
    while waiting(place):
        reports += await all_reports(base)

    assert stored > 0
    assert stored + sum(each.added for each in reports) == 300
    assert len(set(await sources(base))) == 300
    assert await base.store.verify() == []


async def test_only_a_shared_knowledge_base_has_workers(embedder):
    from toolcrib.knowledge.ingest import Ingest

    with pytest.raises(ConfigError, match="shared database"):
        await put(Ingest(MemoryKnowledge(), embedder, None), [], Adding("notes"))


def test_what_is_written_down_says_how_a_source_is_read(tmp_path):
    source, wanted = Candidate(tmp_path, ("a", "b.md"), "label"), Adding("notes", "t", metadata={"year": 2026})

    assert decode(encode(source)) == source
    assert adding_of(errand_of(wanted)) == wanted
    assert json.loads(encode(source))["parts"] == ["a", "b.md"]
