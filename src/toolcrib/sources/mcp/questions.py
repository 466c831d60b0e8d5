"""Whom a server's question goes to: the client behind the call, or whoever answers where the client cannot.

What a server is told it may ask is decided once per server, because its offers depend on it; whether this client can
be asked this question, when the question comes.
"""

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from toolcrib.config.model import RELAYABLE
from toolcrib.core.errors import CallTimeout, NotImplementedHere
from toolcrib.core.requests import BackChannel, Request, StandIn
from toolcrib.sources.mcp.link import NEEDS_CAPABILITY

DECLARED: Mapping[str, Mapping[str, Any]] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}, "context": {}},
    "roots": {},
}
"""What a server is told the client can do, all of it: what this client cannot is refused when it is asked for."""
ELICIT, SAMPLE = "elicitation/create", "sampling/createMessage"
QUESTIONS_PER_CALL = 100
CANCELLED_FORM = b'{"action":"cancel"}'
_object = msgspec.json.Decoder(dict[str, Any])


class AskingRule:
    """The rule of one server: what it may ask, and who answers."""

    def __init__(
        self, relay: Collection[str] = RELAYABLE, stand_in: StandIn | None = None, timeout_s: float = 120.0
    ) -> None:
        self.declared: Mapping[str, Any] = {name: DECLARED[name] for name in RELAYABLE if name in relay}
        """The capabilities that the server is told of."""
        self.timeout_s = timeout_s
        """How long an answer is waited for."""
        can = {} if stand_in is None else stand_in.capabilities
        self.own: Mapping[str, Any] = {name: value for name, value in can.items() if name in relay}
        """What is answered whatever the client can."""
        self.stand_in = stand_in
        self._barred = frozenset(RELAYABLE) - frozenset(relay)

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


class AskedChannel(msgspec.Struct, eq=False):
    """The way back of one call, for the server that answers it."""

    call: Request
    rule: AskingRule
    _count: int = 0

    @property
    def _client(self) -> BackChannel:
        return self.call.channel

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What can be asked."""
        return self.rule.all_of(self.call.channel.capabilities)

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
        self.call.channel.notify(method, params)

    async def ask(self, method: str, params: bytes) -> bytes:
        """The answer of the client, or of whoever stands in for it; a form that nobody fills in is put away."""
        self._count += 1
        if self._count > QUESTIONS_PER_CALL:
            raise NotImplementedHere(f"{self.call.name} asked more than {QUESTIONS_PER_CALL} questions.")
        try:
            async with asyncio.timeout(self.rule.timeout_s):
                return await self._ask(method, params)
        except TimeoutError:
            if method == ELICIT:
                return CANCELLED_FORM
            raise CallTimeout(f"Nobody answered {method!r} within {self.rule.timeout_s:g} s.") from None

    async def _ask(self, method: str, params: bytes) -> bytes:
        asked = _object.decode(params)
        channel = self.call.channel
        if answers(self.rule.within(channel.capabilities), method, asked):
            return await channel.ask(method, params)
        if self.rule.stand_in is not None and answers(self.rule.own, method, asked):
            return msgspec.json.encode(await self.rule.stand_in.answer(self.call, method, asked))
        raise NotImplementedHere(f"The client cannot answer {method!r}{_in_mode(asked)}.")


def _in_mode(params: Mapping[str, Any]) -> str:
    return f" in mode {params['mode']!r:.20}" if params.get("mode") == "url" else ""
