"""Where configuration lives: one file per user, one per project, the lock beside it."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from toolcrib.config.foreign.locations import PROJECT_FILES
from toolcrib.config.manifest import MANIFEST_NAME

CONFIG_NAME = "toolcrib.toml"
LOCK_NAME = "toolcrib.lock"
NEW_FILE = "# The MCP servers of toolcrib; `toolcrib config show --origin` shows what is read from where.\n"
"""How a toolcrib.toml begins that a command creates."""

OTHER_PROGRAMS = (".mcp.json", "mcp.json", ".cursor/mcp.json", ".vscode/mcp.json")
"""Project files of other programs, read when there is no toolcrib.toml; only in the directory itself."""

READ_AT_START = (CONFIG_NAME, LOCK_NAME, *OTHER_PROGRAMS, MANIFEST_NAME)
"""What toolcrib reads its servers from without being asked to."""
_SERVER_FILES = frozenset(
    tuple(name.casefold().split("/")) for name in (*READ_AT_START, *(name for _, name in PROJECT_FILES))
)
_FOLDERS = frozenset(path[0] for path in _SERVER_FILES if len(path) > 1)


def is_server_file(path: Sequence[str]) -> bool:
    """Whether toolcrib would read servers from a file of this path, at its start or for an import; by its last steps,
    for it looks for them in whatever directory it is started in. Upper and lower case are one to some file systems."""
    steps = tuple(step.casefold() for step in path)
    return any(steps[-size:] in _SERVER_FILES for size in (1, 2, 3))


def is_folder_of_server_files(name: str) -> bool:
    """Whether toolcrib would look for such a file in a directory of this name."""
    return name.casefold() in _FOLDERS


def user_config_path(env: Mapping[str, str]) -> Path:
    """The user's own file, whether it exists or not. XDG: a relative ``XDG_CONFIG_HOME`` does not count."""
    configured = Path(env.get("XDG_CONFIG_HOME", ""))
    base = configured if configured.is_absolute() else Path(env.get("HOME") or Path.home()) / ".config"
    return base / "toolcrib" / CONFIG_NAME


def results_path(env: Mapping[str, str]) -> Path:
    """Where large results are put aside. XDG: a relative ``XDG_CACHE_HOME`` does not count."""
    configured = Path(env.get("XDG_CACHE_HOME", ""))
    base = configured if configured.is_absolute() else Path(env.get("HOME") or Path.home()) / ".cache"
    return base / "toolcrib" / "results"


def state_directory(env: Mapping[str, str]) -> Path:
    """Where this user's tokens and logs are kept."""
    configured = Path(env.get("XDG_STATE_HOME", ""))
    base = configured if configured.is_absolute() else Path(env.get("HOME") or Path.home()) / ".local" / "state"
    return base / "toolcrib"


def witness_directory(env: Mapping[str, str]) -> Path:
    """Where is kept what the state directory must not be able to forget: that tokens are asked for, how far the
    audit log went. Another directory, so that whoever removes that one opens no door and hides no trace."""
    state = state_directory(env)
    return state.with_name(f"{state.name}-witness")


def find_project(start: Path) -> Path | None:
    """The project's file: the closest toolcrib.toml here or above, otherwise another program's file here."""
    return next((path for path in _candidates(start.absolute()) if path.is_file()), None)


def lock_path(config: Path) -> Path:
    """The lock that belongs to a configuration file."""
    return config.with_name(LOCK_NAME)


def _candidates(start: Path) -> Iterator[Path]:
    yield from (directory / CONFIG_NAME for directory in (start, *start.parents))
    yield from (start / name for name in OTHER_PROGRAMS)
