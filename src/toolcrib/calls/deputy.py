"""Who answers a server where the client cannot: people fill in forms, the configured model answers."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from toolcrib.calls.approvals import ApprovalAnswer, ApprovalReply, Approvals
from toolcrib.calls.forms import QuestionForm, read_form
from toolcrib.core.access import Decision, decided_by
from toolcrib.core.errors import InvalidArguments, NotImplementedHere, PermissionDenied
from toolcrib.core.events import Event
from toolcrib.core.kinds import Policy
from toolcrib.core.requests import Request
from toolcrib.schema.text import printable

SHOWN_MAX = 4000
CANCEL: Mapping[str, Any] = {"action": "cancel"}

Sample = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Has a model answer a ``sampling/createMessage``."""


class Deputy:
    """Answers for the clients of one server."""

    def __init__(
        self,
        server: str,
        desk: Approvals,
        roots: tuple[str, ...] = (),
        sample: Sample | None = None,
        sampling: Policy = Policy.ASK,
    ) -> None:
        self._server, self._desk = server, desk
        self._roots: Mapping[str, Any] = {"roots": [{"uri": uri} for uri in roots]}
        self.standing: Mapping[str, Mapping[str, Any]] = {"roots/list": self._roots} if roots else {}
        """What it answers whoever calls: the configured roots."""
        self._sample, self._decision = sample, decided_by(sampling)
        is_barred = sample is None or self._decision is Decision.DENIED
        can_sample: dict[str, Any] = {} if is_barred else {"sampling": {}}
        self.capabilities: Mapping[str, Any] = {"elicitation": {"form": {}, "url": {}}, "roots": {}, **can_sample}
        """What it can be asked for."""

    async def answer(self, call: Request, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """The result of a question that was asked within ``call``."""
        match method:
            case "elicitation/create":
                return await self._have_filled_in(call, params)
            case "sampling/createMessage":
                return await self._have_answered(call, params)
            case "roots/list":
                return self._roots
            case _:
                raise NotImplementedHere(f"Nobody can answer {method!r}.")

    async def _have_filled_in(self, call: Request, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """What a person gives; where nobody is there, the form is put away, so that nothing happens unasked."""
        try:
            form = read_form(params)
        except ValueError as error:
            raise InvalidArguments(f"This form cannot be shown to a person: {error}.") from None
        answer = await self._ask(call, form)
        if answer is None:
            return CANCEL
        if answer.reply is ApprovalReply.NO:
            return {"action": "decline"}
        return {"action": "accept"} if form.url else {"action": "accept", "content": dict(answer.content or {})}

    async def _ask(self, call: Request, form: QuestionForm) -> ApprovalAnswer | None:
        answer = await self._desk.have_filled_in(call, self._server, form)
        if answer is None:
            self._desk.emit(Event("question.unanswered", "warning", {"tool": call.name, "caller": call.caller.id}))
        return answer

    async def _have_answered(self, call: Request, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the model says, if a person or the configuration lets the server ask it."""
        if self._sample is None:
            raise NotImplementedHere(
                "The client cannot sample, and toolcrib has no model.", hint="Set [model] in the configuration."
            )
        if self._decision is Decision.ASK:
            answer = await self._ask(call, QuestionForm(_shown(call, params)))
            if answer is None or answer.reply is ApprovalReply.NO:
                raise PermissionDenied("Nobody allowed this server to ask the model.")
        return await self._sample(params)


def _shown(call: Request, params: Mapping[str, Any]) -> str:
    """What a person is told of a server's question to the model."""
    asked = {key: params[key] for key in ("systemPrompt", "messages", "maxTokens") if key in params}
    text = msgspec.json.encode(asked).decode()
    cut = text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]} … ({len(text):,} characters)"
    return printable(f"The server of {call.name} wants to ask your model, at your cost: {cut}")
