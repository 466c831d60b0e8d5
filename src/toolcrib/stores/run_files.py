"""Run files: each serving process says where it serves what, in a directory only its owner can read.

A port says nothing of who listens on it. A run file holds a secret with which the listener proves that it wrote the
file, so that a command sends nothing that matters to a stranger. The secret itself never travels: both sides make a
code of a fresh number with it, and of the address, so that an answer fetched elsewhere proves nothing here.
"""

import errno
import hashlib
import hmac
import json
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from toolcrib.core.errors import ConfigError, remedy_of
from toolcrib.core.places import state_directory
from toolcrib.stores.files import write_all

SUFFIX = ".json"
SOCKET_PATH_MAX = 100
"""The address of a Unix socket has room for 104 bytes on some systems."""
BYTES_MAX = 64 * 1024
_STRANGE = frozenset({errno.ENOENT, errno.ELOOP, errno.EACCES, errno.EPERM, errno.ENXIO})
"""Said of a file that is gone, that somebody else wrote, or that is none."""

Side = Literal["server", "client"]


class RunOffer(NamedTuple):
    """What a process serves, as others have to know it to find the right one."""

    url: str
    """Where it serves, without a path."""
    config: Path
    """The file the project is read from."""
    version: str
    user: str = ""
    """The user's own file, which counts as well."""
    is_chosen: bool = False
    """Whether the project's file was named, so that of the user's only the rules count."""
    socket: str = ""
    """Where ``toolcrib stdio`` joins; empty if it cannot."""
    is_background: bool = False
    """Whether it was started for clients that came over stdio, and ends some time after them."""
    log: str = ""
    """Where its log is written, if to a file of ours."""


class RunFile(NamedTuple):
    """One serving process."""

    url: str
    """Where it serves, without a path."""
    directory: str
    """The project it serves."""
    config: str
    """The file the project is read from."""
    pid: int
    began: str
    """When the process began, as its system tells it: process ids are used again, these pairs are not."""
    system: str
    """Which boot of which machine, and which process namespace, the process id counts in."""
    secret: str
    version: str
    started: float = 0.0
    """When it began to serve, by the wall clock."""
    user: str = ""
    is_chosen: bool = False
    socket: str = ""
    is_background: bool = False
    log: str = ""

    def code(self, side: Side, number: str) -> str:
        """What only a reader of this file can make of ``number``; each side has a code of its own."""
        return make_code(self.secret, self.url, side, number)


def make_code(secret: str, url: str, side: Side, number: str) -> str:
    """The code of ``number`` by one side of a conversation at ``url``."""
    return hmac.new(secret.encode(), f"toolcrib run {side}\n{url}\n{number}".encode(), hashlib.sha256).hexdigest()


def new_number() -> str:
    """A fresh random nonce."""
    return os.urandom(32).hex()


def digest(secret: str, name: str, value: str) -> str:
    """What shows two holders of the secret that a variable has the same value for both, and nothing else of it."""
    said = f"{name}={value}".encode("utf-8", "surrogateescape")
    return hashlib.blake2b(said, key=secret.encode()[:64], digest_size=16).hexdigest()


def log_path(env: Mapping[str, str], key: str) -> Path:
    """Where the log of what serves a configuration is kept."""
    return state_directory(env) / "logs" / f"{key}.log"


