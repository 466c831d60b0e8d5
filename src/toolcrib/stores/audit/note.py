"""The head of an audit log, noted in another directory: a log that was deleted, emptied or cut is noticed.

The note is a lower bound. It is written when a process has written its first entries, then at most every 30 seconds
with the next batch, and when the log is closed; each time it is on disk before the writer goes on. So whoever takes
away entries that were written before the last note is found out; after ``kill -9`` the entries of the last 30 seconds
may be missing from it. A note that the log does not fit is left as it is until a person accepts the loss.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from toolcrib.core.errors import AuditUnavailable, ConfigError
from toolcrib.stores.audit.log import AppendLog, AuditLog, AuditPlace, Head, NoAuditLog
from toolcrib.stores.audit.verify import Fault, Finding, verify
from toolcrib.stores.files import read_text, replace_text

NOTE_EVERY_S = 30.0
ACCEPT = "If you moved or removed it yourself, run `toolcrib audit verify --accept-loss`."

Tell = Callable[[str], None]


def _ignore(problem: str) -> None:
    """The default listener: does nothing."""


@dataclass(frozen=True, slots=True)
class HeadNote:
    """Where the head of one log is noted."""

    path: Path

    @classmethod
    def of(cls, place: AuditPlace, directory: Path) -> "HeadNote":
        """The note of a place, among those of all others."""
        return cls(directory / f"audit-{hashlib.sha256(str(place).encode()).hexdigest()[:16]}")

    def read(self) -> Head | None:
        """What was noted last; a note that cannot be read is an error, because it was there for a reason."""
        try:
            text = read_text(self.path)
            return None if text is None else Head.parse(text)
        except (ValueError, ConfigError):
            raise AuditUnavailable(f"The noted head {self.path} cannot be read.", hint=ACCEPT) from None

    def write(self, head: Head) -> None:
        """Note a head, durably."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_text(self.path, f"{head}\n", 0o600)

    def forget(self) -> None:
        """Begin anew with the next entry that is written."""
        self.path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class NotedPlace:
    """A place whose log has its head noted elsewhere."""

    place: AuditPlace
    note: HeadNote
    tell: Tell = _ignore
    """Hears in the writer's thread that the log is not what it was."""

    @property
    def remedy(self) -> str:
        """What to do when it cannot be written."""
        return self.place.remedy

    @property
    def timeout_s(self) -> float | None:
        """As the place has it."""
        return self.place.timeout_s

    def __str__(self) -> str:
        return str(self.place)

    def open(self) -> "NotedLog":
        """For writing."""
        return NotedLog(self.place.open(), self)

    @contextmanager
    def reading(self) -> Iterator[AuditLog]:
        """For reading; a log that is gone although its head was noted is no log that nobody wrote yet."""
        try:
            with self.place.reading() as log:
                yield log
        except NoAuditLog:
            noted = self.note.read()
            if noted is None:
                raise
            raise AuditUnavailable(f"The audit log {self.place} is gone: {_known(noted)}.", hint=ACCEPT) from None

    def check(self) -> None:
        """Whether it could be written."""
        self.place.check()

    def verify(self, given: Head | None = None) -> Finding:
        """Walk the chain, and see whether it still has what was noted here, or by the person who asks."""
        with self.reading() as log:
            finding = verify(log, given)
            noted = self.note.read()
            if finding.fault is None and noted is not None:
                finding.fault = fault_of(log, noted)
            return finding

    def problem(self) -> str:
        """What is missing of the log, in words; empty if nothing is. Looks at one entry, not at the whole chain."""
        noted = self.note.read()
        if noted is None:
            return ""
        try:
            with self.reading() as log:
                fault = fault_of(log, noted)
        except AuditUnavailable as error:
            return error.message.rstrip(".")
        return "" if fault is None else f"the audit log {self.place} was changed: {fault.words}"


class NotedLog:
    """A log that is written, with its head noted now and then; used by one thread."""

    def __init__(self, log: AppendLog, noted: NotedPlace, clock: Callable[[], float] = time.monotonic) -> None:
        self._log, self._noted, self._clock = log, noted, clock
        self._due = 0.0
        self._is_checked = self._fits = False
        self._last = Head()

    @property
    def is_in_place(self) -> bool:
        """Whether it can be used on."""
        return self._log.is_in_place

    @property
    def head(self) -> Head:
        """The end of the chain after the last entry of this process."""
        return self._log.head

    def append(self, bodies: Sequence[bytes]) -> None:
        """Add entries; the note follows, and what becomes of it changes nothing about them."""
        if not self._is_checked:
            self._check()
        self._log.append(bodies)
        now = self._clock()
        if now >= self._due:
            self._due = now + NOTE_EVERY_S
            self._write()

    def has(self, end: Head) -> bool:
        """Whether the chain has this entry."""
        return self._log.has(end)

    def close(self) -> None:
        """Note the head, and let go of the log."""
        self._write()
        self._log.close()

    def _check(self) -> None:
        """Compare with the note, before the first entry is written."""
        try:
            noted = self._noted.note.read()
        except AuditUnavailable as error:
            self._fits, self._is_checked = False, True
            self._noted.tell(error.message)
            return
        lost = noted if noted is not None and not self._log.has(noted) else None
        self._fits, self._is_checked, self._last = lost is None, True, noted or Head()
        if lost is not None:
            self._misfit(lost)

    def _write(self) -> None:
        """Note the head, unless the log is no longer the one that was noted before.

        The entries themselves are safe by now: whatever goes wrong with the note is no reason to refuse them.
        """
        head = self._log.head
        if not self._fits or head == self._last:
            return
        with suppress(Exception):  # the edge of the disk
            if self._last.seq and not self._log.has(self._last):
                self._misfit(self._last)
                return
            self._noted.note.write(head)
            self._last = head

    def _misfit(self, noted: Head) -> None:
        self._fits = False
        self._noted.tell(f"The audit log {self._noted} is not what it was: {_known(noted)}. {ACCEPT}")


def fault_of(log: AuditLog, noted: Head) -> Fault | None:
    """What is wrong if a log does not have the entry that was noted; looks at that one alone."""
    row = next(log.rows(noted.seq, 1), None)
    if row is None or row[0] != noted.seq:
        last = log.head()
        return Fault((last.seq if last else 0) + 1, "tail cut", f"its end is missing: {_known(noted)}")
    if row[1] != noted.hash:
        return Fault(noted.seq, "not the noted head", f"record {noted.seq} is not the one whose hash was noted")
    return None


def _known(noted: Head) -> str:
    return f"the head noted elsewhere knows of {noted.seq} entries"
