"""Every store on a disk that fails at every step, loses power after every step, and damages what it holds.

``./dev bench faults`` does the same with every kind of failure; here each step fails in one of them.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.faults.stores import STORES
from bench.faults.trials import Trials

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
