"""Small files that are read and replaced as a whole: never half written, never lost once written.

A new version is written beside the old one, forced to the disk, and put in its place in one step; then the directory
is forced to the disk too, without which the step itself can be lost in a power cut.
"""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from toolcrib.core.errors import ConfigError, remedy_of

GUARD_TIMEOUT_S = 10.0
Stamp = tuple[int, int, int]

_POLL_S = 0.005
_TEMPORARY = ".tmp"
_CANNOT_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP})
"""Said by network file systems that know no fsync for directories."""


def read_text(path: Path) -> str | None:
    """The text of a file, without a byte order mark; ``None`` if there is no such file."""
    content = read_bytes(path)
    return None if content is None else _decoded(path, content)


def read_bytes(path: Path) -> bytes | None:
    """A file as it is; ``None`` if there is none.

    Anything else in its place, such as a pipe, is refused: it could keep the reader waiting for ever.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
            refuse_others(os.fstat(descriptor).st_mode)
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _cannot("read", path, error) from error


def read_named(path: Path) -> str | None:
    """The text of what somebody named on the command line, which may be a pipe; ``None`` if there is no such file."""
    try:
        return _decoded(path, path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _cannot("read", path, error) from error


def stamp_of(path: str | Path) -> Stamp | None:
    """What changes when a file does; ``None`` if there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116 - a plain stat is the whole cost of a cached read
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def refuse_others(mode: int) -> None:
    """An error of the system for everything that is not a regular file."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.ENXIO, "it is a pipe" if stat.S_ISFIFO(mode) else "it is a device")


def _decoded(path: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        hint = "It is damaged, or of another program: put a good copy in its place, or move it away."
        raise ConfigError(f"The file is not UTF-8: byte {error.start}.", where=str(path), hint=hint) from None


def replace_text(path: Path, text: str, mode: int = 0o644, *, keep: int = 0o7777) -> None:
    """Put ``text`` in place of the file, whole and durable; a link stays a link.

    An existing file keeps its mode, as far as ``keep`` goes.
    """
    replace_bytes(path, text.encode(), mode, keep=keep)


def replace_bytes(path: Path, content: bytes, mode: int = 0o644, *, keep: int = 0o7777) -> None:
    """Put ``content`` in place of the file, byte for byte, as ``replace_text`` does."""
    with writing(path, mode, keep=keep) as write:
        write(content)


@contextmanager
def writing(path: Path, mode: int = 0o644, *, keep: int = 0o7777) -> Iterator[Callable[[bytes], None]]:
    """Write a file part by part. Once all is written it takes the place of the old one, which is unchanged until then.

    What is no file, such as a pipe, is written as it is.
    """
    target = place_of(path)
    if target.exists() and not target.is_file() and not target.is_dir():
        with _named(path), target.open("wb", buffering=0) as stream:
            yield lambda part: write_all(stream.fileno(), part)
        return
    with _drafted(path, target, mode, keep) as descriptor:
        yield lambda part: _write_part(path, descriptor, part)
    try:
        sync_directory(target.parent)
    except OSError as error:
        raise _cannot(
            "forced to the disk", path, error, "The new version is there, but a power cut may undo it."
        ) from error


def place_of(path: Path) -> Path:
    """Where the file really is; links are followed."""
    try:
        return path.resolve()
    except (RuntimeError, OSError):  # before Python 3.13, links that lead to themselves are no OSError
        raise _cannot("found", path, OSError(errno.ELOOP, os.strerror(errno.ELOOP))) from None


@contextmanager
def locked(path: Path, timeout_s: float = GUARD_TIMEOUT_S) -> Iterator[None]:
    """Keep every other process and thread that asks for the same file waiting outside."""
    target = place_of(path)
    descriptor = _open_guard(target)
    try:
        _wait_for(descriptor, target, time.monotonic() + timeout_s)
        yield
    finally:
        os.close(descriptor)


def try_lock(path: Path) -> int | None:
    """A descriptor that holds an exclusive lock until it is closed; ``None`` if another process has the lock."""
    descriptor = _open_guard(place_of(path))
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def discard_leftovers(path: Path) -> None:
    """Remove what writers left behind when they were killed; only for who holds the file ``locked``."""
    target = place_of(path)
    for leftover in target.parent.glob(f".{target.name}.*{_TEMPORARY}"):
        with suppress(OSError):
            leftover.unlink()


@contextmanager
def _drafted(path: Path, target: Path, mode: int, keep: int) -> Iterator[int]:
    """A file beside the one that is wanted, which takes its place at the end, if there is a good one."""
    temporary = target.with_name(f".{target.name}.{os.urandom(8).hex()}{_TEMPORARY}")
    with _named(path):
        make_directory(target.parent)
        if not target.exists():
            force_path(target.parent)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        try:
            with _named(path):
                _keep_mode(target, descriptor, keep)
            yield descriptor
            with _named(path):
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        with _named(path):
            temporary.replace(target)
    except BaseException:
        with suppress(OSError):  # the next writer discards it
            temporary.unlink()
        raise


def _write_part(path: Path, descriptor: int, part: bytes) -> None:
    with _named(path):
        write_all(descriptor, part)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _cannot("written", path, error, "What was there before is unchanged.") from error


def write_all(descriptor: int, content: bytes) -> None:
    """Write all of it: the system may take less at a time."""
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


def make_directory(directory: Path, mode: int = 0o777) -> None:
    """Make a directory, and those above it. Before the first file is put there, ``force_path`` it."""
    if not directory.exists():
        directory.mkdir(mode, parents=True, exist_ok=True)


def force_path(directory: Path) -> None:
    """Force to the disk that there is such a directory, and those above it: what is in a lost one is lost.

    For whoever puts a new file there, before the file has its name: a directory with files in it is known to be safe,
    whoever made it and whatever went wrong at that time.
    """
    device = directory.stat().st_dev
    for above in directory.parents:
        if above.stat().st_dev != device:
            return
        with suppress(PermissionError):  # somebody else's, who has to see to it
            sync_directory(above)


def sync_directory(directory: Path) -> None:
    """Force to the disk which files a directory holds, without which a new one can be lost in a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise
    finally:
        os.close(descriptor)


