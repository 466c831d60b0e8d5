"""Stands for ``toolcrib``: asks the nursery for one, and ends when that one does. See ``nursery.py``."""

import array
import json
import os
import signal
import socket
import sys


def main() -> int:
    line = socket.socket(socket.AF_UNIX)
    line.connect(sys.argv[1])
    order = json.dumps({"argv": sys.argv[2:], "env": dict(os.environ), "cwd": os.getcwd()})
    streams = array.array("i", [0, 1, 2])
    line.sendmsg([order.encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
    said = line.makefile()
    child = int(said.readline())
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    return int(said.readline() or 1)


sys.exit(main())
