"""The program of a worker: calls one function with one JSON value, and tells what it returned.

A worker that stays does so again and again, each time in a copy of itself: what happens in one call is gone before the
next, and limits hold for each call alone.

Run by its path as ``python -I child.py``; standard library only, the function may need what it likes. What the function
prints goes to stderr: the one descriptor that carries the answer is out of its sight.
"""

import importlib
import json
import os
import sys
from collections.abc import Callable
from io import FileIO
from typing import Any

Function = Callable[[Any], bytes]
ANSWER_MAX = 64 << 20


def read_request() -> Any:
    """The request, preceded by its length in four bytes."""
    with os.fdopen(os.dup(0), "rb", 0) as given:
        return _read_value(given)


def _read_value(given: FileIO) -> Any:
    head = _read_exactly(given, 4)
    return json.loads(_read_exactly(given, int.from_bytes(head, "big"))) if head else None


def _read_exactly(given: FileIO, size: int) -> bytearray:
    held, at = bytearray(size), 0
    while at < size and (count := given.readinto(memoryview(held)[at:])):
        at += count
    return held if at == size else bytearray()


def take_input_away() -> None:
    """From here on there is nothing more to be read."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def take_answer_line() -> int:
    """The descriptor for the answer; whatever else is written to stdout goes to stderr from here on."""
    line = os.dup(1)
    os.dup2(2, 1)
    return line


def find_function(target: str, name: str = "") -> Function | None:
    """The function ``module:function``, or another one beside it."""
    module, _, own = target.partition(":")
    return getattr(importlib.import_module(module), name or own, None)


def call_and_end(function: Function, given: Any, line: int) -> None:
    """One answer, then the end; threads that the function left behind do not keep the program alive."""
    answer = function(given)
    with os.fdopen(line, "wb") as out:
        out.write(answer)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def serve(target: str, line: int) -> None:
    """Calls until there are no more; an answer of no bytes says that the call ended without one."""
    function, prepare = find_function(target), find_function(target, "prepare")
    assert function is not None
    with os.fdopen(os.dup(0), "rb", 0) as given:
        while (value := _read_value(given)) is not None:
            if prepare is not None:
                prepare(value)
            answer = _call_in_copy(function, value, (given.fileno(), line))
            with os.fdopen(os.dup(line), "wb") as out:
                out.write(len(answer).to_bytes(4, "big") + answer)


def _call_in_copy(function: Function, value: Any, private: tuple[int, int]) -> bytes:
    """The answer of a copy of this process, which gets to see neither further requests nor the line for answers."""
    mine, its = os.pipe()
    copy = os.fork()
    if not copy:
        try:
            take_input_away()
            for descriptor in (mine, *private):
                os.close(descriptor)
            call_and_end(function, value, its)
        except BaseException as error:  # nothing may leave this copy but its answer
            os.write(2, f"{type(error).__name__}: {error}\n".encode(errors="replace"))
        finally:
            os._exit(1)
    os.close(its)
    with os.fdopen(mine, "rb") as heard:
        answer = heard.read(ANSWER_MAX)
    _, status = os.waitpid(copy, 0)
    return answer if status == 0 else b""


def main() -> None:
    """One request, one answer; or a worker that stays."""
    line = take_answer_line()
    request = read_request()
    sys.path[:] = request["path"]
    if request.get("stays"):
        serve(request["target"], line)
        return
    take_input_away()
    function = find_function(request["target"])
    assert function is not None
    call_and_end(function, request["given"], line)


if __name__ == "__main__":
    main()
