"""Whom a server's question goes to: the client behind the call, or whoever answers where the client cannot.

What a server is told it may ask is decided once per server, because its offers depend on it; whether this client can
be asked this question, when the question comes. A server of the stateless era asks by its result: a client of the same
era gets that, with the server's state sealed; for any other the questions are asked here and the call is made again.
"""

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from toolcrib.config.model import RELAYABLE
from toolcrib.core.clocks import elapsed
from toolcrib.core.errors import CallTimeout, NotImplementedHere, ProtocolError, RemoteError
from toolcrib.core.patterns import lazy_pattern
from toolcrib.core.requests import PROGRESS, BackChannel, Request, StandIn
from toolcrib.core.seal import ROUND_S, Seal, SealPurpose, invalid_state, is_sealed, subject_of
from toolcrib.sources.mcp.link import COMPLETE, NEEDS_CAPABILITY
from toolcrib.wire.eras import META_RELATED_TASK
from toolcrib.wire.jsonrpc import encode
from toolcrib.wire.results import ResultHead, read_head

DECLARED: Mapping[str, Mapping[str, Any]] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}, "context": {}},
    "roots": {"listChanged": True},
}
"""What a server is told the client can do, all of it: what this client cannot is refused when it is asked for."""
ELICIT, SAMPLE = "elicitation/create", "sampling/createMessage"
QUESTIONS_PER_CALL = 100
ROUNDS_MAX = 10
SENT_KEPT = 256
"""So many addresses that clients were sent to are remembered, to tell them when it is done there."""
STRAY_MAX = 4096
"""Bytes of a notice that is passed on without knowing of what: it may have to be kept for its client."""
CANCELLED_FORM = b'{"action":"cancel"}'
URL_REQUIRED = -32042
"""A server of the handshake era has somebody go to an address before it does what it was asked."""
_ROUND = frozenset({"requestState", "inputResponses"})
_object = msgspec.json.Decoder(dict[str, Any])


class _Request(msgspec.Struct):
    method: str = ""
    params: dict[str, Any] | None = None


class _Required(msgspec.Struct):
    requests: dict[str, _Request] | None = msgspec.field(default=None, name="inputRequests")
    state: Any = msgspec.field(default=None, name="requestState")


class _Carried(msgspec.Struct, array_like=True):
    """What is sealed: the server's own state, if the server is to be given one back."""

    state: Any
    is_ours: bool = False
    """Whether the questions were ours, made of an error: then the server is not sent the answers."""


_required = msgspec.json.Decoder(_Required)
_carried = msgspec.json.Decoder(_Carried)
Retry = Callable[[Mapping[str, Any]], Awaitable[Raw]]


