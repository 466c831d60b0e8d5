"""Files toolcrib would read its servers from at its next start: what a command makes of that name is set aside."""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from toolcrib.core.errors import ToolFailed
from toolcrib.workspace.beneath import DIRECTORY
from toolcrib.workspace.root import OWN_FILES, Root

ASIDE = ".not-read"
_PLACES = (".cursor", ".vscode")
"""Where other programs keep an ``mcp.json`` that toolcrib reads, too."""
_IN_PLACE = "mcp.json"

Marks = Mapping[str, tuple[int, int]]
"""Path below the root → which file it is."""


def look(root: Root) -> Marks:
    """What is there of such names now, links included."""
    with root.hold() as top:
        return {path: mark for path, directory, name in _names(top) if (mark := _mark(directory, name)) is not None}


def set_aside(root: Root, before: Marks) -> list[str]:
    """Give every such file that was not there before another name; returns which. Raises ``ToolFailed``."""
    moved = []
    with root.hold() as top:
        for path, directory, name in _names(top):
            if _mark(directory, name) not in (None, before.get(path)):
                _rename(directory, name, path)
                moved.append(path)
    return moved


def _names(top: int) -> Iterator[tuple[str, int, str]]:
    """Each path with its directory, held open, and its name there; a place that is a link is a name itself."""
    for name in (*sorted(OWN_FILES), *_PLACES):
        yield name, top, name
    for place in _PLACES:
        with _held(place, top) as directory:
            if directory is not None:
                yield f"{place}/{_IN_PLACE}", directory, _IN_PLACE


@contextmanager
def _held(place: str, top: int) -> Iterator[int | None]:
    try:
        directory = os.open(place, DIRECTORY, dir_fd=top)
    except OSError:
        yield None
        return
    try:
        yield directory
    finally:
        os.close(directory)


def _mark(directory: int, name: str) -> tuple[int, int] | None:
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return None
    return None if stat.S_ISDIR(status.st_mode) else (status.st_dev, status.st_ino)


def _rename(directory: int, name: str, path: str) -> None:
    try:
        os.rename(name, name + ASIDE, src_dir_fd=directory, dst_dir_fd=directory)
    except OSError:
        raise ToolFailed(
            f"The command made {path!r}, which decides which programs are run, and it cannot be set aside.",
            hint="Ask the person you work for to look at it and remove it.",
        ) from None
