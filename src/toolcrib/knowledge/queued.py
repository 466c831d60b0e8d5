"""Sources taken from a queue that several workers share: each becomes a document once, whoever dies meanwhile."""

import asyncio
import os
import secrets
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import msgspec

from toolcrib.core.errors import ToolcribError
from toolcrib.core.jobs import Errand, Job, JobQueue
from toolcrib.knowledge.fetch import Page
from toolcrib.knowledge.survey import Adding
from toolcrib.knowledge.walk import Candidate

AT_ONCE = 64
ATTEMPTS_MAX = 5
"""After so many workers that did not come back, a source is left out."""
LOOK_S = 0.25
"""How often to look whether others are done."""
KEEP_S = 15.0

Source = Candidate | Page


class _What(msgspec.Struct, omit_defaults=True):
    """How a source is read."""

    root: str = ""
    parts: tuple[str, ...] = ()
    label: str = ""
    url: str = ""


def errand_of(wanted: Adding) -> Errand:
    """What is said of the sources of an addition, as it is written down."""
    return Errand(wanted.collection, msgspec.json.encode(wanted, enc_hook=str, order="sorted").decode())


def adding_of(errand: Errand) -> Adding:
    """What was said."""
    return msgspec.json.decode(errand.adding, type=Adding)


def encode(source: Source) -> str:
    """How a source is read, as it is written down."""
    if isinstance(source, Page):
        return msgspec.json.encode(_What(url=source.url)).decode()
    return msgspec.json.encode(_What(str(source.root), source.parts, source.label)).decode()


def decode(what: str) -> Source:
    """The source that was written down."""
    given = msgspec.json.decode(what, type=_What)
    return Page(given.url) if given.url else Candidate(Path(given.root), given.parts, given.label)


class Worker:
    """One who takes jobs, for as long as the block lasts; what is not done by then is left to others."""

    def __init__(self, jobs: JobQueue, *, is_guest: bool = False) -> None:
        self._jobs, self._is_guest = jobs, is_guest
        self.name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._keeping: asyncio.Task[None] | None = None
        self._elsewhere: set[str] = set()
        """Sources that cannot be read on this machine."""
        self.given_up: list[str] = []
        """Sources that too many workers did not come back from."""

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
            await self._jobs.put(errand_of(wanted), {source.source: encode(source) for source in sources})

    async def find(self, collection: str | None) -> Errand | None:
        """What there is to do here."""
        return await self._jobs.next(collection, sorted(self._elsewhere))

    async def groups(self, errand: Errand) -> AsyncIterator[list[Source]]:
        """Some sources at a time, until all are done by somebody; nothing means: store what you have, others wait."""
        while True:
            jobs = await self._jobs.take(self.name, errand, AT_ONCE, sorted(self._elsewhere))
            if jobs:
                yield await self._readable(errand, jobs)
                continue
            yield []
            if not await self._jobs.left(errand, self.name, sorted(self._elsewhere)):
                return
            await asyncio.sleep(LOOK_S)

    async def _readable(self, errand: Errand, jobs: Sequence[Job]) -> list[Source]:
        """Those that can be read here and did not bring a worker down too often."""
        spent = [job.source for job in jobs if job.attempts > ATTEMPTS_MAX]
        if spent:
            self.given_up += spent
            await self._jobs.finish(errand, spent)
        sources = [decode(job.what) for job in jobs if job.attempts <= ATTEMPTS_MAX]
        away = await asyncio.to_thread(_not_here, sources) if self._is_guest else []
        if away:
            self._elsewhere.update(away)
            await self._jobs.give_back(self.name, away)
        return [source for source in sources if source.source not in self._elsewhere]

    async def finish(self, errand: Errand, sources: Sequence[str]) -> None:
        """These are done, without having become documents now."""
        if sources:
            await self._jobs.finish(errand, sources)


async def at_once(sources: Sequence[Source]) -> AsyncIterator[Sequence[Source]]:
    """All of them in one group, where there is no queue."""
    if sources:
        yield sources


def _not_here(sources: Sequence[Source]) -> list[str]:
    return [each.source for each in sources if isinstance(each, Candidate) and not os.path.lexists(each.path)]
