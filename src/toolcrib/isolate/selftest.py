"""The self-test: a probe runs at every level and really tries; a level counts only if it keeps all its promises."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolcrib.core.errors import SourceUnavailable
from toolcrib.isolate.arena import Arena, Verdict, open_arena
from toolcrib.isolate.grants import MIB, Limits, Wish
from toolcrib.isolate.levels import IsolationLevel, Probe, promises
from toolcrib.isolate.plan import Host, confine
from toolcrib.isolate.run import run_once
from toolcrib.transports.spawn import Spawner
from toolcrib.transports.spec import ProcessSpec

LEVEL_LIMIT_S = 20.0
OUTPUT_MAX = 64 * 1024
MEMORY_BYTES, FILE_BYTES = 512 * MIB, 64 * MIB
SPARE_PROCESSES = 100
FORKS = 200
_PROGRAM = Path(__file__).with_name("probe.py")


@dataclass(frozen=True, slots=True)
class Trial:
    """What the probe got away with at one level."""

    verdicts: Mapping[Probe, Verdict] = field(default_factory=dict)
    missing: str = ""
    """Why the level could not be tried at all."""

    def broken(self, level: IsolationLevel) -> frozenset[Probe]:
        """The promises of the level that were not kept."""
        kept = (Verdict.STOPPED, Verdict.LIMITED)
        return frozenset(probe for probe in promises(level) if self.verdicts.get(probe) not in kept)


@dataclass(frozen=True, slots=True)
class Proof:
    """What was measured on this machine, by level."""

    trials: Mapping[IsolationLevel, Trial]

    @property
    def proven(self) -> IsolationLevel:
        """The highest level that kept its promises."""
        return max((level for level in IsolationLevel if self.holds(level)), key=lambda level: level.rank)

    def holds(self, level: IsolationLevel) -> bool:
        """Whether a level kept its promises here."""
        if level is IsolationLevel.NONE:
            return True
        trial = self.trials.get(level)
        return trial is not None and not trial.missing and not trial.broken(level)

    def why_not(self, level: IsolationLevel) -> str:
        """What keeps a level from being proven; empty if nothing does."""
        trial = self.trials.get(level, Trial(missing="it was not tested"))
        broken = ", ".join(sorted(trial.broken(level)))
        return trial.missing or (f"the self-test could still get at: {broken}" if broken else "")


async def measure(spawner: Spawner, host: Host) -> Proof:
    """Try every level that promises anything, one after the other, as fast as that can be done."""
    levels = [level for level in IsolationLevel if promises(level)]
    return Proof({level: await try_level(spawner, host, level) for level in levels})


async def measure_all(spawner: Spawner, host: Host) -> Proof:
    """Try everything at every level, for people who want to see it."""
    return Proof({level: await try_level(spawner, host, level, forks=FORKS) for level in IsolationLevel})


async def try_level(spawner: Spawner, host: Host, level: IsolationLevel, *, forks: int = 0) -> Trial:
    """Run the probe at one level."""
    missing = _unavailable(host, level)
    if missing:
        return Trial(missing=missing)
    with open_arena(host.temporary, forks) as arena:
        try:
            async with asyncio.timeout(LEVEL_LIMIT_S):
                without = arena.judge(await _ask(spawner, await _prepared(arena, host, level, network=False)))
                with_ = arena.judge_network(await _ask(spawner, await _prepared(arena, host, level, network=True)))
        except (SourceUnavailable, TimeoutError, ValueError) as error:
            return Trial(missing=str(error) or "the probe did not come to an end")
    # What is open either way is open.
    return Trial({**with_, **without, Probe.UNIX: max(without[Probe.UNIX], with_[Probe.UNIX], key=_is_open)})


def _is_open(verdict: Verdict) -> bool:
    return verdict is Verdict.OPEN


def _unavailable(host: Host, level: IsolationLevel) -> str:
    if not hasattr(os, "fork"):
        return "programs cannot be started under a keeper here; it needs Linux or macOS"
    if level.rank >= IsolationLevel.CONFINED.rank and not host.is_linux:
        return "it needs Linux"
    if level is IsolationLevel.ISOLATED and host.bwrap is None:
        return "bubblewrap (bwrap) is not installed"
    return ""


async def _prepared(arena: Arena, host: Host, level: IsolationLevel, *, network: bool) -> ProcessSpec:
    """The probe at one level, with limits that it can run into without doing harm."""
    tasks = await asyncio.to_thread(_count_tasks)  # looks at every process of the machine
    processes = tasks + SPARE_PROCESSES if tasks else None
    limits = Limits(memory_bytes=MEMORY_BYTES, file_bytes=FILE_BYTES, processes=processes)
    read = (str(_PROGRAM),) if level.rank >= IsolationLevel.CONFINED.rank else ()
    argv = (sys.executable, "-I", "-S", "-E", str(_PROGRAM), json.dumps(arena.describe(network=network)))
    spec = ProcessSpec(argv, {"PATH": os.defpath}, stop_grace_s=0.0, kill_grace_s=0.0)
    return confine(spec, Wish(level, read=read, network=network or None, limits=limits), host)


def _count_tasks() -> int:
    """How many processes and threads of this user run now, as the kernel counts them; 0 where that cannot be seen."""
    user, count = os.getuid(), 0
    for entry in Path("/proc").glob("[0-9]*/task"):
        try:
            count += len(list(entry.iterdir())) if entry.stat().st_uid == user else 0
        except OSError:
            continue
    return count


async def _ask(spawner: Spawner, spec: ProcessSpec) -> dict[str, Any]:
    """What the probe tells; raises ``ValueError`` if it could not run."""
    finished = await run_once(spawner, spec, b"", OUTPUT_MAX)
    try:
        told: dict[str, Any] = json.loads(finished.output)
    except ValueError:
        said = finished.stderr[-1] if finished.stderr else str(finished.exit)
        raise ValueError(f"the probe could not run: {said}") from None
    return told
