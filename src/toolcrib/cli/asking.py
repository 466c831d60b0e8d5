"""A question at the terminal: what wants to happen, and four keys to answer."""

import asyncio
import os
import sys
import termios
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from toolcrib.calls.approvals import TERMINAL, ApprovalAnswer, ApprovalQuestion, ApprovalReply
from toolcrib.calls.forms import AskedField, QuestionForm, fill_in
from toolcrib.cli.console import Console
from toolcrib.core.offers import verb_for
from toolcrib.core.requests import Request

ARGUMENTS_SHOWN = 1500
KEYS = {
    "o": ApprovalReply.ONCE,
    "y": ApprovalReply.ONCE,
    "s": ApprovalReply.SESSION,
    "a": ApprovalReply.ALWAYS,
    "n": ApprovalReply.NO,
}
PROMPT = "  [o]nce, this [s]ession, [a]lways, [n]o? "


class TerminalSurface:
    """Asks whoever sits at this terminal, one question at a time."""

    name = TERMINAL
    takes_forms = True

    def __init__(self, console: Console, stdin: int) -> None:
        self._console, self._stdin = console, stdin
        self._turn = asyncio.Lock()

    def reaches(self, call: Request) -> bool:
        """Always: it is only attached where there is a terminal."""
        del call
        return True

    async def put(self, question: ApprovalQuestion, call: Request) -> ApprovalAnswer | None:
        """Ask until there is an answer that can be understood."""
        del call
        async with self._turn:
            if question.form is not None:
                return await ask_form(self._console, self._stdin, question.tool, question.form)
            lines = describe(question.tool, question.level, question.caller, question.arguments)
            reply = await ask(self._console, self._stdin, lines)
        return ApprovalAnswer(reply) if reply is not None else None


def attach_terminal(console: Console, attach: Callable[[TerminalSurface], Callable[[], None]]) -> None:
    """Have questions asked here, if there is a person: both to read them and to answer."""
    if console.is_live and sys.stdin.isatty():
        attach(TerminalSurface(console, sys.stdin.fileno()))


def describe(tool: str, level: str, caller: str, arguments: Mapping[str, Any]) -> list[str]:
    """Who wants to do what; argument by argument, so that nothing hides at the end of a long line."""
    lines = [f"{caller} wants to {verb_for(tool)} {tool} ({level})"]
    shown = [f"    {_value(name)}: {_value(value)}" for name, value in arguments.items()]
    return [*lines, *(shown or ["    without arguments"])]


def _value(value: Any) -> str:
    is_plain = isinstance(value, str) and value.isprintable()  # a line break could pass for another argument
    text = value if is_plain else msgspec.json.encode(value).decode()
    return text if len(text) <= ARGUMENTS_SHOWN else f"{text[:ARGUMENTS_SHOWN]} … ({len(text):,} characters)"


async def ask(console: Console, stdin: int, lines: list[str]) -> ApprovalReply | None:
    """Show a question and wait for a line that answers it; ``None`` when the terminal is closed."""
    console.end_status()
    console.hold_status = True
    with suppress(termios.error):  # what was typed before the question was there is no answer to it
        termios.tcflush(stdin, termios.TCIFLUSH)
    try:
        console.say(f"\n{lines[0]}", "bold", "yellow")
        for line in lines[1:]:
            console.say(line)
        return await _read_reply(console, stdin)
    finally:
        console.hold_status = False


async def ask_form(console: Console, stdin: int, tool: str, form: QuestionForm) -> ApprovalAnswer | None:
    """Have a server's form filled in, field by field; ``None`` when the terminal is closed."""
    console.end_status()
    console.hold_status = True
    try:
        return await _fill_in(console, stdin, tool, form)
    finally:
        console.hold_status = False


async def _fill_in(console: Console, stdin: int, tool: str, form: QuestionForm) -> ApprovalAnswer | None:
    console.say(f"\nThe server of {tool} asks: {form.message}", "bold", "yellow")
    if form.url:
        console.say(f"    Go to {form.url}, then come back.")
    while True:
        given = {}
        for field in form.fields:
            line = await _read(console, stdin, _prompt(field))
            if not line:
                return None
            given[field.name] = line.strip()
        content, problems = fill_in(form, given)
        for problem in problems:
            console.say(f"    {problem}", "red")
        if not problems:
            break
    line = await _read(console, stdin, "  [y]es, send it, or [n]o? ")
    if not line:
        return None
    is_sent = line.strip().lower() in ("y", "yes")
    return ApprovalAnswer(ApprovalReply.ONCE, content=content) if is_sent else ApprovalAnswer(ApprovalReply.NO)


def _prompt(field: AskedField) -> str:
    choices = f" ({', '.join(value for value, _ in field.choices)})" if field.choices else ""
    told = f": {field.description}" if field.description else ""
    return f"    {field.title or field.name}{choices}{told}{' (needed)' if field.is_required else ''}: "


async def _read(console: Console, stdin: int, prompt: str) -> str:
    console.err.write(prompt)
    console.err.flush()
    return await read_line(stdin)


async def _read_reply(console: Console, stdin: int) -> ApprovalReply | None:
    while True:
        console.err.write(PROMPT)
        console.err.flush()
        line = await read_line(stdin)
        if not line:
            return None
        word = line.strip().lower()
        reply = KEYS.get(word) or (ApprovalReply(word) if word in set(ApprovalReply) else None)
        if reply is not None:
            return reply


async def read_line(stdin: int) -> str:
    """One line, without keeping the event loop from its work."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    is_blocking = os.get_blocking(stdin)
    loop.add_reader(stdin, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(stdin)
        os.set_blocking(stdin, is_blocking)  # uvloop changes it, and the shell would find it so
    return os.read(stdin, 65_536).decode(errors="replace")
