"""``toolcrib stdio`` as a thin pipe to the toolcrib that runs for its project, which it starts if there is none.

This is the quick way in, so it imports little: no event loop, two threads that each wait for one side. When the
toolcrib it joined is gone, the pipe finds or starts another and tells it what its client had said.
"""

import hashlib
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from toolcrib.cli.conversation import CONTROL, Conversation
from toolcrib.core.errors import ToolcribError
from toolcrib.core.places import CONFIG_NAME, CONFIG_VARIABLE, project_candidates, user_config_path
from toolcrib.stores.run_files import RunFile, RunFiles, digest, log_path

CHUNK = 256 * 1024
LINE_MAX = 64 * 1024 * 1024
"""A longer line is not kept to be said again; whoever gets it will refuse it."""
START_S = 120.0
"""How long a toolcrib may take until it serves."""
FOLLOWED_S = 30.0
"""How long to wait for the one that follows one that ended in good order."""
PAUSE_S = 0.02
LOG_BYTES = 1024 * 1024


class CannotJoin(Exception):
    """Why this client has to be served by a toolcrib of its own."""


class Wanted(NamedTuple):
    """What this client is to be served."""

    config: str
    user: str
    is_chosen: bool
    hello: Mapping[str, Any]

    @property
    def key(self) -> str:
        """A name for files about it."""
        return hashlib.sha256(f"{self.config}\n{self.user}\n{self.is_chosen}".encode()).hexdigest()[:16]

    def fits(self, run: RunFile) -> bool:
        """Whether a toolcrib serves the same."""
        return bool(run.socket) and (run.config, run.user, run.is_chosen) == self[:3]


def wanted_here(chosen: str | None, env: Mapping[str, str], cwd: Path, hello: Mapping[str, Any]) -> Wanted:
    """Which configuration counts here; found in the same way as ``crib.loading`` finds it."""
    named = chosen or env.get(CONFIG_VARIABLE)
    if named:
        project = (cwd / Path(named).expanduser()).absolute()
    else:
        found = (path for path in project_candidates(cwd.absolute()) if path.exists() and not path.is_dir())
        project = next(found, cwd / CONFIG_NAME)
    return Wanted(str(project.resolve()), str(user_config_path(env)), bool(chosen), hello)


class Joined(NamedTuple):
    """A connection to a running toolcrib, and who it is."""

    socket: socket.socket
    run: RunFile


