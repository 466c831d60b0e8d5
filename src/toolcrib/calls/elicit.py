"""Approval through the MCP client that made the call: as a question in the middle of it, or as a result that asks back.

A client of the stateless era gets an ``input_required`` result and calls again with the answer. What it brings back is
sealed: it counts once, for that caller, that tool and those arguments, for a limited time.
"""

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from toolcrib.calls.approvals import ApprovalAnswer, ApprovalQuestion, ApprovalReply, is_sessionless
from toolcrib.core.errors import PermissionDenied
from toolcrib.core.requests import Request, Result
from toolcrib.schema.text import printable

ELICIT = "elicitation/create"
REQUEST = "toolcrib_approval"
VALUE_SHOWN = 1000
SPENT_KEPT = 10_000

_CHOICES = {
    ApprovalReply.ONCE: "Allow this call",
    ApprovalReply.SESSION: "Allow it for this session",
    ApprovalReply.ALWAYS: "Allow it always",
    ApprovalReply.NO: "Do not allow it",
}


def can_elicit(call: Request) -> bool:
    """Whether the client can show a form; an agent that works on its own would only ask itself."""
    asked = call.channel.capabilities.get("elicitation")
    is_form = isinstance(asked, Mapping) and (not asked or "form" in asked)
    return is_form and call.caller.kind != "agent"


def elicitation(question: ApprovalQuestion, *, sessions: bool = True) -> dict[str, Any]:
    """The question as MCP's ``elicitation/create`` wants it; without sessions there is none to allow it for."""
    choices = {reply: words for reply, words in _CHOICES.items() if sessions or reply is not ApprovalReply.SESSION}
    shown = ", ".join(f"{_shown(name)}: {_shown(value)}" for name, value in question.arguments.items())
    answer = {
        "type": "string",
        "title": "Allow this call?",
        "enum": list(choices),
        "enumNames": list(choices.values()),
    }
    message = (
        f"{question.caller} wants to call {question.tool} (level: {question.level}) with {shown or 'no arguments'}"
    )
    return {
        "message": printable(message),
        "requestedSchema": {"type": "object", "properties": {"answer": answer}, "required": ["answer"]},
    }


def _shown(value: Any) -> str:
    """One name or value as JSON, cut on its own: a long one must not push the others out of sight."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= VALUE_SHOWN else f"{text[:VALUE_SHOWN]} … ({len(text):,} characters)"


def read_reply(response: Any) -> ApprovalReply | None:
    """What the person chose; ``None`` when the question was put away without an answer."""
    if not isinstance(response, Mapping) or response.get("action") == "cancel":
        return None
    content = response.get("content")
    chosen = content.get("answer") if isinstance(content, Mapping) else None
    if response.get("action") != "accept":
        return ApprovalReply.NO
    return ApprovalReply(chosen) if isinstance(chosen, str) and chosen in set(ApprovalReply) else None


class ClientSurface:
    """A Surface for clients that can be asked in the middle of a call."""

    name = "client"

    def reaches(self, call: Request) -> bool:
        """Whether the client shows forms and can be asked now."""
        return can_elicit(call) and not call.channel.takes_input_required

    async def put(self, question: ApprovalQuestion, call: Request) -> ApprovalAnswer | None:
        """Ask the client."""
        response = await call.channel.ask(ELICIT, msgspec.json.encode(elicitation(question)))
        reply = read_reply(msgspec.json.decode(response))
        return ApprovalAnswer(reply) if reply is not None else None


class Seal:
    """Makes and checks what a stateless client carries from our question to its answer."""

    def __init__(self, clock: Callable[[], float], lifetime_s: float, key: bytes = b"") -> None:
        """Replicas with the same key can read each other's questions."""
        self._key = key or secrets.token_bytes(32)
        self._clock, self.lifetime_s = clock, lifetime_s
        self._spent: dict[str, int] = {}
        """What was used, and until when it would have been valid."""

    def ask(self, question: ApprovalQuestion, call: Request) -> Result:
        """The result that asks back."""
        due = int(self._clock() + self.lifetime_s)
        nonce = secrets.token_hex(8)
        state = f"{due}.{nonce}.{self._sign(call, f'{due}.{nonce}')}"
        request = {"method": ELICIT, "params": elicitation(question, sessions=not is_sessionless(call))}
        return Result(
            {
                "resultType": "input_required",
                "inputRequests": {REQUEST: request},
                "requestState": _PREFIX + urlsafe_b64encode(state.encode()).decode(),
            }
        )

    def is_ours(self, call: Request) -> bool:
        """Whether the call answers a question of ours."""
        state = call.more.get("requestState")
        return isinstance(state, str) and state.startswith(_PREFIX)

    def open(self, call: Request) -> ApprovalReply | None:
        """The person's answer; what was tampered with, is too old or was used before is refused."""
        responses = call.more.get("inputResponses")
        reply = read_reply(responses.get(REQUEST) if isinstance(responses, Mapping) else None)
        self._check(call, str(call.more["requestState"]))
        return reply

    def nonce(self, call: Request) -> str:
        """What is different in every question; empty in what is not a seal."""
        try:
            return urlsafe_b64decode(str(call.more["requestState"]).removeprefix(_PREFIX)).decode().split(".")[1]
        except (ValueError, IndexError):
            return ""

    def _check(self, call: Request, state: str) -> None:
        try:
            due, nonce, signature = urlsafe_b64decode(state.removeprefix(_PREFIX)).decode().split(".")
            expected = self._sign(call, f"{due}.{nonce}")
            valid = hmac.compare_digest(signature.encode(), expected.encode()) and int(due) >= self._clock()
        except ValueError:
            valid, nonce = False, ""
        if not valid or nonce in self._spent or not self._has_room():
            raise not_valid()
        self._spent[nonce] = int(due)

    def _has_room(self) -> bool:
        """Whether one more can be remembered; what could still be used again is never forgotten."""
        if len(self._spent) >= SPENT_KEPT:
            now = self._clock()
            self._spent = {nonce: due for nonce, due in self._spent.items() if due >= now}
        return len(self._spent) < SPENT_KEPT

    def _sign(self, call: Request, text: str) -> str:
        arguments = msgspec.json.encode(call.arguments, order="sorted")
        subject = msgspec.json.encode((call.caller.id, call.caller.session, call.kind, call.name, text))
        return hmac.new(self._key, subject + hashlib.sha256(arguments).digest(), hashlib.sha256).hexdigest()


def without_answer(call: Request) -> Request:
    """The call as its tool shall see it, which knows nothing of our question."""
    kept = {key: value for key, value in call.more.items() if key not in ("requestState", "inputResponses")}
    return replace(call, more=kept)


def not_valid() -> PermissionDenied:
    """What comes of a seal that cannot be used, or not again."""
    return PermissionDenied("This approval is not valid (any more).", hint="Call the tool again to be asked.")


_PREFIX = "toolcrib."
