"""Sources that wait to become documents, taken by several workers of which any may die."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Job:
    """One source that somebody has taken, and how often that was done."""

    source: str
    what: str
    """How it is read, as whoever put it there wrote it."""
    attempts: int = 1
    worker: str = ""
    """Who has taken it."""
    asked: datetime | None = None
    """When it was put there; who puts it there again asks for more than this."""


@dataclass(frozen=True, slots=True)
class Errand:
    """Jobs that are done alike: sources for one collection, with the same said of them."""

    collection: str
    adding: str


class JobQueue(Protocol):
    """Jobs by source; one that was taken comes back when its lease ends without a word."""

    async def put(self, errand: Errand, jobs: Mapping[str, str]) -> None:
        """Have sources worked on; one that waits is worked on once, one that was taken is worked on again."""

    async def next(self, collection: str | None, without: Sequence[str]) -> Errand | None:
        """What could be taken now, without these sources."""

    async def take(self, worker: str, errand: Errand, most: int, without: Sequence[str]) -> list[Job]:
        """Take some that nobody has, oldest first."""

    async def share(self, errand: Errand) -> int | None:
        """How many one should work on at a time, so that all finish together; nothing if that does not matter yet."""

    async def keep(self, worker: str) -> None:
        """Go on having what one has."""

    async def give_back(self, worker: str, sources: Sequence[str] | None = None) -> None:
        """Leave these to others, or everything."""

    async def finish(self, collection: str, jobs: Sequence[Job]) -> None:
        """These are done, unless they were asked for again or are with others by now.

        Those that became documents were finished in the same step as they came in.
        """

    async def left(self, errand: Errand, worker: str, without: Sequence[str]) -> int:
        """How many wait, or are with others."""
