"""Sources taken from a queue that several workers share: each becomes a document once, whoever dies meanwhile."""

import asyncio
import os
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from toolcrib.core.errors import ToolcribError, UnreadableSource
from toolcrib.core.knowledge import Job, JobBatch, JobQueue
from toolcrib.knowledge.survey import Adding, FileCandidate, Known, Page, Skipped, is_below

AT_ONCE = 64
STEP_MIN = 100
"""Sources that are worth a step of their own, where several workers share the rest."""
ATTEMPTS_MAX = 5
"""After so many workers that did not come back, a source is left out."""
LOOK_S = 0.1
"""How often to look whether others are done."""
KEEP_S = 15.0

Source = FileCandidate | Page


class _What(msgspec.Struct, omit_defaults=True):
    """How a source is read."""

    root: str = ""
    parts: tuple[str, ...] = ()
    label: str = ""
    url: str = ""


def errand_of(wanted: Adding) -> JobBatch:
    """What is said of the sources of an addition, as it is written down."""
    return JobBatch(wanted.collection, msgspec.json.encode(wanted, enc_hook=str, order="sorted").decode())


def adding_of(errand: JobBatch) -> Adding:
    """What was said."""
    return msgspec.json.decode(errand.adding, type=Adding)


def encode(source: Source) -> str:
    """How a source is read, as it is written down."""
    if isinstance(source, Page):
        return msgspec.json.encode(_What(url=source.url)).decode()
    return msgspec.json.encode(_What(str(source.root), source.parts, source.label)).decode()


def decode(what: str) -> Source:
    """The source that was written down, if it is one that a search of a folder could have found."""
    try:
        given = msgspec.json.decode(what, type=_What)
    except msgspec.DecodeError:
        raise UnreadableSource("what is noted of it cannot be read") from None
    if given.url.startswith(("http://", "https://")):
        return Page(given.url)
    if given.url or not given.parts or any(not part or part[0] == "." or "/" in part for part in given.parts):
        raise UnreadableSource("it is no ordinary way to a file")
    return FileCandidate(Path(given.root), given.parts, given.label)


class Worker:
    """One who takes jobs, for as long as the block lasts; what is not done by then is left to others.

    Files that others put there are read only below some folders: anybody may have written down the way to them.
    """

    def __init__(self, jobs: JobQueue, below: Sequence[Path] = ()) -> None:
        self._jobs, self._below = jobs, [Path(os.path.realpath(folder)) for folder in below]
        self.name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._keeping: asyncio.Task[None] | None = None
        self._own: dict[str, Source] = {}
        """What was put there by this one, until it is taken."""
        self._held: dict[str, Job] = {}
        """What was taken, and is neither stored nor finished."""
        self.elsewhere: set[str] = set()
        """Sources that cannot be read here."""
        self.given_up: list[Skipped] = []
        """Sources that nobody is to try again."""

    async def __aenter__(self) -> "Worker":
        self._keeping = asyncio.create_task(self._keep())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        assert self._keeping is not None
        self._keeping.cancel()
        await asyncio.gather(self._keeping, return_exceptions=True)
        with suppress(ToolcribError):  # then the leases end by themselves
            await self._jobs.give_back(self.name)

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(KEEP_S)
            with suppress(ToolcribError):  # it may be back before the leases end
                await self._jobs.keep(self.name)

    async def put(self, wanted: Adding, sources: Sequence[Source]) -> None:
        """Have sources worked on, by whoever comes first."""
        if sources:
            self._own |= {source.source: source for source in sources}
            await self._jobs.put(errand_of(wanted), {source.source: encode(source) for source in sources})

    async def find(self, collection: str | None) -> JobBatch | None:
        """What there is to do here."""
        return await self._jobs.next(collection, sorted(self.elsewhere))

    async def groups(self, errand: JobBatch) -> AsyncIterator[list[Source]]:
        """Some sources at a time, until all are done by somebody; nothing means: store what you have.

        Others wait for it, or the rest is little, and is done sooner in small steps by all.
        """
        taken = 0
        while True:
            jobs = await self._jobs.take(self.name, errand, AT_ONCE, sorted(self.elsewhere | self._held.keys()))
            if not jobs:
                yield []
                if not await self._jobs.left(errand, self.name, sorted(self.elsewhere)):
                    return
                await asyncio.sleep(LOOK_S)
                continue
            yield await self._readable(errand, jobs)
            share = await self._jobs.share(errand)
            taken = 0 if share is None else taken + len(jobs)
            if share is not None and taken >= max(share, STEP_MIN):
                yield []
                taken = 0

    async def _readable(self, errand: JobBatch, jobs: Sequence[Job]) -> list[Source]:
        """Those that can be read here and did not bring a worker down too often."""
        self._held |= {job.source: job for job in jobs}
        own = {job.source: self._own.pop(job.source) for job in jobs if job.source in self._own}
        trouble = {job.source: reason for job in jobs if (reason := _trouble(job, is_own=job.source in own))}
        self.given_up += [Skipped(source, reason) for source, reason in trouble.items()]
        await self.finish(errand, list(trouble))
        foreign = [decode(job.what) for job in jobs if job.source not in own and job.source not in trouble]
        here = await asyncio.to_thread(_those_here, foreign, self._below)
        await self._leave([source.source for source in foreign if source not in here])
        return [*(source for name, source in own.items() if name not in trouble), *here]

    async def _leave(self, sources: Sequence[str]) -> None:
        """To others, for as long as this one works."""
        if sources:
            self.hand_over(sources)
            self.elsewhere.update(sources)
            await self._jobs.give_back(self.name, sources)

    def hand_over(self, sources: Sequence[str]) -> tuple[Job, ...]:
        """The jobs of sources that are being stored; from now on they may be taken again, if they were put again."""
        return tuple(self._held.pop(source) for source in sources if source in self._held)

    async def finish(self, errand: JobBatch, sources: Sequence[str]) -> None:
        """These are done, without having become documents now."""
        if jobs := self.hand_over(sources):
            await self._jobs.finish(errand.collection, jobs)


