"""Runs tests in forks of a process that has imported all that is not ours: ``python -m bench.mutants.warm``.

Each line asked is ``{"tests": [...], "options": [...], "within_s": N}``, and each is answered with one line: how pytest
ended, which tests failed and how, how long the longest and all took. Most of the time of a short run of tests is spent
on imports, and those of pytest and of other libraries are the same for every mutant.
"""

import contextlib
import ctypes
import importlib
import json
import os
import select
import signal
import sys
import time
from typing import Any

import pytest

PR_SET_PDEATHSIG = 1
OURS = ("toolcrib", "tests", "bench", "conftest", "test_", "__m")
TIMED_OUT = "Timeout ("
"""How pytest-timeout begins what it says of a test that took too long."""


class Notes:
    """A plugin that notes what pytest reports."""

    def __init__(self) -> None:
        self.failed: dict[str, bool] = {}
        """The tests that failed, and whether it was because they took too long."""
        self.longest_s = 0.0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.longest_s = max(self.longest_s, report.duration)
        if report.failed:
            self.failed[report.nodeid] = TIMED_OUT in report.longreprtext

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed[report.nodeid] = False


def main() -> None:
    """Answer until nothing more is asked."""
    end_with_the_parent()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for line in sys.stdin:
        asked = json.loads(line)
        answer, writing = in_a_fork(asked["within_s"])
        if answer is None:
            _run(asked, writing)
            continue
        for name in answer.pop("imported", ()):
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def end_with_the_parent() -> None:
    """Have the kernel end this process when the one that started it ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def in_a_fork(within_s: float) -> tuple[dict[str, Any] | None, int]:
    """Fork: the child gets where to write its answer, the parent that answer, when all the child started is ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        os.setsid()
        end_with_the_parent()
        return None, writing
    os.close(writing)
    try:
        return _read(reading, within_s), -1
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _read(reading: int, within_s: float) -> dict[str, Any]:
    """The child's line; one that says nothing in time hangs, and one that ends without a word has failed."""
    said = b""
    while not said.endswith(b"\n"):
        if not select.select([reading], [], [], within_s)[0]:
            return {"code": 1, "failed": {"the whole run": True}, "longest_s": within_s, "total_s": within_s}
        part = os.read(reading, 1 << 20)
        if not part:
            return {"code": 1, "failed": {"the process of the tests": False}, "longest_s": 0.0, "total_s": 0.0}
        said += part
    return json.loads(said)


def _run(asked: dict[str, Any], writing: int) -> None:
    notes, before, code, since = Notes(), set(sys.modules), 1, time.monotonic()
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(1, 2)
    try:
        code = int(pytest.main([*asked["options"], *asked["tests"]], plugins=[notes]))
        imported = [name for name in sys.modules if name not in before and not name.startswith(OURS)]
        said = {"code": code, "failed": notes.failed, "imported": imported}
        times = {"longest_s": notes.longest_s, "total_s": time.monotonic() - since}
        os.write(writing, json.dumps(said | times).encode() + b"\n")
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
