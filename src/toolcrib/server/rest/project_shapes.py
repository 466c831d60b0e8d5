"""What the answers about projects and sessions look like, as types; the description is made of them."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

NAME_MAX = 100
LONGEST_S = 24 * 3600


class CamelView(msgspec.Struct, rename="camel"):
    """An object whose names are written in camelCase."""


class NewSession(CamelView, forbid_unknown_fields=True):
    """What a session is to be called."""

    name: Annotated[str, Meta(max_length=NAME_MAX)] = ""


class SessionCall(CamelView, forbid_unknown_fields=True):
    """A call: the arguments, and how long it may take."""

    arguments: dict[str, Any] = {}
    timeout_seconds: Annotated[float, Meta(gt=0, le=LONGEST_S)] | None = None


class ProjectEntry(CamelView):
    """A directory with its configuration."""

    id: str
    name: str
    is_served: bool
    directory: str | None
    """Only for operators."""
    last_used: str | None
    """Only for operators."""


class ProjectList(CamelView):
    """The projects a caller may know of, the served one first."""

    projects: list[ProjectEntry]


class ProjectDetail(ProjectEntry):
    """A project, and how much there is in it."""

    servers: int
    tools: int
    sessions: int


class ProjectView(CamelView):
    """One project."""

    project: ProjectDetail


class ConfiguredProject(CamelView):
    """Whose configuration it is."""

    id: str
    name: str
    is_served: bool
    directory: str | None
    files: list[str]
    """Where the configuration is written; only for operators."""


class Setting(CamelView):
    """One setting as it counts, secrets masked."""

    setting: str
    value: Any
    origin: str
    """A file and line, the environment, a flag, or ``default``."""
    overrules: list[str]
    """Milder values of a rule that do not count, each with its place."""
    overruled_by: str | None
    """The stricter rule of another place because of which it does not count."""


class ConfiguredServer(CamelView):
    """One server, and what its last discovery came to."""

    name: str
    description: str
    enabled: bool
    kind: Literal["command", "url"]
    tools: int
    discovery_status: Literal["never", "discovering", "success", "failed"]
    last_discovered: str | None
    runs: str | None
    """What is started or reached, without secrets; only for operators, as all that follows."""
    error: str | None
    era: str | None
    origin: str | None


class AvailableTool(CamelView):
    """One tool, and how fresh that knowledge is."""

    name: str
    description: str
    kind: Literal["native", "mcp"]
    server: str | None
    original_name: str
    policy: Literal["allow", "ask", "deny"]
    level: Literal["read_only", "write", "admin", "system"]
    held: str | None
    """Why it is in quarantine."""
    discovery_status: Literal["never", "discovering", "success", "failed"]
    last_discovered: str | None


class LiveTool(AvailableTool):
    """One tool of a session."""

    is_live: bool
    """Whether its server answered in this run; if not, it is shown as the record knows it."""


class Configuration(CamelView):
    """What a project is configured to offer."""

    project: ConfiguredProject
    settings: list[Setting]
    """Only for operators."""
    problems: list[str]
    servers: list[ConfiguredServer]
    available_tools: list[AvailableTool]


class ConfigurationView(CamelView):
    """The configuration of a project, from its files alone."""

    configuration: Configuration


class LiveConfiguration(CamelView):
    """What a project offers while it runs."""

    project: ConfiguredProject
    settings: list[Setting]
    problems: list[str]
    servers: list[ConfiguredServer]
    available_tools: list[LiveTool]


class LiveConfigurationView(CamelView):
    """The configuration of a session."""

    configuration: LiveConfiguration


class ProjectRef(CamelView):
    """The project a session works in."""

    id: str
    name: str


class SessionSummary(CamelView):
    """One agent at work."""

    id: str
    name: str
    kind: Literal["mcp", "rest"]
    """How it came: an MCP client, or opened over REST."""
    project: ProjectRef
    caller: str
    era: str | None
    """The protocol revision of an MCP client."""
    opened_at: str
    last_used: str


class SessionList(CamelView):
    """The sessions a caller may know of."""

    sessions: list[SessionSummary]


class SessionDetail(SessionSummary):
    """A session with what it can use right now."""

    last_event: int
    available_tools: list[LiveTool]


class SessionView(CamelView):
    """One session."""

    session: SessionDetail


class HappeningEntry(CamelView):
    """One thing that happened to the servers or the tools of a project."""

    id: int
    kind: Literal["server.created", "server.changed", "server.removed", "catalog.changed"]
    at: str
    server: str | None


class HappeningList(CamelView):
    """What happened, oldest first."""

    events: list[HappeningEntry]
    last: int
    """Send it as ``after`` the next time."""
    missed: bool
    """Whether something between was forgotten: look at the session anew."""


class SessionCallError(CamelView):
    """Why a call failed."""

    code: str
    message: str
    retryable: bool
    details: dict[str, Any]


class SessionCallResult(CamelView):
    """What came of a call that ran."""

    success: bool
    data: Any
    content: list[dict[str, Any]]
    duration_ms: float
    execution_id: str
    structured_content: Any = None
    error: SessionCallError | None = None
