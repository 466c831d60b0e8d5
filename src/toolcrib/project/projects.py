"""The projects of this user, and those that are open."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from msgspec import Meta, structs

from toolcrib.calls.approvals import ApprovalAnswer, ApprovalQuestion, Surface
from toolcrib.catalog.recorded import Recorded
from toolcrib.config.lock import timestamp
from toolcrib.config.model import is_bare
from toolcrib.core.access import Caller
from toolcrib.core.errors import ConfigError, ToolcribError
from toolcrib.core.events import Emit, Event
from toolcrib.core.kinds import LinkState
from toolcrib.core.offers import Tool
from toolcrib.core.requests import Request
from toolcrib.crib.builder import BuildOptions, assemble
from toolcrib.crib.crib import Crib
from toolcrib.crib.loading import load
from toolcrib.project.known import (
    AvailableTool,
    ConfigurationView,
    ProjectPlace,
    ProjectState,
    Snapshot,
    Stamp,
    elsewhere,
    shown_to,
    stamp_of,
)
from toolcrib.project.project import Project
from toolcrib.sources.native.functions import NativeTool
from toolcrib.stores.projects import KnownProject, ProjectFile, UnknownProject

NOTED_AFTER_S = 1.0
"""Not before this is a project noted: whoever starts toolcrib is not kept waiting for it."""
DOSSIERS_KEPT = 16


async def remember(project: Project, file: ProjectFile, emit: Emit, after_s: float = NOTED_AFTER_S) -> None:
    """Note the project that is served, some time after the start; nobody needs it, so trouble is only told."""
    await asyncio.sleep(after_s)
    try:
        await asyncio.to_thread(file.note, as_known(project))
    except (ConfigError, OSError) as error:
        emit(Event("projects.not.noted", "debug", {"error": str(error)}))


def as_known(project: Project) -> KnownProject:
    """A project as it is remembered."""
    chosen = str(project.file.absolute()) if project.chosen else ""
    return KnownProject(project.id, str(project.directory.absolute()), timestamp(datetime.now(UTC)), chosen)


class Projects:
    """Finds projects and reads what their files tell; starts nothing."""

    def __init__(self, served: Project, file: ProjectFile, builtin: Sequence[NativeTool] = ()) -> None:
        self.served = served
        self.builtin = tuple(builtin)
        """What is offered where nothing is configured."""
        self._file = file
        self._own = ProjectState(self._served_place(), self._builtin, served)
        self._others: dict[str, ProjectState] = {}

    def _served_place(self) -> ProjectPlace:
        served = self.served
        used = timestamp(datetime.now(UTC))
        return ProjectPlace(
            served.directory, served.around, served.chosen, served.flags, served.prefix, used, is_served=True
        )

    @property
    def _builtin(self) -> list[Tool]:
        return [entry.tool for entry in self.builtin]

    @property
    def place(self) -> ProjectPlace:
        """Where the served project is."""
        return self._own.place

    async def places(self) -> list[ProjectPlace]:
        """All projects that are still there, the served one first, then the one used last."""
        known = await asyncio.to_thread(self._file.read)
        others = [project for project in known if project.id != self.place.id and project.is_there]
        return [self.place, *map(self._place, others)]

    def _place(self, known: KnownProject) -> ProjectPlace:
        directory = Path(known.directory)
        around = elsewhere(directory, self.served.around.env)
        return ProjectPlace(directory, around, known.chosen or None, last_used=known.last_used)

    async def find(self, project_id: str) -> ProjectPlace:
        """The project of that id."""
        if project_id == self.place.id:
            return self.place
        for place in await self.places():
            if place.id == project_id:
                return place
        raise UnknownProject(project_id)

    async def read(self, place: ProjectPlace) -> Snapshot:
        """What its files tell."""
        return await (self._own if place.is_served else self._dossier(place)).read()

    def _dossier(self, place: ProjectPlace) -> ProjectState:
        """Kept for the projects that were asked for last."""
        found = self._others.pop(place.id, None)
        if found is None or (found.place.directory, found.place.chosen) != (place.directory, place.chosen):
            found = ProjectState(place, self._builtin)
        self._others[place.id] = found
        while len(self._others) > DOSSIERS_KEPT:
            del self._others[next(iter(self._others))]
        return found


HAPPENINGS_KEPT = 500
CATALOG_CHANGED = "catalog.changed"
HAPPENINGS = ("server.created", "server.changed", "server.removed", CATALOG_CHANGED)


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened to the servers or the tools of a project."""

    id: int
    kind: Annotated[str, Meta(extra_json_schema={"enum": list(HAPPENINGS)})]
    at: str
    server: str | None = None


Sees = Callable[[frozenset[str]], bool]
"""Whether somebody is told of what happened to these servers; of what concerns none in particular everybody is."""