class Meeting:
    """Finds the toolcrib that serves what is wanted, or starts it."""

    def __init__(self, wanted: Wanted, env: Mapping[str, str]) -> None:
        self._wanted, self._env = wanted, env
        self._runs = RunFiles(env)
        self.log = log_path(env, wanted.key)

    def join(self, *, is_again: bool = False) -> Joined:
        """A joined connection; raises ``CannotJoin`` where the client has to be served otherwise."""
        return self._join_any(is_again=is_again) or self._start(is_again=is_again)

    def rejoin(self, *, is_followed: bool) -> Joined:
        """Another connection after one that ended; one that is followed gets a moment to be."""
        end = time.monotonic() + (FOLLOWED_S if is_followed else 0)
        while True:
            try:
                found = self._join_any(is_again=True)
            except CannotJoin:  # whoever took over is not for this client
                return self._spawn(is_again=True)
            if found is not None:
                return found
            if time.monotonic() >= end:
                return self.join(is_again=True)
            time.sleep(PAUSE_S)

    def _join_any(self, *, is_again: bool) -> Joined | None:
        for run in self._runs.read():
            if self._wanted.fits(run):
                line = self._ask(run, is_again=is_again)
                if line is not None:
                    return line
        return None

    def _ask(self, run: RunFile, *, is_again: bool) -> Joined | None:
        """Join one toolcrib; ``None`` if it has just ended."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(run.socket)
            connection.sendall(self._hello(run, is_again=is_again) + b"\n")
            answer = _first_line(connection)
        except PermissionError as error:
            connection.close()
            raise CannotJoin(f"the one that runs cannot be reached from here ({error.strerror})") from None
        except OSError:
            connection.close()
            return None
        if answer.get("joined"):
            return Joined(connection, run)
        connection.close()
        if answer.get("refused") and not answer.get("is_ending"):
            raise CannotJoin(f"of the one that runs (process {run.pid}): {answer['refused']}")
        return None

    def _hello(self, run: RunFile, *, is_again: bool) -> bytes:
        digests = {name: digest(run.secret, name, value) for name, value in self._env.items()}
        said = {**self._wanted.hello, "config": run.config, "user": run.user, "is_chosen": run.is_chosen}
        return json.dumps({**said, "env": digests, "is_again": is_again}).encode()

    def _start(self, *, is_again: bool) -> Joined:
        """Start one, unless another client is doing that in this moment."""
        import fcntl

        try:
            self._runs.prepare()
            lock = os.open(
                self._runs.directory / f"{self._wanted.key}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
        except OSError as error:
            raise CannotJoin(f"{self._runs.directory} cannot be written ({error.strerror})") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return self._join_any(is_again=is_again) or self._spawn(is_again=is_again)
        finally:
            os.close(lock)

    def _spawn(self, *, is_again: bool) -> Joined:
        """Start a toolcrib that outlives this process and its client, and join it."""
        import subprocess

        try:
            log = open_log(self.log)
        except OSError as error:
            raise CannotJoin(f"{self.log} cannot be written ({error.strerror})") from None
        heard, said = os.pipe()
        words = ["serve", "--background", str(said), "--log-file", str(self.log)]
        words += ["--config", self._wanted.config] if self._wanted.is_chosen else []
        directory = Path(self._wanted.config).parent
        try:
            process = subprocess.Popen(  # noqa: S603 - ourselves
                [sys.executable, "-P", "-m", "toolcrib", *words],
                cwd=directory if directory.is_dir() else None,
                env=dict(self._env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(said,),
                start_new_session=True,
            )
        finally:
            os.close(said)
            os.close(log)
        try:
            pid = _hear_ready(heard)
        finally:
            os.close(heard)
            process.wait()  # it has forked, so that nobody who ends this process and its children ends it, too
        run = next((run for run in self._runs.read() if run.pid == pid), None)
        line = self._ask(run, is_again=is_again) if run is not None else None
        if line is None:
            raise CannotJoin(f"one that could be shared did not start; see {self.log}")
        return line


def open_log(path: Path) -> int:
    """A log that only its owner can read; a long one is put aside first."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with suppress(FileNotFoundError):
        if path.stat().st_size > LOG_BYTES:
            path.replace(path.with_suffix(".log.1"))
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _hear_ready(descriptor: int) -> int:
    """The process id of a toolcrib that serves now; 0 if it ended before."""
    import select

    said, end = b"", time.monotonic() + START_S
    while (left := end - time.monotonic()) > 0 and select.select([descriptor], [], [], left)[0]:
        chunk = os.read(descriptor, 64)
        said += chunk
        if not chunk:
            break
    return int(said) if said.isdigit() else 0


def _first_line(connection: socket.socket) -> dict[str, Any]:
    """The answer to a hello; nothing follows it until something is asked."""
    said = b""
    while not said.endswith(b"\n"):
        chunk = connection.recv(4096)
        if not chunk:
            return {}
        said += chunk
    answer: dict[str, Any] = json.loads(said)
    return answer