class AskingRule:
    """The rule of one server: what it may ask, and who answers."""

    def __init__(
        self,
        relay: Collection[str] = RELAYABLE,
        stand_in: StandIn | None = None,
        timeout_s: float = 120.0,
        seal: Seal | None = None,
        *,
        is_transparent: bool = False,
    ) -> None:
        self.is_transparent = is_transparent
        """Whether the client itself answers that it cannot, in its own words."""
        self.declared: Mapping[str, Any] = {name: DECLARED[name] for name in RELAYABLE if name in relay}
        """The capabilities that the server is told of."""
        self.timeout_s = timeout_s
        """How long an answer is waited for."""
        can = {} if stand_in is None else stand_in.capabilities
        self.own: Mapping[str, Any] = {name: value for name, value in can.items() if name in relay}
        """What is answered whatever the client can."""
        self.stand_in = stand_in
        self._barred = frozenset(RELAYABLE) - frozenset(relay)
        self._seal = seal or Seal(elapsed)
        self._sent: dict[str, BackChannel] = {}
        """Who was sent to an address, by the id that the server tells of it with."""

    def standing(self, method: str) -> bytes | None:
        """What is answered while no call is under way: many servers ask for the roots as soon as they are started."""
        known = None if self.stand_in is None else self.stand_in.standing.get(method)
        return None if known is None or NEEDS_CAPABILITY.get(method) in self._barred else encode(known)

    def around(self, call: Request) -> "AskedChannel":
        """The way back of a call, as its server may use it."""
        return AskedChannel(call, self)

    def within(self, client: Mapping[str, Any]) -> Mapping[str, Any]:
        """What of a client's capabilities the server may use."""
        if not self._barred or not client:
            return client
        return {name: value for name, value in client.items() if name not in self._barred}

    def all_of(self, client: Mapping[str, Any]) -> Mapping[str, Any]:
        """What can be answered for a client: by itself, or in its place."""
        usable = self.within(client)
        return usable if not self.own else self.own if not usable else _joined(self.own, usable)

    def leaves_to_client(self, channel: BackChannel, method: str) -> bool:
        """Whether a question goes to the client even if that cannot answer it: its words are the answer then."""
        is_open = self.is_transparent and not channel.takes_input_required
        return is_open and NEEDS_CAPABILITY.get(method) in self.declared

    # Questions that are results

    def may_hand_over(self, call: Request, raw: Raw) -> bool:
        """Whether the client takes a server's questions as the result they are, and can answer all of them."""
        if not call.channel.takes_input_required:
            return False
        asked, client = read_required(call, raw).requests or {}, self.within(call.channel.capabilities)
        return all(answers(client, request.method, request.params or {}) for request in asked.values())

    def seal_state(self, call: Request, raw: Raw) -> Raw:
        """The server's questions with its state sealed, so that only this caller can bring it back, for this call."""
        result = _object.decode(raw)
        if result.get("requestState") is None:
            return raw
        return Raw(encode({**result, "requestState": self._close(call, _Carried(result["requestState"]))}))

    def _close(self, call: Request, carried: _Carried) -> str:
        return self._seal.close(SealPurpose.ROUND, subject_of(call), encode(carried), ROUND_S)

    def open_state(self, call: Request) -> Mapping[str, Any]:
        """The further fields of a request as its server gets them; raises if its state is not one we gave this caller
        for this very request."""
        state = call.more.get("requestState")
        if state is None:
            return call.more
        found = self._seal.open(SealPurpose.ROUND, subject_of(call), str(state))
        if not is_sealed(SealPurpose.ROUND, state) or found is None:
            raise invalid_state("it is too old, was changed, or was given out for another request")
        carried = _carried.decode(found.payload)
        if carried.is_ours:
            return {key: value for key, value in call.more.items() if key not in _ROUND}
        return {**call.more, "requestState": carried.state}

    def as_questions(self, call: Request, error: RemoteError) -> bytes:
        """An error that sends somebody to an address, as the questions that a client of the stateless era knows; any
        other error, or for any other client, is raised as it is."""
        data = error.data if isinstance(error.data, Mapping) else {}
        asked = [each for each in data.get("elicitations") or () if isinstance(each, Mapping) and each.get("url")]
        if error.rpc_code != URL_REQUIRED or not asked:
            raise error
        for each in asked:
            self.note_sent(str(each.get("elicitationId")), call.channel)
        client = self.within(call.channel.capabilities)
        if not call.channel.takes_input_required or not answers(client, ELICIT, {"mode": "url"}):
            raise error
        requests = {f"url{n}": {"method": ELICIT, "params": _for_modern(each)} for n, each in enumerate(asked, 1)}
        state = self._close(call, _Carried(None, is_ours=True))
        return encode({"resultType": "input_required", "inputRequests": requests, "requestState": state})

    # Addresses that clients were sent to

    def note_sent(self, elicitation_id: str, channel: BackChannel) -> None:
        """A client was sent to an address; the server may tell later that it is done there."""
        if not channel.takes_input_required:
            self._sent[elicitation_id] = channel
            if len(self._sent) > SENT_KEPT:
                del self._sent[next(iter(self._sent))]

    def complete(self, params: bytes, sole: BackChannel | None = None) -> None:
        """It is done at an address: tell the client that was sent there, once; of an address that nobody here was sent
        to, the one client that the server can only mean, if it tells of it at all."""
        try:
            elicitation_id = _object.decode(params).get("elicitationId")
        except msgspec.DecodeError:
            return
        if not isinstance(elicitation_id, str):
            return
        channel = self._sent.pop(elicitation_id, None)
        if channel is None and sole is not None and len(params) <= STRAY_MAX:
            channel = None if sole.takes_input_required or "elicitation" in self._barred else sole
        if channel is not None:
            channel.notify(COMPLETE, params)


