"""The runner of all tests, over small files of tests: what fails is named, what hangs is ended, nothing is left."""

import contextlib
import itertools
import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.running import tally
from tests.running.crew import Bounds, Task
from tests.running.plan import everything, named, quick, shipped_times
from tests.running.runner import Runner, SharedEngines, environment

FILES = {
    "test_good.py": "def test_one(): pass\ndef test_two(): pass",
    "test_bad.py": "def test_one(): assert 1 == 2\ndef test_two(): pass",
    "test_set_up.py": "import pytest\n@pytest.fixture\ndef thing(): 1 / 0\ndef test_it(thing): pass",
    "test_unreadable.py": "import nothing_of_this_name",
    "test_fatal.py": "import os\ndef test_fatal(): os._exit(3)\ndef test_after(): pass",
    "test_hanging.py": (
        "import os, pathlib, signal\n"
        "def test_hangs():\n"
        "    pathlib.Path('hangs').symlink_to(str(os.getpid()))\n"
        "    signal.pause()\n"
        "def test_after(): pass"
    ),
}
STRAY = """
import subprocess, sys
HOLD = "import sys, time; print(flush=True); time.sleep(600)"
NOTED = open("pids", "a")

def note(process):
    process.stdout.readline()
    print(process.pid, file=NOTED, flush=True)

def test_child():
    note(subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE))

def test_orphan():
    start = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL).pid)"
    started = subprocess.run([sys.executable, "-c", start, sys.executable, "-c", HOLD], stdout=subprocess.PIPE)
    print(started.stdout.decode().strip(), file=NOTED, flush=True)
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs some files in a folder of their own; gives what became of the tests."""
    root, scratch = tmp_path / "project", tmp_path / "scratch"
    root.mkdir()
    scratch.mkdir()
    (root / "pytest.ini").write_text("[pytest]\naddopts = --disable-plugin-autoload\n")
    monkeypatch.setattr(tally, "MEMORY", tmp_path)

    def run(
        files: dict[str, str],
        *,
        workers: int = 1,
        only: tuple[str, ...] = (),
        kin: Mapping[str, str] = {},
        **bounds: float,
    ) -> tally.Tally:
        for name, text in files.items():
            (root / name).write_text(text)
        with contextlib.ExitStack() as life:
            tasks = [Task(name, only, kin=kin.get(name, "")) for name in files]
            runner = Runner(tasks, scratch, SharedEngines(life), Bounds(root, **bounds))
            runner.run(workers)
        return runner.tally

    return run


def named_files(*names: str) -> dict[str, str]:
    return {name: FILES[name] for name in names}


