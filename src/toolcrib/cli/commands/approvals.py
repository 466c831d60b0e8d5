"""``toolcrib approvals``: questions that wait, answers that are kept, answering, and forgetting an answer."""

import asyncio
import sys
from urllib.parse import quote

import msgspec

from toolcrib.calls.approvals import ApprovalReply
from toolcrib.cli.asking import ask, describe
from toolcrib.cli.console import Column, Console, print_table
from toolcrib.cli.editing import note_decision
from toolcrib.cli.failures import OK, NotFound, UsageError
from toolcrib.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.cli.opening import ledger_here
from toolcrib.cli.remote import Remote, add_remote, open_remote
from toolcrib.cli.running import run_once
from toolcrib.config.lock import kept_answers
from toolcrib.core.errors import PermissionDenied, SourceUnavailable, did_you_mean
from toolcrib.server.rest.approvals import PATH
from toolcrib.server.views.calls import ApprovalList, QuestionEntry, QuestionList

WAITING = (Column("ID", styles=("bold",)), Column("TOOL"), Column("CALLER"), Column("ARGUMENTS", flexible=True))
KEPT = (Column("TOOL", styles=("bold",)), Column("CALLER"), Column("ANSWER"), Column("SINCE"), Column("BY"))


def add_ls_arguments(parser: Parser) -> None:
    """What it takes."""
    add_remote(parser)
    add_json(parser, "both lists")
    add_common(parser)


def run_ls(options: Options, console: Console) -> int:
    """Show both."""
    return run_once(_list(options, console))


async def _list(options: Options, console: Console) -> int:
    waiting = await _waiting(options)
    async with ledger_here(options) as ledger:
        kept = [] if ledger is None else kept_answers(await ledger.lock())
    if options.json:
        console.print_json(ApprovalList(waiting, kept))
        return OK
    if waiting:
        rows = [(entry.id, entry.tool, entry.caller, str(entry.arguments)) for entry in waiting]
        print_table(console, WAITING, rows)
        console.print()
    if kept:
        print_table(console, KEPT, [msgspec.structs.astuple(entry) for entry in kept])
    if waiting is None:
        console.say("No toolcrib is serving here, so no question waits.", "dim")
    if not waiting and not kept:
        console.say("No question waits, and no answer is kept.")
    return OK


async def _waiting(options: Options) -> list[QuestionEntry] | None:
    try:
        remote = open_remote(options)
    except SourceUnavailable:
        return None
    try:
        found = msgspec.convert(await remote.send("GET", PATH), QuestionList).questions
    except SourceUnavailable:
        return None
    finally:
        await remote.close()
    return found


WAIT_S = 30


def add_watch_arguments(parser: Parser) -> None:
    """What it takes."""
    add_remote(parser)
    add_common(parser)


def run_watch(options: Options, console: Console) -> int:
    """Wait for questions, until Ctrl-C."""
    if not sys.stdin.isatty():
        raise UsageError("This needs a terminal.", hint="Answer by `toolcrib approvals answer ID once` instead.")
    return run_once(_watch(options, console))


async def _watch(options: Options, console: Console) -> int:
    remote = open_remote(options)
    console.say(f"Waiting for questions from {remote.url}; Ctrl-C ends.", "dim")
    try:
        while True:
            found = msgspec.convert(await remote.send("GET", f"{PATH}?wait={WAIT_S}"), QuestionList)
            for question in found.questions:
                if not await _answer(remote, question, console):
                    return OK
    finally:
        await remote.close()


async def _answer(remote: Remote, question: QuestionEntry, console: Console) -> bool:
    """Ask the person and pass the answer on; false when the terminal was closed."""
    lines = describe(question.tool, question.level, question.caller, question.arguments)
    reply = await ask(console, sys.stdin.fileno(), lines)
    if reply is None:
        return False
    try:
        await remote.send("POST", f"{PATH}/{question.id}", {"answer": reply})
    except PermissionDenied as error:
        console.say(str(error), "yellow")
    return True


def add_answer_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("id", metavar="ID", help="the question, as `toolcrib approvals ls` shows it")
    parser.add_argument("answer", choices=list(ApprovalReply), help="what to answer")
    add_remote(parser)
    add_common(parser)


def run_answer(options: Options, console: Console) -> int:
    """Answer it."""
    return run_once(_give_answer(options, console))


async def _give_answer(options: Options, console: Console) -> int:
    remote = open_remote(options)
    try:
        await remote.send("POST", f"{PATH}/{quote(options.id, safe='')}", {"answer": options.answer})
    finally:
        await remote.close()
    console.say(f"Answered: {options.answer}.")
    return OK


def add_forget_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("tool", metavar="TOOL", help="the tool, as `toolcrib approvals ls` shows it")
    parser.add_argument("--caller", help="only the answer that was given for this caller")
    add_common(parser)


def run_forget(options: Options, console: Console) -> int:
    """Take it out of the lock."""
    callers = asyncio.run(_forget(options))
    note_decision(options, console, "approval", "forgotten", tool=options.tool, callers=callers)
    console.say(f"Forgotten: {options.tool}. The person is asked again at its next call.")
    return OK


async def _forget(options: Options) -> list[str]:
    """Whose answers were taken back; it is an error if there are none."""
    async with ledger_here(options) as ledger:
        wanted = None if options.caller is None else [options.caller]
        gone = [] if ledger is None else await ledger.forget(options.tool, wanted)
        known = [] if gone or ledger is None else list((await ledger.lock()).approvals)
    if not gone:
        raise NotFound(f"No answer is kept for {options.tool!r}.", hint=did_you_mean(options.tool, known))
    return gone
