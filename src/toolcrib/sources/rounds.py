"""A call that needs answers on the way, for clients of the handshake era: ask them, then call again."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from toolcrib.core.call import ToolCall
from toolcrib.core.errors import NotImplementedHere, ProtocolError
from toolcrib.sources.relay import can_ask
from toolcrib.wire.results import read_head

ROUNDS_MAX = 10

Retry = Callable[[Mapping[str, Any]], Awaitable[Raw]]


async def answer_rounds(call: ToolCall, raw: Raw, retry: Retry) -> Raw:
    """The final result of a call whose server asks back, at most ten times."""
    for _ in range(ROUNDS_MAX):
        raw = await retry(await _answers(call, msgspec.json.decode(raw)))
        if read_head(raw).result_type != "input_required":
            return raw
    raise ProtocolError(f"The server of {call.name} asked back more than {ROUNDS_MAX} times.")


async def _answers(call: ToolCall, required: Mapping[str, Any]) -> dict[str, Any]:
    requests = required.get("inputRequests") or {}
    more: dict[str, Any] = {**call.more}
    if requests:
        more["inputResponses"] = {key: await _answer(call, request) for key, request in requests.items()}
    if required.get("requestState") is not None:
        more["requestState"] = required["requestState"]
    return more


async def _answer(call: ToolCall, request: Mapping[str, Any]) -> Any:
    method = str(request.get("method", ""))
    if not can_ask(call.channel, method):
        raise NotImplementedHere(
            f"{call.name} needs an answer from the client ({method}), and this client cannot give one.",
            hint="Use a client that supports it.",
        )
    return msgspec.json.decode(await call.channel.ask(method, msgspec.json.encode(request.get("params") or {})))
