"""Keep: a result too large for a model is put aside whole, and the model gets a preview with a handle to read on."""

import asyncio
import math
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from toolcrib.calls.pipeline import Layer, Step, Subject
from toolcrib.calls.results.document import ResultDocument, encode, fit
from toolcrib.calls.results.preview import META, Kept
from toolcrib.calls.results.show import SHOW, ShownAs, show, show_nothing
from toolcrib.core.errors import ResultNotKept, ToolcribError
from toolcrib.core.events import Emit, Event
from toolcrib.core.names import RESULT_READ
from toolcrib.core.offers import RequestKind
from toolcrib.core.requests import ErrorInfo, Request, Result, told_of
from toolcrib.isolate.helpers import Helpers, TookTooLong
from toolcrib.schema.check import QUICK_BYTES

BYTES_PER_CHARACTER = 6
"""At most, in JSON: a control character is written as ``\\u0000``."""
ENVELOPE = 128
ERROR_SHOWN = 2000


class ResultKeeper(Protocol):
    """Where whole results are put aside."""

    async def keep(self, raw: bytes, caller: str, tool: str) -> str:
        """The handle under which this caller can read the result; raises ``ResultNotKept``."""


@dataclass(frozen=True, slots=True)
class KeepSettings:
    """From which size on, and what to say of how long."""

    limit: int
    keep_s: float


def keep(results: ResultKeeper, settings: KeepSettings, emit: Emit, helpers: Helpers) -> Layer:
    """Results up to the limit pass untouched; what cannot be kept passes whole, and is told."""

    def layer(subject: Subject, following: Step) -> Step:
        usual = 0 if subject.is_transparent else settings.limit
        limit = usual if subject.offer.result_limit is None else subject.offer.result_limit
        # What a program reads or gets was asked for by its user, not by a model that it would be too much for.
        is_read = subject.kind is RequestKind.READ
        is_kept = is_read or subject.kind in (RequestKind.CALL, RequestKind.TASK)
        if not limit or not is_kept or (subject.name == RESULT_READ and not subject.server):
            return following

        trade = Trade(results, KeepSettings(limit, settings.keep_s), emit, subject, helpers)

        async def step(call: Request) -> Result:
            try:
                outcome = await following(call)
            except ToolcribError as error:
                if _weigh_error(error) > limit:
                    await trade.shorten_error(call, error)
                raise
            if is_read:
                if not call.context.for_model:
                    return outcome
                outcome = as_tool_result(outcome)
            raw = outcome.raw
            if (len(raw) if raw is not None else _weigh(outcome, limit)) <= limit:
                return outcome
            return await trade.result(call, outcome)

        return step

    return layer


def as_tool_result(read: Result) -> Result:
    """What was read, as a tool would have given it: texts and pictures as such, all else embedded."""
    contents = read.mcp.get("contents")
    if read.error is not None or read.asks_back or not isinstance(contents, list):
        return read
    return Result({"content": [_block(part) for part in contents if isinstance(part, dict)]})


def _block(part: dict[str, Any]) -> dict[str, Any]:
    kind, text, blob = str(part.get("mimeType")), part.get("text"), part.get("blob")
    if isinstance(text, str):
        return {"type": "text", "text": text}
    if isinstance(blob, str) and kind.startswith("image/"):
        return {"type": "image", "data": blob, "mimeType": kind}
    return {"type": "resource", "resource": part}


def _weigh(outcome: Result, limit: int) -> float:
    """The size of a result that is not encoded yet; for plain text, an upper bound."""
    result = outcome.mcp
    bound = _bound(result)
    if bound <= limit:
        return bound
    try:
        raw = msgspec.json.encode(result)
    except (TypeError, ValueError):  # no JSON: whoever has to encode it says so
        return 0
    if outcome.error is None:
        outcome.raw = raw  # the door need not encode it again
    return len(raw)


