"""The audit log: entries go into a queue, one thread takes everything that is there and commits it at once.

Under load many calls wait for one fsync. A log that cannot be written keeps what was noted in memory, up to a limit,
tries again, and says so; what has to be written before something may happen is refused at once.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue

from toolcrib.core.audit import GAP, AuditEntry, AuditStatus
from toolcrib.core.errors import AuditUnavailable
from toolcrib.stores.audit_database import AuditDatabase, body_of

Waiting = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]
Item = tuple[bytes, Waiting | None]
"""An entry is encoded where it is made: what the two threads, and so two processors, share of it is one block of
bytes. Handing over the objects costs the event loop as much again as the log itself."""


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """How the log is written."""

    linger_s: float = 0.1
    """How long entries nobody waits for are gathered before they are written together."""
    retry_s: float = 1.0
    batch_max: int = 1_000
    backlog_max: int = 10_000


class SqliteAudit:
    """An ``Audit`` in one file, which several processes may share. Nothing is opened before the first entry."""

    def __init__(
        self,
        path: Path,
        clock_ns: Callable[[], int],
        on_trouble: Callable[[str], None] | None = None,
        settings: AuditSettings | None = None,
    ) -> None:
        """``on_trouble`` is told in the writer's thread: why the log cannot be written; nothing when it can again."""
        self.path = path
        self._clock_ns, self._on_trouble = clock_ns, on_trouble
        self._settings = settings or AuditSettings()
        self._queue: deque[Item] = deque()
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._rung = self._urgent = self._closing = False
        self._thread: threading.Thread | None = None
        self._database: AuditDatabase | None = None
        self._written = self._failures = self._lost = self._lost_told = self._in_hand = 0
        self._problem = ""

    def note(self, entry: AuditEntry) -> None:
        """Have it written soon; without room in the backlog it is counted, and the log will say so."""
        size = len(self._queue)
        if size >= self._settings.backlog_max or self._closing:
            self._lost += 1
            return
        self._queue.append((body_of(self._clock_ns(), entry), None))
        if not self._rung:
            self._rung = True
            self._ring_later()
        elif size == self._settings.batch_max:  # an event loop that is busy for long does not get to its timers
            self._ring()

    async def commit(self, entry: AuditEntry) -> None:
        """Return when the entry is on disk; all that wait at the same time share one write."""
        if len(self._queue) >= self._settings.backlog_max or self._closing:
            raise _unavailable(self._problem or "more waits to be written than the disk takes")
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        self._queue.append((body_of(self._clock_ns(), entry), (loop, done)))
        if not self._urgent:
            self._rung = self._urgent = True
            loop.call_soon(self._ring)  # after all that are ready to run now, so that they share the write
        await done

    def status(self) -> AuditStatus:
        """How it is doing."""
        return AuditStatus(
            enabled=True,
            opened=self._written > 0,
            written=self._written,
            backlog=len(self._queue) + self._in_hand,
            failures=self._failures,
            lost=self._lost,
            problem=self._problem,
        )

    async def close(self) -> None:
        """Write what waits, then stop; what cannot be written now is lost, and told."""
        self._closing = True
        if self._thread is None and not self._queue:
            return
        self._ring()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    def _ring_later(self) -> None:
        try:
            asyncio.get_running_loop().call_later(self._settings.linger_s, self._ring)
        except RuntimeError:  # not in an event loop
            self._ring()

    def _ring(self) -> None:
        """Wake the writer."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="toolcrib-audit", daemon=True)
            self._thread.start()
        self._bell.put(None)

    # The writer's thread

    def _run(self) -> None:
        is_last = False
        while not is_last:
            with suppress(Empty):
                self._bell.get(timeout=self._settings.retry_s if self._problem else None)
            is_last = self._closing
            self._rung = self._urgent = False  # whoever comes from here on rings again
            self._write_what_waits()
        self._leave()

    def _write_what_waits(self) -> None:
        """Write what is there now; what comes meanwhile rings again, and is gathered until then. Whoever took single
        entries as they come would fight with the event loop over the interpreter for each of them."""
        left = len(self._queue)
        while left > 0:
            batch = [self._queue.popleft() for _ in range(min(left, self._settings.batch_max))]
            left -= len(batch)
            self._in_hand = len(batch)
            is_fine = self._write(batch)
            self._in_hand = 0
            if not is_fine:
                return

    def _write(self, batch: list[Item]) -> bool:
        missing = self._lost - self._lost_told
        bodies = [body for body, _ in batch]
        if missing:
            bodies.append(body_of(self._clock_ns(), AuditEntry(GAP, details={"lost": missing})))
        try:
            self._append(bodies)
        except Exception as error:  # the edge of the disk: whatever goes wrong there is told to whoever waits
            self._failed(batch, error)
            return False
        self._lost_told += missing
        self._written += len(bodies)
        self._change(problem="")
        _answer(batch, None)
        return True

    def _append(self, bodies: Sequence[bytes]) -> None:
        if self._database is not None and not self._database.is_in_place:
            self._database.close()
            self._database = None
        if self._database is None:
            self._database = AuditDatabase(self.path)
        self._database.append(bodies)

    def _failed(self, batch: Sequence[Item], error: Exception) -> None:
        """Keep what was noted, refuse what is waited for, and begin anew with a fresh connection."""
        if self._database is not None:
            self._database.close()
            self._database = None
        self._failures += 1
        self._queue.extendleft(reversed([item for item in batch if item[1] is None]))
        self._change(problem=_reason(error))
        _answer(batch, _unavailable(self._problem))

    def _leave(self) -> None:
        if self._queue:
            self._lost += len(self._queue)
            self._change(problem=f"{self._problem}; {len(self._queue)} entries were not written")
            _answer(list(self._queue), _unavailable(self._problem))
        if self._database is not None:
            self._database.close()

    def _change(self, *, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            if self._on_trouble is not None:
                self._on_trouble(problem)


def _answer(batch: Sequence[Item], error: AuditUnavailable | None) -> None:
    """Tell all who wait, with one call per event loop."""
    waiting: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for _, waiter in batch:
        if waiter is not None:
            waiting.setdefault(waiter[0], []).append(waiter[1])
    for loop, futures in waiting.items():
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_settle, futures, error)


def _settle(futures: Sequence["asyncio.Future[None]"], error: AuditUnavailable | None) -> None:
    for future in futures:
        if future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(_unavailable(error.details["reason"]))


def _unavailable(reason: str) -> AuditUnavailable:
    return AuditUnavailable(
        f"The audit log cannot be written: {reason}.",
        hint="Make room or mend its place, or see [audit] in the configuration.",
        details={"reason": reason},
    )


_REASONS = {
    "FullError": "the disk is full",
    "IOError": "the disk reports an error",
    "ReadOnlyError": "the file may not be written",
    "CantOpenError": "the file cannot be opened",
    "PermissionsError": "the file may not be written",
    "BusyError": "another program keeps it locked",
    "CorruptError": "the file is damaged; move it aside and keep it",
    "NotADBError": "the file is not an audit log",
}


def _reason(error: Exception) -> str:
    """The trouble in plain words, without a path."""
    if isinstance(error, AuditUnavailable):
        return error.message.rstrip(".")
    if isinstance(error, OSError):
        return (error.strerror or type(error).__name__).lower()
    return _REASONS.get(type(error).__name__) or f"{type(error).__name__}: {error}"