async def at_once(sources: Sequence[Source]) -> AsyncIterator[Sequence[Source]]:
    """All of them in one group, where there is no queue."""
    if sources:
        yield sources


def _trouble(job: Job, *, is_own: bool) -> str:
    """Why a job is not for anybody; empty if it is."""
    if job.attempts > ATTEMPTS_MAX:
        return "no worker came back from it"
    if is_own:
        return ""
    try:
        return "" if decode(job.what).source == job.source else "what is noted of it is another source"
    except UnreadableSource as error:
        return error.message


def _those_here(sources: Sequence[Source], below: Sequence[Path]) -> list[Source]:
    return [source for source in sources if isinstance(source, Page) or _is_here(source, below)]


def _is_here(source: FileCandidate, below: Sequence[Path]) -> bool:
    try:
        path = Path(os.path.realpath(source.path))
        return any(is_below(path, folder) for folder in below) and os.access(path, os.R_OK)
    except (OSError, ValueError):  # no system has a path like this
        return False


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

    def __str__(self) -> str:
        left = f"{self.left_s:.0f} s" if self.left_s < 100 else f"{self.left_s / 60:.0f} min"
        done = f"{self.done}/{self.total} files, {self.passages} passages"
        return f"{done}, {self.rate:.1f} files/s, {left} left"


@dataclass(slots=True)
class AdditionReport:
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

    def to_json(self) -> dict[str, Any]:
        """As ``kb_add`` returns it."""
        return {
            "collection_id": self.collection,
            "added": self.added,
            "changed": self.changed,
            "removed": self.removed,
            "unchanged": self.unchanged,
            "left": self.left,
            "passages": self.passages,
            "seconds": round(self.seconds, 3),
            "vectors_missing": self.trouble or None,
            "skipped": [{"source": skipped.source, "reason": skipped.reason} for skipped in self.skipped],
        }


OnProgress = Callable[[Progress], None]


async def nothing_more(sources: Sequence[str]) -> None:
    """Nobody has to hear of it."""
    del sources


@dataclass(frozen=True, slots=True)
class Intake:
    """What is brought into one collection, and who hears of it."""

    wanted: Adding
    known: Known
    report: AdditionReport
    total: int
    on_progress: OnProgress
    finish: Callable[[Sequence[str]], Awaitable[None]] = nothing_more
    """Told of the sources that need no more work, though nothing came in for them."""
    hand_over: Callable[[Sequence[str]], tuple[Job, ...]] = lambda _: ()
    """Asked for what is done as these sources are stored."""
    seen: set[str] = field(default_factory=set)
    """Sources that were taken in here."""
