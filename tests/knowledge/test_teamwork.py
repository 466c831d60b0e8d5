"""Several workers at one addition in the shared database: nothing is lost, nothing is doubled, whoever dies."""

import asyncio
import json
import shutil
import sys

import psycopg
import pytest
from tests.doubles.knowledge import MemoryKnowledge
from tests.fleet.running import until
from tests.knowledge.conftest import Base

from toolcrib.core.errors import ConfigError, UnreadableSource
from toolcrib.core.knowledge import CollectionChange
from toolcrib.knowledge.ingest import put, work
from toolcrib.knowledge.queued import AT_ONCE, ATTEMPTS_MAX, Worker, adding_of, decode, encode, errand_of
from toolcrib.knowledge.survey import Adding, FileCandidate, SourceRoot
from toolcrib.stores.postgres.kb_desk import QueryThreads
from toolcrib.stores.postgres.kb_writing import PLENTY, PgJobs

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


async def all_reports(base, below, collection=None):
    return [report async for report in work(base.ingest, [below], collection)]


async def sources(base):
    return [each.source.rpartition("/")[2] for each in await base.store.documents("notes")]


def waiting(place):
    with psycopg.connect(place.url) as connection:
        return connection.execute("SELECT count(*) FROM toolcrib.kb_job").fetchone()[0]


async def test_what_is_noted_is_added_by_whoever_works(base, other, files, place):
    root = many(files)
    count = await put(base.ingest, [SourceRoot(root)], Adding("notes", licence="CC0"))
    noted = waiting(place)
    (report,) = await all_reports(other, root)

    assert (count, noted, waiting(place)) == (COUNT, COUNT, 0)
    assert (report.collection, report.added, report.skipped) == ("notes", COUNT, [])
    assert await base.found("topic7", top_k=1) == ["f7.md"]
    assert {each.licence for each in await base.store.documents("notes")} == {"CC0"}
    assert await base.store.verify() == []


async def test_who_adds_and_who_helps_do_each_source_once_and_the_report_counts_both(base, other, files, place):
    root = many(files, 200)
    await put(base.ingest, [SourceRoot(root)], Adding("notes"))
    report, helped = await asyncio.gather(base.add(root), all_reports(other, root))

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
    await put(base.ingest, [SourceRoot(root)], Adding("notes"))
    shutil.move(root / "f1.md", tmp_path / "away.md")
    (report,) = await all_reports(other, root)
    left = waiting(place)
    shutil.move(tmp_path / "away.md", root / "f1.md")
    (rest,) = await all_reports(base, root)

    assert (report.added, left, rest.added, waiting(place)) == (2, 1, 1, 0)


async def test_who_adds_leaves_what_it_cannot_read_to_those_who_noted_it(base, other, files, place, tmp_path):
    root, mine = many(files, 3), tmp_path / "mine"
    mine.mkdir()
    (mine / "own.md").write_text("# Own\n\nOf this machine.")
    await put(base.ingest, [SourceRoot(root)], Adding("notes"))
    shutil.move(root, tmp_path / "away")
    report = await other.add(mine)
    left = waiting(place)
    shutil.move(tmp_path / "away", root)
    (rest,) = await all_reports(base, root)

    assert (report.added, report.skipped, left) == (1, [], 3)
    assert (rest.added, waiting(place)) == (3, 0)


async def test_who_adds_reads_nothing_of_others_beyond_what_it_was_given(base, files, place, tmp_path):
    """Whoever can write to the database could name any file of this machine."""
    root = many(files, 1)
    (tmp_path / "secret.md").write_text("Nobody was to see this.")
    await put(base.ingest, [SourceRoot(tmp_path / "secret.md")], Adding("notes"))
    report = await base.add(root)

    assert (report.added, await sources(base), waiting(place)) == (1, ["f0.md"], 1)


class Beaten(PgJobs):
    """Another worker is quicker, and finds that nothing can be read."""

    async def put(self, errand, jobs):
        await super().put(errand, jobs)
        await self.finish(errand.collection, await self.take("quicker", errand, 1, []))


async def test_who_adds_is_told_what_another_worker_could_not_read(base, files, place):
    root = many(files, 2)
    await base.store.jobs.close()
    base.store.jobs = Beaten(QueryThreads(place, 1, is_reader=False), place.name)
    report = await base.add(root)

    assert (report.added, [each.reason for each in report.skipped]) == (1, ["another worker could not read it"])


