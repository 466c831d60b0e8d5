"""Kept results: private, bounded, for their caller only, and gone when the program is."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fleet import launcher
from tests.fleet.running import until

from toolcrib.config.model import ResultsConfig
from toolcrib.core.errors import ResultNotKept
from toolcrib.stores.results import ResultStore, new_handle
from toolcrib.testing import ManualClock


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "toolcrib" / "results"


def modes(root: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in [root, *root.rglob("*")]}


async def test_what_is_kept_is_read_back_byte_for_byte(root):
    """Whatever the bytes are."""
    store = ResultStore(root, ResultsConfig())
    raw = bytes(range(256)) * 1000

    handle = await store.keep(raw, "ann", "files__read")

    assert await store.read(handle, "ann") == raw
    await store.close()


async def test_another_caller_gets_what_an_unknown_handle_gets(root):
    """Nobody learns whether a handle exists."""
    store = ResultStore(root, ResultsConfig())
    handle = await store.keep(b"secret", "ann", "files__read")

    assert await store.read(handle, "bob") is await store.read("r_unknown", "ann") is None
    await store.close()


def test_handles_hold_128_random_bits():
    """As base32 they are 26 characters long, and no two are the same."""
    handles = {new_handle() for _ in range(1000)}

    assert len(handles) == 1000
    assert {len(handle) for handle in handles} == {28}


async def test_directories_and_files_are_private(root):
    """0700 and 0600, whatever the umask says."""
    before = os.umask(0)
    try:
        store = ResultStore(root, ResultsConfig())
        await store.keep(b"secret", "ann", "files__read")
    finally:
        os.umask(before)

    found = modes(root)

    assert found.pop("results") == 0o700
    assert sorted(found.values()) == [0o600, 0o700]
    await store.close()


async def test_a_directory_that_others_can_write_to_is_not_used(root):
    """Files there could be swapped."""
    root.mkdir(parents=True)
    root.chmod(0o777)
    store = ResultStore(root, ResultsConfig())

    with pytest.raises(ResultNotKept, match="not a private directory"):
        await store.keep(b"secret", "ann", "files__read")


async def test_nothing_is_made_before_it_is_needed(root):
    """Opening and closing touch no disk."""
    store = ResultStore(root, ResultsConfig())
    await store.open()
    await store.close()

    assert not root.parent.exists()


async def test_the_oldest_go_when_the_space_is_used_up(root):
    """As many as must, and their files with them."""
    store = ResultStore(root, ResultsConfig(space=1000))
    first, second, third = [await store.keep(bytes(400), "ann", f"tool{n}") for n in range(3)]

    assert await store.read(first, "ann") is None
    assert await store.read(second, "ann") == await store.read(third, "ann") == bytes(400)
    assert sum(path.stat().st_size for path in root.rglob("*") if path.is_file()) == 800
    await store.close()


async def test_what_is_larger_than_all_the_space_is_refused(root):
    """And throws out nothing else."""
    store = ResultStore(root, ResultsConfig(space=1000))
    handle = await store.keep(bytes(400), "ann", "tool")

    with pytest.raises(ResultNotKept, match="1001 bytes"):
        await store.keep(bytes(1001), "ann", "tool")
    assert await store.read(handle, "ann") == bytes(400)
    await store.close()


async def test_what_is_too_old_is_gone(root):
    """It cannot be read any more, and the next keeping removes its file."""
    clock = ManualClock()
    store = ResultStore(root, ResultsConfig(keep_s=60), clock)
    old = await store.keep(b"old", "ann", "tool")
    clock.advance(60)

    assert await store.read(old, "ann") is None
    await store.keep(b"new", "ann", "tool")
    assert [path.read_bytes() for path in root.rglob("*") if path.is_file()] == [b"new"]
    await store.close()


async def test_what_is_too_old_goes_even_if_nobody_asks(root):
    """A timer removes the file."""
    store = ResultStore(root, ResultsConfig(keep_s=0.05))
    await store.keep(b"old", "ann", "tool")

    await asyncio.to_thread(
        until, lambda: not [path for path in root.rglob("*") if path.is_file()], deadline_s=150, what="removal"
    )
    await store.close()


async def test_closing_removes_everything(root):
    """Nothing of this program is left, and nothing is kept any more."""
    store = ResultStore(root, ResultsConfig())
    handle = await store.keep(b"secret", "ann", "tool")

    await store.close()

    assert list(root.iterdir()) == []
    assert await store.read(handle, "ann") is None
    with pytest.raises(ResultNotKept):
        await store.keep(b"more", "ann", "tool")


async def test_a_disk_that_refuses_is_told_and_may_do_better_the_next_time(root):
    """The result is refused, not cut; here a directory stands where the file would be."""
    store = ResultStore(root, ResultsConfig())
    await store.keep(b"first", "ann", "tool")
    (run,) = root.iterdir()
    (run / "2").mkdir()

    with pytest.raises(ResultNotKept, match="cannot be kept"):
        await store.keep(b"second", "ann", "tool")
    (run / "2").rmdir()

    assert await store.read(await store.keep(b"third", "ann", "tool"), "ann") == b"third"
    await store.close()


KEEPS_AND_WAITS = """
import asyncio, sys
from pathlib import Path
from toolcrib.config.model import ResultsConfig
from toolcrib.stores.results import ResultStore

async def main():
    store = ResultStore(Path(sys.argv[1]), ResultsConfig())
    await store.keep(b"left behind", "ann", "tool")
    print("kept", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_what_a_killed_program_left_is_swept_at_the_next_start_and_a_living_ones_is_not(root):
    """The lock on the directory tells the dead from the living."""
    dead, living = [
        launcher.popen([sys.executable, "-c", KEEPS_AND_WAITS, str(root)], is_example=True, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    try:
        assert dead.stdout.readline() == living.stdout.readline() == b"kept\n"
        dead.send_signal(signal.SIGKILL)
        dead.wait()
        assert len(list(root.iterdir())) == 2

        await ResultStore(root, ResultsConfig()).open()

        assert [path.name.split("-")[1] for path in root.iterdir()] == [str(living.pid)]
    finally:
        living.kill()
        living.wait()
        for process in (dead, living):
            process.stdout.close()
