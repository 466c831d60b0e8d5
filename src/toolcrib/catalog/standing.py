"""How a server stands: its state in one word, the cause in one line, and the next step.

Made here and nowhere else, so that every command, REST and the page say the same of a server at the same moment.
"""

from datetime import UTC, datetime
from typing import assert_never

from toolcrib.catalog.records import ServerShelf, barred_words
from toolcrib.config.lock import Failure, Record, timestamp
from toolcrib.config.model import config_hash
from toolcrib.core.errors import ToolcribError
from toolcrib.core.kinds import DiscoveryStatus, FailureKind, LinkState, ServerState, StepKind
from toolcrib.core.source import SourceStatus
from toolcrib.core.view import NextStep, Standing

CAUSE_MAX = 300


def standing_of(shelf: ServerShelf) -> Standing:
    """How a server that is switched on stands now; where it runs elsewhere, there."""
    if shelf.elsewhere is not None:
        return shelf.elsewhere.standing
    status = shelf.source.status()
    state = state_of(shelf, status)
    return Standing(
        state=state,
        cause=_cause(shelf, state, status),
        next=_next_step(shelf, state),
        since=_since(shelf, state, status),
        attempt=status.attempt if state is not ServerState.OK else 0,
        retry_at=None if shelf.retry_at is None else _moment(shelf.retry_at),
    )


def standing_of_disabled(name: str) -> Standing:
    """How a server stands that is switched off."""
    step = NextStep(StepKind.ENABLE, "switch it on", f"toolcrib servers enable {name}")
    return Standing(ServerState.DISABLED, "it is switched off", step, None, 0, None)


IN_ORDER = Standing(ServerState.OK, None, None, None, 0, None)
"""How everything stands that is in this process."""


def state_of(shelf: ServerShelf, status: SourceStatus | None = None) -> ServerState:
    """The word for it."""
    if shelf.elsewhere is not None:
        return shelf.elsewhere.standing.state
    link = (status or shelf.source.status()).state
    if shelf.barred:
        return ServerState.HELD
    if link is LinkState.INSTALLING:
        return ServerState.INSTALLING
    if shelf.flight is not None and not shelf.is_known:
        return ServerState.STARTING if link is LinkState.CONNECTING else ServerState.ASKING
    if is_unasked(shelf):
        return ServerState.NEVER
    return _state_on_record(shelf)


def _state_on_record(shelf: ServerShelf) -> ServerState:
    """By what came of asking it last."""
    if shelf.record.status is not DiscoveryStatus.FAILED:
        return ServerState.OK
    if failure_on(shelf.record).kind is FailureKind.SIGN_IN:
        return ServerState.SIGN_IN
    return ServerState.STALE if shelf.is_known else ServerState.FAILED


def is_unasked(shelf: ServerShelf) -> bool:
    """Whether a server was never asked for its tools as it is configured now."""
    if shelf.elsewhere is not None:
        return shelf.elsewhere.standing.state is ServerState.NEVER
    record = shelf.record
    failed_as_it_is = record.status is DiscoveryStatus.FAILED and record.config_hash == config_hash(shelf.config)
    return not shelf.is_known and not failed_as_it_is and not shelf.barred


def failure_of(error: ToolcribError) -> Failure:
    """What a failed discovery leaves on record of its cause."""
    kind, details = error.details.get("failure"), error.details
    return Failure(
        kind if isinstance(kind, FailureKind) else FailureKind.PASSING,
        _one_line(details.get("cause") or error.message),
        _one_line(details.get("advice") or error.hint),
    )


def failure_on(record: Record) -> Failure:
    """The same of a record; one that an older toolcrib wrote says it in words only."""
    return record.failure or Failure(FailureKind.PASSING, _one_line(record.error))


def _one_line(text: object) -> str:
    return " ".join(str(text).split())[:CAUSE_MAX].rstrip(".")


def _cause(shelf: ServerShelf, state: ServerState, status: SourceStatus) -> str | None:
    match state:
        case ServerState.HELD:
            return barred_words(shelf)
        case ServerState.INSTALLING | ServerState.STARTING:
            before = f" (before: {_one_line(status.details['cause'])})" if "cause" in status.details else ""
            return (status.doing or "it is started and has not answered yet") + before
        case ServerState.ASKING:
            return "it is asked for its tools"
        case ServerState.NEVER:
            return "nobody has asked it for its tools yet"
        case ServerState.FAILED | ServerState.STALE | ServerState.SIGN_IN:
            return failure_on(shelf.record).cause
        case ServerState.OK | ServerState.DISABLED:
            return None
        case _:
            assert_never(state)


def _next_step(shelf: ServerShelf, state: ServerState) -> NextStep | None:
    name = shelf.config.name
    match state:
        case ServerState.OK:
            return _step_in_order(shelf)
        case ServerState.DISABLED:
            return None
        case ServerState.HELD:
            return NextStep(StepKind.ACCEPT, "look at its entry, then accept it", f"toolcrib approve {name}")
        case ServerState.INSTALLING | ServerState.STARTING | ServerState.ASKING:
            return NextStep(StepKind.WAIT, "wait: it goes on by itself", "")
        case ServerState.NEVER:
            return NextStep(StepKind.RETRY, "ask it for its tools", f"toolcrib servers refresh {name}")
        case ServerState.FAILED | ServerState.STALE | ServerState.SIGN_IN:
            return _step_after(name, failure_on(shelf.record), is_tried_again=shelf.retry_at is not None)
        case _:
            assert_never(state)


def _step_in_order(shelf: ServerShelf) -> NextStep | None:
    name, held, problems = shelf.config.name, len(shelf.held), len(shelf.record.problems)
    if held:
        return NextStep(StepKind.ACCEPT, f"{held} in quarantine: look at what changed", f"toolcrib diff {name}")
    if problems:
        return NextStep(StepKind.LOOK, f"{problems} left out: see why", "toolcrib doctor")
    return None


def _step_after(name: str, failure: Failure, *, is_tried_again: bool) -> NextStep:
    """What is next for a server that could not be asked."""
    again, advice = f"toolcrib servers refresh {name}", failure.advice
    match failure.kind:
        case FailureKind.PASSING if is_tried_again:
            return NextStep(StepKind.WAIT, advice or "it is tried again by itself; or now", again)
        case FailureKind.PASSING:
            return NextStep(StepKind.RETRY, advice or "try again", again)
        case FailureKind.SIGN_IN:
            return NextStep(StepKind.SIGN_IN, "sign in", f"toolcrib login {name}")
        case FailureKind.CACHE:
            return NextStep(StepKind.REPAIR, advice or "have what is damaged fetched anew", again)
        case FailureKind.COMMAND:
            return NextStep(StepKind.INSTALL, advice or "install the program it runs", again)
        case FailureKind.PACKAGE | FailureKind.CREDENTIAL | FailureKind.CONFIGURATION:
            return NextStep(StepKind.EDIT, advice or "change its configuration", f"toolcrib servers logs {name}")
        case _:
            assert_never(failure.kind)


def _since(shelf: ServerShelf, state: ServerState, status: SourceStatus) -> str | None:
    if state.is_underway:
        return _moment(status.since) if status.since else None
    return shelf.since or shelf.record.last_discovery or None


def _moment(seconds: float) -> str:
    return timestamp(datetime.fromtimestamp(seconds, UTC))