NOT_FOUND_BY_A_SEARCH = {
    "/srv//etc/passwd": {"root": "/srv", "parts": ["/etc/passwd"]},
    "/srv/../etc/passwd": {"root": "/srv", "parts": ["..", "etc", "passwd"]},
    "/srv/a/b.md": {"root": "/srv", "parts": ["a/b.md"]},
    "/srv/.env": {"root": "/srv", "parts": [".env"]},
    "/srv/": {"root": "/srv", "parts": [""]},
    "/srv": {"root": "/srv"},
    "file:///etc/passwd": {"url": "file:///etc/passwd"},
    "nonsense": ["nonsense"],
}


@pytest.mark.parametrize("what", NOT_FOUND_BY_A_SEARCH.values(), ids=str)
def test_a_way_that_no_search_would_find_is_refused(what):
    with pytest.raises(UnreadableSource):
        decode(json.dumps(what))


async def test_what_does_not_fit_is_skipped_and_what_lies_elsewhere_is_left(base, files, place, tmp_path):
    root, errand = many(files, 1), errand_of(Adding("notes"))
    (tmp_path / "outside.md").write_text("Not below the folder.")
    (root / "link").symlink_to(tmp_path)
    (root / ".git").mkdir()
    (root / ".git" / "config.md").write_text("Hidden.")
    await put(base.ingest, [SourceRoot(root)], Adding("notes"))
    left = [FileCandidate(*way) for way in ((tmp_path, ("outside.md",)), (root / "link", ("outside.md",)))]
    left += [FileCandidate(root / ".git", ("config.md",)), FileCandidate(root, ("a\0b.md",))]
    given = {name: json.dumps(what) for name, what in NOT_FOUND_BY_A_SEARCH.items()}
    given |= {"a": encode(FileCandidate(root, ("f0.md",)))}
    given |= {each.source.replace("\0", "\\0"): encode(each) for each in left}
    await base.store.jobs.put(errand, given)
    (report,) = await all_reports(base, root)

    assert await sources(base) == ["f0.md"]
    assert {each.source for each in report.skipped} == {
        *NOT_FOUND_BY_A_SEARCH,
        "a",
        left[-1].source.replace("\0", "\\0"),
    }
    assert (report.left, waiting(place)) == (3, 3)


async def test_what_is_put_again_while_a_worker_has_it_is_worked_on_again(base, files, place):
    """It may have changed since the worker read it."""
    root, wanted = many(files, 2), Adding("notes")
    await put(base.ingest, [SourceRoot(root)], wanted)
    async with Worker(base.store.jobs, [root]) as worker:
        groups = worker.groups(errand_of(wanted))
        first = await anext(groups)
        await put(base.ingest, [SourceRoot(root)], wanted)
        meanwhile = await anext(groups)
        read = [source.source for source in first]
        await base.store.apply(CollectionChange("notes", jobs=worker.hand_over(read[:1])))
        await worker.finish(errand_of(wanted), read[1:])
        again = await anext(groups)
        await worker.finish(errand_of(wanted), read)

    assert (len(first), meanwhile, again) == (2, [], first)
    assert waiting(place) == 0


async def test_a_worker_whose_lease_ended_does_not_finish_what_another_has(base, other, files, place):
    root, wanted = many(files, 1), Adding("notes")
    await put(base.ingest, [SourceRoot(root)], wanted)
    base.store.jobs.lease_s = 0
    late = await base.store.jobs.take("late", errand_of(wanted), 10, [])
    taken = await other.store.jobs.take("other", errand_of(wanted), 10, [])
    await base.store.jobs.finish("notes", late)
    left = waiting(place)
    await other.store.jobs.finish("notes", taken)

    assert (left, waiting(place)) == (1, 0)


async def test_a_source_that_no_worker_came_back_from_is_left_out(base, files, place):
    root = many(files, 2)
    await put(base.ingest, [SourceRoot(root)], Adding("notes"))
    with psycopg.connect(place.url) as connection:
        connection.execute("UPDATE toolcrib.kb_job SET attempts = %s WHERE source LIKE '%%f1.md'", (ATTEMPTS_MAX,))
    (report,) = await all_reports(base, root)

    assert (report.added, [each.reason for each in report.skipped]) == (1, ["no worker came back from it"])
    assert waiting(place) == 0


