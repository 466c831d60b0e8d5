"""Every store on a disk that fails at every step, loses power after every step, and damages what it holds.

``./dev bench faults`` does the same with every kind of failure; here each step fails in one of them.
"""

import errno
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.faults import sqlite
from bench.faults.disk import Disk, Failing
from bench.faults.stores import STORES
from bench.faults.trials import Trials
from tests.stores.audit_logs import find, walk

from toolcrib.core.offers import Tool
from toolcrib.stores.audit.file import AuditFile
from toolcrib.stores.audit.writer import AuditSettings, QueuedAudit
from toolcrib.testing import FakeSource, memory_crib

MEMORY = Path("/dev/shm")


@pytest.fixture
def place() -> Iterator[Path]:
    """In memory where that can be: thousands of small files come and go, and fsync is not carried out anyway."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as directory:
        yield Path(directory)


@pytest.mark.parametrize("name", STORES)
async def test_whichever_step_fails_nothing_acknowledged_is_lost_and_the_error_says_what_to_do(name, place):
    """Step after step, until a run passes untouched; then the store works on, is opened anew, and loses power."""
    tally = await Trials(name, place).fail_each("disk full", "one I/O error", "short write")

    assert tally.wrong == []
    assert tally.tried


@pytest.mark.parametrize("name", STORES)
async def test_after_whichever_step_the_power_is_cut_what_was_acknowledged_is_there(name, place):
    """Only what was forced to the disk is left; or the names of files without their content; or some of it, torn."""
    tally = await Trials(name, place).cut_each(["nothing unforced", "names only"], seeds=[1])

    assert tally.wrong == []


@pytest.mark.parametrize("name", STORES)
async def test_a_damaged_file_is_named_with_the_way_out_and_never_begun_anew(name, place):
    """What is left of it stays as it is."""
    tally = await Trials(name, place).damage_each()

    assert tally.wrong == []


async def test_a_full_disk_refuses_what_must_be_recorded_and_nothing_else(place: Path):
    """Reads go on, health says so, and when there is room again everything runs, and all that ran is recorded."""
    disk, log = Disk(place), AuditFile(place / "audit.db")
    save = Tool("save", annotations={"readOnlyHint": False})
    files = FakeSource("files", [Tool("read", annotations={"readOnlyHint": True}), save])
    with disk.watching(), sqlite.registered(disk):
        audit = QueuedAudit(log, time.time_ns, settings=AuditSettings(retry_s=0.001))
        async with memory_crib(files, audit=audit) as made:
            await made.crib.refresh()
            before = await made.crib.call("files__save")
            disk.failing = Failing(0, errno.ENOSPC, lasting=True)
            refused, read = await made.crib.call("files__save"), await made.crib.call("files__read")
            health = made.crib.health()
            disk.mend()
            while not (after := await made.crib.call("files__save")).success:
                assert after.error.code == "TOOL_UNAVAILABLE"
            recovered = made.crib.health().status
        await audit.close()

    assert (before.success, read.success, health.status, recovered) == (True, True, "degraded", "healthy")
    assert refused.error.code == "TOOL_UNAVAILABLE"
    assert "Make room" in refused.error.message
    ran = [entry.tool for entry in find(place / "audit.db") if entry.outcome == "success"]
    assert ran == ["files__save", "files__read", "files__save"]
    assert walk(place / "audit.db").fault is None