def is_there(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_what_passes_and_what_fails_is_counted_and_said(run, capsys):
    """Collecting and setting up can fail, too."""
    told = run(named_files("test_good.py", "test_bad.py", "test_set_up.py", "test_unreadable.py"), workers=2)

    failed = ["test_bad.py::test_one", "test_set_up.py::test_it", "test_unreadable.py"]
    assert (told.passed, sorted(told.failures), told.files_done) == (3, failed, 4)
    assert "1 == 2" in told.failures["test_bad.py::test_one"]
    assert all(f"FAILED {name}" in capsys.readouterr().out for name in failed[:1])


def test_a_worker_that_dies_is_named_and_another_does_the_rest(run):
    told = run(named_files("test_fatal.py", "test_good.py"))

    assert (told.passed, list(told.failures)) == (3, ["test_fatal.py::test_fatal"])
    assert "its worker ended" in told.failures["test_fatal.py::test_fatal"]


def test_a_test_that_hangs_is_ended_and_named_and_the_rest_goes_on(run, tmp_path):
    """By a clock that jumps on as soon as the test hangs, until somebody notices."""
    passed_s = itertools.count(0, 250)
    now = [0.0]

    def clock() -> float:
        mark = tmp_path / "project" / "hangs"
        if mark.is_symlink() and is_there(int(mark.readlink().name)):
            now[0] = next(passed_s)
        return now[0]

    told = run(named_files("test_hanging.py", "test_good.py"), clock=clock)

    assert (told.passed, list(told.failures)) == (3, ["test_hanging.py::test_hangs"])
    assert "nothing happened for 900 s" in told.failures["test_hanging.py::test_hangs"]


def test_processes_that_a_file_leaves_are_ended_and_the_file_is_named(run, tmp_path):
    """Children and what they orphaned in sessions of their own."""
    told = run({"test_stray.py": STRAY}, strays_s=0.5)

    pids = [int(pid) for pid in (tmp_path / "project" / "pids").read_text().split()]
    assert (told.passed, list(told.failures)) == (2, ["test_stray.py"])
    assert told.failures["test_stray.py"].count("a process was left behind") == 2
    assert (len(pids), [pid for pid in pids if is_there(pid)]) == (2, [])


def test_only_the_tests_that_are_named_are_run(run):
    told = run(named_files("test_bad.py"), only=("test_bad.py::test_two",))

    assert (told.passed, told.failures) == (1, {})


def test_what_failed_is_remembered_where_pytest_looks_and_the_last_line_counts(tmp_path, monkeypatch, capsys):
    file = tmp_path / "cache" / "lastfailed"
    monkeypatch.setattr(tally, "FAILED", file)
    monkeypatch.setattr(tally, "TIMES", tmp_path / "times" / "times")
    told = tally.Tally(1)
    for name, outcome in (("a.py::x", "passed"), ("a.py::y", "failed")):
        told.note({"id": name, "when": "call", "outcome": outcome, "text": "why"})
    told.note_file("a.py", 1.0, 0.5)
    code = told.close(1.0, is_whole=True)

    assert (code, json.loads(file.read_text()), tally.last_failed()) == (1, {"a.py::y": True}, ["a.py::y"])
    assert tally.last_times() == {"a.py": 1.0}
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 1 failed"


def test_no_test_meets_this_users_files(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/of/the/user")
    monkeypatch.setenv("TOOLCRIB_TOKEN", "of the user")

    assert not {"XDG_STATE_HOME", "TOOLCRIB_TOKEN"} & set(environment(tmp_path))


def test_the_files_whose_length_is_known_are_there():
    """Else the longest could be alone at the end where no times are remembered: ``python -m tests.running weigh``."""
    assert [path for path in shipped_times() if not (Path(__file__).parents[2] / path).exists()] == []


def test_files_of_one_kin_are_run_by_one_worker(run, tmp_path):
    """Whatever it shares among them is started once; the others are run meanwhile."""
    note = "import os\ndef test_it(): open('told', 'a').write(f'{os.getpid()} {__name__}\\n')"
    kin = {"test_a.py": "same", "test_c.py": "same", "test_e.py": "same"}
    run({f"test_{letter}.py": note for letter in "abcde"}, workers=2, kin=kin)

    told = [line.split() for line in (tmp_path / "project" / "told").read_text().splitlines()]
    assert sorted(name for _, name in told) == [f"test_{letter}" for letter in "abcde"]
    assert len({pid for pid, name in told if f"{name}.py" in kin}) == 1


def test_every_file_is_in_the_whole_run_once_and_the_quick_one_is_part_of_it():
    whole = [task.path for task in everything()]

    assert len(whole) == len(set(whole))
    assert os.path.relpath(__file__, Path(__file__).parents[2]) in whole
    assert {task.path for task in quick()} < set(whole)


def test_tests_are_named_by_file_folder_or_id():
    names = named(["tests/running", "tests/crib/test_replicas.py::test_a", "tests/crib/test_replicas.py::test_b"])

    ids = ("tests/crib/test_replicas.py::test_a", "tests/crib/test_replicas.py::test_b")
    assert names == [Task("tests/running/test_runner.py"), Task("tests/crib/test_replicas.py", ids)]
