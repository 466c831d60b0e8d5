"""What an audit log is, whatever it is kept in: appended to by one thread, read by others, and the place of both.

All of it may wait for a disk or a network, so none of it belongs on an event loop.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from toolcrib.core.errors import AuditUnavailable

if TYPE_CHECKING:
    from toolcrib.stores.audit.reading import AuditQuery, Browse, Stored, ToolUsage
    from toolcrib.stores.audit.verify import Head

Row = tuple[int, bytes, str]
"""An entry as it is kept: its number, its hash, its body."""


class NoAuditLog(AuditUnavailable):
    """Nothing was ever written there."""


class InDoubtError(AuditUnavailable):
    """The connection was lost while entries were committed: nobody knows whether they count."""

    def __init__(self, reason: str, end: "Head") -> None:
        super().__init__(f"{reason}.")
        self.end = end
        """What the chain ends with if they do."""


class AppendLog(Protocol):
    """A log that is written; used by one thread. After a failure it is closed, and may be used again."""

    @property
    def is_in_place(self) -> bool:
        """Whether it can be used on; if not, it has to be opened anew."""

    @property
    def head(self) -> "Head":
        """The end of the chain after the last entry that was added here."""

    def append(self, bodies: Sequence[bytes]) -> None:
        """Add entries to the chain, durably, all or none; ``InDoubtError`` if that is not known."""

    def has(self, end: "Head") -> bool:
        """Whether a batch that was in doubt became part of the chain; the answer is final."""

    def close(self) -> None:
        """Let go of it."""


class AuditLog(Protocol):
    """A log that is read, while others write."""

    def search(self, query: "AuditQuery") -> Iterator[Row]:
        """What fits, the newest first."""

    def has_end(self, begun: "Stored") -> bool:
        """Whether the end of a call stands further on."""

    def browse(self, wanted: "Browse", count: int) -> Iterator[Row]:
        """At most so many of what fits, the newest first."""

    def per_hour(self, wanted: "Browse", count: int) -> Iterator[tuple[int, int, int]]:
        """Hours since 1970, calls that went well, calls that did not; of as many of the newest that fit."""

    def rows(self, first: int = 1, count: int | None = None) -> Iterator[Row]:
        """From a number on, in order."""

    def checked(self, first: int = 1) -> Iterator[Row]:
        """The same; where what is kept beside an entry for finding it does not fit it, its hash is empty."""

    def usage(self, since_us: int) -> "ToolUsage | None":
        """The calls since a moment; ``None`` if the log is empty."""

    def head(self) -> "Head | None":
        """The end of the chain as its writers know it."""

    def snapshot(self) -> AbstractContextManager[None]:
        """All that is read inside is of one moment."""


class AuditPlace(Protocol):
    """Where a log is; ``str`` of it is for people, and has no password in it."""

    @property
    def remedy(self) -> str:
        """What to do when it cannot be written."""

    @property
    def timeout_s(self) -> float | None:
        """How long whoever must wait for an entry waits before the place counts as away; ``None``: for ever."""

    def open(self) -> AppendLog:
        """For writing."""

    def reading(self) -> AbstractContextManager[AuditLog]:
        """For reading only; ``NoAuditLog`` if nothing was ever written."""

    def check(self) -> None:
        """Try whether it could be written right now, and write nothing; ``AuditUnavailable`` if not."""
