"""The workspace in the configuration: whether its tools are offered, for which directory, within which limits."""

from dataclasses import dataclass

WORKSPACE_TOOLS = (
    "bash", "file_read", "file_write", "file_edit", "file_list", "file_find", "ripgrep_search", "url_fetch", "delegate",
    "task_create", "task_list", "task_complete", "task_update", "task_add_note", "task_view",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class WorkspaceConfig:
    """The tools that work in one directory."""

    enabled: bool = False
    root: str = "."
    """Seen from the project's own directory."""
    tools: tuple[str, ...] = ()
    """Which of them; all if none is named, ``bash`` only if it is switched on."""
    bash: bool = False
    isolation: str = "confined"
    """The least that commands run at; with less, none is run."""
    network: bool = False
    """Whether commands have one."""
    loopback: tuple[int, ...] = ()
    """Ports of this machine that they may then connect to."""
    read: tuple[str, ...] = ()
    """What commands may read besides the workspace and the system's own programs."""
    timeout_s: float = 120.0
    """The longest a command may take."""
    output: int = 64 * 1024
    """How much of a command's output is kept, in bytes: its beginning and its end."""
    fetch_size: int = 5_000_000
    fetch_timeout_s: float = 30.0

    @property
    def offered(self) -> tuple[str, ...]:
        """The names of the tools that are there."""
        wanted = self.tools or WORKSPACE_TOOLS
        return tuple(name for name in WORKSPACE_TOOLS if name in wanted and (name != "bash" or self.bash))


NO_WORKSPACE = WorkspaceConfig()
