"""The file of projects: what is remembered, for how long, and what happens to a damaged one."""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from toolcrib.core.errors import ConfigError
from toolcrib.project.project import project_id
from toolcrib.stores.projects import MOST_PROJECTS, KnownProject, ProjectFile, UnknownProject, name_of


def known(directory: Path, at: str = "2026-01-02T03:04:05Z", chosen: str = "") -> KnownProject:
    directory.mkdir(parents=True, exist_ok=True)
    return KnownProject(project_id(directory), str(directory), at, chosen)


@pytest.fixture
def file(tmp_path: Path) -> ProjectFile:
    return ProjectFile(tmp_path / "state")


def test_the_project_used_last_comes_first(file: ProjectFile, tmp_path: Path):
    """And each only once; the file is for its owner alone."""
    a, b = known(tmp_path / "a"), known(tmp_path / "b")
    again = known(tmp_path / "a", "2026-02-02T00:00:00Z")

    for project in (a, b, again):
        file.note(project)

    assert file.read() == (again, b)
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600


def test_a_project_that_was_just_noted_is_not_written_again(file: ProjectFile, tmp_path: Path):
    """The file is the same one."""
    file.note(known(tmp_path / "a", "2026-01-02T03:04:05Z"))
    before = file.path.stat()

    file.note(known(tmp_path / "a", "2026-01-02T03:04:55Z"))
    just_noted = file.path.stat()
    file.note(known(tmp_path / "a", "2026-01-02T03:05:06Z"))

    assert (just_noted.st_ino, just_noted.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert file.read()[0].last_used == "2026-01-02T03:05:06Z"


def test_what_is_gone_is_dropped_and_there_is_an_end_to_it(file: ProjectFile, tmp_path: Path):
    """At most so many are remembered; directories that were removed make room."""
    gone = known(tmp_path / "gone")
    file.note(gone)
    Path(gone.directory).rmdir()
    for number in range(MOST_PROJECTS + 2):
        file.note(known(tmp_path / "many" / str(number)))

    names = [project.name for project in file.read()]

    assert names == [str(number) for number in range(MOST_PROJECTS + 1, 1, -1)]


def test_many_who_note_at_once_lose_nothing(file: ProjectFile, tmp_path: Path):
    """One after the other gets its turn."""
    projects = [known(tmp_path / str(number)) for number in range(6)]

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(file.note, projects))

    assert {project.id for project in file.read()} == {project.id for project in projects}


@pytest.mark.parametrize("how", ["id", "directory", "name"])
def test_a_project_is_forgotten_by_whatever_it_goes_by(file: ProjectFile, tmp_path: Path, how: str):
    """Its directory stays."""
    project = known(tmp_path / "mine")
    file.note(project)

    forgotten = file.forget(getattr(project, how))

    assert (forgotten, file.read()) == (project, ())
    assert Path(project.directory).is_dir()


def test_a_name_that_is_not_enough_is_not_guessed(file: ProjectFile, tmp_path: Path):
    """Two of one name need an id; one that nobody knows is not found."""
    projects = [known(tmp_path / "x" / "same"), known(tmp_path / "y" / "same")]
    for project in projects:
        file.note(project)

    with pytest.raises(ConfigError, match=f"Use one of their ids: {projects[1].id}, {projects[0].id}"):
        file.forget("same")
    with pytest.raises(UnknownProject, match="Did you mean 'same'"):
        file.forget("sane")


def test_a_damaged_file_is_left_alone(file: ProjectFile, tmp_path: Path):
    """It is said, and nothing is written over it."""
    file.path.parent.mkdir()
    file.path.write_text("{")

    with pytest.raises(ConfigError, match="remove the file"):
        file.note(known(tmp_path / "a"))

    assert file.path.read_text() == "{"


def test_a_hidden_directory_is_named_by_the_one_it_is_in():
    """``.cursor`` holds the files of a project, it is not one."""
    assert [name_of(Path(path)) for path in ("/x/mine", "/x/mine/.cursor", "/")] == ["mine", "mine", "/"]
