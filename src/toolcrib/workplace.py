"""A workplace: a project whose Crib is open, and a journal of what happens to its servers and tools."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from toolcrib.assemble import assemble
from toolcrib.calls.approvals import Answer, Question, Surface
from toolcrib.catalog.recorded import Recorded
from toolcrib.config.lock import timestamp
from toolcrib.config.model import is_bare
from toolcrib.core.access import Caller
from toolcrib.core.call import ToolCall
from toolcrib.core.errors import ToolcribError
from toolcrib.core.events import Emit, Event
from toolcrib.crib import Crib
from toolcrib.dossier import Document, Place, Snapshot, Stamp, shown_to, stamp_of
from toolcrib.loading import load
from toolcrib.project import Project
from toolcrib.sources.native import NativeTool

HAPPENINGS_KEPT = 500
CATALOG_CHANGED = "catalog.changed"


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened to the servers or the tools of a project."""

    id: int
    kind: str
    """``server.created``, ``server.changed``, ``server.removed`` or ``catalog.changed``."""
    at: str
    server: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {"id": self.id, "kind": self.kind, "at": self.at, "server": self.server or None}


class Journal:
    """The latest happenings, for whoever asks."""

    def __init__(self, crib: Crib, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        self._kept: deque[Happening] = deque(maxlen=HAPPENINGS_KEPT)
        self.last = 0
        self._news = asyncio.Event()
        self._closed = False
        self._forget = (crib.on_change(lambda: self._note(CATALOG_CHANGED)), crib.servers.on_change(self._note_server))

    def _note_server(self, event: Event) -> None:
        self._note(event.name, str(event.fields["server"]))

    def _note(self, kind: str, server: str = "") -> None:
        self.last += 1
        at = timestamp(datetime.fromtimestamp(self._wall(), UTC))
        self._kept.append(Happening(self.last, kind, at, server))
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    @property
    def forgotten(self) -> int:
        """The id of the last happening that is not kept any more; zero if all are."""
        return self.last - len(self._kept)

    def after(self, number: int) -> list[Happening]:
        """What is kept of what happened after that."""
        return [happening for happening in self._kept if happening.id > number]

    async def wait(self, number: int, wait_s: float) -> None:
        """Return when something has happened after that, or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while self.last <= number and not self._closed:
                    await self._news.wait()

    def close(self) -> None:
        """Hear no more, and keep nobody waiting."""
        self._closed = True
        for forget in self._forget:
            forget()
        self._wake()


@dataclass(frozen=True, slots=True)
class Forwarding:
    """A way to people who look after another project: they are told which one is asking."""

    surface: Surface
    project: str

    @property
    def name(self) -> str:
        """What the log calls it."""
        return self.surface.name

    def reaches(self, call: ToolCall) -> bool:
        """Whether somebody is there who may answer."""
        return self.surface.reaches(call)

    async def put(self, question: Question, call: ToolCall) -> Answer | None:
        """Ask."""
        server = f"{question.server or 'native'} (project {self.project})"
        return await self.surface.put(replace(question, server=server), call)


class Workplace:
    """An open project."""

    def __init__(self, place: Place, project: Project) -> None:
        self.place, self.project = place, project
        self.journal = Journal(project.crib)
        self._seen = self._stamp()
        self._kept: object = None

    @property
    def crib(self) -> Crib:
        """What runs."""
        return self.project.crib

    def _stamp(self) -> Stamp:
        return tuple(map(stamp_of, self.place.files()))

    def snapshot(self) -> Snapshot:
        """The project as it runs; servers that have not answered yet are shown as the record knows them."""
        return Snapshot(self.place, self.project.loaded, Recorded(self.crib.catalog, self.crib.shelves))

    def entries(self, caller: Caller | None) -> list[Document]:
        """The tools a caller may use, and whether each comes from a server that answered in this run."""
        live = {name for name, shelf in self.crib.shelves.items() if shelf.is_compared}
        shown = self.snapshot().recorded
        return [
            shown.entry(route) | {"isLive": not route.server or route.server in live}
            for route in shown_to(caller, self.crib.catalog)
        ]

    def document(self, caller: Caller) -> Document:
        """The configuration as it counts right now, with these tools."""
        return self.snapshot().document(caller, self.entries(caller))

    async def wake(self) -> None:
        """Ask every server for its tools that is not connected, or was asked too long ago; failures are on record."""
        names = [name for name in self.crib.shelves if _is_due(self.crib, name)]
        if names:
            with suppress(ToolcribError):  # taken out of the configuration meanwhile
                await self.crib.refresh(*names)

    async def catch_up(self) -> None:
        """Take over what was edited since the last look; the served project is watched anyway."""
        if self.place.is_served:
            return
        with suppress(ToolcribError):  # a broken edit leaves what runs
            if (stamp := self._stamp()) != self._seen:
                self._seen = stamp
                await self.project.reload()
            ledger = self.crib.ledger
            if ledger is not None and (kept := await ledger.stamp()) != self._kept:
                await self.crib.servers.fresh.reload_pins()
                self._kept = kept

    async def close(self) -> None:
        """End what was opened for it; the served project is not ours to close."""
        self.journal.close()
        if not self.place.is_served:
            await self.crib.close()


def _is_due(crib: Crib, name: str) -> bool:
    return crib.shelves[name].source.status().state != "connected" or crib.is_stale(name)


async def open_workplace(place: Place, builtin: Sequence[NativeTool], inbox: Surface, emit: Emit) -> Workplace:
    """Open a project beside the served one; its questions go to the people who look after that one."""
    loaded = await asyncio.to_thread(load, place.chosen, place.around)
    tools = builtin if is_bare(loaded.config) else ()
    crib = await assemble(loaded, tools=tools, emit=_named(place, emit), surroundings=place.around)
    crib.desk.attach(Forwarding(inbox, place.name))
    return Workplace(place, Project(crib, loaded, place.chosen, place.around))


def _named(place: Place, emit: Emit) -> Emit:
    """Say of everything that happens there which project it happens in."""
    return lambda event: emit(replace(event, fields={**event.fields, "project": place.name}))
