"""The description as one page for people: static HTML, no script, light or dark as the reader has it."""

import base64
import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import msgspec
from markupsafe import Markup


def render(document: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """The page, and the policy that lets it have its own style and nothing else.

    Only here is jinja2 loaded: who does not read it does without.
    """
    from jinja2 import Environment, StrictUndefined

    room = files("toolcrib.server.rest")
    style = (room / "reference.css").read_text("utf-8")
    made = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters |= {"as_json": _as_json, "split": str.split}
    text = made.from_string((room / "reference.html").read_text("utf-8")).render(
        info=document["info"],
        tags=_tags(document),
        shapes=sorted(document["components"]["schemas"].items()),
        style=Markup(style),  # noqa: S704 - a file of ours
    )
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    denied = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    return text.encode(), f"{denied}; style-src 'sha256-{digest}'".encode()


def _tags(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tags, each with its operations."""
    found = {tag["name"]: {**tag, "operations": []} for tag in document["tags"]}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            found[operation["tags"][0]]["operations"].append((method.upper(), path, operation))
    return list(found.values())


def _as_json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
