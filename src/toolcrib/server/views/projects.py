"""Projects and sessions: which there are, and what each can use."""

from toolcrib.core.view import View
from toolcrib.project.known import AvailableTool, ProjectPlace
from toolcrib.project.projects import Happening
from toolcrib.project.sessions import SessionSummary
from toolcrib.stores.projects import KnownProject


class ProjectEntry(View, omit_defaults=True):
    """A directory with its configuration."""

    id: str
    name: str
    directory: str | None
    """Only for operators, as all that follows but `isServed`."""
    file: str | None
    """The configuration file that was named when toolcrib was run there, if one was."""
    last_used: str | None
    is_served: bool | None = None
    """Whether the toolcrib that is asked serves it."""


class ProjectList(View):
    """The projects a caller may know of, the served one first."""

    projects: list[ProjectEntry]


class ProjectDetail(ProjectEntry, kw_only=True):
    """A project, and how much there is in it."""

    servers: int
    tools: int
    sessions: int


class ProjectView(View):
    """One project."""

    project: ProjectDetail


def project_entry(found: KnownProject | ProjectPlace, *, full: bool = True) -> ProjectEntry:
    """What can be seen of a project: where it is concerns only who looks after it."""
    return ProjectEntry(
        id=found.id,
        name=found.name,
        directory=str(found.directory) if full else None,
        file=found.chosen or None if full else None,
        last_used=found.last_used if full else None,
        is_served=found.is_served if isinstance(found, ProjectPlace) else None,
    )


class SessionList(View):
    """The sessions a caller may know of."""

    sessions: list[SessionSummary]


class SessionDetail(SessionSummary):
    """A session with what it can use right now."""

    last_event: int
    available_tools: list[AvailableTool]


class SessionView(View):
    """One session."""

    session: SessionDetail


class HappeningList(View):
    """What happened, oldest first."""

    events: list[Happening]
    last: int
    """Send it as ``after`` the next time."""
    missed: bool
    """Whether something between was forgotten: look at the session anew."""
