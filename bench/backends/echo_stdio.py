"""``echo_stdio.py TOOLS PAGES [MOOD]``: an echo server on stdin and stdout that imports next to nothing.

It blocks on purpose: the cheapest loop there is. MOOD is a file that says how to misbehave: ``dead`` ends the server
at once, ``hang`` never answers tools/list.
"""

import os
import sys
import time

import orjson
from answers import EchoServer


def serve(server: EchoServer, mood: str) -> None:
    rest = b""
    while chunk := os.read(0, 1 << 18):
        *lines, rest = (rest + chunk).split(b"\n")
        replies = [reply for line in lines if line and (reply := _reply(server, line, mood))]
        if replies:
            _write(b"\n".join(replies) + b"\n")


def _reply(server: EchoServer, line: bytes, mood: str) -> bytes | None:
    message = orjson.loads(line)
    if mood == "hang" and message.get("method") == "tools/list":
        time.sleep(600)
    reply: bytes | None = server.answer(message)
    return reply


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def _read_mood(paths: list[str]) -> str:
    if not paths:
        return ""
    with open(paths[0]) as file:
        return file.read()


MOOD = _read_mood(sys.argv[3:])
if MOOD == "dead":
    raise SystemExit(3)
serve(EchoServer(int(sys.argv[1]), int(sys.argv[2])), MOOD)
