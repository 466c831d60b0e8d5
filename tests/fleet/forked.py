"""Programs that others start, imported once: what they start is a stand-in, and the program is forked for it.

Real servers behind a gateway, and gateways behind real clients.

The stand-in hands over its streams, directory, environment and arguments, and ends when the server does. Where the
stand-in is ended, the server is ended, too.
"""

import atexit
import contextlib
import functools
import json
import os
import select
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.fleet.launcher import MAX_REQUEST, Launcher, imports_of, shared_launcher
from tests.fleet.servers import Launch

STAND_IN = """
import json, os, socket, sys
line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
line.connect(sys.argv[1])
asked = {"argv": sys.argv[2:], "cwd": os.getcwd(), "env": dict(os.environ)}
socket.send_fds(line, [json.dumps(asked).encode()], [0, 1, 2])
for stream in (0, 1, 2):
    os.close(stream)
os._exit(int(line.recv(100) or 1))
"""


@contextlib.contextmanager
def forked(launch: Launch, folder: Path) -> Iterator[Launch]:
    """The launch of a Python server, imported once; ``folder`` has a short path, for sockets."""
    script = Path(launch.command)
    imports = imports_of([script.read_text()])
    with (
        contextlib.closing(Launcher(str(script.parent / "python"), imports)) as launcher,
        _listening(folder / f"{script.name}.socket", launcher) as stand_in,
    ):
        yield Launch(sys.executable, (*stand_in, launch.command, *launch.args), launch.env)


@functools.cache
def toolcrib_stand_in() -> tuple[str, ...]:
    """A command that takes the arguments of ``toolcrib``, and is there at once; it works as long as this process."""
    life = contextlib.ExitStack()
    atexit.register(life.close)
    folder = life.enter_context(tempfile.TemporaryDirectory())
    place = Path(folder) / "toolcrib.socket"
    return (sys.executable, *life.enter_context(_listening(place, shared_launcher(), "toolcrib")), "toolcrib")


@contextlib.contextmanager
def _listening(place: Path, launcher: Launcher, module: str = "") -> Iterator[tuple[str, ...]]:
    """Gives what a Python needs to be a stand-in."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(place))
        listening.listen()
        threading.Thread(target=_accept, args=(listening, launcher, module), daemon=True).start()
        yield ("-ISc", STAND_IN, str(place))
        listening.shutdown(socket.SHUT_RDWR)


def _accept(listening: socket.socket, launcher: Launcher, module: str) -> None:
    with contextlib.suppress(OSError):  # the end of the block
        while True:
            asking, _ = listening.accept()
            threading.Thread(target=_serve, args=(asking, launcher, module), daemon=True).start()


def _serve(asking: socket.socket, launcher: Launcher, module: str) -> None:
    """Start the program for one stand-in, and end whichever of them outlives the other."""
    with asking:
        data, streams, *_ = socket.recv_fds(asking, MAX_REQUEST, 3)
        status, theirs = os.pipe()
        pid = launcher.start({**json.loads(data), "module": module, "new_session": False}, [*streams, theirs])
        for descriptor in (*streams, theirs):
            os.close(descriptor)
        if asking in select.select([asking, status], [], [])[0]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        told = os.read(status, 100)
        os.close(status)
        with contextlib.suppress(OSError):
            asking.send(str(abs(os.waitstatus_to_exitcode(int(told or 1)))).encode())
