"""Trials of one store in PostgreSQL: the line is cut at the first question, then at the second, until a run passes.

What is wrong is the same as on a disk: something acknowledged is lost, something is there that nobody wrote or is there
twice, an error that is not ours or does not say what to do, a store that does not go on when the line is whole again.
"""

import itertools
from dataclasses import replace
from typing import NamedTuple

from tests.fleet.counting_wire import CountingWire

from bench.faults.history import History
from bench.faults.tables import TABLES, Table
from bench.faults.trials import Tally
from toolcrib.core.errors import ToolcribError
from toolcrib.stores.postgres.database import StoreSettings

MOST = 500
"""Questions after which a trial that is still cut is given up."""
TRIES = 40
"""How often the store is used again before it counts as stuck."""


class Cut(NamedTuple):
    """How the line breaks."""

    is_answered: bool
    """Whether the server did what it was asked; its answer is lost in any case."""
    stays_away: bool
    """Whether nobody gets through until the one who asked has given up."""


CUTS = {
    "before": Cut(is_answered=False, stays_away=False),
    "after": Cut(is_answered=True, stays_away=False),
    "before, then away": Cut(is_answered=False, stays_away=True),
    "after, then away": Cut(is_answered=True, stays_away=True),
}
_FLEETS = itertools.count(1)


class TableTrials:
    """All trials of one store, each in a fleet of its own."""

    def __init__(self, name: str, wire: CountingWire, settings: StoreSettings) -> None:
        self.name, self.tally = name, Tally()
        self._wire, self._settings = wire, settings

    async def cut_each(self, *kinds: str, every: int = 1) -> Tally:
        """Cut at each question, or every n-th, in the next of these ways, until a run passes untouched."""
        for at, kind in zip(range(every, MOST, every), itertools.cycle(kinds), strict=False):
            if not await self._cut(f"{self.name}: cut {kind} {at}", at, CUTS[kind]):
                return self.tally
        raise AssertionError(f"{self.name} is still cut after {MOST} questions")

    async def _cut(self, case: str, at: int, cut: Cut) -> bool:
        """One run; whether it was cut."""
        direct = replace(self._settings, name=f"fleet {next(_FLEETS)}")
        store, history = TABLES[self.name](replace(direct, url=self._wire.url(direct.url))), History()
        self._wire.plan(at, is_answered=cut.is_answered, stays_away=cut.stays_away)
        for key, value in (("a", "1"), ("b", "1"), ("a", store.again)):
            await self._put(store, history, (key, value), case)
            self._wire.mend()
        was_cut = self._wire.was_cut
        self._wire.plan(0)
        await self._go_on(store, history, case)
        await store.close()
        if was_cut:
            self.tally.tried += 1
            await self._look(case, direct, history)
        return was_cut

    async def _put(self, store: Table, history: History, what: tuple[str, str], case: str) -> bool:
        history.note(0, *what, is_acknowledged=False)
        try:
            await store.put(*what)
        except ToolcribError as error:
            if not error.code or not error.hint:
                self.tally.unnamed.append(f"{case}: {error.code} {error!s} does not say what to do")
            return False
        except Exception as error:  # the edge of the trial: whatever comes out here should not
            self.tally.unnamed.append(f"{case}: {error!r} is not an error of ours")
            return False
        history.note(0, *what, is_acknowledged=True)
        return True

    async def _go_on(self, store: Table, history: History, case: str) -> None:
        """The line is whole: the store must work again, without being opened anew."""
        for _ in range(TRIES):
            if await self._put(store, history, ("d", "1"), case):
                return
        self.tally.stuck.append(f"{case}: the store does not go on")

    async def _look(self, case: str, direct: StoreSettings, history: History) -> None:
        store = TABLES[self.name](direct)
        try:
            found = [*history.misses(await store.read()), *await store.faults()]
            self.tally.lost.extend(f"{case}: {miss}" for miss in found)
        finally:
            await store.close()
