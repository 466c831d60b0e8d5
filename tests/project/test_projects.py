"""The projects of this user: found by their ids, read from their files, and not too many of them kept in mind."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from toolcrib.core.events import Event
from toolcrib.crib.builder import assemble
from toolcrib.crib.loading import load
from toolcrib.project.project import Project, project_id
from toolcrib.project.projects import DOSSIERS_KEPT, Projects, as_known, remember
from toolcrib.stores.paths import Environment
from toolcrib.stores.projects import KnownProject, ProjectFile


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Project]:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "toolcrib.toml").write_text("audit.enabled = false\n")
    around = Environment(tmp_path / "mine", {"HOME": str(tmp_path)})
    loaded = load(None, around)
    crib = await assemble(loaded, surroundings=around)
    yield Project(crib, loaded, None, around)
    await crib.close()


@pytest.fixture
def file(tmp_path: Path) -> ProjectFile:
    return ProjectFile(tmp_path / "state")


async def test_only_the_projects_asked_for_last_are_kept_in_mind(served: Project, file: ProjectFile, tmp_path: Path):
    """One that is still kept is not read again; one that is not, is."""
    for number in range(DOSSIERS_KEPT + 1):
        directory = tmp_path / f"p{number}"
        directory.mkdir()
        file.note(KnownProject(project_id(directory), str(directory), "2026-01-02T03:04:05Z"))
    projects = Projects(served, file)
    places = (await projects.places())[1:]

    first = [await projects.read(place) for place in places]
    again = [await projects.read(place) for place in (places[-1], places[0])]

    assert again[0] is first[-1]
    assert again[1] is not first[0]
    assert again[1].etag == first[0].etag


async def test_a_project_is_noted_with_the_file_that_was_named(served: Project, file: ProjectFile):
    """So that it is read the same way the next time."""
    served.chosen = "toolcrib.toml"

    await remember(served, file, lambda event: None, after_s=0)
    (known,) = file.read()

    assert (known.id, known.directory) == (served.id, str(served.around.cwd))
    assert known.chosen == str(served.around.cwd / "toolcrib.toml")
    assert as_known(served).name == "mine"


async def test_trouble_with_noting_is_told_and_no_more(served: Project, file: ProjectFile):
    """Nobody needs the note."""
    told: list[Event] = []
    file.path.parent.mkdir()
    file.path.mkdir()

    await remember(served, file, told.append, after_s=0)

    assert [(event.name, event.level) for event in told] == [("projects.not.noted", "debug")]


async def test_the_served_project_is_found_even_if_the_file_is_damaged(served: Project, file: ProjectFile):
    """It is known without any file."""
    file.path.parent.mkdir()
    file.path.write_text("{")
    projects = Projects(served, file)

    place = await projects.find(served.id)

    assert place.is_served
    assert (await projects.read(place)).loaded.config == served.config
