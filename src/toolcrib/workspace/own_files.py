"""Files toolcrib would read its servers from at its next start: what a command makes of that name is set aside."""

import os
import stat
from collections.abc import Iterator, Mapping

from toolcrib.config.server_files import is_folder_of_server_files, is_server_file, is_server_file_name
from toolcrib.core.errors import ToolFailed
from toolcrib.workspace.root import Root

ASIDE = ".not-read"

Marks = Mapping[str, tuple[int, ...]]
"""Path below the root → which file it is, in which state."""


def look(root: Root) -> Marks:
    """What is there of such names now, at any depth, links included."""
    with root.hold() as top:
        return {path: mark for path, directory, name in _names(root, top) if (mark := _mark(directory, name))}


def set_aside(root: Root, before: Marks) -> list[str]:
    """Give every such file that was not there before, or was changed, another name; returns which.

    Raises ``ToolFailed`` if one cannot be renamed.
    """
    moved = []
    with root.hold() as top:
        for path, directory, name in _names(root, top):
            mark = _mark(directory, name)
            if mark is not None and mark != before.get(path):
                _rename(directory, name, path)
                moved.append(path)
    return moved


def _names(root: Root, top: int) -> Iterator[tuple[str, int, str]]:
    """Each path with its directory, held open, and its name there. No link is followed; one in the place of a folder
    that such files lie in is such a name itself."""
    for place, folders, files, directory in os.fwalk(".", follow_symlinks=False, dir_fd=top):
        way = place.split("/")[1:]
        for name in filter(lambda name: is_server_file_name(name) or root.guards_name(name), files):
            path = "/".join((*way, name))
            if is_server_file((*root.path.parts, *way, name)) or root.is_guarded(path):
                yield path, directory, name
        for name in sorted(folders):
            if is_folder_of_server_files(name) or is_server_file((*root.path.parts, *way, name)):
                yield "/".join((*way, name)), directory, name


def _mark(directory: int, name: str) -> tuple[int, ...] | None:
    """Nothing for a directory. The time of the last change is the kernel's: no program can set it back."""
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return None
    if stat.S_ISDIR(status.st_mode):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _rename(directory: int, name: str, path: str) -> None:
    try:
        os.rename(name, name + ASIDE, src_dir_fd=directory, dst_dir_fd=directory)
    except OSError:
        raise ToolFailed(
            f"The command made {path!r}, which decides which programs are run, and it cannot be set aside.",
            hint="Ask the person you work for to look at it and remove it.",
        ) from None
