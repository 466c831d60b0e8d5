"""smolagents: a ``Tool`` for each tool. Agents run in a thread; calls come back to the Crib's event loop.

A tool that raises would take the results of those called beside it along, so failures are told in words, unless
``raises`` is set: right for a ``CodeAgent``. Images reach the model with ``step_callbacks=[show_images]``.
"""

import asyncio
import keyword
import re
from base64 import b64decode
from collections.abc import Collection, Mapping
from io import BytesIO
from typing import Any

from toolcrib.adapters.offered import MissingFramework, Offered, failure, framework, offer_tools, without
from toolcrib.agents.loop import Toolbox
from toolcrib.core.access import LOCAL_USER, Caller
from toolcrib.core.errors import CallerError, ToolFailed
from toolcrib.models.talk import Picture, ToolAnswer
from toolcrib.schema.dialects.merge import types_of
from toolcrib.schema.dialects.names import NameRule
from toolcrib.schema.dialects.openai import SUBSET
from toolcrib.schema.dialects.subset import Subset

try:
    from smolagents import Tool
except ImportError as error:
    raise MissingFramework("smolagents", "smolagents") from error

_IDENTIFIERS = without(NameRule(re.compile(r"[A-Za-z_]\w*", re.ASCII), re.compile(r"\W", re.ASCII)), *keyword.kwlist)
_DIALECT = framework(
    "smolagents",
    names=without(_IDENTIFIERS, "final_answer"),
    parameters=without(_IDENTIFIERS, "self", "sanitize_inputs_outputs"),
    subset=Subset(without=SUBSET.without | {"anyOf"}, inlines=True, needs_items=True),
)
_TYPES = ["string", "number", "integer", "boolean", "object", "array", "null"]


async def tools(
    crib: Toolbox, *, names: Collection[str] | None = None, caller: Caller = LOCAL_USER, raises: bool = False
) -> list[Tool]:
    """The Crib's tools as the framework's; run the agent with ``await asyncio.to_thread(agent.run, task)``."""
    loop = asyncio.get_running_loop()
    return [
        SmolagentsTool(offered, loop, raises=raises) for offered in await offer_tools(crib, _DIALECT, names, caller)
    ]


class SmolagentsTool(Tool):
    """One tool of a Crib."""

    skip_forward_signature_validation = True
    output_type = "any"

    def __init__(self, offered: Offered, loop: asyncio.AbstractEventLoop, *, raises: bool) -> None:
        self.name, self.description = offered.name, offered.description or offered.name
        self.inputs = _inputs(offered.schema)
        self.pictures: list[Picture] = []
        """Those of its calls, until they are shown."""
        self._offered, self._loop, self._raises = offered, loop, raises
        self._droppable = _droppable(offered.schema)
        super().__init__()

    def forward(self, **arguments: Any) -> str:
        """Run it on the Crib's event loop, and wait."""
        if _is_inside(self._loop):
            raise CallerError(
                "The agent blocks the event loop that its tools need.",
                hint="Run it with `await asyncio.to_thread(agent.run, task)`.",
            )
        given = {key: value for key, value in arguments.items() if value is not None or key not in self._droppable}
        return self._told(asyncio.run_coroutine_threadsafe(self._offered.answer(given), self._loop).result())

    def _told(self, answer: ToolAnswer) -> str:
        if answer.is_error and self._raises:
            raise ToolFailed(answer.text)
        if answer.is_error:
            return failure(answer)
        self.pictures += answer.pictures
        return "\n".join([answer.text, *(f"[{picture.mime}]" for picture in answer.pictures)]).strip()


def show_images(step: Any, agent: Any) -> None:
    """A step callback: the images of the step's tool calls are shown to the model."""
    from PIL import Image

    used = [tool for tool in agent.tools.values() if isinstance(tool, SmolagentsTool) and tool.pictures]
    pictures = [picture for tool in used for picture in tool.pictures]
    for tool in used:
        tool.pictures = []
    if pictures:
        shown = [Image.open(BytesIO(b64decode(picture.data))) for picture in pictures]
        step.observations_images = [*(step.observations_images or ()), *shown]


def _inputs(schema: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    required = schema.get("required", ())
    return {name: _input(part, is_required=name in required) for name, part in schema["properties"].items()}


def _input(part: Any, *, is_required: bool) -> dict[str, Any]:
    """A parameter with a type and a description, which the framework insists on."""
    known = _mapping(part)
    kinds = list(types_of(known)) or _TYPES
    if "number" in kinds and "integer" not in kinds and len(kinds) > 1:
        kinds.append("integer")  # to the framework, an integer is no number among several types
    if "array" in kinds:
        known = {"items": {}, **known}
    shown = {**known, "type": kinds[0] if len(kinds) == 1 else kinds, "description": known.get("description") or "-"}
    return shown if is_required else {**shown, "nullable": True}


def _droppable(schema: Mapping[str, Any]) -> frozenset[str]:
    """Parameters for which ``None`` is no value but the framework's way to leave them out."""
    optional = schema["properties"].keys() - set(schema.get("required", ()))
    return frozenset(name for name in optional if "null" not in types_of(_mapping(schema["properties"][name])))


def _mapping(part: Any) -> Mapping[str, Any]:
    return part if isinstance(part, Mapping) else {}


def _is_inside(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
