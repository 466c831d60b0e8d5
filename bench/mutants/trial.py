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
PATIENCE = 5
"""How many times as long as without a fault, and traced, it may take where it takes longer."""
SOUND_S = 600.0
COLLECTED_KEPT = 4
NOTHING_RUN = 5
"""How pytest ends that had no test to run."""
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
    entered: dict[str, list[str]] = field(default_factory=dict)
    """Which tests ran a function, by ``MODULE NAME``; of a run without a fault."""

    def tests_that_enter(self, mutant: Mutant) -> list[str]:
        """The tests that run the function a fault is in, or what is inside that function."""
        name = f"toolcrib/{mutant.module} {mutant.function}"
        inside = (tests for key, tests in self.entered.items() if _is_or_is_in(key.replace(".<locals>", ""), name))
        return sorted({test for tests in inside for test in tests})


def _is_or_is_in(key: str, name: str) -> bool:
    return key == name or key.startswith(f"{name}.")


@dataclass
class Runner:
    """A process that runs tests when asked to, and answers with what they said."""

    process: "subprocess.Popen[str]"

    @classmethod
    def start(cls, folder: Path, module: str, *arguments: str) -> "Runner":
        """Start one for the package in this folder, which comes before the installed one on the path."""
        env = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": ""}
        command = [sys.executable, "-m", module, *arguments]
        out = subprocess.PIPE
        return cls(
            subprocess.Popen(command, cwd=ROOT, env=env, stdin=out, stdout=out, stderr=subprocess.DEVNULL, text=True)
        )

    def ask(self, **asked: Any) -> dict[str, Any] | None:
        """What it answers; None if it ended instead."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(asked) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.communicate()


@dataclass
class Copy:
    """A copy of the package, and the processes that run tests on it."""

    folder: Path
    anew: Runner
    """Imports the package anew for every run."""
    collected: dict[tuple[str, ...], Runner] = field(default_factory=dict)
    """Those that imported it and collected these tests once, oldest first."""

    @classmethod
    @contextlib.contextmanager
    def make(cls, folder: Path) -> Iterator["Copy"]:
        shutil.copytree(SOURCE, folder / "toolcrib", ignore=shutil.ignore_patterns("__pycache__"))
        copy = cls(folder, Runner.start(folder, "bench.mutants.warm"))
        try:
            yield copy
        finally:
            for runner in (copy.anew, *copy.collected.values()):
                runner.close()

    def source_of(self, module: str) -> bytes:
        """The text of a module as it was when the copy was made, whatever is edited meanwhile."""
        return (self.folder / "toolcrib" / module).read_bytes()

    def put(self, module: str, source: bytes) -> None:
        """Change one module; what was compiled of it goes, as it is told apart by size and second alone."""
        path = self.folder / "toolcrib" / module
        path.write_bytes(source)
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()

    def run_anew(self, tests: Sequence[str], limit_s: float, within_s: float, *options: str) -> Outcome:
        """Run tests on what the copy holds now."""
        told = [*OPTIONS, *options, f"--timeout={limit_s:.1f}"]
        said = self.anew.ask(tests=list(tests), options=told, within_s=within_s)
        assert said is not None
        return _outcome(said)

    def run_collected(self, stage: Sequence[str], **asked: Any) -> Outcome | None:
        """Run some of these tests where they are collected; None where that cannot be done with this fault."""
        said = self._collected(tuple(stage)).ask(**asked)
        return _outcome(said) if said is not None and said["patched"] else None

    def _collected(self, stage: tuple[str, ...]) -> Runner:
        if stage not in self.collected:
            while len(self.collected) >= COLLECTED_KEPT:
                self.collected.pop(next(iter(self.collected))).close()
            self.collected[stage] = Runner.start(self.folder, "bench.mutants.collected", str(self.folder), *stage)
        return self.collected[stage]


def _outcome(said: dict[str, Any]) -> Outcome:
    failed = said["failed"] or ({"pytest itself": False} if said["code"] not in (0, NOTHING_RUN) else {})
    return Outcome(failed, said["longest_s"], said["total_s"], said.get("entered", {}))


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
            failed = self._with_fault(Attempt(mutant, copy, tests, sound, is_nearest=not place))
            if failed:
                name, is_hung = next(iter(failed.items()))
                return Verdict.HUNG if is_hung else Verdict.NOTICED, name
        return Verdict.SURVIVED, ""

    def without_fault(self, tests: Sequence[str], copy: Copy) -> Outcome:
        """What these tests say of the package as it is; asked once."""
        key = tuple(tests)
        if key not in self.sound:
            said = copy.run_collected(tests, tests=None, limit_s=SOUND_S / 2, within_s=SOUND_S)
            self.sound[key] = said or copy.run_anew(tests, SOUND_S / 2, SOUND_S)
            for name in self.sound[key].failed:
                print(f"fails without any fault, and is left out: {name}", file=sys.stderr, flush=True)
        return self.sound[key]

    def _with_fault(self, attempt: "Attempt") -> dict[str, bool]:
        """The test that fails with the fault, and not without; with more patience where the machine is slow now."""
        while True:
            failed = attempt.run(1)
            if any(map(attempt.is_slow_anyway, (name for name, is_hung in failed.items() if is_hung))):
                failed = attempt.run(3)
            unsound = [name for name, is_hung in failed.items() if not is_hung and attempt.fails_anyway(name)]
            if not unsound:
                return failed
            attempt.sound.failed.update(dict.fromkeys(unsound, False))
            print(f"failed without any fault, too, and is left out: {unsound}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Attempt:
    """One mutant before one stage of tests."""

    mutant: Mutant
    copy: Copy
    tests: Sequence[str]
    sound: Outcome
    is_nearest: bool

    @property
    def limit_s(self) -> float:
        """How long a test may take before it hangs."""
        return max(HANG_S, PATIENCE * self.sound.longest_s)

    def run(self, patience: int) -> dict[str, bool]:
        """The tests that fail with the fault in its place, and whether they took too long."""
        limit_s = patience * self.limit_s
        within_s = patience * max(RUN_S, PATIENCE * self.sound.total_s)
        original = self.copy.source_of(self.mutant.module)
        self.copy.put(self.mutant.module, self.mutant.apply(original))
        try:
            quick = self._collected(original, limit_s, within_s)
            if quick is not None and (quick.failed or not self.is_nearest):
                return quick.failed
            options = ["-x", *(f"--deselect={name}" for name in self.sound.failed)]
            return self.copy.run_anew(self.tests, limit_s, within_s, *options).failed
        finally:
            self.copy.put(self.mutant.module, original)

    def _collected(self, original: bytes, limit_s: float, within_s: float) -> Outcome | None:
        """What the tests say that run the function; None if there is none, or it cannot be changed where it is."""
        chosen = [name for name in self.sound.tests_that_enter(self.mutant) if name not in self.sound.failed]
        if not chosen:
            return None
        source = self.mutant.apply(original).decode()
        texts = {"module": self.mutant.module, "original": original.decode(), "source": source}
        return self.copy.run_collected(self.tests, tests=chosen, limit_s=limit_s, within_s=within_s, **texts)

    def is_slow_anyway(self, test: str) -> bool:
        """Whether the test that took too long takes as long without the fault; or nobody knows which one it was."""
        again = self.copy.run_collected(self.tests, tests=[test], limit_s=self.limit_s, within_s=SOUND_S)
        return "::" not in test or again is None or bool(again.failed)

    def fails_anyway(self, test: str) -> bool:
        """Whether the test that noticed fails without the fault as well, as on a machine that is too busy."""
        again = self.copy.run_collected(self.tests, tests=[test], limit_s=SOUND_S / 2, within_s=SOUND_S)
        return again is not None and bool(again.failed)
