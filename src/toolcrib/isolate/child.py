"""The program of a worker: calls one function with one JSON value, and tells what it returned.

Run by its path as ``python -I child.py``; standard library only, the function may need what it likes. What the function
prints goes to stderr: the one descriptor that carries the answer is out of its sight.
"""

import importlib
import json
import os
import sys
from typing import Any


def read_request() -> Any:
    """The request, preceded by its length in four bytes; afterwards there is nothing more to be read."""
    with os.fdopen(os.dup(0), "rb") as given:
        size = int.from_bytes(given.read(4), "big")
        request = json.loads(given.read(size))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return request


def take_answer_line() -> int:
    """The descriptor for the answer; whatever else is written to stdout goes to stderr from here on."""
    line = os.dup(1)
    os.dup2(2, 1)
    return line


def main() -> None:
    """One request, one answer; threads that the function left behind do not keep the program alive."""
    line = take_answer_line()
    request = read_request()
    sys.path[:] = request["path"]
    module, _, name = request["target"].partition(":")
    answer = getattr(importlib.import_module(module), name)(request["given"])
    with os.fdopen(line, "wb") as out:
        out.write(answer)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
