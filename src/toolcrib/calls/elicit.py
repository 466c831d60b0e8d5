"""Approval through the MCP client that made the call: as a question in the middle of it, or as a result that asks back.

A client of the stateless era gets an ``input_required`` result and calls again with the answer. What it brings back is
sealed: it counts once, for that caller, that tool and those arguments, for a limited time.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from toolcrib.calls.approvals import ApprovalAnswer, ApprovalQuestion, ApprovalReply, is_sessionless
from toolcrib.core.errors import PermissionDenied
from toolcrib.core.offers import verb_for
from toolcrib.core.requests import Request, Result
from toolcrib.core.seal import Seal, SealPurpose, is_sealed, subject_of
from toolcrib.schema.text import printable

ELICIT = "elicitation/create"
REQUEST = "toolcrib_approval"
VALUE_SHOWN = 1000

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


def can_visit(call: Request) -> bool:
    """Whether the client can send a person to an address; an agent that works on its own has nobody to send."""
    asked = call.channel.capabilities.get("elicitation")
    return isinstance(asked, Mapping) and "url" in asked and call.caller.kind != "agent"


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
        f"{question.caller} wants to {verb_for(question.tool)} {question.tool} (level: {question.level})"
        f" with {shown or 'no arguments'}"
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
    takes_forms = False
    """A server's form is passed on as it is, if the client can show it."""

    def reaches(self, call: Request) -> bool:
        """Whether the client shows forms and can be asked now."""
        return can_elicit(call) and not call.channel.takes_input_required

    async def put(self, question: ApprovalQuestion, call: Request) -> ApprovalAnswer | None:
        """Ask the client."""
        response = await call.channel.ask(ELICIT, msgspec.json.encode(elicitation(question)))
        reply = read_reply(msgspec.json.decode(response))
        return ApprovalAnswer(reply) if reply is not None else None


class ApprovalSeal:
    """Makes and checks what a stateless client carries from our question to its answer."""

    def __init__(self, seal: Seal, lifetime_s: float) -> None:
        self._seal, self.lifetime_s = seal, lifetime_s

    def ask(self, question: ApprovalQuestion, call: Request) -> Result:
        """The result that asks back."""
        request = {"method": ELICIT, "params": elicitation(question, sessions=not is_sessionless(call))}
        return Result(
            {
                "resultType": "input_required",
                "inputRequests": {REQUEST: request},
                "requestState": self._seal.close(SealPurpose.APPROVAL, subject_of(call), b"", self.lifetime_s),
            }
        )

    def is_ours(self, call: Request) -> bool:
        """Whether the call answers a question of ours."""
        return is_sealed(SealPurpose.APPROVAL, call.more.get("requestState"))

    def open(self, call: Request) -> tuple[ApprovalReply | None, str]:
        """The person's answer, and what is different in every question; what was tampered with, is too old or was used
        before is refused."""
        responses = call.more.get("inputResponses")
        reply = read_reply(responses.get(REQUEST) if isinstance(responses, Mapping) else None)
        found = self._seal.open(SealPurpose.APPROVAL, subject_of(call), str(call.more["requestState"]))
        if found is None or not self._seal.spend(found):
            raise not_valid()
        return reply, found.nonce


def without_answer(call: Request) -> Request:
    """The call as its tool shall see it, which knows nothing of our question."""
    kept = {key: value for key, value in call.more.items() if key not in ("requestState", "inputResponses")}
    return replace(call, more=kept)


def not_valid() -> PermissionDenied:
    """What comes of a seal that cannot be used, or not again."""
    return PermissionDenied("This approval is not valid (any more).", hint="Call the tool again to be asked.")
