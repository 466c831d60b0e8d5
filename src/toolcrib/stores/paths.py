"""Where configuration lives: one file per user, one per project, the lock beside it."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from toolcrib.config.foreign.locations import CONFIG_NAME, LOCK_NAME, OTHER_PROGRAMS

NEW_FILE = "# The MCP servers of toolcrib; `toolcrib config show --origin` shows what is read from where.\n"
"""How a toolcrib.toml begins that a command creates."""


def _base(env: Mapping[str, str], variable: str, default: str) -> Path:
    """Our own directory in one of those that XDG names; a relative one does not count."""
    configured = Path(env.get(variable, ""))
    base = configured if configured.is_absolute() else Path(env.get("HOME") or Path.home()) / default
    return base / "toolcrib"


def user_config_path(env: Mapping[str, str]) -> Path:
    """The user's own file, whether it exists or not."""
    return _base(env, "XDG_CONFIG_HOME", ".config") / CONFIG_NAME


def results_path(env: Mapping[str, str]) -> Path:
    """Where large results are put aside."""
    return _base(env, "XDG_CACHE_HOME", ".cache") / "results"


def state_directory(env: Mapping[str, str]) -> Path:
    """Where this user's tokens and logs are kept."""
    return _base(env, "XDG_STATE_HOME", ".local/state")


def witness_directory(env: Mapping[str, str]) -> Path:
    """Where is kept what the state directory must not be able to forget: that tokens are asked for, how far the
    audit log went. Another directory, so that whoever removes that one opens no door and hides no trace."""
    state = state_directory(env)
    return state.with_name(f"{state.name}-witness")


def find_project(start: Path) -> Path | None:
    """The project's file: the closest toolcrib.toml here or above, otherwise another program's file here.

    A pipe or a device is found too, so that whoever reads it says what is wrong instead of going on without.
    """
    return next((path for path in _candidates(start.absolute()) if path.exists() and not path.is_dir()), None)


def lock_path(config: Path) -> Path:
    """The lock that belongs to a configuration file."""
    return config.with_name(LOCK_NAME)


def _candidates(start: Path) -> Iterator[Path]:
    yield from (directory / CONFIG_NAME for directory in (start, *start.parents))
    yield from (start / name for name in OTHER_PROGRAMS)