def _joined(own: Mapping[str, Any], client: Mapping[str, Any]) -> dict[str, Any]:
    """Both together; of what both have, the parts of both."""
    both = {name: {**_parts(name, own[name]), **_parts(name, client[name])} for name in own.keys() & client.keys()}
    return {**own, **client, **both}


def _parts(name: str, capability: Any) -> Mapping[str, Any]:
    """A capability as an object; elicitation without parts means forms."""
    parts = capability if isinstance(capability, Mapping) else {}
    return {"form": {}} if name == "elicitation" and not parts else parts


def answers(capabilities: Mapping[str, Any], method: str, params: Mapping[str, Any]) -> bool:
    """Whether somebody with these capabilities can be asked this very question."""
    name = NEEDS_CAPABILITY.get(method)
    if name is None or name not in capabilities:
        return False
    parts = _parts(name, capabilities[name])
    if method == ELICIT:
        return ("url" if params.get("mode") == "url" else "form") in parts
    return "tools" in parts if method == SAMPLE and ("tools" in params or "toolChoice" in params) else True


_IN_VAIN = lazy_pattern(r"server-initiated request|server-to-client request", re.IGNORECASE)


def asks_in_vain(words: str) -> bool:
    """Whether a tool failed because its server cannot ask in the middle of a call in the stateless era: so the
    official SDKs say it, naming what was to be asked."""
    return any(method in words for method in NEEDS_CAPABILITY) and _IN_VAIN.search(words) is not None


class AskedChannel(msgspec.Struct, eq=False):
    """The way back of one call, for the server that answers it."""

    call: Request
    rule: AskingRule
    _count: int = 0

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What can be asked."""
        channel, rule = self.call.channel, self.rule
        usable = rule.all_of(channel.capabilities)
        return {**rule.declared, **usable} if rule.is_transparent and not channel.takes_input_required else usable

    @property
    def takes_input_required(self) -> bool:
        """Whether the client takes questions as a result."""
        return self.call.channel.takes_input_required

    @property
    def wants_progress(self) -> bool:
        """Whether the client asked to be told of progress."""
        return self.call.channel.wants_progress

    @property
    def log_level(self) -> str:
        """The least severe log message that the client asked for."""
        return self.call.channel.log_level

    def notify(self, method: str, params: bytes) -> None:
        """Tell the client."""
        call = self.call
        if method == PROGRESS:
            call.context.progressed_at = asyncio.get_running_loop().time()
        call.channel.notify(method, params)

    async def ask(self, method: str, params: bytes) -> bytes:
        """The answer of the client, or of whoever stands in for it; a form that nobody fills in is put away."""
        self._count += 1
        if self._count > QUESTIONS_PER_CALL:
            raise NotImplementedHere(f"{self.call.name} asked more than {QUESTIONS_PER_CALL} questions.")
        asked = _without_task(_object.decode(params))
        context, loop = self.call.context, asyncio.get_running_loop()
        began = loop.time()
        context.asking += 1
        try:
            async with asyncio.timeout(self._patience_s(method, asked)):
                return await self._ask(method, asked)
        except TimeoutError:
            if method == ELICIT:
                return CANCELLED_FORM
            raise CallTimeout(f"Nobody answered {method!r} within {self.rule.timeout_s:g} s.") from None
        finally:
            context.asking -= 1
            if not context.asking:
                context.asked_s += loop.time() - began

    def _patience_s(self, method: str, asked: dict[str, Any]) -> float | None:
        """How long to wait; a stateless client that does not come back has its call ended by the door."""
        channel, rule = self.call.channel, self.rule
        is_parked = channel.takes_input_required and answers(rule.within(channel.capabilities), method, asked)
        return None if is_parked else rule.timeout_s

    async def _ask(self, method: str, asked: dict[str, Any]) -> bytes:
        channel, rule = self.call.channel, self.rule
        if answers(rule.within(channel.capabilities), method, asked):
            if method == ELICIT and asked.get("mode") == "url":
                asked = self._sent_to(asked)
            return await channel.ask(method, encode(asked))
        if rule.leaves_to_client(channel, method):
            return await channel.ask(method, encode(asked))
        if rule.stand_in is not None and answers(rule.own, method, asked):
            return encode(await rule.stand_in.answer(self.call, method, asked))
        raise NotImplementedHere(f"The client cannot answer {method!r}{_in_mode(asked)}.")

    def _sent_to(self, asked: dict[str, Any]) -> dict[str, Any]:
        """An address as the client's era wants it: with an id before 2026, without one since."""
        if self.call.channel.takes_input_required:
            return _for_modern(asked)
        found = {"elicitationId": secrets.token_hex(8), **asked}
        self.rule.note_sent(str(found["elicitationId"]), self.call.channel)
        return found


