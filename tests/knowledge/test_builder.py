import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fleet.running import until
from tests.knowledge.conftest import Base

from toolcrib.knowledge import ingest
from toolcrib.knowledge.builder import FAILED, Builder, Spare
from toolcrib.knowledge.survey import Adding, SourceRoot

SCRIPT = """
import asyncio, sys
from pathlib import Path
from toolcrib.knowledge import ingest
from toolcrib.knowledge.survey import Adding, SourceRoot
from toolcrib.stores.knowledge.store import SqliteKnowledge

ingest.PASSAGES_AT_ONCE = 50

async def never(kind, content):
    await asyncio.Event().wait()

async def main():
    adding = ingest.Ingest(SqliteKnowledge(Path(sys.argv[1])), None, never)
    await adding.add([SourceRoot(Path(sys.argv[2]))], Adding("notes"))

asyncio.run(main())
"""


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(ingest, "PASSAGES_AT_ONCE", 50)
    monkeypatch.setattr(ingest, "SECONDS_AT_ONCE", 1000.0)


MANY = 24
"""Files of eight passages each: more than one batch of fifty."""


@pytest.fixture
def many(files):
    def text(n):
        return f"# Number {n}\n\n" + "\n\n".join(f"Part {p} of {n} says word{n * p}. " * 30 for p in range(8))

    return files(**{f"f{n:02}_dot_md": text(n) for n in range(MANY)})


def builders_of(parent: int) -> list[int]:
    """The processes that index words for this one."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            is_builder = b"toolcrib.knowledge.indexing" in (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if int(fields[1]) == parent and fields[0] != "Z" and is_builder:
            found.append(int(folder.name))
    return found


class Watched:
    """One addition, what it told, and the processes that were seen beside it."""

    def __init__(self, path, embedder, on_sight=lambda pid: None):
        self.base, self.on_sight = Base(path, embedder), on_sight
        self.events, self.seen = [], set[int]()
        self.base.ingest.emit = self.events.append

    async def add(self, root):
        self.report = await self.base.ingest.add([SourceRoot(root)], Adding("notes"), self._look)
        records = await self.base.store.segments(["notes"])
        self.index = [await self.base.store.segment_bytes(record.id) for record in records]
        self.problems = await self.base.store.verify()
        await self.base.ingest.close()
        await self.base.store.close()
        return self

    def _look(self, progress):
        for pid in set(builders_of(os.getpid())) - self.seen:
            self.seen.add(pid)
            self.on_sight(pid)

    @property
    def told(self):
        return [event.name for event in self.events]


@pytest.mark.parametrize("has_vectors", [True, False])
async def test_a_large_addition_has_the_same_index_with_the_process_as_without(
    tmp_path, embedder, many, small_batches, monkeypatch, has_vectors
):
    embedder = embedder if has_vectors else None
    beside = await Watched(tmp_path / "beside.db", embedder).add(many)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    alone = await Watched(tmp_path / "alone.db", embedder).add(many)

    assert (len(beside.seen), beside.told) == (1, [])
    assert (len(alone.seen), alone.told) == (0, [FAILED])
    assert len(beside.index) > 1
    assert beside.index == alone.index
    assert (beside.report.added, beside.report.passages) == (alone.report.added, alone.report.passages)
    assert builders_of(os.getpid()) == []


async def test_the_process_stays_for_the_next_addition_and_ends_when_all_is_closed(
    tmp_path, embedder, many, small_batches
):
    base = Base(tmp_path / "kb.db", embedder)
    await base.add(many)
    after_first = builders_of(os.getpid())
    await base.add(many, collection="again")
    after_second = builders_of(os.getpid())
    await base.ingest.close()
    await base.store.close()

    assert len(after_first) == 1
    assert (after_second, builders_of(os.getpid())) == (after_first, [])


async def test_a_process_that_nobody_wants_any_more_ends():
    async with Builder(spare=Spare(rest_s=0.001)) as builder:
        builder.want()
        had = builders_of(os.getpid())
    async with asyncio.timeout(150):
        while builders_of(os.getpid()):
            await asyncio.sleep(0.01)

    assert len(had) == 1


async def test_a_process_that_was_killed_while_it_rested_is_replaced(tmp_path, embedder, many, small_batches):
    base, events = Base(tmp_path / "kb.db", embedder), []
    base.ingest.emit = events.append
    await base.add(many)
    (first,) = builders_of(os.getpid())
    os.kill(first, signal.SIGKILL)
    until(lambda: not is_running(first), deadline_s=150, what="the end of the process")
    await base.add(many, collection="again")
    (second,) = builders_of(os.getpid())
    await base.ingest.close()
    await base.store.close()

    assert (first != second, events) == (True, [])


async def test_an_addition_completes_though_the_process_is_killed_in_the_middle(
    tmp_path, embedder, many, small_batches, monkeypatch
):
    killed = await Watched(tmp_path / "killed.db", embedder, lambda pid: os.kill(pid, signal.SIGKILL)).add(many)
    whole = await Watched(tmp_path / "whole.db", embedder).add(many)

    assert (len(killed.seen), killed.told) == (1, [FAILED])
    assert (killed.report.added, killed.problems) == (MANY, [])
    assert killed.index == whole.index


async def test_a_small_addition_starts_no_process(tmp_path, embedder, many):
    small = await Watched(tmp_path / "kb.db", embedder).add(many)

    assert (small.report.added, small.seen) == (MANY, set())


async def test_the_process_gets_to_see_no_secrets(tmp_path, embedder, many, small_batches, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "hunter2")
    environments = []
    await Watched(
        tmp_path / "kb.db", embedder, lambda pid: environments.append(Path(f"/proc/{pid}/environ").read_bytes())
    ).add(many)

    assert len(environments) == 1
    assert b"hunter2" not in environments[0]


async def test_a_cancelled_addition_leaves_no_process_and_keeps_what_is_stored(tmp_path, embedder, many, small_batches):
    (many / "zz.html").write_text("<p>waits for ever")
    is_waiting = asyncio.Event()

    async def never(kind, content):
        is_waiting.set()
        await asyncio.Event().wait()

    base = Base(tmp_path / "kb.db", embedder, never)
    adding = asyncio.create_task(base.add(many))
    await is_waiting.wait()
    had = builders_of(os.getpid())
    adding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await adding

    assert (len(had), builders_of(os.getpid())) == (1, [])
    kept = len(await base.store.documents("notes"))
    (many / "zz.html").unlink()
    report = await base.add(many)
    assert (report.added, report.unchanged) == (MANY - kept, kept)
    assert await base.store.verify() == []
    await base.store.close()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_the_process_ends_with_its_parent(tmp_path, many, sent):
    (many / "zz.html").write_text("<p>waits for ever")
    parent = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "kb.db"), str(many)], stderr=subprocess.DEVNULL
    )
    try:
        until(lambda: bool(builders_of(parent.pid)), deadline_s=150, what="a process beside it")
        (builder,) = builders_of(parent.pid)
        parent.send_signal(sent)
        parent.wait(150)
        until(lambda: not is_running(builder), deadline_s=150, what="the end of the process")
    finally:
        parent.kill()
        parent.wait()


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
