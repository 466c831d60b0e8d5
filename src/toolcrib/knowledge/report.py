"""How an addition goes, and what became of it."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from toolcrib.core.jobs import Job
from toolcrib.knowledge.survey import Adding, Known
from toolcrib.knowledge.walk import Skipped


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an addition has come."""

    done: int
    total: int
    passages: int
    elapsed_s: float

    @property
    def rate(self) -> float:
        """Files per second."""
        return self.done / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def left_s(self) -> float:
        """How much longer it may take."""
        return (self.total - self.done) / self.rate if self.rate else 0.0


@dataclass(slots=True)
class Report:
    """What became of an addition."""

    collection: str
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    passages: int = 0
    seconds: float = 0.0
    skipped: list[Skipped] = field(default_factory=list)
    left: int = 0
    """Sources that can only be read elsewhere, and wait for others."""
    trouble: str = ""
    """Why vectors are still to be made."""


OnProgress = Callable[[Progress], None]


async def nothing_more(sources: Sequence[str]) -> None:
    """Nobody has to hear of it."""
    del sources


@dataclass(frozen=True, slots=True)
class Intake:
    """What is brought into one collection, and who hears of it."""

    wanted: Adding
    known: Known
    report: Report
    total: int
    on_progress: OnProgress
    finish: Callable[[Sequence[str]], Awaitable[None]] = nothing_more
    """Told of the sources that need no more work, though nothing came in for them."""
    hand_over: Callable[[Sequence[str]], tuple[Job, ...]] = lambda _: ()
    """Asked for what is done as these sources are stored."""
    seen: set[str] = field(default_factory=set)
    """Sources that were taken in here."""
