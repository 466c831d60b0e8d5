"""Prompts and resources for agents of any framework: a prompt's messages as turns, what is read as words and images.

Most frameworks know messages and no prompts, so each module that has messages of its own gives them by ``prompt``; for
the others, and for programs without a framework, these functions are enough. To have a model itself find and read
resources, give it the tools of ``toolcrib.with_resources(crib)``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from toolcrib.agents.loop import part_of, turns_of
from toolcrib.core.access import LOCAL_USER, Caller
from toolcrib.core.errors import CallerError
from toolcrib.core.offers import Offer, OfferKind
from toolcrib.core.requests import Result
from toolcrib.models.talk import Picture, TextPart, Turn


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
