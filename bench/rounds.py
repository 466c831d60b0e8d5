"""The order of a run: every round visits every contender once, each time beginning with another one."""

import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from bench.contenders import CONTENDERS, Contender
from bench.goals import Results, Round
from bench.options import Options
from bench.running import Running
from bench.scenario import Scenario


class Named(Protocol):
    @property
    def name(self) -> str: ...


TELL_S = 1.0  # shorter rounds are not announced one by one

Item = TypeVar("Item", bound=Named)


class NobodyLeftError(RuntimeError):
    """No contender could be measured."""


def choose(options: Options, front: str, back: str, fits: Callable[[Contender], bool]) -> list[Contender]:
    """The contenders of a figure: those named, or all that fit and are not on request."""
    known = {contender.name for contender in CONTENDERS}
    unknown = set(options.only) - known
    if unknown:
        raise SystemExit(f"no contender named {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}")
    wanted = [
        contender
        for contender in CONTENDERS
        if (contender.name in options.only if options.only else options.all_peers or not contender.on_request)
    ]
    return [contender for contender in wanted if contender.can(front, back) and fits(contender)]


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def why(error: BaseException) -> str:
    """One line about an error; of a group, about its first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {str(error)[:300]}"


@asynccontextmanager
async def all_up(contenders: Sequence[Contender], scenario: Scenario, front: str) -> AsyncIterator[list[Running]]:
    """Those contenders that start, all of them at once; the others are named and left out."""
    up: list[Running] = []
    try:
        for contender in contenders:
            running = Running(contender, scenario, scenario.home(), front)
            up.append(running)
            if not await _starts(running):
                up.remove(running)
        yield up
    finally:
        for running in up:
            await running.stop()


@asynccontextmanager
async def started(running: Running, limit_s: float) -> AsyncIterator[Running]:
    try:
        await running.start(limit_s)
        yield running
    finally:
        await running.stop()


class Homes:
    """Each contender's directory: kept for its next start, unless it forgets."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.kept: dict[str, Path] = {}

    def of(self, contender: Contender) -> Path:
        if contender.forgets:
            return self.scenario.home()
        return self.kept.setdefault(contender.name, self.scenario.home())


async def _starts(running: Running) -> bool:
    try:
        await running.start()
    except Exception as error:
        tell(f"  -- {running.name}: {why(error)}")
        await running.stop()
        return False
    tell(f"  up {running.name} ({running.seconds():.1f} s)")
    return True


async def visit(items: Sequence[Item], count: int, measure: Callable[[Item], Awaitable[Round]]) -> Results:
    """Measure every item in every round; one that fails is named and not visited again."""
    results: Results = {item.name: [] for item in items}
    left = list(items)
    told = time.monotonic()
    for number in range(count):
        for item in rotated(left, number):
            try:
                results[item.name].append(await measure(item))
            except Exception as error:
                tell(f"  -- {item.name}: {why(error)}")
                left.remove(item)
        if time.monotonic() - told > TELL_S:
            told = time.monotonic()
            tell(f"  round {number + 1}/{count}")
    if not left:
        raise NobodyLeftError("no contender was left to measure")
    return results


def rotated(items: Sequence[Item], by: int) -> list[Item]:
    at = by % len(items) if items else 0
    return [*items[at:], *items[:at]]