async def test_what_a_worker_has_is_not_taken_by_another_until_it_is_given_back(base, other, files):
    root, wanted = many(files, 4), Adding("notes")
    await put(base.ingest, [SourceRoot(root)], wanted)
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
    await put(base.ingest, [SourceRoot(root)], wanted)
    base.store.jobs.lease_s = 0
    gone = await base.store.jobs.take("gone", errand_of(wanted), 10, [])
    taken = await other.store.jobs.take("other", errand_of(wanted), 10, [])

    assert ([job.attempts for job in gone], [job.attempts for job in taken]) == ([1, 1], [2, 2])


PROGRAM = """
import asyncio, sys
from pathlib import Path
from toolcrib.knowledge import ingest
from toolcrib.knowledge.library import refuse_foreign
from toolcrib.knowledge.ingest import work
from toolcrib.stores.postgres.database import StoreSettings
from toolcrib.stores.postgres.knowledge import PgKnowledge

async def main():
    ingest.SECONDS_AT_ONCE = 0
    store = PgKnowledge(StoreSettings(sys.argv[1]))
    store.jobs.lease_s = 2
    async for _ in work(ingest.Ingest(store, None, refuse_foreign), [Path(sys.argv[2])]):
        pass

asyncio.run(main())
"""


async def test_a_killed_worker_loses_nothing_and_doubles_nothing(base, files, place):
    """It is killed when it has stored some and taken more; another does the rest once the lease has ended."""
    root = many(files, 300)
    await put(base.ingest, [SourceRoot(root)], Adding("notes"))
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAM, place.url, str(root))
    await asyncio.to_thread(until, lambda: waiting(place) < 300, deadline_s=150, what="the worker stores something")
    process.kill()
    await process.wait()
    stored = len(await base.store.documents("notes"))
    reports = await all_reports(base, root)
    while waiting(place):
        reports += await all_reports(base, root)

    assert stored > 0
    assert stored + sum(each.added for each in reports) == 300
    assert len(set(await sources(base))) == 300
    assert await base.store.verify() == []


async def test_only_a_shared_knowledge_base_has_workers(embedder):
    from toolcrib.knowledge.ingest import Ingest

    with pytest.raises(ConfigError, match="shared database"):
        await put(Ingest(MemoryKnowledge(), embedder, None), [], Adding("notes"))


def test_what_is_written_down_says_how_a_source_is_read(tmp_path):
    source, wanted = FileCandidate(tmp_path, ("a", "b.md"), "label"), Adding("notes", "t", metadata={"year": 2026})

    assert decode(encode(source)) == source
    assert adding_of(errand_of(wanted)) == wanted
    assert json.loads(encode(source))["parts"] == ["a", "b.md"]


async def test_the_rest_is_shared_by_all_who_work_and_nobody_has_to_share_before(base, files):
    root, wanted = many(files, 21), Adding("notes")
    jobs, errand = base.store.jobs, errand_of(wanted)
    await put(base.ingest, [SourceRoot(root)], wanted)
    none = await jobs.share(errand)
    await jobs.take("one", errand, 3, [])
    alone = await jobs.share(errand)
    await jobs.take("two", errand, 2, [])
    together = await jobs.share(errand)

    assert (none, alone, together) == (None, None, 4)


async def test_while_there_is_plenty_nobody_has_to_share(base):
    jobs, errand = base.store.jobs, errand_of(Adding("notes"))
    await jobs.put(errand, {f"s{number}": "" for number in range(PLENTY + 2)})
    await jobs.take("one", errand, 1, [])
    await jobs.take("two", errand, 1, [])
    plenty = await jobs.share(errand)
    await jobs.take("two", errand, 1, [])

    assert (plenty, await jobs.share(errand)) == (None, (PLENTY - 1) // 4)


async def test_the_rest_is_stored_in_small_steps(base, files):
    """What one worker takes of a rest that others share does not wait for a full batch."""
    root, wanted = many(files, 3 * AT_ONCE), Adding("notes")
    await put(base.ingest, [SourceRoot(root)], wanted)
    await base.store.jobs.take("other", errand_of(wanted), 1, [])
    async with Worker(base.store.jobs, [root]) as worker:
        groups = worker.groups(errand_of(wanted))
        sizes = [len(await anext(groups)) for _ in range(5)]
        await groups.aclose()

    assert sizes == [AT_ONCE, AT_ONCE, 0, AT_ONCE - 1, 0]
