"""Runs tests that were collected once in forks, each with other code in one module: ``... collected FOLDER TESTS...``.

FOLDER holds the package. Each line asked is ``{"limit_s": N, "within_s": N, "tests": [...], "module": ..., "source":
...}`` and each is answered with one line, as by ``bench.mutants.warm``. A fault inside a function is put into the
functions that were imported, which takes a fraction of what it takes to import and to collect everything anew. What
runs while a module is imported cannot be changed that way: it is answered ``{"patched": false}``, and nothing is run.

Without ``source`` it says which functions each test entered, so that only those are asked that can tell a difference.
"""

import gc
import json
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, TextIO

import pytest
from tests.running.plan import QUICK_VARIABLE

from bench.mutants.warm import Notes, end_with_the_parent, in_a_fork

OPTIONS = ("-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:randomly", "-x", "--assert=plain", "--tb=native")
"""Nobody reads why a test failed: explaining it takes longer than the test."""
Key = tuple[str, int, bytes]
"""What tells one function of a module from the others: its name, its line, and where its expressions stand."""


class Collected:
    """A plugin that runs the collected tests in a fork for each line asked, instead of once."""

    def __init__(self, folder: Path, questions: TextIO, answers: TextIO) -> None:
        self._folder, self._questions, self._answers = f"{folder}/", questions, answers
        self._notes = Notes()
        self._entered: dict[str, set[str]] = defaultdict(set)
        self._test, self._is_traced = "", False
        self._since = 0.0
        self._writing = -1

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Answer until nothing more is asked; a fork goes on to pytest's own loop."""
        functions = _functions_below(self._folder)
        gc.freeze()  # or every fork copies all of the memory when it collects for the first time
        for line in self._questions:
            asked = json.loads(line)
            changed = self._changed(asked, functions)
            if asked.get("source") and not changed:
                self._answer({"patched": False})
            elif self._is_the_fork(asked):
                self._prepare(session, asked, changed, functions)
                return None
        return True

    def _is_the_fork(self, asked: dict[str, Any]) -> bool:
        """Fork; the parent hands on what the child said, and the child has its own end of the pipe."""
        answer, self._writing = in_a_fork(asked["within_s"])
        if answer is not None:
            self._answer({"patched": True, **answer})
        return answer is None

    def _answer(self, said: dict[str, Any]) -> None:
        self._answers.write(json.dumps(said) + "\n")
        self._answers.flush()

    def _changed(self, asked: dict[str, Any], functions: dict[Key, list[FunctionType]]) -> dict[Key, CodeType]:
        """The code that is different with the fault in it, as far as there are functions to put it into."""
        if not asked.get("source"):
            return {}
        path = f"{self._folder}toolcrib/{asked['module']}"
        old, new = (compile(asked[text], path, "exec", dont_inherit=True) for text in ("original", "source"))
        return {_key(was): now for was, now in _differences(old, new) if _key(was) in functions}

    def _prepare(
        self,
        session: pytest.Session,
        asked: dict[str, Any],
        changed: dict[Key, CodeType],
        functions: dict[Key, list[FunctionType]],
    ) -> None:
        for key, code in changed.items():
            for function in functions[key]:
                function.__code__ = code
        if asked["tests"] is not None:
            wanted = set(asked["tests"])
            session.items[:] = [item for item in session.items if item.nodeid in wanted]
        for item in session.items:
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(asked["limit_s"]))
        self._is_traced = not asked.get("source")
        if self._is_traced:
            session.config.option.maxfail = 0
            threading.settrace(self._trace)
        self._since = time.monotonic()

    def _trace(self, frame: FrameType, _event: str, _argument: object) -> None:
        code = frame.f_code
        if code.co_filename.startswith(self._folder):
            name = f"{code.co_filename.removeprefix(self._folder)} {code.co_qualname}"
            self._entered[name].add(self._test)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._test = nodeid
        if self._is_traced:
            sys.settrace(self._trace)  # for each test anew: a test that recurses too deeply ends the tracing

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._notes.pytest_runtest_logreport(report)

    def finish(self, code: int) -> None:
        """Say what came of it, in the fork."""
        if self._writing < 0:
            return
        sys.settrace(None)
        notes = self._notes
        said = {"code": code, "failed": notes.failed, "longest_s": notes.longest_s}
        said |= {"total_s": time.monotonic() - self._since}
        said |= {"entered": {name: sorted(tests) for name, tests in self._entered.items()}}
        with os.fdopen(self._writing, "w") as pipe:
            pipe.write(json.dumps(said) + "\n")
        os._exit(0)


def _functions_below(folder: str) -> dict[Key, list[FunctionType]]:
    found: dict[Key, list[FunctionType]] = defaultdict(list)
    for thing in gc.get_objects():
        if isinstance(thing, FunctionType) and thing.__code__.co_filename.startswith(folder):
            found[_key(thing.__code__)].append(thing)
    return found


def _key(code: CodeType) -> Key:
    return code.co_filename + code.co_qualname, code.co_firstlineno, code.co_linetable


def _differences(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Every piece of code that is not as it was, with what it is now; what is inside a changed one included."""
    if old == new:
        return
    if len(old.co_freevars) == len(new.co_freevars):
        yield old, new
    inner = [[part for part in code.co_consts if isinstance(part, CodeType)] for code in (old, new)]
    if len(inner[0]) == len(inner[1]):
        for was, now in zip(*inner, strict=True):
            yield from _differences(was, now)


def main() -> None:
    """Collect, then answer."""
    end_with_the_parent()
    collected = Collected(Path(sys.argv[1]), os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w"))
    os.environ[QUICK_VARIABLE] = "1"  # what the fewer examples of a property do not show, the run anew will
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    code = pytest.main([*OPTIONS, *sys.argv[2:]], plugins=[collected])
    collected.finish(int(code))


if __name__ == "__main__":
    main()
