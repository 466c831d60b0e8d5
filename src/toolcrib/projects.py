"""The projects of this user: the one that is served, and those toolcrib was run in before."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from toolcrib.config.lock import timestamp
from toolcrib.core.errors import ConfigError
from toolcrib.core.events import Emit, Event
from toolcrib.core.tool import Tool
from toolcrib.dossier import Dossier, Place, Snapshot, elsewhere
from toolcrib.project import Project
from toolcrib.sources.native import NativeTool
from toolcrib.stores.projects import KnownProject, ProjectFile, UnknownProject

NOTED_AFTER_S = 1.0
"""Not before this is a project noted: whoever starts toolcrib is not kept waiting for it."""
DOSSIERS_KEPT = 16


async def remember(project: Project, file: ProjectFile, emit: Emit) -> None:
    """Note the project that is served, some time after the start; nobody needs it, so trouble is only told."""
    await asyncio.sleep(NOTED_AFTER_S)
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
        self._own = Dossier(self._served_place(), self._builtin, served)
        self._others: dict[str, Dossier] = {}

    def _served_place(self) -> Place:
        served = self.served
        used = timestamp(datetime.now(UTC))
        return Place(served.directory, served.around, served.chosen, served.flags, served.prefix, used, is_served=True)

    @property
    def _builtin(self) -> list[Tool]:
        return [entry.tool for entry in self.builtin]

    @property
    def place(self) -> Place:
        """Where the served project is."""
        return self._own.place

    async def places(self) -> list[Place]:
        """All projects that are still there, the served one first, then the one used last."""
        known = await asyncio.to_thread(self._file.read)
        others = [project for project in known if project.id != self.place.id and project.is_there]
        return [self.place, *map(self._place, others)]

    def _place(self, known: KnownProject) -> Place:
        directory = Path(known.directory)
        around = elsewhere(directory, self.served.around.env)
        return Place(directory, around, known.chosen or None, last_used=known.last_used)

    async def find(self, project_id: str) -> Place:
        """The project of that id."""
        if project_id == self.place.id:
            return self.place
        for place in await self.places():
            if place.id == project_id:
                return place
        raise UnknownProject(project_id)

    async def read(self, place: Place) -> Snapshot:
        """What its files tell."""
        return await (self._own if place.is_served else self._dossier(place)).read()

    def _dossier(self, place: Place) -> Dossier:
        """Kept for the projects that were asked for last."""
        found = self._others.pop(place.id, None)
        if found is None or (found.place.directory, found.place.chosen) != (place.directory, place.chosen):
            found = Dossier(place, self._builtin)
        self._others[place.id] = found
        while len(self._others) > DOSSIERS_KEPT:
            del self._others[next(iter(self._others))]
        return found
