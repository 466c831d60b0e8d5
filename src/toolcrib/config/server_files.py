"""The files toolcrib reads servers from, by name: whoever may write one could have any command started, or tokens sent
elsewhere."""

from collections.abc import Sequence

from toolcrib.config.foreign.locations import PROJECT_FILES
from toolcrib.config.manifest import MANIFEST_NAME

CONFIG_NAME = "toolcrib.toml"
LOCK_NAME = "toolcrib.lock"
OTHER_PROGRAMS = (".mcp.json", "mcp.json", ".cursor/mcp.json", ".vscode/mcp.json")
"""Project files of other programs, read when there is no toolcrib.toml; only in the directory itself."""

READ_AT_START = (CONFIG_NAME, LOCK_NAME, *OTHER_PROGRAMS, MANIFEST_NAME)
"""What toolcrib reads its servers from without being asked to."""
_SERVER_FILES = frozenset(
    tuple(name.casefold().split("/")) for name in (*READ_AT_START, *(name for _, name in PROJECT_FILES))
)
_LAST = frozenset(path[-1] for path in _SERVER_FILES)
_FOLDERS = frozenset(path[0] for path in _SERVER_FILES if len(path) > 1)


def is_server_file(path: Sequence[str]) -> bool:
    """Whether toolcrib would read servers from a file of this path, at its start or for an import; by its last steps,
    for it looks for them in whatever directory it is started in. Upper and lower case are one to some file systems."""
    steps = tuple(map(str.casefold, path))
    return any(steps[-size:] in _SERVER_FILES for size in (1, 2, 3))


def is_server_file_name(name: str) -> bool:
    """Whether a file of this name could be one; the quick look at very many."""
    return name.casefold() in _LAST


def is_folder_of_server_files(name: str) -> bool:
    """Whether toolcrib would look for such a file in a directory of this name."""
    return name.casefold() in _FOLDERS