class Pipe:
    """Carries lines between stdin, stdout and the toolcrib of the moment."""

    def __init__(self, meeting: Meeting, line: Joined, streams: tuple[int, int] = (0, 1)) -> None:
        self._meeting = meeting
        self._line: Joined | None = line
        self._in, self._out = streams
        self._talk = Conversation()
        self._state = threading.Condition()
        self._sending = threading.Lock()
        self._client_ended = False
        self._bye: dict[str, Any] = {}

    def run(self) -> int:
        """Carry until the client leaves; the exit code."""
        threading.Thread(target=self._read_client, daemon=True).start()
        while True:
            assert self._line is not None
            connection = self._line.socket
            self._read_server(connection)
            connection.close()
            if not self._go_on():
                return 0
            try:
                line = self._meeting.rejoin(is_followed=bool(self._bye.get("again")))
            except (CannotJoin, ToolcribError) as error:
                return self._fail(f"toolcrib has ended, and no other could be started: {error}")
            self._take_up(line)

    def _read_client(self) -> None:
        kept = b""
        while True:
            try:
                chunk = os.read(self._in, CHUNK)
            except OSError:
                chunk = b""
            *lines, kept = (kept + chunk).split(b"\n")
            for line in lines:
                if line.strip():
                    self._hear_client(line)
            if len(kept) > LINE_MAX:
                self._send_rest(kept)
                kept = b""
            if not chunk:
                break
        if kept.strip():
            self._hear_client(kept)
        with self._state:
            self._client_ended = True
            self._state.notify_all()
        self._say_end()

    def _hear_client(self, line: bytes) -> None:
        """Note what is said, and send it to the toolcrib of the moment; what is lost with it is known."""
        with self._sending:  # nobody else takes up the conversation between the two
            with self._state:
                line, asked = self._talk.hear_client(line)
                current = self._line
                for one in asked:
                    one.is_sent = current is not None
                self._state.notify_all()
            if current is not None:
                with suppress(OSError):
                    current.socket.sendall(line + b"\n")

    def _send_rest(self, data: bytes) -> None:
        """Send a part of a line that is too long to be kept."""
        with self._sending, suppress(OSError):
            if self._line is not None:
                self._line.socket.sendall(data)

    def _say_end(self) -> None:
        with self._sending:
            if self._line is not None:
                with suppress(OSError):
                    self._line.socket.sendall(CONTROL + b'{"end":true}\n')
                    self._line.socket.shutdown(socket.SHUT_WR)

    def _read_server(self, connection: socket.socket) -> None:
        """Carry what comes, in whole lines, until the connection ends."""
        kept, self._bye = [b""], {}
        while True:
            try:
                chunk = connection.recv(CHUNK)
            except OSError:
                chunk = b""
            if not chunk:
                break
            first, *more = chunk.split(b"\n")
            kept.append(first)
            if more:
                self._write([line for line in (b"".join(kept), *more[:-1]) if self._is_for_client(line)])
                kept = [more[-1]]

    def _is_for_client(self, line: bytes) -> bool:
        if line.startswith(CONTROL):
            self._bye = json.loads(line[1:])
            if self._bye.get("bye"):
                with self._state:  # what is asked from now on is for the next one
                    self._line = None
            return False
        with self._state:
            return self._talk.hear_server(line)

    def _write(self, lines: list[bytes]) -> None:
        rest = memoryview(b"".join(line + b"\n" for line in lines))
        try:
            while rest:
                rest = rest[os.write(self._out, rest) :]
        except OSError:
            leave(0)  # the client is gone

    def _go_on(self) -> bool:
        """Whether another toolcrib is needed; after one that was stopped, not before the client wants something."""
        with self._state:
            self._line = None
            self._write(self._talk.give_up_questions())
            while True:
                if self._client_ended and self._talk.is_settled:
                    return False
                is_stopped = self._bye.get("bye") and not self._bye.get("again")
                if not is_stopped or not self._talk.is_settled:
                    return True
                self._state.wait()

    def _take_up(self, line: Joined) -> None:
        """Go on with another toolcrib."""
        with self._sending:
            with self._state:
                told = b"".join(one + b"\n" for one in self._talk.replay())
                self._line, is_over = line, self._client_ended
            with suppress(OSError):
                line.socket.sendall(told)
        if is_over:
            self._say_end()

    def _fail(self, reason: str) -> int:
        with self._state:
            self._write(self._talk.fail_all(reason))
        sys.stderr.write(f"toolcrib: {reason}\n")
        return 1


def leave(code: int) -> NoReturn:
    """End now, whatever the threads wait for."""
    sys.stderr.flush()
    os._exit(code)


def carry(pipe: Pipe) -> NoReturn:
    """Run the pipe to its end; a signal ends it in good order."""

    def stop(*_: object) -> None:
        leave(0)

    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(sign) is not signal.SIG_IGN:
            signal.signal(sign, stop)
    leave(pipe.run())