def see_all(_: frozenset[str]) -> bool:
    """For who may know of every server."""
    return True


class Journal:
    """The latest happenings, for whoever asks.

    Everybody is told numbers of their own: those of all happenings would tell how much happened elsewhere.
    """

    def __init__(self, crib: Crib, wall: Callable[[], float] = time.time) -> None:
        self._wall, self._crib = wall, crib
        self._kept: deque[tuple[Happening, frozenset[str]]] = deque(maxlen=HAPPENINGS_KEPT)
        self._counts: Counter[frozenset[str]] = Counter()
        """How much has happened to which servers, so far."""
        self._tools = self._listed()
        self.last = 0
        self._news = asyncio.Event()
        self._closed = False
        self._forget = (crib.on_change(self._note_catalog), crib.servers.on_change(self._note_server))

    def _listed(self) -> dict[str, Sequence[Tool]]:
        return {name: shelf.tools for name, shelf in self._crib.shelves.items()}

    def _note_catalog(self) -> None:
        before, now = self._tools, self._listed()
        self._tools = now
        changed = (name for name in before.keys() | now.keys() if before.get(name) is not now.get(name))
        self._note(CATALOG_CHANGED, None, frozenset(changed))

    def _note_server(self, event: Event) -> None:
        server = str(event.fields["server"])
        self._note(event.name, server, frozenset({server}))

    def _note(self, kind: str, server: str | None, concerned: frozenset[str]) -> None:
        self.last += 1
        self._counts[concerned] += 1
        at = timestamp(datetime.fromtimestamp(self._wall(), UTC))
        self._kept.append((Happening(self.last, kind, at, server), concerned))
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def latest(self, sees: Sees = see_all) -> int:
        """The number of the last happening that somebody is told of."""
        return sum(number for servers, number in self._counts.items() if not servers or sees(servers))

    def forgotten(self, sees: Sees = see_all) -> int:
        """The number of the last one that is not kept any more; zero if all are."""
        return self.latest(sees) - sum(1 for _, servers in self._kept if not servers or sees(servers))

    def after(self, number: int, sees: Sees = see_all, since: int = 0) -> list[Happening]:
        """What is kept of what happened after that, and after the first ``since`` of all."""
        seen = [happening for happening, servers in self._kept if not servers or sees(servers)]
        first = self.latest(sees) - len(seen) + 1
        numbered = [(happening.id, replace(happening, id=own)) for own, happening in enumerate(seen, first)]
        return [happening for id_, happening in numbered if happening.id > number and id_ > since]

    async def wait(self, number: int, wait_s: float, sees: Sees = see_all) -> None:
        """Return when something has happened after that, or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while self.latest(sees) <= number and not self._closed:
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

    @property
    def takes_forms(self) -> bool:
        """Whether people there can fill in a form."""
        return self.surface.takes_forms

    def reaches(self, call: Request) -> bool:
        """Whether somebody is there who may answer."""
        return self.surface.reaches(call)

    async def put(self, question: ApprovalQuestion, call: Request) -> ApprovalAnswer | None:
        """Ask."""
        server = f"{question.server or 'native'} (project {self.project})"
        return await self.surface.put(replace(question, server=server), call)


class Workplace:
    """An open project."""

    def __init__(self, place: ProjectPlace, project: Project) -> None:
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

    def entries(self, caller: Caller | None) -> list[AvailableTool]:
        """The tools a caller may use, and whether each comes from a server that answered in this run."""
        live = {name for name, shelf in self.crib.shelves.items() if shelf.is_compared}
        shown = self.snapshot().recorded
        return [
            AvailableTool(**structs.asdict(shown.entry(route)), is_live=not route.server or route.server in live)
            for route in shown_to(caller, self.crib.catalog)
        ]

    def document(self, caller: Caller) -> ConfigurationView:
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
    return crib.shelves[name].source.status().state is not LinkState.CONNECTED or crib.is_stale(name)


async def open_workplace(place: ProjectPlace, builtin: Sequence[NativeTool], inbox: Surface, emit: Emit) -> Workplace:
    """Open a project beside the served one; its questions go to the people who look after that one."""
    loaded = await asyncio.to_thread(load, place.chosen, place.around)
    tools = builtin if is_bare(loaded.config) else ()
    crib = await assemble(loaded, BuildOptions(tools), emit=_named(place, emit), surroundings=place.around)
    crib.desk.attach(Forwarding(inbox, place.name))
    return Workplace(place, Project(crib, loaded, place.chosen, place.around))


def _named(place: ProjectPlace, emit: Emit) -> Emit:
    """Say of everything that happens there which project it happens in."""
    return lambda event: emit(replace(event, fields={**event.fields, "project": place.name}))