def _bound(result: dict[str, Any]) -> float:
    """What a result that is one plain text takes at most; no bound is known of any other."""
    content = result.get("content")
    if len(result) == 1 and type(content) is list and len(content) == 1:
        block = content[0]
        is_plain = type(block) is dict and len(block) == 2 and block.get("type") == "text"
        text = block.get("text") if is_plain else None
        if type(text) is str:
            return ENVELOPE + BYTES_PER_CHARACTER * len(text)
    return math.inf


def _weigh_error(error: ToolcribError) -> int:
    try:
        return len(error.message) + (len(msgspec.json.encode(error.details)) if error.details else 0)
    except (TypeError, ValueError):
        return len(error.message)


class Trade:
    """Trades large results of one tool."""

    def __init__(
        self, results: ResultKeeper, settings: KeepSettings, emit: Emit, subject: Subject, helpers: Helpers
    ) -> None:
        self._results, self._settings, self._emit, self._subject = results, settings, emit, subject
        self._helpers = helpers

    async def result(self, call: Request, outcome: Result) -> Result:
        """The preview; the result itself if it cannot be kept, or is a question rather than a result."""
        raw = encode(outcome.mcp) if outcome.raw is None else outcome.raw
        document = await asyncio.to_thread(ResultDocument, raw)
        if document.result_type == "input_required":
            return outcome
        handle = await self._keep(call, raw)
        if handle is None:
            return outcome
        schema = self._subject.offer.output_schema
        wanted = ShownAs(
            self._kept(handle, len(raw)), None if schema is None else dict(schema), outcome.error is not None
        )
        shown = Result(raw=await self._show(raw, wanted), task=outcome.task)
        if outcome.error is not None:
            told = {META: wanted.kept.meta}
            shown.error = ErrorInfo(outcome.error.code, shown.content[0]["text"], outcome.error.retryable, told)
        return shown

    async def _show(self, raw: bytes, wanted: ShownAs) -> bytes:
        """The encoded preview; one of much is put together by a helper."""
        if len(raw) <= QUICK_BYTES:
            return await asyncio.to_thread(show, raw, encode(wanted))
        try:
            return await self._helpers.run(SHOW, (raw, encode(wanted)), self._subject.server)
        except TookTooLong:
            return show_nothing(wanted)

    async def shorten_error(self, call: Request, error: ToolcribError) -> None:
        """An error that says too much keeps its class and code, and says the rest by handle."""
        raw = _encode_error(error)
        handle = await self._keep(call, raw)
        if handle is None:
            return
        kept = self._kept(handle, len(raw))
        error.message = fit(error.message, min(ERROR_SHOWN, kept.limit // 4))
        error.hint = f'All it said: {RESULT_READ} {{"handle": "{handle}"}}. {error.hint}'.rstrip()
        small = {key: value for key, value in error.details.items() if isinstance(value, int | float)}
        error.details = small | {META: kept.meta}

    async def _keep(self, call: Request, raw: bytes) -> str | None:
        told = {**told_of(call), "caller": call.caller.id, "bytes": len(raw)}
        try:
            handle = await self._results.keep(raw, call.caller.id, call.name)
        except ResultNotKept as error:
            self._emit(Event("result.not_kept", "warning", told | {"error": str(error)}))
            return None
        self._emit(Event("result.kept", "debug", told))
        return handle

    def _kept(self, handle: str, size: int) -> Kept:
        return Kept(handle, self._subject.name, size, self._settings.limit, self._settings.keep_s)


def _encode_error(error: ToolcribError) -> bytes:
    """An error as a result that can be kept; of one that is no JSON (a lone surrogate, say), the message alone."""
    told = {"content": [{"type": "text", "text": error.message}], "isError": True}
    try:
        return encode(told | {"structuredContent": error.details})
    except (TypeError, ValueError):
        told["content"] = [{"type": "text", "text": error.message.encode(errors="replace").decode()}]
        return encode(told)
