"""Keep: a result too large for a model is put aside whole, and the model gets a preview with a handle to read on."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from toolcrib.calls.pipeline import Layer, Step, Subject
from toolcrib.core.call import ToolCall, ToolResult
from toolcrib.core.errors import ToolcribError
from toolcrib.core.events import Emit
from toolcrib.core.names import RESULT_READ
from toolcrib.core.tool import RequestKind
from toolcrib.isolate.helpers import Helpers

if TYPE_CHECKING:
    from toolcrib.calls.results.trade import Trade

BYTES_PER_CHARACTER = 6
"""At most, in JSON: a control character is written as ``\\u0000``."""
ENVELOPE = 128


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
        limit = settings.limit if subject.offer.result_limit is None else subject.offer.result_limit
        # What a program reads or gets was asked for by its user, not by a model that it would be too much for.
        if not limit or subject.kind is not RequestKind.CALL or (subject.name == RESULT_READ and not subject.server):
            return following

        def trade() -> "Trade":
            from toolcrib.calls.results.trade import Trade  # late: most programs never see a large result

            return Trade(results, KeepSettings(limit, settings.keep_s), emit, subject, helpers)

        async def step(call: ToolCall) -> ToolResult:
            try:
                outcome = await following(call)
            except ToolcribError as error:
                if _weigh_error(error) > limit:
                    await trade().shorten_error(call, error)
                raise
            raw = outcome.raw
            if (len(raw) if raw is not None else _weigh(outcome, limit)) <= limit:
                return outcome
            return await trade().result(call, outcome)

        return step

    return layer


def _weigh(outcome: ToolResult, limit: int) -> float:
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