class RunFiles:
    """The run files of this user."""

    def __init__(self, env: Mapping[str, str], system: Callable[[], str] | None = None) -> None:
        # Beside the token rather than in XDG_RUNTIME_DIR: sudo, cron and ssh each have another one, or none.
        self.directory = state_directory(env) / "run"
        self._system = system or this_system

    def write(self, offered: RunOffer) -> "OwnRunFile":
        """Say that this process serves a project, until the result is removed."""
        entry = RunFile(
            url=offered.url,
            directory=str(offered.config.parent),
            config=str(offered.config),
            pid=os.getpid(),
            began=process_began(os.getpid()),
            system=self._system(),
            secret=new_number(),
            version=offered.version,
            started=time.time(),
            user=offered.user,
            is_chosen=offered.is_chosen,
            socket=offered.socket,
            is_background=offered.is_background,
            log=offered.log,
        )
        path = self.directory / f"{os.getpid()}-{os.urandom(4).hex()}{SUFFIX}"
        try:
            self.prepare()
            _write_private(path, json.dumps(entry._asdict()).encode())
        except OSError as error:
            raise _cannot("written", path, error) from error
        return OwnRunFile(entry, path)

    def read(self) -> list[RunFile]:
        """The running servers, newest first; files of ended processes are removed."""
        found = [(path, entry) for path in self._paths() if (entry := _read_private(path)) is not None]
        return [entry for path, entry in found if self._is_running(entry) or _remove(path)]

    def _paths(self) -> list[Path]:
        try:
            self._check()
            paths = [path for path in self.directory.iterdir() if path.suffix == SUFFIX]
            return sorted(paths, key=lambda path: path.lstat().st_mtime_ns, reverse=True)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _cannot("read", self.directory, error) from error

    def _is_running(self, entry: RunFile) -> bool:
        """A process of another namespace of this machine cannot be seen, so it may be running."""
        here, there = self._system().split(), entry.system.split()
        if here[:1] != there[:1]:
            return False
        began = process_began(entry.pid)
        is_hidden = not began and bool(_is_there(entry.pid))  # /proc can be mounted so that it shows less
        return here != there or began == entry.began or is_hidden

    def new_socket(self) -> Path:
        """A place for a Unix socket that only this user reaches; where the path would be too long, elsewhere."""
        name = f"{os.getpid()}-{os.urandom(4).hex()}.sock"
        try:
            self.prepare()
            if len(os.fsencode(self.directory / name)) <= SOCKET_PATH_MAX:
                return self.directory / name
            return Path(tempfile.mkdtemp(prefix="toolcrib-")) / name
        except OSError as error:
            raise _cannot("written", self.directory, error) from error

    def prepare(self) -> None:
        """Make the directory, or refuse one that is not this user's alone."""
        self.directory.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileExistsError):
            self.directory.mkdir(mode=0o700)
        self._check()

    def _check(self) -> None:
        """Refuse a directory that others could have filled or can read."""
        found = self.directory.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            raise ConfigError(
                "The directory of the run files is not yours alone.",
                where=str(self.directory),
                hint="Remove it, or give it to yourself with mode 0700.",
            )


class OwnRunFile:
    """The run file of this process."""

    def __init__(self, entry: RunFile, path: Path) -> None:
        self.entry, self.path = entry, path

    def remove(self) -> None:
        """Remove the run file."""
        _remove(self.path)


def _write_private(path: Path, content: bytes) -> None:
    """Write beside and link into place, so that nobody reads half of it."""
    draft = path.with_name(f".{path.name}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(draft, flags, 0o600)
    try:
        try:
            write_all(descriptor, content)
        finally:
            os.close(descriptor)
        draft.rename(path)
    except OSError:
        _remove(draft)
        raise


def _read_private(path: Path) -> RunFile | None:
    """What a file says; ``None`` for one that somebody else wrote or can read, or that says nothing."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in _STRANGE:
            return None
        raise _cannot("read", path, error) from error
    try:
        found = os.fstat(descriptor)
        is_ours = found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o077
        if not stat.S_ISREG(found.st_mode) or not is_ours:
            return None
        return _decode(os.read(descriptor, BYTES_MAX))
    except OSError as error:
        raise _cannot("read", path, error) from error
    finally:
        os.close(descriptor)


def _decode(content: bytes) -> RunFile | None:
    try:
        said = json.loads(content)
        entry = RunFile(**{name: value for name, value in said.items() if name in RunFile._fields})
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    kinds = RunFile.__annotations__
    is_whole = all(
        isinstance(value, (float, int) if kinds[name] is float else kinds[name])
        for name, value in entry._asdict().items()
    )
    return entry if is_whole else None


def _cannot(verb: str, path: Path, error: OSError) -> ConfigError:
    return ConfigError(f"The run file cannot be {verb}: {error.strerror}.", where=str(path), hint=remedy_of(error))


def _remove(path: Path) -> bool:
    with suppress(OSError):
        path.unlink()
    return False


def process_began(pid: int) -> str:
    """When a process began, in ticks since the boot, or, without ``/proc``, that it is there; empty for none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()
        is_over = fields[0] in (b"Z", b"X")  # it has ended, and whoever started it has not looked yet
        return "ended" if is_over else fields[19].decode()
    except (OSError, IndexError):
        return "" if Path("/proc/self/stat").exists() else _is_there(pid)


def _is_there(pid: int) -> str:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        return "there"
    return "there"


def this_system() -> str:
    """This boot of this machine, and the process namespace we are in."""
    return " ".join(_facts())


def _facts() -> Iterator[str]:
    boot = Path("/proc/sys/kernel/random/boot_id")
    yield boot.read_text().strip() if boot.exists() else os.uname().nodename.replace(" ", "-") or "here"
    namespace = Path("/proc/self/ns/pid")
    with suppress(OSError):
        yield str(namespace.readlink())


def choose(entries: list[RunFile], config: Path, *, is_project: bool) -> list[RunFile]:
    """Whoever serves the project of ``config``, the likeliest first; outside any project, the only one there is."""
    exact = [entry for entry in entries if entry.config == str(config)]
    beside = [entry for entry in entries if entry.directory == str(config.parent) and entry not in exact]
    found = [*exact, *beside]
    return found if found or is_project or len(entries) != 1 else entries
