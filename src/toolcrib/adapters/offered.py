"""What every adapter begins with: a Crib's tools, under names and with schemas that a framework takes; and its prompts
and resources as plain values: turns, words and images.

Most frameworks know messages and no prompts, so each module whose framework has messages of its own gives them by
``prompt``. To have a model itself find and read resources, give it the tools of ``toolcrib.with_resources(crib)``.
"""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from toolcrib.agents.loop import Toolbox, answer_of, part_of, turns_of
from toolcrib.core.access import LOCAL_USER, Caller
from toolcrib.core.errors import CallerError, UnknownTool
from toolcrib.core.offers import Offer, OfferKind, Tool
from toolcrib.core.requests import SILENT, Result
from toolcrib.models.talk import Picture, TextPart, ToolAnswer, ToolRequest, Turn
from toolcrib.schema.dialects.names import PARAMETER_NAMES, TOOL_NAMES, NameRule
from toolcrib.schema.dialects.offer import Definition, Dialect, DialectOffer, Options, Shown, one_by_one, view_in
from toolcrib.schema.dialects.openai import SUBSET
from toolcrib.schema.dialects.subset import Subset


class MissingFramework(CallerError, ImportError):
    """An adapter's framework is not installed."""

    def __init__(self, framework: str, extra: str) -> None:
        super().__init__(f"{framework} is not installed.", hint=f'Run `pip install "toolcrib[{extra}]"`.')


