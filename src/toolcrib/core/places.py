"""Where toolcrib keeps its own files, as a function of the environment; nothing is looked up here.

Only the standard library, and little of it: ``toolcrib stdio`` finds the toolcrib that runs by these names, and is to
be there before its client has noticed that it was started.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

CONFIG_NAME = "toolcrib.toml"
LOCK_NAME = "toolcrib.lock"
OTHER_PROGRAMS = (".mcp.json", "mcp.json", ".cursor/mcp.json", ".vscode/mcp.json")
"""Project files of other programs, read when there is no toolcrib.toml; only in the directory itself."""
CONFIG_VARIABLE = "TOOLCRIB_CONFIG"


def own_directory(env: Mapping[str, str], variable: str, default: str) -> Path:
    """Our own directory in one of those that XDG names; a relative one does not count."""
    configured = Path(env.get(variable, ""))
    base = configured if configured.is_absolute() else Path(env.get("HOME") or Path.home()) / default
    return base / "toolcrib"


def user_config_path(env: Mapping[str, str]) -> Path:
    """The user's own file, whether it exists or not."""
    return own_directory(env, "XDG_CONFIG_HOME", ".config") / CONFIG_NAME


def state_directory(env: Mapping[str, str]) -> Path:
    """Where this user's tokens and logs are kept."""
    return own_directory(env, "XDG_STATE_HOME", ".local/state")


def project_candidates(start: Path) -> Iterator[Path]:
    """Where a project's file may be: the closest toolcrib.toml here or above, otherwise another program's file here."""
    yield from (directory / CONFIG_NAME for directory in (start, *start.parents))
    yield from (start / name for name in OTHER_PROGRAMS)
