"""Starts toolcrib, and programs of tests that use it, without importing everything anew each time.

One process has all modules of the command line imported; it forks for each start. What is started has its own
process, environment, directory, streams and signals, as after ``python -m toolcrib``. Where interpreter options are
set in the environment, it is really started that way.
"""

import atexit
import contextlib
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TOOLCRIB = (sys.executable, "-m", "toolcrib")
MAX_REQUEST = 1 << 20


class Launched(subprocess.Popen[bytes]):
    """toolcrib under way, forked from the launcher; used like any other `subprocess.Popen`."""

    def _execute_child(self, args: Any, *settings: Any) -> None:
        names = EXECUTE_CHILD.split()
        given = dict(zip(names, settings, strict=False))
        streams = [
            own if end == -1 else end
            for own, end in enumerate((given["p2cread"], given["c2pwrite"], given["errwrite"]))
        ]
        request = {
            "module": args[2] if args[1] == "-m" else "",
            "argv": list(map(os.fspath, args))[2 if args[1] == "-m" else 1 :],
            "cwd": os.fspath(given["cwd"] or Path.cwd()),
            "env": dict(os.environ if given["env"] is None else given["env"]),
            "new_session": bool(given["start_new_session"]),
        }
        self._status, theirs = os.pipe()
        try:
            self.pid = _launcher().start(request, [*streams, theirs])
            self._child_created = True
        finally:
            os.close(theirs)
            ends = [given[name] for name in names[9:15]]
            self._close_pipe_fds(*ends)  # type: ignore[attr-defined]

    def _internal_poll(self, _deadstate: int | None = None, *_: Any) -> int | None:
        return self._wait(0)

    def _wait(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            told = os.read(self._status, 100)
            os.close(self._status)
            self.returncode = os.waitstatus_to_exitcode(int(told)) if told else -signal.SIGKILL
        if self.returncode is None and timeout != 0:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return self.returncode


EXECUTE_CHILD = (
    "executable preexec_fn close_fds pass_fds cwd env startupinfo creationflags shell "
    "p2cread p2cwrite c2pread c2pwrite errread errwrite restore_signals gid gids uid umask start_new_session"
)
"""The parameters of `subprocess.Popen._execute_child`, after the first."""


def popen(
    argv: "list[str] | tuple[str, ...]", *, is_example: bool = False, **settings: Any
) -> "subprocess.Popen[bytes]":
    """Start a program; toolcrib, modules of the tests and scripts that are examples quickly, where it is the same."""
    env: Mapping[str, str] | None = settings.get("env")
    is_ours = tuple(argv[:2]) == TOOLCRIB[:2] and argv[2].partition(".")[0] in ("toolcrib", "tests")
    if (is_ours or is_example) and _interpreter_options(env or os.environ) == _interpreter_options(os.environ):
        return Launched(argv, **settings)
    return subprocess.Popen(argv, **settings)


def run(argv: "list[str] | tuple[str, ...]", *, stdin: str, timeout_s: float, **settings: Any) -> Any:
    """Run a program to its end, with what it printed as text."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    is_example = argv[0] == sys.executable and argv[1].endswith(".py")
    with popen(argv, is_example=is_example, **pipes, **settings) as process:
        try:
            out, err = process.communicate(stdin.encode(), timeout_s)
        except BaseException:
            process.kill()
            raise
    said = [text.decode().replace("\r\n", "\n") for text in (out, err)]
    return subprocess.CompletedProcess(argv, process.returncode, *said)


def _interpreter_options(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith("PYTHON")}


class _Launcher:
    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MAX_REQUEST)
        command = [sys.executable, str(Path(__file__).resolve()), str(theirs.fileno())]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),))
        theirs.close()
        self._line = ours
        self._turn = threading.Lock()

    def start(self, request: dict[str, Any], streams: list[int]) -> int:
        with self._turn:
            socket.send_fds(self._line, [json.dumps(request).encode()], streams)
            told = self._line.recv(100)
        assert told, "the launcher of toolcrib has ended"
        return int(told)

    def close(self) -> None:
        self._line.close()
        self.process.wait()


_LAUNCHERS: dict[int, _Launcher] = {}
_MAKING = threading.Lock()


def _launcher() -> _Launcher:
    """The one of this process, which ends with it."""
    with _MAKING:
        if os.getpid() not in _LAUNCHERS:
            _LAUNCHERS[os.getpid()] = _Launcher()
            atexit.register(_LAUNCHERS[os.getpid()].close)
        return _LAUNCHERS[os.getpid()]


def launcher_pids() -> list[int]:
    """The process that starts others, if there is one."""
    return [launcher.process.pid for launcher in _LAUNCHERS.values()]


def serve(line: socket.socket) -> str:
    """Fork for each request; returns the module to run, in each child."""
    watched: dict[int, int] = {}

    def reap(*_: object) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if (status := watched.pop(ended[0], None)) is not None:
                    with contextlib.suppress(BrokenPipeError):
                        os.write(status, str(ended[1]).encode())
                    os.close(status)

    signal.signal(signal.SIGCHLD, reap)
    while True:
        data, fds, *_ = socket.recv_fds(line, MAX_REQUEST, 4)
        if not data:  # whoever asked is gone, and what they started goes with them
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
            for pid in watched:
                os.kill(pid, signal.SIGKILL)
            os._exit(0)
        settled, settle = os.pipe()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        pid = os.fork()
        if not pid:
            line.close()
            request = json.loads(data)
            _become(request, fds)
            os.close(settled)
            os.close(settle)
            for status in (*watched.values(), fds[3]):
                os.close(status)
            return str(request["module"])
        watched[pid] = fds[3]
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        os.close(settle)
        os.read(settled, 1)
        os.close(settled)
        for stream in fds[:3]:
            os.close(stream)
        line.send(str(pid).encode())


def _become(request: dict[str, Any], fds: list[int]) -> None:
    """Be the program that was asked for."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    if request["new_session"]:
        os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    for own, stream in enumerate(fds[:3]):
        os.dup2(stream, own)
    for stream in fds[:3]:
        if stream > 2:
            os.close(stream)
    modes = {"stdin": "r", "stdout": "w", "stderr": "w"}
    for number, (name, mode) in enumerate(modes.items()):
        # As Python opens them itself; nothing may close them with an object.
        setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    sys.stderr.reconfigure(errors="backslashreplace", line_buffering=True)  # type: ignore[union-attr]
    sys.path[0] = request["cwd"]
    sys.argv = request["argv"]


def main(line: socket.socket) -> None:
    """Import everything once, then serve; a child goes on as ``python -m`` would."""
    import gc

    import toolcrib.doors.cli.commands

    for module in pkgutil.iter_modules(toolcrib.doors.cli.commands.__path__):
        importlib.import_module(f"toolcrib.doors.cli.commands.{module.name}")
    gc.freeze()
    if module := serve(line):
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(sys.argv[0]).parent)
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    sys.path.insert(1, str(ROOT))
    main(socket.socket(fileno=int(sys.argv[1])))
