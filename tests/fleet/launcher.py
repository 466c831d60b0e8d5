"""Starts toolcrib, and programs of tests that use it, without importing everything anew each time.

One process has all modules of the command line imported; it forks for each start. What is started has its own process,
environment, directory, streams and signals, as after ``python -m toolcrib``. Where interpreter options other than the
path are set in the environment, it is really started that way. The same for programs of other Pythons, where a test
has several that import the same: see `Launcher`.
"""

import ast
import atexit
import contextlib
import functools
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
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TOOLCRIB = (sys.executable, "-m", "toolcrib")
MAX_REQUEST = 1 << 20


class Launched(subprocess.Popen[bytes]):
    """A program under way, forked from a launcher; used like any other `subprocess.Popen`."""

    def __init__(self, launcher: "Launcher", argv: "list[str] | tuple[str, ...]", **settings: Any) -> None:
        self._launcher = launcher
        super().__init__(argv, **settings)

    def _execute_child(self, args: Any, *settings: Any) -> None:
        names = EXECUTE_CHILD.split()
        given = dict(zip(names, settings, strict=False))
        streams = [
            own if end == -1 else end
            for own, end in enumerate((given["p2cread"], given["c2pwrite"], given["errwrite"]))
        ]
        request = {
            "module": args[2] if args[1] == "-m" else "",
            "code": args[2] if args[1] == "-c" else "",
            "argv": list(map(os.fspath, args))[2 if args[1] in ("-m", "-c") else 1 :],
            "cwd": os.fspath(given["cwd"] or Path.cwd()),
            "env": _snapshot() if given["env"] is None else dict(given["env"]),
            "new_session": bool(given["start_new_session"]),
        }
        self._status, theirs = os.pipe()
        try:
            self.pid = self._launcher.start(request, [*streams, theirs])
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
    if (is_ours or is_example) and _interpreter_options(env or _snapshot()) == _interpreter_options(_snapshot()):
        return Launched(shared_launcher(), argv, **settings)
    return subprocess.Popen(argv, **settings)


def run(argv: "list[str] | tuple[str, ...]", *, stdin: str, timeout_s: float, **settings: Any) -> Any:
    """Run a program to its end, with what it printed as text."""
    is_example = argv[0] == sys.executable and (argv[1] == "-c" or argv[1].endswith(".py"))
    return _finish(popen(argv, is_example=is_example, **PIPES, **settings), stdin, timeout_s)


PIPES = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)


def _finish(started: "subprocess.Popen[bytes]", stdin: str, timeout_s: float) -> "subprocess.CompletedProcess[str]":
    with started as process:
        try:
            out, err = process.communicate(stdin.encode(), timeout_s)
        except BaseException:
            process.kill()
            raise
    said = [text.decode().replace("\r\n", "\n") for text in (out, err)]
    return subprocess.CompletedProcess(process.args, process.returncode, *said)


def _snapshot() -> dict[str, str]:
    """The environment of this process; pytest changes it while other threads of a test read it."""
    return {name: value for name in os.environ if (value := os.environ.get(name)) is not None}


def _interpreter_options(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith("PYTHON") and name != "PYTHONPATH"}