def _keep_mode(target: Path, descriptor: int, keep: int) -> None:
    with suppress(FileNotFoundError):
        os.fchmod(descriptor, stat.S_IMODE(target.stat().st_mode) & keep)


def _open_guard(target: Path) -> int:
    guard = target.with_name(f".{target.name}.guard")
    try:
        make_directory(target.parent)
        return os.open(guard, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise _cannot("locked", target, error) from error


def _wait_for(descriptor: int, target: Path, deadline: float) -> None:
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                message, hint = "Another process keeps the file locked.", "Try again when it has finished."
                raise ConfigError(message, where=str(target), hint=hint) from None
            time.sleep(_POLL_S)
        except OSError as error:
            raise _cannot("locked", target, error) from error


def _cannot(verb: str, path: Path, error: OSError, state: str = "") -> ConfigError:
    hint = f"{state} {remedy_of(error)}".strip()
    return ConfigError(f"The file cannot be {verb}: {error.strerror}.", where=str(path), hint=hint)


_OTHERS_MAY_WRITE = 0o022


def check_private(path: Path, what: str) -> None:
    """Refuse a file that other users can write where it says who is let in."""
    try:
        status = path.stat()
    except OSError as error:
        raise ConfigError(
            f"The {what} cannot be read: {error.strerror}.", where=str(path), hint=remedy_of(error)
        ) from error
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & _OTHERS_MAY_WRITE:
        raise ConfigError(
            f"Others may write the file of {what}, so it is not used.",
            where=str(path),
            hint=f"Look at what is in it, then run `chmod 600 {path}`.",
        )
