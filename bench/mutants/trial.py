"""Runs the tests against a copy of the package with one fault in it."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from bench.mutants.points import Mutant
from bench.mutants.subjects import ROOT, SOURCE, tests_of

HANG_S = 20
"""A test that takes longer hangs: the tests of these modules take milliseconds each."""
RUN_S = 420


class Verdict(Enum):
    """What became of a mutant."""

    NOTICED = "noticed"
    HUNG = "hung, so noticed"
    SURVIVED = "survived"


@dataclass(frozen=True)
class Copy:
    """A copy of the package that comes before the installed one on the path."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> "Copy":
        shutil.copytree(SOURCE, folder / "toolcrib", ignore=shutil.ignore_patterns("__pycache__"))
        return cls(folder)

    def put(self, module: str, source: bytes) -> None:
        """Change one module; its file gets a new time, so that no compiled one is taken for it."""
        path = self.folder / "toolcrib" / module
        path.write_bytes(source)
        stamp = time.time_ns()
        os.utime(path, ns=(stamp, stamp))


def judge(mutant: Mutant, copy: Copy) -> Verdict:
    """Ask the nearest tests first, the wider ones only while nothing was noticed."""
    original = (SOURCE / mutant.module).read_bytes()
    copy.put(mutant.module, mutant.apply(original))
    try:
        for tests in tests_of(mutant.module):
            verdict = run_tests(tests, copy)
            if verdict is not Verdict.SURVIVED:
                return verdict
        return Verdict.SURVIVED
    finally:
        copy.put(mutant.module, original)


def run_tests(tests: Sequence[str], copy: Copy) -> Verdict:
    """Whether these tests notice that something is wrong with the copy."""
    argv = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", f"--timeout={HANG_S}"]
    env = {**os.environ, "PYTHONPATH": f"{copy.folder}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": ""}
    with subprocess.Popen(
        [*argv, *tests],
        cwd=ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as program:
        try:
            return Verdict.SURVIVED if program.wait(RUN_S) == 0 else Verdict.NOTICED
        except subprocess.TimeoutExpired:
            return Verdict.HUNG
        finally:
            _end(program)


def _end(program: subprocess.Popen[bytes]) -> None:
    """Whatever is left of a run, ended with it."""
    try:
        os.killpg(program.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
