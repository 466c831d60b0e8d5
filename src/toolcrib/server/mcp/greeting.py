"""What a client is told first: what there is, as capabilities and extensions, and how servers say that it is used."""

from collections.abc import Container, Mapping
from typing import Any

from toolcrib.catalog.catalog import Catalog, has_app
from toolcrib.core import skills
from toolcrib.core.access import Decision, decided_by
from toolcrib.core.names import APP_MIME, UI_EXTENSION
from toolcrib.core.offers import OfferKind
from toolcrib.wire.messages import Asker

_ANNOUNCED_AS = {
    OfferKind.RESOURCE: "resources",
    OfferKind.TEMPLATE: "resources",
    OfferKind.PROMPT: "prompts",
}


INSTRUCTIONS_EACH, INSTRUCTIONS_MAX = 2_000, 8_000
"""Characters of one server's instructions, and of all: a model reads them with every request."""


def join_instructions(own: str, texts: Mapping[str, str], *, is_alone: bool) -> str:
    """What servers say of their own use, under their names and shortened; that of a single one as it is."""
    if is_alone and not own:
        return next(iter(texts.values()), "")
    parts, left = [own] if own else [], INSTRUCTIONS_MAX
    for name, text in sorted(texts.items()):
        shown = text if len(text) <= min(INSTRUCTIONS_EACH, left) else f"{text[: min(INSTRUCTIONS_EACH, left)]} … [cut]"
        if left > 0:
            parts.append(f"## {name}\nHow the server {name!r} says its tools are used:\n{shown}")
        left -= len(shown)
    return "\n\n".join(parts)


def announced(catalog: Catalog, features: Container[str], *, is_whole: bool) -> dict[str, Any]:
    """The capabilities: only what something is behind; while a server is still unknown, what could be."""
    denied = Decision.DENIED
    kinds = {route.offer.kind for route in catalog.others.values() if decided_by(route.policy) is not denied}
    found: dict[str, Any] = {"tools": {"listChanged": True}}
    if not is_whole or kinds & {OfferKind.RESOURCE, OfferKind.TEMPLATE, OfferKind.SKILL}:
        can_subscribe = not is_whole or "subscribe" in features
        found["resources"] = {"listChanged": True} | ({"subscribe": True} if can_subscribe else {})
    if not is_whole or OfferKind.PROMPT in kinds:
        found["prompts"] = {"listChanged": True}
    if extensions := extensions_behind(catalog, features):
        found["extensions"] = extensions
    return found | {name: {} for name in ("completions", "logging") if not is_whole or name in features}


def extensions_behind(catalog: Catalog, features: Container[str]) -> dict[str, Any]:
    """What is announced of extensions: apps where a tool has one, skills where there are any."""
    found: dict[str, Any] = {}
    if any(has_app(route.offer.extra) for route in catalog.routes.values()):
        found[UI_EXTENSION] = {"mimeTypes": [APP_MIME]}
    if "skills" in features or any(route.offer.kind is OfferKind.SKILL for route in catalog.others.values()):
        found[skills.EXTENSION] = {"directoryRead": True} if "directories" in features else {}
    return found


def is_announced(kind: OfferKind, capabilities: Mapping[str, Any]) -> bool:
    """Whether clients are told that there is something of this kind; of tools they always are."""
    if kind is OfferKind.SKILL:
        return skills.EXTENSION in capabilities.get("extensions", {})
    return kind is OfferKind.TOOL or _ANNOUNCED_AS[kind] in capabilities


def speaks_apps(asker: Asker) -> bool:
    """Whether a client shows apps itself: then it knows which tools are not for the model."""
    extensions = asker.capabilities.get("extensions")
    return isinstance(extensions, Mapping) and UI_EXTENSION in extensions