@dataclass(frozen=True, slots=True)
class Offered:
    """One tool as a framework takes it."""

    name: str
    description: str
    schema: dict[str, Any]
    tool: Tool
    """As the catalogue has it."""
    run: Callable[[Mapping[str, Any]], Awaitable[Result]]
    """Calls it with arguments as the schema names them; failure is a result."""

    async def answer(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        """What came of a call, as words and images."""
        return answer_of(ToolRequest("", self.name), await self.run(arguments))


def framework(
    name: str, *, names: NameRule = TOOL_NAMES, parameters: NameRule = PARAMETER_NAMES, subset: Subset = SUBSET
) -> Dialect:
    """How a framework wants tools; schemas are such that any provider it may talk to takes them."""
    return Dialect(name, view_in(subset, parameters), _define, one_by_one, names=names)


def without(rule: NameRule, *reserved: str) -> NameRule:
    """The same rule, but for some words that mean something else."""
    words = "|".join(map(re.escape, reserved))
    return NameRule(re.compile(f"(?!(?:{words})$)(?:{rule.legal.pattern})"), rule.illegal, rule.limit)


class FrameworkOffer:
    """The tools a caller may use, or those of them that are named, for one framework.

    What no provider would take is left out. Names and schemas are worked out again only when the tools have changed.
    """

    def __init__(self, toolbox: Toolbox, dialect: Dialect, names: Collection[str] | None, caller: Caller) -> None:
        self._toolbox, self._dialect, self._caller = toolbox, dialect, caller
        self._names = None if names is None else list(names)
        self._tools: Sequence[Tool] | None = None
        self._offered: list[Offered] = []

    async def current(self) -> list[Offered]:
        """The tools as they are now."""
        tools = await self._toolbox.tools(caller=self._caller)
        if tools != self._tools:
            self._offered, self._tools = self._offer(tools), tools
        return list(self._offered)

    def _offer(self, tools: Sequence[Tool]) -> list[Offered]:
        offer = self._dialect.offer(tools if self._names is None else _named(tools, self._names))
        if self._names is not None:
            _refuse_left_out(offer)
        known = {tool.name: tool for tool in tools}

        async def run(name: str, arguments: Mapping[str, Any]) -> Result:
            original, translated = offer.call(name, arguments)
            return await self._toolbox.call(original, translated, caller=self._caller, channel=SILENT)

        return [_offered(one, known[offer.original(one["name"])], run) for one in offer.definitions]


async def offer_tools(
    toolbox: Toolbox, dialect: Dialect, names: Collection[str] | None = None, caller: Caller = LOCAL_USER
) -> list[Offered]:
    """The tools as they are now, once."""
    return await FrameworkOffer(toolbox, dialect, names, caller).current()


def failure(answer: ToolAnswer) -> str:
    """An error in words, for frameworks that cannot mark it as one."""
    return f"Error: {answer.text}"


def _offered(definition: Definition, tool: Tool, run: Callable[[str, Mapping[str, Any]], Awaitable[Result]]) -> Offered:
    name = definition["name"]
    return Offered(name, definition["description"], definition["schema"], tool, lambda arguments: run(name, arguments))


def _define(shown: Shown, _options: Options) -> Definition:
    schema = {"type": "object", "properties": {}} | shown.view.schema
    return {"name": shown.name, "description": shown.description, "schema": schema}


def _named(tools: Sequence[Tool], names: Collection[str]) -> list[Tool]:
    known = {tool.name: tool for tool in tools}
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None:
        raise UnknownTool(unknown, known=list(known))
    return [known[name] for name in dict.fromkeys(names)]


def _refuse_left_out(offer: DialectOffer) -> None:
    """Who asks for a tool by name is told that it cannot be had."""
    for name, reason in offer.left_out.items():
        raise CallerError(f"{name} cannot be offered to a model: {reason}.", hint="Leave it out of the names.")


class OfferBox(Protocol):
    """Whose prompts and resources are used; a Crib is one, and so is a profile of it."""

    async def offers(self, kind: OfferKind, *, caller: Caller) -> Sequence[Offer]:
        """What there is of one kind, under the names to ask for it by."""

    async def get(self, name: str, arguments: Mapping[str, str] | None, *, caller: Caller) -> Result:
        """Get a prompt; failure is a result."""

    async def read(self, name: str, *, caller: Caller) -> Result:
        """Read a resource; failure is a result."""


async def list_prompts(crib: OfferBox, *, caller: Caller = LOCAL_USER) -> list[Offer]:
    """The prompts a caller may use; ``input_schema`` says what arguments each takes."""
    return list(await crib.offers(OfferKind.PROMPT, caller=caller))


async def get_prompt(
    crib: OfferBox, name: str, arguments: Mapping[str, str] | None = None, *, caller: Caller = LOCAL_USER
) -> list[Turn]:
    """The messages of a prompt as turns of a conversation, the last of them the user's; ``CallerError`` if it cannot
    be got."""
    return turns_of(await crib.get(name, arguments, caller=caller))


async def list_resources(crib: OfferBox, *, caller: Caller = LOCAL_USER) -> list[Offer]:
    """The resources and resource templates a caller may read."""
    kinds = (OfferKind.RESOURCE, OfferKind.TEMPLATE)
    return [offer for kind in kinds for offer in await crib.offers(kind, caller=caller)]


async def read_resource(crib: OfferBox, uri: str, *, caller: Caller = LOCAL_USER) -> list[TextPart | Picture]:
    """What a resource says, by its URI or its name; ``CallerError`` if it cannot be read."""
    result = await crib.read(uri, caller=caller)
    if result.error is not None:
        raise CallerError(result.error.message)
    contents = result.mcp.get("contents")
    parts = (_part(one) for one in contents if isinstance(one, Mapping)) if isinstance(contents, list) else ()
    return [part for part in parts if part is not None]


def _part(content: Mapping[str, Any]) -> TextPart | Picture | None:
    kind, blob = str(content.get("mimeType") or ""), content.get("blob")
    if isinstance(blob, str) and kind.startswith("image/"):
        return Picture(kind, blob)
    return part_of({"type": "resource", "resource": content})


def said_parts(turn: Turn) -> list[TextPart | Picture]:
    """The words and images of a turn."""
    return [part for part in turn.parts if isinstance(part, TextPart | Picture)]
