"""Result: structured content must fit the output schema that the tool itself declared, an app what was accepted."""

from collections.abc import Callable

import msgspec

from toolcrib.calls.layers.arguments import OnUnchecked
from toolcrib.calls.pipeline import Layer, Step, Subject
from toolcrib.core.errors import ToolFailed
from toolcrib.core.requests import Request, Result
from toolcrib.isolate.helpers import Helpers, TookTooLong
from toolcrib.schema import check as judge
from toolcrib.schema.check import QUICK_BYTES, SchemaCheck, compile_check
from toolcrib.schema.problems import describe

MISFIT = "does not fit its own output schema: "
CARRIED_OUT = "The call was carried out; the fault is the tool's."

_encode = msgspec.json.Encoder().encode


def _settled(settle: Callable[[Result], None], following: Step) -> Step:
    """What is pinned by what it gives, not only by what is said of it, must still be that."""

    async def step(call: Request) -> Result:
        outcome = await following(call)
        if outcome.error is None and not outcome.asks_back:
            settle(outcome)
        return outcome

    return step


def result(on_unchecked: OnUnchecked, helpers: Helpers) -> Layer:
    """Tools without an output schema pass untouched.

    A result that may be too much work for the event loop is checked by a helper, and refused if it takes too long: a
    client that checks it, as clients do, would be held up even longer.
    """

    def layer(subject: Subject, following: Step) -> Step:
        schema = subject.offer.output_schema
        if subject.settle is not None:
            return _settled(subject.settle, following)
        if schema is None or subject.is_transparent:
            return following
        check = compile_check(schema)
        if check.gap:
            on_unchecked(subject.name, f"results {check.gap}")
        if check.unchecked_reason:
            return following

        async def step(call: Request) -> Result:
            outcome = await following(call)
            if outcome.error is not None:
                return outcome
            if _is_quick(outcome, check):
                wrong = _judge(outcome, check, is_foreign=bool(subject.server))
            else:
                wrong = await _judge_beside(helpers, subject, outcome)
            if wrong:
                raise ToolFailed(f"{call.name} returned data that {wrong}", hint=CARRIED_OUT, details=_shown(outcome))
            return outcome

        return step

    return layer


def _judge(outcome: Result, check: SchemaCheck, *, is_foreign: bool) -> str:
    """What is wrong with the result's data, as the end of a sentence; nothing if it fits, or there is none.

    A server's data are passed on as they were read here: nobody is to read another member of the same name.
    """
    structured = outcome.structured
    if structured is None:
        return ""
    if check.accepts(structured):
        if is_foreign and outcome.raw is not None:
            outcome.raw = judge.drop_repeats(outcome.raw, structured)
        return ""
    return MISFIT + describe(check.problems(structured), check.schema)


async def _judge_beside(helpers: Helpers, subject: Subject, outcome: Result) -> str:
    """The same, by a helper."""
    try:
        parts = _encode(subject.offer.output_schema), outcome.raw or b"{}"
        wrong = await helpers.run(judge.RESULT, parts, subject.server)
    except TookTooLong:
        return "is too costly to check against its own output schema."
    return MISFIT + wrong.decode() if wrong else ""


def _is_quick(outcome: Result, check: SchemaCheck) -> bool:
    """Whether the result may be checked here; one that nobody has encoded is encoded now, not once more by the door."""
    if outcome.raw is None:
        try:
            outcome.raw = _encode(outcome.mcp)
        except (TypeError, ValueError, RecursionError, OverflowError):  # no JSON: the check says so
            return True
    raw = outcome.raw
    return len(raw) <= check.quick_bytes or (len(raw) <= QUICK_BYTES and check.is_quick(outcome.structured, raw))


def _shown(outcome: Result) -> dict[str, object]:
    """What the tool said in words, where that is not too much to look at."""
    is_large = outcome.raw is not None and len(outcome.raw) > QUICK_BYTES
    return {} if is_large else {"content": list(outcome.content)}
