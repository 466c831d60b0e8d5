"""Hundreds of fresh toolcrib processes for the price of one start: a process that has toolcrib loaded forks on request.

``python nursery.py SOCKET`` waits on a Unix socket. Whoever runs ``knock.py SOCKET ARGUMENTS...`` gets a process that
is ``toolcrib ARGUMENTS...`` with their directory, environment, stdin, stdout and stderr, and its exit code.
"""

import array
import json
import os
import pkgutil
import select
import signal
import socket
import sys
from collections.abc import Sequence
from importlib import import_module

import toolcrib.cli.main

ROOMS = ("catalog", "calls", "cli", "config", "crib", "project", "server", "sources", "wire")
STREAMS = 3


def load() -> None:
    for room in ROOMS:
        package = import_module(f"toolcrib.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"toolcrib.{room}."):
            if not module.name.endswith("__main__"):
                import_module(module.name)


def attend(line: socket.socket) -> None:
    """One visitor: their toolcrib as a child, its process id at once and its exit code in the end."""
    order, streams = receive(line)
    child = os.fork()
    if not child:
        become(order, streams)
    line.sendall(f"{child}\n".encode())
    over = os.pidfd_open(child)
    ready, _, _ = select.select([over, line], [], [])
    if over not in ready:  # the visitor is gone
        signal.pidfd_send_signal(over, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    line.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def receive(line: socket.socket) -> tuple[dict[str, object], Sequence[int]]:
    streams = array.array("i")
    text, ancillary, _, _ = line.recvmsg(1 << 20, socket.CMSG_SPACE(STREAMS * streams.itemsize))
    for _, _, data in ancillary:
        streams.frombytes(data)
    return json.loads(text), streams


def become(order: dict[str, object], streams: Sequence[int]) -> None:
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(STREAMS, os.sysconf("SC_OPEN_MAX"))
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115 - till the end
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    os.chdir(str(order["cwd"]))
    os.environ.clear()
    os.environ.update(order["env"])  # type: ignore[arg-type]
    sys.argv = ["toolcrib", *order["argv"]]  # type: ignore[misc]
    code = toolcrib.cli.main.run(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main() -> None:
    load()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    door = socket.socket(socket.AF_UNIX)
    door.bind(sys.argv[1])
    door.listen()
    while True:
        line, _ = door.accept()
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            door.close()
            attend(line)
            os._exit(0)
        line.close()


main()