class Launcher:
    """A Python that has imported something once, and forks for each program that is to run with it.

    It has the environment ``env``, for what is looked at while importing; each program is given its own.
    """

    def __init__(
        self,
        python: str = sys.executable,
        imports: str = "",
        env: Mapping[str, str] | None = None,
        base: "Launcher | None" = None,
    ) -> None:
        """``base`` has imported a part of it already."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MAX_REQUEST)
        command = [python, str(Path(__file__).resolve()), imports]
        start = functools.partial(Launched, base) if base else subprocess.Popen
        self.python, self.process = python, start(command, cwd=ROOT, env=env, stdin=theirs.fileno())
        theirs.close()
        self._line = ours
        self._turn = threading.Lock()
        _UNDER_WAY.append(self)

    def start(self, request: dict[str, Any], streams: list[int]) -> int:
        with self._turn:
            socket.send_fds(self._line, [json.dumps(request).encode()], streams)
            told = self._line.recv(100)
        assert told, "the launcher has ended"
        return int(told)

    def run(self, argv: list[str], *, timeout_s: float = 150, **settings: Any) -> "subprocess.CompletedProcess[str]":
        """Run a script, or a module after ``-m``, to its end, with what it printed as text."""
        return _finish(Launched(self, [self.python, *argv], **PIPES, **settings), "", timeout_s)

    def close(self) -> None:
        self._line.close()
        self.process.wait()
        _UNDER_WAY.remove(self)


def imports_of(programs: Iterable[str]) -> str:
    """The import statements at the top of some programs, each once."""
    while True:
        try:
            parts = [part for program in programs for part in ast.parse(program).body]
            break
        except SystemError:  # Python 3.11: another thread parses in the same moment
            continue
    found = [ast.unparse(part) for part in parts if isinstance(part, ast.Import | ast.ImportFrom)]
    return "\n".join(dict.fromkeys(found))


_UNDER_WAY: list[Launcher] = []
_SHARED: dict[tuple[int, str, str], Launcher] = {}
_MAKING = threading.Lock()


def shared_launcher(python: str = sys.executable, imports: str = "", env: Mapping[str, str] | None = None) -> Launcher:
    """One that lives as long as this process; with toolcrib, unless other imports are named."""
    place = (os.getpid(), python, imports)
    with _MAKING:
        if place not in _SHARED:
            _SHARED[place] = Launcher(python, imports, env)
            atexit.register(_SHARED[place].close)
        return _SHARED[place]


def launcher_pids() -> list[int]:
    """The processes that start others."""
    return [launcher.process.pid for launcher in _UNDER_WAY]


def serve(line: socket.socket) -> dict[str, Any]:
    """Fork for each request; returns what to run, in each child."""
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
            return request
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
    had, has = (where.get("PYTHONPATH", "").split(os.pathsep) for where in (os.environ, request["env"]))
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
    sys.path[:] = [request["cwd"], *filter(None, has), *(entry for entry in sys.path[1:] if entry not in had)]
    sys.argv = request["argv"]


def main(line: socket.socket, imports: str) -> None:
    """Import everything once, then serve; a child goes on as ``python -m`` would."""
    import gc

    gc.disable()  # nothing that is imported becomes garbage, and looking for it takes a sixth of the time
    if imports:
        exec(imports, {})
    else:
        _import_commands()
    gc.freeze()
    gc.enable()
    request = serve(line)
    try:
        _run(request["module"], request.get("code", ""))
    except SystemExit as ended:
        if isinstance(ended.code, str):
            raise
        _leave(ended.code or 0)
    _leave(0)


def _run(module: str, code: str) -> None:
    if module:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    elif code:
        sys.argv[0] = "-c"
        sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(code, "<string>", "exec"), vars(sys.modules["__main__"]))
    else:
        sys.path[0] = str(Path(sys.argv[0]).parent)
        runpy.run_path(sys.argv[0], run_name="__main__")


def _leave(code: int) -> None:
    """End as Python does, but without taking apart all that was imported, which takes longer than most commands."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF)


LATER = ("apsw", "encodings.idna", "numpy", "toolcrib.isolate.selftest", "toolcrib.search.hybrid", "uvloop")
"""What most commands import when they need it."""


def _import_commands() -> None:
    """All of toolcrib that the command line needs."""
    from toolcrib.cli import commands

    for module in pkgutil.iter_modules(commands.__path__):
        importlib.import_module(f"{commands.__name__}.{module.name}")
    for name in LATER:
        importlib.import_module(name)
    from toolcrib.server.web.render import compile_templates

    compile_templates()


if __name__ == "__main__":
    sys.path.insert(1, str(ROOT))
    main(socket.socket(fileno=os.dup(0)), sys.argv[1])
