"""What became of the tests so far, and how it is shown and remembered."""

import contextlib
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MEMORY = ROOT / ".pytest_cache" / "v"
FAILED = MEMORY / "cache" / "lastfailed"
"""Where pytest's own ``--lf`` looks."""
TIMES = MEMORY / "toolcrib" / "times"
EVERY_S = 15.0


@dataclass
class Tally:
    """Counts tests and files, and says so from time to time."""

    files: int
    began: float = field(default_factory=time.monotonic)
    passed: int = 0
    skipped: int = 0
    files_done: int = 0
    failures: dict[str, str] = field(default_factory=dict)
    """What each test that failed said, by its id."""
    times: Counter[str] = field(default_factory=Counter)
    """The seconds that each file took."""
    cpu: Counter[str] = field(default_factory=Counter)
    """The seconds of CPU that each file used, with the programs it started."""
    shown_at: float = field(default_factory=time.monotonic)
    is_terminal: bool = field(default_factory=sys.stdout.isatty)

    def note(self, report: dict[str, Any]) -> None:
        """One report of pytest: of setting up, the call, tearing down, or collecting."""
        name, outcome = report["id"], report["outcome"]
        if outcome == "failed":
            self.fail(name, f"{report['when']}: {report['text']}")
        elif outcome == "skipped":
            self.skipped += 1
        elif report["when"] == "call":
            self.passed += 1

    def note_file(self, path: str, took_s: float, cpu_s: float) -> None:
        """A file is done."""
        self.files_done += 1
        self.times[path] += took_s
        self.cpu[path] += cpu_s

    def fail(self, name: str, text: str) -> None:
        """Count a test as failed, once, and say so at once."""
        if name in self.failures:
            self.failures[name] += f"\n{text}"
            return
        self.failures[name] = text
        self.say(f"FAILED {name}")

    def say(self, words: str) -> None:
        clear = "\r\x1b[K" if self.is_terminal else ""
        print(f"{clear}{words}", flush=True)

    def show(self, under_way: list[str]) -> None:
        """How far it is: a line that stays the last one on a terminal, or one every few seconds in a log."""
        now = time.monotonic()
        if now - self.shown_at < (1.0 if self.is_terminal else EVERY_S):
            return
        self.shown_at = now
        far = f"{self.files_done} of {self.files} files, {self.passed} passed, {len(self.failures)} failed"
        words = f"[{now - self.began:4.0f} s] {far}; now {', '.join(sorted(under_way))}"
        if self.is_terminal:
            print(f"\r\x1b[K{words[:150]}", end="", flush=True)
        else:
            print(words, flush=True)

    def close(self, cpu_s: float, *, is_whole: bool) -> int:
        """Say what failed and why, remember it, and return the exit code."""
        for name, text in self.failures.items():
            self.say(f"\n=== {name}\n{text}")
        self._remember(is_whole=is_whole)
        took = f"{time.monotonic() - self.began:.0f} s, {cpu_s:.0f} s of CPU"
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        self.say(f"\n{self.files_done} files in {took}{skipped}")
        for name in self.failures:
            self.say(f"FAILED {name}")
        if self.failures:
            self.say("Run these again: ./dev test failed")
        self.say(f"{self.passed} passed, {len(self.failures)} failed")
        return 1 if self.failures or not self.passed else 0

    def _remember(self, *, is_whole: bool) -> None:
        with contextlib.suppress(OSError):
            for file in (FAILED, TIMES):
                file.parent.mkdir(parents=True, exist_ok=True)
            FAILED.write_text(json.dumps(dict.fromkeys(self.failures, True), indent=1))
            if is_whole:
                TIMES.write_text(json.dumps({"files": last_times() | self.times, "cpu": self.cpu}, indent=1))


def last_failed() -> list[str]:
    """The ids of the tests that failed last time."""
    with contextlib.suppress(OSError, ValueError):
        return list(json.loads(FAILED.read_text()))
    return []


def last_times() -> dict[str, float]:
    """The seconds that each file took when all were run last."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        return dict(json.loads(TIMES.read_text())["files"])
    return {}
