"""The root of the workspace: whatever is read, listed or written through it lies below it, come what may."""

import errno
import os
import posixpath
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from toolcrib.config.foreign.locations import (
    READ_AT_START,
    is_folder_of_server_files,
    is_server_file,
    is_server_file_name,
)
from toolcrib.core.errors import InvalidArguments, OutsideWorkspace, ToolcribError, ToolFailed, did_you_mean, remedy_of
from toolcrib.workspace.beneath import OpenBeneath, Spot, locate, open_beneath, sync_directory

PATH_MAX = 4096
CHANGED_MAX = 64 << 20
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK
_LEADS_OUT = frozenset({errno.EXDEV, errno.ELOOP})

OWN_DIRECTORIES = frozenset({".git"})
"""git runs what stands in its hooks and settings."""

Change = Callable[[bytes | None], bytes]
"""From what a file holds, ``None`` if there is none, to what it shall hold."""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that was put in place."""

    path: str
    before: bytes | None
    after: bytes


class WorkspaceRoot:
    """A directory that nothing leads out of; every path is given as seen from it, or with it in front."""

    def __init__(self, path: Path, guarded: Iterable[Path] = (), opener: OpenBeneath | None = None) -> None:
        self.given = path.absolute()
        self.path = path.resolve()
        self._guarded = frozenset(found for each in guarded if (found := each.resolve()).is_relative_to(self.path))
        """The files toolcrib was configured by, as far as they lie below."""
        self._guarded_paths = frozenset(str(each).casefold() for each in self._guarded)
        self._guarded_names = frozenset(each.name.casefold() for each in self._guarded)
        self._opener = opener

    def own_files(self) -> list[Path]:
        """What is there of the files toolcrib would read at its next start here: whoever may write them could have any
        command started, or tokens sent elsewhere."""
        named = {self.path / name for name in READ_AT_START if "/" not in name}
        return sorted(path for path in named | self._guarded if path.exists())

    def guards_name(self, name: str) -> bool:
        """Whether any such file has this name."""
        return name.casefold() in self._guarded_names

    def is_guarded(self, path: str) -> bool:
        """Whether toolcrib was configured by the file at this path below the root."""
        return str(self.path / path).casefold() in self._guarded_paths

    def parts(self, written: str) -> tuple[str, ...]:
        """The steps of a path as somebody wrote it; raises ``OutsideWorkspace`` if they lead out."""
        if "\0" in written or len(os.fsencode(written)) > PATH_MAX:
            raise InvalidArguments("The path has a zero byte in it, or is too long.", hint="Write a shorter path.")
        inside = self._inside(written)
        normal = posixpath.normpath(inside or ".")
        if normal == ".." or normal.startswith(("../", "/")):
            raise outside(written)
        return () if normal == "." else tuple(normal.split("/"))

    def _inside(self, written: str) -> str:
        """An absolute path counts if the root itself stands in front, step by step."""
        if not written.startswith("/"):
            return written
        steps = PurePosixPath(posixpath.normpath(written)).parts
        for root in (self.given.parts, self.path.parts):
            if steps[: len(root)] == root:
                return "/".join(steps[len(root) :])
        raise outside(written)

    @contextmanager
    def hold(self) -> Iterator[int]:
        """The root itself, open."""
        try:
            descriptor = os.open(self.path, _LIST | os.O_CLOEXEC)
        except OSError as error:
            raise ToolFailed(
                f"The workspace cannot be opened: {_words(error)}.", hint="Check root under [workspace]."
            ) from None
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def open(self, written: str, flags: int) -> int:
        """A descriptor of what a path leads to."""
        parts = self.parts(written)
        with self.hold() as root:
            try:
                return open_beneath(root, parts, flags, self._opener)
            except OSError as error:
                raise explain(error, written, self._siblings(root, parts)) from None

    @contextmanager
    def reading(self, written: str) -> Iterator[BinaryIO]:
        """An ordinary file, to be read; nothing else is waited for."""
        with ordinary_file(self.open(written, _READ), written) as file:
            yield file

    @contextmanager
    def listing(self, written: str) -> Iterator[int]:
        """A directory, to be listed."""
        descriptor = self.open(written, _LIST)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def change(self, written: str, change: Change, *, make: bool = False) -> WrittenFile:
        """Put what ``change`` makes of a file in its place, whole or not at all; its mode stays as it is."""
        parts = self.parts(written)
        with self.hold() as root:
            try:
                with locate(root, parts, make=make) as spot:
                    self._refuse_own(spot, written)
                    before, status = _read(spot, written)
                    after = change(before)
                    if after != before:
                        _put(spot, after, status)
                    else:
                        sync_directory(spot.directory)  # the last attempt may have failed at this
                    return WrittenFile(spot.path, before, after)
            except OSError as error:
                raise explain(error, written, self._siblings(root, parts)) from None

    def _refuse_own(self, spot: Spot, written: str) -> None:
        """What decides which programs are run is not for these tools to write."""
        steps = (*spot.way, spot.name)
        is_own = is_server_file((*self.path.parts, *steps)) or self.is_guarded(spot.path)
        if is_own or any(step.casefold() in OWN_DIRECTORIES for step in steps):
            raise OutsideWorkspace(
                f"{written!r} is not written: it decides which programs are run.",
                hint="Ask the person you work for to change it.",
            )

    def _siblings(self, root: int, parts: tuple[str, ...]) -> list[str]:
        """What else there is where something was not found."""
        with suppress(OSError):
            directory = open_beneath(root, parts[:-1], _LIST, self._opener)
            try:
                return os.listdir(directory)[:2000]  # noqa: PTH208 - a descriptor, not a path
            finally:
                os.close(directory)
        return []


@contextmanager
def ordinary_file(descriptor: int, written: str) -> Iterator[BinaryIO]:
    """The file behind a descriptor, which is closed in any case; raises ``InvalidArguments`` if it is none."""
    try:
        _refuse_special(os.fstat(descriptor), written)
    except BaseException:
        os.close(descriptor)
        raise
    with open(descriptor, "rb") as file:
        yield file


def _refuse_special(status: os.stat_result, written: str) -> None:
    """Only ordinary files are read and written: a pipe would wait for ever, a device do something."""
    if stat.S_ISDIR(status.st_mode):
        raise InvalidArguments(f"{written!r} is a directory.", hint="Use file_list to see what is in it.")
    if not stat.S_ISREG(status.st_mode):
        raise InvalidArguments(f"{written!r} is no ordinary file.", hint="Pipes, sockets and devices are left alone.")


def outside(written: str) -> OutsideWorkspace:
    """The refusal of a path that leads out."""
    return OutsideWorkspace(f"{written[:200]!r} leads out of the workspace.", hint="Give a path below its root.")


def explain(error: OSError, written: str, siblings: list[str]) -> ToolcribError:
    """What went wrong with a path, in words."""
    if error.errno in _LEADS_OUT:
        return outside(written)
    if error.errno == errno.ENOENT:
        hint = did_you_mean(PurePosixPath(written).name, siblings) or "See what is there with file_list or file_find."
        return InvalidArguments(f"There is no {written[:200]!r}.", hint=hint)
    if error.errno == errno.ENOTDIR:
        message = f"{written[:200]!r} is no directory, or passes through something that is none."
        return InvalidArguments(message, hint="See what is there with file_list.")
    if error.errno == errno.ENXIO:
        hint = "Pipes, sockets and devices are left alone."
        return InvalidArguments(f"{written[:200]!r} is no ordinary file.", hint=hint)
    return ToolFailed(f"{written[:200]!r}: {_words(error)}.", hint=remedy_of(error))


def _words(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()


def _read(spot: Spot, written: str) -> tuple[bytes | None, os.stat_result | None]:
    """What is there; opened for writing too, so that what is write-protected stays as it is."""
    try:
        descriptor = spot.open(os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY)
    except FileNotFoundError:
        return None, None
    except IsADirectoryError:
        raise InvalidArguments(f"{written!r} is a directory.", hint="Name a file in it.") from None
    with ordinary_file(descriptor, written) as file:
        status = os.fstat(descriptor)
        if status.st_size > CHANGED_MAX:
            raise ToolFailed(f"{written!r} has {status.st_size / 1e6:.0f} MB: too much to be changed as a whole.")
        return file.read(CHANGED_MAX + 1), status


def _put(spot: Spot, content: bytes, status: os.stat_result | None) -> None:
    """A new file beside the old one, forced to the disk, then put in its place in one step."""
    if status is None:
        spot.force_way()
    draft = Spot(spot.directory, f".toolcrib-{os.urandom(8).hex()}.tmp", spot.way)
    descriptor = draft.open(os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        try:
            _keep_owner_and_mode(descriptor, status)
            left = memoryview(content)
            while left:  # the system may take less at a time
                left = left[os.write(descriptor, left) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(draft.name, spot.name, src_dir_fd=spot.directory, dst_dir_fd=spot.directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft.name, dir_fd=spot.directory)
        raise
    sync_directory(spot.directory)


def _keep_owner_and_mode(descriptor: int, status: os.stat_result | None) -> None:
    if status is not None:
        with suppress(PermissionError):
            os.fchown(descriptor, status.st_uid, status.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & 0o777)


ASIDE = ".not-read"

Marks = Mapping[str, tuple[int, ...]]
"""Path below the root → which file it is, in which state."""


def look(root: WorkspaceRoot) -> Marks:
    """What is there of such names now, at any depth, links included."""
    with root.hold() as top:
        return {path: mark for path, directory, name in _names(root, top) if (mark := _mark(directory, name))}


def set_aside(root: WorkspaceRoot, before: Marks) -> list[str]:
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


def _names(root: WorkspaceRoot, top: int) -> Iterator[tuple[str, int, str]]:
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
