"""``toolcrib approvals``: questions that wait, answers that are kept, answering, and forgetting an answer."""

import asyncio
import sys
from typing import Any
from urllib.parse import quote

import msgspec

from toolcrib.calls.approvals import ApprovalReply
from toolcrib.cli.asking import ask, ask_form, describe
from toolcrib.cli.console import Column, Console, print_table
from toolcrib.cli.failures import NotFound, UsageError
from toolcrib.cli.invoke import REMOTE, Options, arg, as_json, command
from toolcrib.cli.opening import ledger_here, note_decision
from toolcrib.config.lock import kept_answers
from toolcrib.core.errors import PermissionDenied, SourceUnavailable, did_you_mean
from toolcrib.server.remote import Remote, open_remote
from toolcrib.server.rest.approvals import PATH
from toolcrib.server.views.calls import ApprovalList, QuestionEntry, QuestionList
from toolcrib.stores.paths import Environment

WAITING = (Column("ID", styles=("bold",)), Column("TOOL"), Column("CALLER"), Column("ARGUMENTS", flexible=True))
KEPT = (Column("TOOL", styles=("bold",)), Column("CALLER"), Column("ANSWER"), Column("SINCE"), Column("BY"))


@command(REMOTE, as_json("both lists"))
async def run_ls(options: Options, console: Console) -> None:
    """Show both."""
    waiting = await _waiting(options)
    async with ledger_here(options) as ledger:
        kept = [] if ledger is None else kept_answers(await ledger.lock())
    if options.json:
        console.print_json(ApprovalList(waiting, kept))
        return
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


async def _waiting(options: Options) -> list[QuestionEntry] | None:
    try:
        remote = open_remote(options.url, options.config, Environment())
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


@command(REMOTE)
async def run_watch(options: Options, console: Console) -> None:
    """Wait for questions, until Ctrl-C."""
    if not sys.stdin.isatty():
        raise UsageError("This needs a terminal.", hint="Answer by `toolcrib approvals answer ID once` instead.")
    remote = open_remote(options.url, options.config, Environment())
    console.say(f"Waiting for questions from {remote.url}; Ctrl-C ends.", "dim")
    try:
        while True:
            found = msgspec.convert(await remote.send("GET", f"{PATH}?wait={WAIT_S}"), QuestionList)
            for question in found.questions:
                if not await _answer(remote, question, console):
                    return
    finally:
        await remote.close()


async def _answer(remote: Remote, question: QuestionEntry, console: Console) -> bool:
    """Ask the person and pass the answer on; false when the terminal was closed."""
    body = await _ask(question, console)
    if body is None:
        return False
    try:
        await remote.send("POST", f"{PATH}/{question.id}", body)
    except PermissionDenied as error:
        console.say(str(error), "yellow")
    return True


async def _ask(question: QuestionEntry, console: Console) -> dict[str, Any] | None:
    """What the person says."""
    if question.form is None:
        lines = describe(question.tool, question.level, question.caller, question.arguments)
        reply = await ask(console, sys.stdin.fileno(), lines)
        return None if reply is None else {"answer": reply}
    answer = await ask_form(console, sys.stdin.fileno(), question.tool, question.form)
    return None if answer is None else {"answer": answer.reply, "content": dict(answer.content or {})}


@command(
    arg("id", metavar="ID", help="the question, as `toolcrib approvals ls` shows it"),
    arg("answer", choices=list(ApprovalReply), help="what to answer"),
    arg("field", nargs="*", metavar="NAME=VALUE", help="what a server's form is filled in with"),
    REMOTE,
)
async def run_answer(options: Options, console: Console) -> None:
    """Answer it."""
    unfit = [text for text in options.field if "=" not in text]
    if unfit:
        raise UsageError(f"{unfit[0]!r} is no NAME=VALUE.")
    content = dict(text.split("=", 1) for text in options.field)
    remote = open_remote(options.url, options.config, Environment())
    try:
        body = {"answer": options.answer} | ({"content": content} if content else {})
        await remote.send("POST", f"{PATH}/{quote(options.id, safe='')}", body)
    finally:
        await remote.close()
    console.say(f"Answered: {options.answer}.")


@command(
    arg("tool", metavar="TOOL", help="the tool, as `toolcrib approvals ls` shows it"),
    arg("--caller", help="only the answer that was given for this caller"),
)
def run_forget(options: Options, console: Console) -> None:
    """Take it out of the lock."""
    callers = asyncio.run(_forget(options))
    note_decision(options, console, "approval", "forgotten", tool=options.tool, callers=callers)
    console.say(f"Forgotten: {options.tool}. The person is asked again at its next call.")


async def _forget(options: Options) -> list[str]:
    """Whose answers were taken back; it is an error if there are none."""
    async with ledger_here(options) as ledger:
        wanted = None if options.caller is None else [options.caller]
        gone = [] if ledger is None else await ledger.forget(options.tool, wanted)
        known = [] if gone or ledger is None else list((await ledger.lock()).approvals)
    if not gone:
        raise NotFound(f"No answer is kept for {options.tool!r}.", hint=did_you_mean(options.tool, known))
    return gone
