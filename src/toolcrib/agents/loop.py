"""The loop: ask the model, run the tools it wants, all at once, tell it what came of them, until it is done."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import msgspec

from toolcrib.core.access import LOCAL_USER, Caller
from toolcrib.core.errors import CallerError
from toolcrib.core.offers import Tool
from toolcrib.core.requests import SILENT, BackChannel, Result
from toolcrib.models.api import Model
from toolcrib.models.talk import (
    ModelReply,
    ModelRequest,
    Picture,
    TextPart,
    TokenUsage,
    ToolAnswer,
    ToolRequest,
    Turn,
    user,
)
from toolcrib.schema.dialects import dialect_of
from toolcrib.schema.dialects.offer import DialectOffer, Options


def answer_of(use: ToolRequest, result: Result) -> ToolAnswer:
    """The answer to one tool call: its words, its images, and structured data where there are no words."""
    parts = tuple(part for block in result.content if (part := part_of(block)) is not None)
    if not parts and result.structured is not None:
        parts = (TextPart(msgspec.json.encode(result.structured).decode()),)
    return ToolAnswer(use.id, use.name, parts, is_error=not result.success or result.mcp.get("isError") is True)


def failed(use: ToolRequest, message: str) -> ToolAnswer:
    """The answer to a call that was never made."""
    return ToolAnswer(use.id, use.name, (TextPart(message),), is_error=True)


def part_of(block: Mapping[str, Any]) -> TextPart | Picture | None:
    """A block of content for a model: words, an image, or words that name what it cannot be shown."""
    kind = block.get("type")
    if kind == "text":
        return TextPart(str(block.get("text", "")))
    if kind == "image":
        return Picture(str(block.get("mimeType") or "image/png"), str(block.get("data") or ""))
    if kind == "resource" and isinstance(resource := block.get("resource"), Mapping):
        return TextPart(str(resource["text"])) if "text" in resource else TextPart(_named(resource))
    if kind == "resource_link":
        return TextPart(_named(block))
    return TextPart(f"[{kind}, {block.get('mimeType', 'of unknown type')}: not shown]") if kind else None


def _named(resource: Mapping[str, Any]) -> str:
    return "[resource " + ", ".join(_facts(resource)) + "]"


def _facts(resource: Mapping[str, Any]) -> Iterator[str]:
    for key in ("uri", "name", "mimeType"):
        if resource.get(key):
            yield str(resource[key])


def turns_of(got: Result) -> list[Turn]:
    """The messages of a prompt as turns of a conversation, the last of them the user's; raises what came of a prompt
    that could not be got."""
    if got.error is not None:
        raise CallerError(got.error.message)
    messages = [one for one in got.mcp.get("messages") or () if isinstance(one, Mapping)]
    turns = [_turn(one) for one in messages]
    said = [turn for turn in turns if turn.parts]
    if not said or said[-1].role != "user":
        raise CallerError("The prompt ends without words of the user, so there is nothing to answer.")
    return said


def _turn(message: Mapping[str, Any]) -> Turn:
    content = message.get("content")
    blocks = content if isinstance(content, list) else [content]
    parts = tuple(part for block in blocks if isinstance(block, Mapping) and (part := part_of(block)) is not None)
    if message.get("role") == "assistant":
        return Turn("assistant", tuple(part for part in parts if isinstance(part, TextPart)))
    return Turn("user", parts)


@dataclass(frozen=True, slots=True)
class ModelSaid:
    """New words of the model."""

    text: str


@dataclass(frozen=True, slots=True)
class Started:
    """A tool is called."""

    id: str
    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool has answered."""

    id: str
    tool: str
    answer: ToolAnswer
    seconds: float


@dataclass(frozen=True, slots=True)
class Done:
    """The question is answered, or a limit was reached."""

    text: str
    """The model's last words."""
    reason: str
    """``end``, or what ended it before: ``turns``, ``budget``, ``length``, ``refusal``."""
    turns: int
    usage: TokenUsage


UserSaid: TypeAlias = str | Turn
AgentEvent: TypeAlias = ModelSaid | Started | ToolFinished | Done


UNFINISHED = "The answer was cut off at the limit of tokens, so this call was not made. Try again, with less."


