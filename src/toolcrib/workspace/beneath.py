"""Ways below a directory, step by step: each directory is held open, no link is followed but by its text.

Nothing is looked at first and opened by its path later, so it does not matter what is put in its place in between.
"""

import ctypes
import errno
import functools
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

_NUMBER = 437  # on every architecture
_NO_MAGIC_LINKS, _BENEATH = 0x02, 0x08
_ATTEMPTS = 32
_NOBODY = -1
"""No descriptor: a kernel that knows the call complains of that, others of the call."""

OpenBeneath = Callable[[int, str, int], int]


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@functools.cache
def kernel_open() -> OpenBeneath | None:
    """The kernel's own way to open below a directory, if it has one and lets us."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        os.close(_open(_NOBODY, ".", os.O_RDONLY))
    except OSError as error:
        return _open if error.errno == errno.EBADF else None  # whatever else it is, the call itself was refused
    return None


def _open(root: int, path: str, flags: int) -> int:
    """A descriptor; a path that anybody changes while it is walked is walked again."""
    how = _How(flags | os.O_CLOEXEC, 0, _BENEATH | _NO_MAGIC_LINKS)
    for _ in range(_ATTEMPTS):
        number = _syscall()(_NUMBER, root, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
        if number >= 0:
            return number
        if ctypes.get_errno() not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)


@functools.cache
def _syscall() -> Callable[..., int]:
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
    call.restype = ctypes.c_long
    return call


LINKS_MAX = 40
_CANNOT_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP})
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


@dataclass(frozen=True, slots=True)
class Spot:
    """Where an entry is, or would be: its directory, held open, and its name there; it is no link."""

    directory: int
    name: str
    way: tuple[str, ...]
    """The directories from the root on, all links resolved."""

    @property
    def path(self) -> str:
        """Its real path below the root."""
        return "/".join((*self.way, self.name))

    def force_way(self) -> None:
        """Force to the disk that there are the directories that lead here, such as were made on the way."""
        held = os.dup(self.directory)
        try:
            for _ in self.way:
                above = os.open("..", DIRECTORY, dir_fd=held)
                os.close(held)
                held = above
                sync_directory(held)
        finally:
            os.close(held)

    def open(self, flags: int, mode: int = 0o666) -> int:
        """A descriptor of the entry itself."""
        return os.open(self.name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=self.directory)


def sync_directory(descriptor: int) -> None:
    """Force to the disk which entries a directory has, where the file system can do that."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise


def open_beneath(root: int, parts: Sequence[str], flags: int, opener: OpenBeneath | None = None) -> int:
    """A descriptor of what a path below ``root`` leads to; raises ``OSError``, ``EXDEV`` if it leads out."""
    kernel = opener or kernel_open()
    if kernel is not None:
        return kernel(root, "/".join(parts) or ".", flags)
    return walk_open(root, parts, flags)


def walk_open(root: int, parts: Sequence[str], flags: int) -> int:
    """The same without the kernel's help."""
    with locate(root, parts) as spot:
        return os.open(".", flags, dir_fd=spot.directory) if spot.name == "." else spot.open(flags)


@contextmanager
def locate(root: int, parts: Sequence[str], *, make: bool = False) -> Iterator[Spot]:
    """The place a path leads to, through links as long as they stay below; ``make`` makes missing directories."""
    way = _Way(root)
    try:
        name = way.follow(parts, make=make)
        yield Spot(way.held[-1], name, tuple(way.names))
    finally:
        way.close()


class _Way:
    """The directories from the root down to where we are."""

    def __init__(self, root: int) -> None:
        self.held = [os.dup(root)]
        self.names: list[str] = []

    def follow(self, parts: Sequence[str], *, make: bool) -> str:
        """Go to the directory of the last part, and return that part's name; ``.`` if it is where we are."""
        left, links = deque(parts), 0
        while left:
            name = left.popleft()
            if name == "..":
                self._up()
            elif name in ("", "."):
                continue
            elif (target := self._link(name)) is not None:
                links += 1
                left.extendleft(reversed(_steps(target, links)))
            elif any(step not in ("", ".") for step in left):
                self._down(name, make=make)
            else:
                return name
        return "."

    def _link(self, name: str) -> str | None:
        try:
            return os.readlink(name, dir_fd=self.held[-1])
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):
                return None
            raise

    def _down(self, name: str, *, make: bool) -> None:
        try:
            below = os.open(name, DIRECTORY, dir_fd=self.held[-1])
        except FileNotFoundError:
            if not make:
                raise
            self._make(name)
            below = os.open(name, DIRECTORY, dir_fd=self.held[-1])
        self.held.append(below)
        self.names.append(name)

    def _make(self, name: str) -> None:
        try:
            os.mkdir(name, dir_fd=self.held[-1])
        except FileExistsError:
            return

    def _up(self) -> None:
        if not self.names:
            raise OSError(errno.EXDEV, "it leads out")
        os.close(self.held.pop())
        self.names.pop()

    def close(self) -> None:
        for descriptor in self.held:
            os.close(descriptor)


def _steps(target: str, links: int) -> list[str]:
    if links > LINKS_MAX:
        raise OSError(errno.ELOOP, "too many links")
    if target.startswith("/"):
        raise OSError(errno.EXDEV, "it leads out")
    return target.split("/")
