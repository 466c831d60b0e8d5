"""The projects of this user: directories toolcrib was run in, in one small file. It is a convenience, never needed."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from toolcrib.core.errors import COMPARED_MAX, CallerError, ConfigError, did_you_mean
from toolcrib.stores.files import discard_leftovers, locked, read_text, replace_text

FILE_NAME = "projects.json"
MOST_PROJECTS = 200
LOCK_TIMEOUT_S = 2.0
NEWS_AFTER_S = 60.0
"""A project that was noted so lately is not noted again."""

_HINT = "It only remembers directories: remove the file."


class UnknownProject(CallerError):
    """No project of that id, directory or name is known."""

    code = "RESOURCE_NOT_FOUND"

    def __init__(self, name: str, *, known: Sequence[str] = ()) -> None:
        hint = did_you_mean(name, known) or "See `toolcrib projects ls`."
        super().__init__(f"There is no project {name[:COMPARED_MAX]!r}.", hint=hint)


class KnownProject(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename="camel"):
    """One project as it is remembered."""

    id: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{12}\Z")]
    directory: str
    last_used: str
    chosen: str = ""
    """The configuration file that was named when it was run; empty if it was found."""

    @property
    def name(self) -> str:
        """What people call it."""
        return name_of(Path(self.directory))

    @property
    def is_there(self) -> bool:
        """Whether the directory still is one."""
        return Path(self.directory).is_dir()


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: Literal[1] = 1
    projects: tuple[KnownProject, ...] = ()


def name_of(directory: Path) -> str:
    """The name of a directory; a hidden one, such as ``.cursor``, only holds the project's files."""
    named = directory.parent if directory.name.startswith(".") else directory
    return named.name or str(directory)


class ProjectFile:
    """What is remembered, the project that was used last first."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE_NAME

    def read(self) -> tuple[KnownProject, ...]:
        """Everything that is remembered, whether it is still there or not."""
        text = read_text(self.path)
        if text is None:
            return ()
        try:
            return msgspec.json.decode(text, type=_Kept).projects
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise ConfigError(f"The file cannot be read: {error}.", where=str(self.path), hint=_HINT) from None

    def note(self, project: KnownProject) -> None:
        """Remember a project as the one used last; the file is left alone if it says so already."""
        known = self.read()
        if known and _is_fresh(known[0], project):
            return
        self._change(lambda kept: (project, *(other for other in kept if other.id != project.id)))

    def forget(self, wanted: str) -> KnownProject:
        """Forget a project, by its id, its directory or its name; its files stay as they are."""
        found = find_project(self.read(), wanted)
        self._change(lambda kept: [other for other in kept if other.id != found.id])
        return found

    def _change(self, change: Callable[[tuple[KnownProject, ...]], Sequence[KnownProject]]) -> None:
        with locked(self.path, LOCK_TIMEOUT_S):
            changed = [project for project in change(self.read()) if project.is_there]
            discard_leftovers(self.path)
            packed = msgspec.json.encode(_Kept(projects=tuple(changed[:MOST_PROJECTS])))
            replace_text(self.path, msgspec.json.format(packed, indent=2).decode() + "\n", mode=0o600)


def find_project(known: Sequence[KnownProject], wanted: str) -> KnownProject:
    """The one project that goes by an id, a directory or a name."""
    found = [project for project in known if wanted in (project.id, project.directory)]
    found = found or [project for project in known if project.name == wanted]
    if not found:
        raise UnknownProject(wanted, known=[project.name for project in known])
    if len(found) > 1:
        ids = ", ".join(project.id for project in found)
        raise ConfigError(f"Several projects are named {wanted!r}.", hint=f"Use one of their ids: {ids}.")
    return found[0]


def _is_fresh(kept: KnownProject, project: KnownProject) -> bool:
    if (kept.id, kept.directory, kept.chosen) != (project.id, project.directory, project.chosen):
        return False
    age = _moment(project.last_used) - _moment(kept.last_used)
    return 0 <= age < NEWS_AFTER_S


def _moment(text: str) -> float:
    """Seconds since 1970; long ago if it cannot be read."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC).timestamp()
    except ValueError:
        return 0.0
