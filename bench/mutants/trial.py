"""Runs the tests against a copy of the package with one fault in it."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from bench.mutants.points import Mutant
from bench.mutants.subjects import ROOT, SOURCE, tests_of

HANG_S, RUN_S = 5.0, 30.0
"""What a test and a run of tests may always take before they hang: without a fault they take a fraction of it."""
PATIENCE = 10
"""How many times as long as without a fault it may take where it takes longer."""
SOUND_S = 600.0
OPTIONS = ("-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:randomly")


class Verdict(Enum):
    """What became of a mutant."""

    NOTICED = "noticed"
    HUNG = "hung, so noticed"
    SURVIVED = "survived"
    UNKNOWN = "not tried: its tests fail without it"


@dataclass(frozen=True)
class Outcome:
    """What a run of tests said."""

    failed: dict[str, bool]
    """The tests that failed, and whether it was because they took too long."""
    longest_s: float
    total_s: float


@dataclass
class Copy:
    """A copy of the package that comes before the installed one on the path, and a process that runs tests on it."""

    folder: Path
    runner: "subprocess.Popen[str]"

    @classmethod
    @contextlib.contextmanager
    def make(cls, folder: Path) -> Iterator["Copy"]:
        shutil.copytree(SOURCE, folder / "toolcrib", ignore=shutil.ignore_patterns("__pycache__"))
        env = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": ""}
        with subprocess.Popen(
            [sys.executable, "-m", "bench.mutants.warm"],
            cwd=ROOT,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as runner:
            yield cls(folder, runner)

    def source_of(self, module: str) -> bytes:
        """The text of a module as it was when the copy was made, whatever is edited meanwhile."""
        return (self.folder / "toolcrib" / module).read_bytes()

    def put(self, module: str, source: bytes) -> None:
        """Change one module; what was compiled of it goes, as it is told apart by size and second alone."""
        path = self.folder / "toolcrib" / module
        path.write_bytes(source)
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()

    def run(self, tests: Sequence[str], limit_s: float, within_s: float, *options: str) -> Outcome:
        """Run tests on what the copy holds now."""
        asked = {
            "tests": list(tests),
            "options": [*OPTIONS, *options, f"--timeout={limit_s:.1f}"],
            "within_s": within_s,
        }
        assert self.runner.stdin is not None
        assert self.runner.stdout is not None
        self.runner.stdin.write(json.dumps(asked) + "\n")
        self.runner.stdin.flush()
        said: dict[str, Any] = json.loads(self.runner.stdout.readline())
        failed = said["failed"] or ({"pytest itself": False} if said["code"] else {})
        return Outcome(failed, said["longest_s"], said["total_s"])


@dataclass
class Trial:
    """Tries mutants, and remembers what the tests say where nothing is wrong."""

    is_near: bool = False
    """Only the nearest tests are asked: a module's own, or those that import it."""
    sound: dict[tuple[str, ...], Outcome] = field(default_factory=dict)

    def judge(self, mutant: Mutant, copy: Copy) -> tuple[Verdict, str]:
        """The verdict, and which test noticed: the nearest are asked first, the wider while nothing was noticed."""
        for place, tests in enumerate(tests_of(mutant.module)[: 1 if self.is_near else None]):
            sound = self.without_fault(tests, copy)
            if sound.failed and not place:
                return Verdict.UNKNOWN, next(iter(sound.failed))
            failed = self._with_fault(mutant, copy, tests, sound)
            if failed:
                name, is_hung = next(iter(failed.items()))
                return Verdict.HUNG if is_hung else Verdict.NOTICED, name
        return Verdict.SURVIVED, ""

    def without_fault(self, tests: Sequence[str], copy: Copy) -> Outcome:
        """What these tests say of the package as it is; asked once."""
        key = tuple(tests)
        if key not in self.sound:
            self.sound[key] = copy.run(tests, SOUND_S / 2, SOUND_S)
            for name in self.sound[key].failed:
                print(f"fails without any fault, and is left out: {name}", file=sys.stderr, flush=True)
        return self.sound[key]

    def _with_fault(self, mutant: Mutant, copy: Copy, tests: Sequence[str], sound: Outcome) -> dict[str, bool]:
        """The test that fails with the fault; one that took too long is asked once more, with more patience."""
        limit_s, within_s = max(HANG_S, PATIENCE * sound.longest_s), max(RUN_S, PATIENCE * sound.total_s)
        options = ["-x", *(f"--deselect={name}" for name in sound.failed)]
        original = copy.source_of(mutant.module)
        copy.put(mutant.module, mutant.apply(original))
        try:
            failed = copy.run(tests, limit_s, within_s, *options).failed
            if any(failed.values()):
                failed = copy.run(tests, 3 * limit_s, 3 * within_s, *options).failed
            return failed
        finally:
            copy.put(mutant.module, original)
