"""A stdio server that is somewhere else: passes bytes between this process's stdin and stdout and a Unix socket."""

import os
import socket
import sys
import threading

CHUNK = 1 << 16


def upstream(line: socket.socket) -> None:
    while data := os.read(0, CHUNK):
        line.sendall(data)
    line.shutdown(socket.SHUT_WR)


def main() -> None:
    line = socket.socket(socket.AF_UNIX)
    line.connect(sys.argv[1])
    threading.Thread(target=upstream, args=(line,), daemon=True).start()
    while data := line.recv(CHUNK):
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(1, rest) :]


main()
