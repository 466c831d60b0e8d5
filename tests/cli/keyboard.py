"""A person at a terminal: the command sees one, and what is typed reaches it when it asks."""

import os
import pty
import select
import subprocess
import time

from tests.cli.program import Program

DEADLINE_S = 150


def typed(toolcrib: Program, *words: str, answers: list[tuple[str, str]], until: str = "") -> tuple[str, str]:
    """Run a command on a terminal; each answer is typed when its question is seen. What was said, and printed.

    With ``until`` the command is stopped once that was said; otherwise it ends by itself.
    """
    toolcrib.env["TERM"] = "xterm"
    ours, theirs = pty.openpty()
    process = toolcrib.start(*words, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE)
    os.close(theirs)
    try:
        said = "".join(answer(ours, question, key) for question, key in answers)
        said += read(ours, until)
        if until:
            process.terminate()
        printed, _ = process.communicate(timeout=DEADLINE_S)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(ours)
    return said.replace("\r\n", "\n"), printed.decode()


def answer(terminal: int, question: str, key: str) -> str:
    said = read(terminal, question)
    os.write(terminal, f"{key}\n".encode())
    return said


def read(terminal: int, until: str) -> str:
    said = ""
    deadline = time.monotonic() + DEADLINE_S
    while not until or until not in said:
        left = deadline - time.monotonic()
        assert left > 0, said
        if not select.select([terminal], [], [], left)[0]:
            continue
        try:
            read = os.read(terminal, 4096)
        except OSError:  # Linux says so when the other end is closed
            break
        if not read:
            break
        said += read.decode(errors="replace")
    assert not until or until in said, said
    return said
