"""Large results, kept whole under handles nobody can guess, for as long as the program runs.

Each running program has a directory of its own and holds a lock on it: what is not locked belongs to one that was
killed, and is removed by the next that starts. Limited in bytes and in age; the oldest go first.
"""

import asyncio
import base64
import fcntl
import os
import secrets
import stat
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from toolcrib.config.model import ResultsConfig
from toolcrib.core.errors import ConfigError, ResultNotKept, remedy_of
from toolcrib.core.tasks import TaskScope
from toolcrib.stores.files import locked, write_all

_RUN = "run-"


def new_handle() -> str:
    """128 random bits, short enough for a model to repeat."""
    return "r_" + base64.b32encode(secrets.token_bytes(16)).decode().rstrip("=").lower()


class Results(Protocol):
    """Large results under handles, for those they were made for."""

    async def keep(self, raw: bytes, caller: str, tool: str) -> str:
        """Put a result aside for this caller; the handle to read it by."""

    async def read(self, handle: str, caller: str) -> bytes | None:
        """The whole result; ``None`` if it is not there, not any more, or not this caller's."""


@dataclass(frozen=True, slots=True)
class _Entry:
    path: Path
    caller: str
    tool: str
    kept_at: float
    size: int


class ResultStore:
    """The results kept by one program; file work happens beside the event loop."""

    def __init__(
        self,
        root: Path,
        settings: ResultsConfig,
        clock: Callable[[], float] = time.monotonic,
        make_handle: Callable[[], str] = new_handle,
    ) -> None:
        self._root, self._settings, self._clock, self._make_handle = root, settings, clock, make_handle
        self._entries: dict[str, _Entry] = {}
        self._used = 0
        self._count = 0
        self._guard = threading.Lock()
        self._directory: Path | None = None
        self._alive: int | None = None
        self._closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._tasks = TaskScope(_ignore)

    async def open(self) -> None:
        """Remove what programs that were killed left behind."""
        if self._root.is_dir():
            await asyncio.to_thread(sweep, self._root)

    async def keep(self, raw: bytes, caller: str, tool: str) -> str:
        """Put a result aside for this caller; the handle to read it by."""
        handle = await asyncio.to_thread(self._put, raw, caller, tool)
        if self._timer is None and not self._closed:
            self._look_again(self._settings.keep_s)
        return handle

    async def read(self, handle: str, caller: str) -> bytes | None:
        """The whole result; ``None`` if it is not there, not any more, or not this caller's."""
        return await asyncio.to_thread(self._get, handle, caller)

    async def close(self) -> None:
        """Remove everything."""
        if self._timer is not None:
            self._timer.cancel()
        await self._tasks.close()
        await asyncio.to_thread(self._remove_all)

    def _put(self, raw: bytes, caller: str, tool: str) -> str:
        # All under the guard: whoever gives up waiting leaves no file that nobody counts.
        with self._guard:
            if self._closed:
                raise _not_kept("toolcrib is ending")
            if len(raw) > self._settings.space:
                raise _not_kept(f"it has {len(raw)} bytes, and [results] space is {self._settings.space}")
            try:
                self._make_room(len(raw))
                self._count += 1
                path = self._own_directory() / str(self._count)
                _write(path, raw)
            except (OSError, ConfigError) as error:
                raise _not_kept(str(error)) from error
            handle = self._make_handle()
            self._used += len(raw)
            self._entries[handle] = _Entry(path, caller, tool, self._clock(), len(raw))
            return handle

    def _get(self, handle: str, caller: str) -> bytes | None:
        with self._guard:
            entry = self._entries.get(handle)
            if entry is None or entry.caller != caller or self._is_old(entry):
                return None
            try:
                return entry.path.read_bytes()
            except FileNotFoundError:
                return None
            except OSError as error:
                message = f"The result cannot be read: {(error.strerror or '').lower()}."
                raise ResultNotKept(message, hint=remedy_of(error)) from error

    def _is_old(self, entry: _Entry) -> bool:
        return self._clock() - entry.kept_at >= self._settings.keep_s

    def _make_room(self, needed: int) -> None:
        """Drop what is too old, then the oldest until ``needed`` bytes are free."""
        for handle, entry in list(self._entries.items()):
            if not self._is_old(entry) and self._used + needed <= self._settings.space:
                return
            entry.path.unlink(missing_ok=True)
            del self._entries[handle]
            self._used -= entry.size

    def _look_again(self, after_s: float) -> None:
        """Once the oldest result has become old it goes, even if nobody asks for anything."""

        def begin() -> None:
            self._tasks.spawn(self._expire(), "results.expire")

        self._timer = asyncio.get_running_loop().call_later(after_s, begin)

    async def _expire(self) -> None:
        wait_s = await asyncio.to_thread(self._drop_old)
        self._timer = None
        if wait_s is not None and not self._closed:
            self._look_again(max(wait_s, 1.0))

    def _drop_old(self) -> float | None:
        """Drop what is too old; how long until the next one will be."""
        with self._guard:
            self._make_room(0)
            oldest = next(iter(self._entries.values()), None)
            return None if oldest is None else oldest.kept_at + self._settings.keep_s - self._clock()

    def _own_directory(self) -> Path:
        """Made at the first need, private, and locked for as long as this program lives."""
        if self._directory is None:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check_private(self._root)
            with locked(self._root):
                directory = self._root / f"{_RUN}{os.getpid()}-{secrets.token_hex(8)}"
                directory.mkdir(mode=0o700)
                self._alive = _open_directory(directory)
                fcntl.flock(self._alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._directory = directory
        return self._directory

    def _remove_all(self) -> None:
        with self._guard:
            self._closed = True
            self._entries.clear()
            if self._directory is not None:
                _remove(self._directory)
            if self._alive is not None:
                os.close(self._alive)
                self._alive = None


def sweep(root: Path) -> None:
    """Remove the directories of programs that are no more; what cannot be removed stays."""
    with suppress(OSError, ConfigError), locked(root):
        for directory in root.glob(f"{_RUN}*"):
            _remove_if_dead(directory)


def _remove_if_dead(directory: Path) -> None:
    with suppress(OSError):  # somebody else's, or not a directory
        descriptor = _open_directory(directory)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(directory)
        finally:
            os.close(descriptor)


def _open_directory(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _remove(directory: Path) -> None:
    with suppress(OSError):
        for path in directory.iterdir():
            path.unlink(missing_ok=True)
        directory.rmdir()


def _write(path: Path, raw: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        write_all(descriptor, raw)
    except BaseException:
        with suppress(OSError):  # it goes with its directory
            path.unlink()
        raise
    finally:
        os.close(descriptor)


def _check_private(root: Path) -> None:
    """Refuse a directory in which others could put or swap files."""
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise PermissionError(f"{root} is not a private directory of this user")


def _not_kept(reason: str) -> ResultNotKept:
    return ResultNotKept(f"The result cannot be kept: {reason}.", hint="See [results] in the configuration.")


def _ignore(_name: str, _error: BaseException) -> None:
    """A file that could not be removed goes with its directory."""