def _without_task(asked: dict[str, Any]) -> dict[str, Any]:
    """A question without the task it belongs to at its server: nobody else knows that by the server's own id."""
    meta = asked.get("_meta")
    if not isinstance(meta, Mapping) or META_RELATED_TASK not in meta:
        return asked
    kept = {key: value for key, value in meta.items() if key != META_RELATED_TASK}
    rest = {key: value for key, value in asked.items() if key != "_meta"}
    return {**rest, "_meta": kept} if kept else rest


def _for_modern(asked: Mapping[str, Any]) -> dict[str, Any]:
    return {**{key: value for key, value in asked.items() if key != "elicitationId"}, "mode": "url"}


def _in_mode(params: Mapping[str, Any]) -> str:
    return f" in mode {params['mode']!r:.20}" if params.get("mode") == "url" else ""


async def answer_rounds(channel: AskedChannel, raw: Raw, retry: Retry) -> tuple[Raw, ResultHead]:
    """The final result of a call whose server asks back, at most ten times."""
    call = channel.call
    for _ in range(ROUNDS_MAX):
        raw = await retry(await _more(channel, read_required(call, raw)))
        head = read_head(raw)
        if head.result_type != "input_required":
            return raw, head
    raise ProtocolError(f"The server of {call.name} asked back more than {ROUNDS_MAX} times.")


def read_required(call: Request, raw: Raw) -> _Required:
    """What a server asks by its result."""
    try:
        return _required.decode(raw)
    except msgspec.DecodeError as error:
        raise ProtocolError(f"The server of {call.name} asks back in a way that cannot be read: {error}.") from None


async def _more(channel: AskedChannel, required: _Required) -> dict[str, Any]:
    more: dict[str, Any] = {**channel.call.more}
    if required.requests:
        more["inputResponses"] = await _answers(channel, required.requests)
    if required.state is not None:
        more["requestState"] = required.state
    return more


async def answer_requests(channel: AskedChannel, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The answers to what work that was begun before asks."""
    try:
        requests = msgspec.convert(asked, dict[str, _Request])
    except msgspec.ValidationError as error:
        name = channel.call.name
        raise ProtocolError(f"The server of {name} asks back in a way that cannot be read: {error}.") from None
    return await _answers(channel, requests)


async def _answers(channel: AskedChannel, requests: Mapping[str, _Request]) -> dict[str, Any]:
    """All answers; what is asked at once goes to the client at once."""
    tasks = [asyncio.ensure_future(_answer(channel, request)) for request in requests.values()]
    try:
        return dict(zip(requests, await asyncio.gather(*tasks), strict=True))
    finally:
        for task in tasks:
            task.cancel()


async def _answer(channel: AskedChannel, request: _Request) -> Any:
    method, params = request.method, request.params or {}
    if not answers(channel.capabilities, method, params):
        raise NotImplementedHere(
            f"{channel.call.name} needs an answer from the client ({method}), and this client cannot give one.",
            hint="Use a client that supports it.",
        )
    return msgspec.json.decode(await channel.ask(method, encode(params)))
