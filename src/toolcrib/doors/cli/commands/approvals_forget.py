"""``toolcrib approvals forget``: take a kept answer back."""

from toolcrib.config.lock import Lock, with_answer
from toolcrib.core.errors import did_you_mean
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK, NotFound
from toolcrib.doors.cli.invoke import Options, Parser, add_common
from toolcrib.doors.cli.ledger import note_decision
from toolcrib.doors.cli.opening import load_here
from toolcrib.stores.lockfile import LockFile


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("tool", metavar="TOOL", help="the tool, as `toolcrib approvals ls` shows it")
    parser.add_argument("--caller", help="only the answer that was given for this caller")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Take it out of the lock."""
    path = load_here(options).lock
    answers = LockFile(path).read().approvals if path is not None else {}
    callers = [name for name in answers.get(options.tool, {}) if options.caller in (None, name)]
    if path is None or not callers:
        raise NotFound(f"No answer is kept for {options.tool!r}.", hint=did_you_mean(options.tool, list(answers)))
    LockFile(path).change(lambda lock: _without(lock, options.tool, callers))
    note_decision(options, console, "approval", "forgotten", tool=options.tool, callers=callers)
    console.say(f"Forgotten: {options.tool}. The person is asked again at its next call.")
    return OK


def _without(lock: Lock, tool: str, callers: list[str]) -> Lock:
    for caller in callers:
        lock = with_answer(lock, tool, caller, None)
    return lock