class Toolbox(Protocol):
    """Whose tools an agent may use; a Crib is one."""

    async def tools(self, *, caller: Caller) -> Sequence[Tool]:
        """The tools, under the names they are called by."""

    async def call(self, name: str, arguments: Mapping[str, Any], *, caller: Caller, channel: BackChannel) -> Result:
        """Run one; failure is a result."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """How far an agent may go."""

    system: str = ""
    max_turns: int = 20
    """Answers of the model to one question."""
    max_tokens: int = 4096
    """Of one answer."""
    budget: int | None = None
    """Tokens for one question, read and written, all turns together."""
    stream: bool = True
    parallel: int = 16
    extra: Mapping[str, Any] = field(default_factory=dict)
    tools: frozenset[str] | None = None
    """The only tools it may use; ``None``: all that are open to its caller."""
    loaded: frozenset[str] | None = None
    """Tools the model knows from the start; it searches for the others itself, where its provider can do that."""


class Agent:
    """A model with tools, and the conversation so far."""

    def __init__(
        self,
        toolbox: Toolbox,
        model: Model,
        settings: AgentSettings | None = None,
        caller: Caller = LOCAL_USER,
        channel: BackChannel = SILENT,
    ) -> None:
        self.turns: list[Turn] = []
        self.usage = TokenUsage()
        self._tools, self._model = toolbox, model
        self._settings = settings or AgentSettings()
        self._caller, self._channel = caller, channel

    async def ask(self, question: str) -> Done:
        """The answer to a question, once there is one."""
        async with aclosing(self.run(question)) as events:
            async for event in events:
                if isinstance(event, Done):
                    return event
        raise CallerError("The agent ended without an answer.")

    async def run(self, question: UserSaid) -> AsyncGenerator[AgentEvent, None]:
        """What happens until the question is answered, ``Done`` last. Who stops listening stops it, tools included;
        the conversation then goes on from where it was consistent last."""
        began, before = len(self.turns), self.usage
        self.turns.append(user(question) if isinstance(question, str) else question)
        try:
            async with aclosing(self._rounds(before)) as events:
                async for event in events:
                    yield event
        finally:
            self._mend(began)

    async def _rounds(self, before: TokenUsage) -> AsyncGenerator[AgentEvent, None]:
        offer = await self._offer()
        reply: ModelReply | None = None
        for number in range(1, self._settings.max_turns + 1):
            async with aclosing(self._turn(offer)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, ModelReply):
                        reply = piece
                    else:
                        yield ModelSaid(piece)
            if reply is None:
                raise CallerError("The model ended without a turn.")
            uses = reply.turn.uses
            if not uses:
                yield self._done(reply, reply.stop, number, before)
                return
            async with aclosing(self._use(offer, reply)) as steps:
                async for step in steps:
                    yield step
            if self._settings.budget is not None and self.usage.total - before.total >= self._settings.budget:
                yield self._done(reply, "budget", number, before)
                return
        if reply is not None:
            yield self._done(reply, "turns", self._settings.max_turns, before)

    def _done(self, reply: ModelReply, reason: str, turns: int, before: TokenUsage) -> Done:
        spent = TokenUsage(
            self.usage.input - before.input, self.usage.output - before.output, self.usage.cached - before.cached
        )
        return Done(reply.turn.text, reason, turns, spent)

    async def _offer(self) -> DialectOffer:
        tools = await self._tools.tools(caller=self._caller)
        chosen = self._settings.tools
        wanted = [tool for tool in tools if chosen is None or tool.name in chosen]
        options = Options(loaded=self._settings.loaded) if self._settings.loaded is not None else None
        return dialect_of(self._model.api.dialect, options).offer(wanted)

    async def _turn(self, offer: DialectOffer) -> AsyncGenerator[str | ModelReply, None]:
        settings = self._settings
        request = ModelRequest(
            list(self.turns), settings.system, offer.tools, settings.max_tokens, settings.stream, settings.extra
        )
        async with aclosing(self._model.ask(request)) as pieces:
            async for piece in pieces:
                if isinstance(piece, ModelReply):
                    self.turns.append(piece.turn)
                    self.usage += piece.usage
                yield piece

    # Tools

    async def _use(self, offer: DialectOffer, reply: ModelReply) -> AsyncGenerator[AgentEvent, None]:
        """Run all calls of a turn at once; their answers go back in the order of the calls."""
        uses = reply.turn.uses
        answers: dict[int, ToolAnswer] = {}
        happened: asyncio.Queue[AgentEvent | Exception] = asyncio.Queue()
        places = asyncio.Semaphore(self._settings.parallel)
        was_cut = reply.stop == "length"

        async def one(position: int, use: ToolRequest) -> None:
            refusal = UNFINISHED if was_cut and position == len(uses) - 1 else ""
            try:
                async with places:
                    answers[position] = await self._one(offer, use, happened.put_nowait, refusal)
            except Exception as error:  # told where somebody listens, not when the task is thrown away
                happened.put_nowait(error)

        tasks = [asyncio.create_task(one(position, use)) for position, use in enumerate(uses)]
        try:
            while len(answers) < len(uses) or not happened.empty():
                event = await happened.get()
                if isinstance(event, Exception):
                    raise event
                yield event
        finally:
            await _end(tasks)
        self.turns.append(Turn("user", tuple(answers[position] for position in range(len(uses)))))

    async def _one(
        self, offer: DialectOffer, use: ToolRequest, tell: Callable[[AgentEvent], None], refusal: str
    ) -> ToolAnswer:
        """One call; whatever is wrong with it is an answer for the model."""
        name, arguments = offer.call(use.name, use.arguments)
        tell(Started(use.id, name, arguments))
        began = time.perf_counter()
        if use.problem or refusal:
            answer = failed(use, f"This call was not made: {use.problem}. Write it again." if use.problem else refusal)
        else:
            result = await self._call(name, arguments)
            answer = answer_of(use, result)
        tell(ToolFinished(use.id, name, answer, time.perf_counter() - began))
        return answer

    def _call(self, name: str, arguments: Mapping[str, Any]) -> Awaitable[Result]:
        if self._settings.tools is not None and name not in self._settings.tools:
            return _closed(name)
        return self._tools.call(name, arguments, caller=self._caller, channel=self._channel)

    def _mend(self, began: int) -> None:
        """Leave no tool call without its answer: no provider takes such a conversation."""
        if len(self.turns) > began and self.turns[-1].uses:
            open_uses = self.turns[-1].uses
            self.turns.append(Turn("user", tuple(failed(use, "The user stopped this.") for use in open_uses)))
        elif len(self.turns) == began + 1:
            del self.turns[began:]  # a question the model never answered


async def _closed(name: str) -> Result:
    return Result.failed(CallerError(f"{name} is not one of the tools of this agent."))


async def _end(tasks: Sequence["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
