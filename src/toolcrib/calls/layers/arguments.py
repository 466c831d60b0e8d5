"""Arguments: checked against the tool's schema before anything runs."""

from collections.abc import Awaitable, Callable

import msgspec
from msgspec.structs import replace

from toolcrib.calls.pipeline import Layer, Step, Subject
from toolcrib.core import events
from toolcrib.core.errors import InvalidArguments
from toolcrib.core.events import Emit, Event, drop
from toolcrib.core.offers import RequestKind
from toolcrib.core.requests import Request, Result, told_of
from toolcrib.isolate.helpers import Helpers, TookTooLong
from toolcrib.schema import check as judge
from toolcrib.schema.arguments import Renamer, apply_defaults
from toolcrib.schema.check import SchemaCheck, compile_check
from toolcrib.schema.problems import describe
from toolcrib.schema.repair import repair

OnUnchecked = Callable[[str, str], None]

_encode = msgspec.json.Encoder().encode


def arguments(on_unchecked: OnUnchecked, helpers: Helpers, emit: Emit = drop) -> Layer:
    """Refuse what does not fit, in words a model can act on; defaults are filled in for native tools.

    What a server's tool would be refused for a slip of the pen is repaired instead, and the result says so. Arguments
    that may be too much work for the event loop are checked by a helper, and refused if it takes too long.
    """

    def layer(subject: Subject, following: Step) -> Step:
        # what is completed may be half typed, and is about the arguments of the offer
        if subject.kind is RequestKind.COMPLETE or subject.is_transparent:
            return following
        schema = subject.offer.input_schema
        check = compile_check(schema)
        if check.gap:
            on_unchecked(subject.name, f"arguments {check.gap}")
        accepts, quick_bytes, is_native = check.accepts, check.quick_bytes, not subject.server

        def step(call: Request) -> Awaitable[Result]:
            if is_native:
                filled = apply_defaults(schema, call.arguments)
                if filled is not call.arguments:
                    call = replace(call, arguments=filled)
            context = call.context  # `observe` has encoded them most often: two calls less
            encoded = context.encoded if context.encoded_of is call.arguments else _written(call, check)
            if len(encoded) > quick_bytes and not check.is_quick(call.arguments, encoded):
                return _check_beside(helpers, subject, call, encoded, following)
            if accepts(call.arguments):
                return following(call)
            repaired = None if is_native else _repair(call, subject, check)
            if repaired is None:
                message = describe(check.problems(call.arguments), schema)
                raise InvalidArguments(f"{call.name}: {message}")
            fields = {**told_of(call), "repairs": list(call.context.repairs)}
            emit(Event(events.ARGUMENTS_REPAIRED, "info", fields))
            return _run_with_note(following, repaired)

        return step

    return layer


async def _check_beside(helpers: Helpers, subject: Subject, call: Request, encoded: bytes, following: Step) -> Result:
    """Run the call if a helper finds its arguments fit; nothing is repaired in so many of them."""
    try:
        wrong = await helpers.run(judge.ARGUMENTS, (_encode(subject.offer.input_schema), encoded), subject.server)
    except TookTooLong:
        words = "the arguments are too costly to check against the tool's input schema."
        raise InvalidArguments(f"{call.name}: {words}", hint="Send less at once.") from None
    if wrong:
        raise InvalidArguments(f"{call.name}: {wrong.decode()}")
    return await following(call)


def _written(call: Request, check: SchemaCheck) -> bytes:
    """The arguments as JSON: their size tells how much work they are; of no interest where nothing is checked."""
    if check.unchecked_reason:
        return b""
    try:
        return call.encode_arguments()
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        message = describe([judge.unreadable(error)], check.schema)
        raise InvalidArguments(f"{call.name}: {message}") from None


def _repair(call: Request, subject: Subject, check: SchemaCheck) -> Request | None:
    """The call with arguments that fit, and what was done to them noted; ``None`` if there is no way. What only a
    profile may give is neither given nor changed; and a text may hold more than it looks, written as JSON in JSON."""
    found, given = repair(subject.offer.input_schema, call.arguments, check.accepts_quickly), call.arguments
    if found is None or any(found[0].get(name) is not given.get(name) for name in call.context.withheld):
        return None
    repaired, call.context.repairs = found
    return replace(call, arguments=repaired)


async def _run_with_note(following: Step, call: Request) -> Result:
    """The result with a block of text that tells what was repaired; one without content stays as it is."""
    result = await following(call)
    content = result.mcp.get("content")
    if not isinstance(content, list):
        return result
    note = {"type": "text", "text": f"Note from toolcrib on your arguments: {'; '.join(call.context.repairs)}."}
    return Result({**result.mcp, "content": [*content, note]}, error=result.error, value=result.value)


def normalise(emit: Emit) -> Layer:
    """The configured renames of a tool first, then snake_case to camelCase where the schema has the camelCase name."""

    def layer(subject: Subject, following: Step) -> Step:
        if not subject.server or subject.is_transparent:
            return following
        renamer = Renamer.for_schema(subject.offer.input_schema, subject.offer.renames)
        if renamer is None:
            return following

        def step(call: Request) -> Awaitable[Result]:
            arguments, renames = renamer.apply(call.arguments)
            if renames:
                call = replace(call, arguments=arguments)
                emit(Event(events.ARGUMENTS_RENAMED, "info", {**told_of(call), "names": dict(renames)}))
            return following(call)

        return step

    return layer
