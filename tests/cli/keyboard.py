"""A person at a terminal: the command sees one, and what is typed reaches it when it asks."""

import codecs
import os
import pty
import re
import select
import subprocess
import termios
import threading
import time
from collections.abc import Callable

from tests.cli.program import Program
from tests.fleet.running import until

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


class Screen:
    """What is to be seen on a terminal: enough of one for what toolcrib writes, and nothing it may not write."""

    PARTS = re.compile(r"\x1b\[([\d;?]*)([A-Za-z])|[\r\n\b\x07]|[^\x1b\r\n\b\x07]+")

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.lines: list[str] = [""]
        self._row = self._column = 0

    @property
    def text(self) -> str:
        """All lines, also those that have left the screen at its top."""
        return "\n".join(line.rstrip() for line in self.lines)

    def write(self, said: str) -> None:
        for part in self.PARTS.finditer(said):
            if part[2]:
                self._obey(part[1], part[2])
            elif part[0] == "\r":
                self._column = 0
            elif part[0] == "\n":
                self._go_down()
            elif part[0] not in "\b\x07":
                for char in part[0]:
                    self._put(char)

    def _obey(self, number: str, letter: str) -> None:
        line = self.lines[self._row]
        match letter:
            case "A":
                top = max(0, len(self.lines) - self.rows)
                self._row = max(top, self._row - int(number or 1))
            case "J":
                self.lines[self._row :] = [line[: self._column]]
            case "K":
                self.lines[self._row] = line[: self._column] if number in ("", "0") else ""
            case "m":
                pass
            case _:
                raise AssertionError(f"a sequence that leaves its mark on a terminal: {number}{letter}")

    def _put(self, char: str) -> None:
        if self._column >= self.columns:
            self._column = 0
            self._go_down()
        line = self.lines[self._row].ljust(self._column)
        self.lines[self._row] = line[: self._column] + char + line[self._column + 1 :]
        self._column += 1

    def _go_down(self) -> None:
        self._row += 1
        if self._row == len(self.lines):
            self.lines.append("")


class Terminal:
    """A person's terminal with a command in it; what the command writes is read at once, as terminals do."""

    def __init__(self, program: Program, *words: str, columns: int = 100, rows: int = 40) -> None:
        self._screen = Screen(columns, rows)
        self._turn = threading.Lock()
        self._ours, self._theirs = pty.openpty()
        termios.tcsetwinsize(self._theirs, (rows, columns))
        self._before = termios.tcgetattr(self._theirs)
        program.env.setdefault("TERM", "xterm")
        program.env.setdefault("PYTHONIOENCODING", "utf-8")
        self._is_over = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.process = program.start(*words, stdin=self._theirs, stdout=self._theirs, stderr=self._theirs)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._is_over.set()
        self._reader.join()
        os.close(self._ours)
        os.close(self._theirs)

    def _read(self) -> None:
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        while not self._is_over.is_set():
            if select.select([self._ours], [], [], 0.05)[0]:
                said = decode(os.read(self._ours, 65_536))
                with self._turn:
                    self._screen.write(said)

    @property
    def is_as_before(self) -> bool:
        """Whether the settings of the terminal are those it had."""
        return termios.tcgetattr(self._theirs) == self._before

    @property
    def text(self) -> str:
        """What is to be seen now."""
        with self._turn:
            return self._screen.text

    def wait_for(self, condition: Callable[[str], bool], what: str) -> str:
        """What is to be seen once that holds for it."""
        seen = [""]

        def holds() -> bool:
            seen[0] = self.text
            return condition(seen[0]) or self.process.poll() is not None

        until(holds, deadline_s=DEADLINE_S, what=what)
        assert condition(seen[0]), f"{what}: {seen[0]}"
        return seen[0]

    def stop(self, sign: int) -> int:
        """End the command with a signal; its exit code."""
        self.process.send_signal(sign)
        return self.process.wait(DEADLINE_S)
