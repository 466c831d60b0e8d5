"""Small files that are read and replaced as a whole: never half written, never lost once written.

A new version is written beside the old one, forced to the disk, and put in its place in one step; then the directory
is forced to the disk too, without which the step itself can be lost in a power cut.
"""

import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from toolcrib.core.errors import ConfigError

GUARD_TIMEOUT_S = 10.0

_POLL_S = 0.005
_TEMPORARY = ".tmp"
_CANNOT_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP})
"""Said by network file systems that know no fsync for directories."""


def read_text(path: Path) -> str | None:
    """The text of a file, without a byte order mark; ``None`` if there is no such file."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise ConfigError(f"The file is not UTF-8: byte {error.start}.", where=str(path)) from None
    except OSError as error:
        raise _cannot("read", path, error) from error


def replace_text(path: Path, text: str, mode: int = 0o644, *, keep: int = 0o7777) -> None:
    """Put ``text`` in place of the file, whole and durable; a link stays a link.

    An existing file keeps its mode, as far as ``keep`` goes.
    """
    replace_bytes(path, text.encode(), mode, keep=keep)


def replace_bytes(path: Path, content: bytes, mode: int = 0o644, *, keep: int = 0o7777) -> None:
    """Put ``content`` in place of the file, byte for byte, as ``replace_text`` does."""
    target = path.resolve()
    try:
        _make_directory(target.parent)
        _replace(target, content, mode, keep)
    except OSError as error:
        raise _cannot("written", path, error, hint="What was there before is unchanged.") from error


@contextmanager
def locked(path: Path, timeout_s: float = GUARD_TIMEOUT_S) -> Iterator[None]:
    """Keep every other process and thread that asks for the same file waiting outside."""
    target = path.resolve()
    descriptor = _open_guard(target)
    try:
        _wait_for(descriptor, target, time.monotonic() + timeout_s)
        yield
    finally:
        os.close(descriptor)


def try_lock(path: Path) -> int | None:
    """A descriptor that keeps everybody else out until it is closed; nothing if somebody else has one."""
    descriptor = _open_guard(path.resolve())
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def discard_leftovers(path: Path) -> None:
    """Remove what writers left behind when they were killed; only for who holds the file ``locked``."""
    target = path.resolve()
    for leftover in target.parent.glob(f".{target.name}.*{_TEMPORARY}"):
        with suppress(OSError):
            leftover.unlink()


def _replace(target: Path, content: bytes, mode: int, keep: int) -> None:
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}{_TEMPORARY}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
            _keep_mode(target, descriptor, keep)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(target.parent)


def _make_directory(directory: Path) -> None:
    if not directory.exists():
        directory.mkdir(parents=True, exist_ok=True)


def sync_directory(directory: Path) -> None:
    """Force to the disk which files a directory holds, without which a new one can be lost in a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
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
        _make_directory(target.parent)
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


def _cannot(verb: str, path: Path, error: OSError, hint: str = "") -> ConfigError:
    return ConfigError(f"The file cannot be {verb}: {error.strerror}.", where=str(path), hint=hint)
