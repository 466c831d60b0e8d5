"""What came of a call, as the page shows it: texts, pictures, data, or what went wrong and what to do."""

import base64
import binascii
import json
import shlex
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pprint import pformat
from typing import Any
from urllib.parse import quote

import msgspec

from toolcrib.core.requests import CallProgress, Result
from toolcrib.schema.text import printable
from toolcrib.server.web.schema_parts import as_json

LONGEST_TEXT = 60_000
LARGEST_TREE = 20_000
LARGEST_PICTURE = 1_000_000
PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})

ADVICE = {
    "TOOL_INVALID_INPUT": "Change the arguments above and run it again.",
    "TOOL_PERMISSION_DENIED": "Look at its policy on this page, or sign in with a token that may do more.",
    "TOOL_TIMEOUT": "Try it with less to do, or give it a longer timeout in the configuration.",
    "TOOL_AUTH_REQUIRED": "Sign in on the page of its server, then run it again.",
    "TOOL_UNAVAILABLE": "Look at its server: the page of the server shows what it wrote before it stopped.",
    "TOOL_RATE_LIMITED": "Wait a moment, then run it again.",
    "TOOL_NOT_FOUND": "It may have left the catalogue meanwhile. Look for it in the list of tools.",
    "TOOL_CANCELLED": "Somebody ended this call. Run it again if that was a mistake.",
}


@dataclass(frozen=True, slots=True)
class ShownBlock:
    """One piece of what a tool gave."""

    kind: str
    """``text``, ``picture`` or ``note``."""
    text: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class ShownResult:
    """A result, ready to be shown."""

    is_good: bool
    duration_s: float
    blocks: tuple[ShownBlock, ...] = ()
    data: str = ""
    """The structured content as JSON."""
    tree: Any = None
    """The same to fold and unfold, if it is small enough."""
    code: str = ""
    message: str = ""
    advice: str = ""
    call_id: str = ""


def outcome_of(result: Result, duration_s: float, call_id: str = "") -> ShownResult:
    """What to show of a result."""
    structured, error = result.structured, result.error
    data = "" if structured is None else as_json(structured)
    blocks = [_block(block) for block in result.content]
    if structured is not None or error is not None:  # what stands in the data or the message need not be read twice
        said = error.message if error is not None else None
        blocks = [
            found
            for block, found in zip(result.content, blocks, strict=True)
            if block.get("type") != "text" or not _is_repeated(str(block.get("text", "")), structured, said)
        ]
    return ShownResult(
        is_good=error is None,
        duration_s=duration_s,
        blocks=tuple(blocks),
        data=shortened(data),
        tree=structured if 0 < len(data) <= LARGEST_TREE else None,
        code=error.code if error else "",
        message=printable(error.message)[:LONGEST_TEXT] if error else "",
        advice=ADVICE.get(error.code, "") if error else "",
        call_id=call_id,
    )


def _is_repeated(text: str, structured: Any, said: str | None) -> bool:
    if said is not None and text.strip() == said.strip():
        return True
    if structured is None:
        return False
    try:
        return bool(msgspec.json.decode(text) == structured)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False


def shortened(text: str) -> str:
    """The beginning of a long text, and how much more there is."""
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]}\n… and {len(text) - LONGEST_TEXT:,} more characters"


def _block(block: Mapping[str, Any]) -> ShownBlock:
    kind = block.get("type")
    if kind == "text":
        return ShownBlock("text", shortened(printable(str(block.get("text", "")))))
    if kind == "image":
        return _picture(block)
    if kind == "audio":
        return ShownBlock(
            "note", f"A sound of {len(str(block.get('data', ''))) * 3 // 4:,} bytes, which is not played here."
        )
    if kind == "resource_link":
        name = str(block.get("name") or block.get("title") or "")[:200]
        return ShownBlock("note", f"A link to {str(block.get('uri', ''))[:500]}", name)
    if kind == "resource" and isinstance(block.get("resource"), Mapping):
        return _resource(block["resource"])
    return ShownBlock("text", shortened(as_json(dict(block))), "Something this page does not know")


def _resource(resource: Mapping[str, Any]) -> ShownBlock:
    label = str(resource.get("uri", ""))[:500]
    if isinstance(resource.get("text"), str):
        return ShownBlock("text", shortened(printable(resource["text"])), label)
    return ShownBlock("note", f"A file of {len(str(resource.get('blob', ''))) * 3 // 4:,} bytes.", label)


def _picture(block: Mapping[str, Any]) -> ShownBlock:
    """A picture inside the page; only what says it is one of the plain kinds, and is not too large."""
    kind, given = str(block.get("mimeType", "")).lower(), str(block.get("data", ""))
    size = len(given) * 3 // 4
    if kind not in PICTURES:
        return ShownBlock("note", f"A picture of type {kind[:60] or 'unknown'}, which is not shown here.")
    if size > LARGEST_PICTURE:
        return ShownBlock("note", f"A picture of {size:,} bytes, too large to be shown here.")
    try:
        content = base64.b64decode(given, validate=True)
    except (binascii.Error, ValueError):
        return ShownBlock("note", "A picture that is not written as it should be.")
    return ShownBlock(
        "picture", f"data:{kind};base64,{base64.b64encode(content).decode()}", f"{kind}, {len(content):,} bytes"
    )


LARGEST_KEPT = 20_000
KEPT_TRIES = 200


@dataclass(frozen=True, slots=True)
class TriedCall:
    """A call that somebody made on the page, to be made again."""

    id: str
    tool: str
    caller: str
    arguments: Mapping[str, Any]


class TriedCalls:
    """The last calls made on the page with their arguments, for whoever made them; kept in memory only."""

    def __init__(self) -> None:
        self._kept: deque[TriedCall] = deque(maxlen=KEPT_TRIES)
        self.progress: dict[str, CallProgress] = {}
        """How far those are that run, by the id of the call."""

    def hear(self, call_id: str, progress: CallProgress) -> None:
        """A call says how far it is."""
        self.progress[call_id] = progress

    def keep(self, tried: TriedCall) -> None:
        """Remember a call that has ended, unless its arguments are too large for that."""
        self.progress.pop(tried.id, None)
        if len(_line(dict(tried.arguments))) <= LARGEST_KEPT:
            self._kept.append(tried)

    def of(self, caller: str, tool: str) -> list[TriedCall]:
        """What somebody made of one tool, the newest first."""
        return [tried for tried in reversed(self._kept) if (tried.caller, tried.tool) == (caller, tool)]


@dataclass(frozen=True, slots=True)
class Snippet:
    """One way to make a call."""

    key: str
    label: str
    text: str


def snippets(name: str, arguments: Mapping[str, Any], mcp_url: str, *, needs_token: bool) -> list[Snippet]:
    """The same call, four times."""
    return [
        Snippet("cli", "Command line", _command_line(name, arguments)),
        Snippet("curl", "curl", _curl(name, arguments, mcp_url, needs_token=needs_token)),
        Snippet("python", "Python", _python(name, arguments)),
        Snippet("json", "JSON", as_json({"name": name, "arguments": dict(arguments)})),
    ]


def _command_line(name: str, arguments: Mapping[str, Any]) -> str:
    if all(key and "=" not in key and not key.endswith(":") and not key.startswith("-") for key in arguments):
        return " ".join(["toolcrib call", shlex.quote(name), *(_word(key, value) for key, value in arguments.items())])
    return f"toolcrib call {shlex.quote(name)} --input-json {shlex.quote(_line(arguments))}"


def _word(key: str, value: Any) -> str:
    """A text as it is, unless it could be taken for something else."""
    if isinstance(value, str) and not value.startswith("@") and not _is_json(value):
        return shlex.quote(f"{key}={value}")
    return shlex.quote(f"{key}:={_line(value)}")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _curl(name: str, arguments: Mapping[str, Any], mcp_url: str, *, needs_token: bool) -> str:
    url = f"{mcp_url.removesuffix('/mcp')}/api/v1/tools/{quote(name, safe='')}/call"
    lines = [f"curl -X POST {shlex.quote(url)}", "  -H 'content-type: application/json'"]
    if needs_token:
        lines.append('  -H "authorization: Bearer $TOOLCRIB_TOKEN"')
    lines.append(f"  -d {shlex.quote(_line({'arguments': dict(arguments)}))}")
    return " \\\n".join(lines)


def _python(name: str, arguments: Mapping[str, Any]) -> str:
    given = _literal(dict(arguments))
    return (
        "import asyncio\n\nfrom toolcrib import open_crib\n\n\n"
        "async def main() -> None:\n    async with open_crib() as crib:\n"
        f"        result = await crib.call({name!r}, {given})\n        print(result.data)\n\n\nasyncio.run(main())"
    )


def _literal(arguments: dict[str, Any]) -> str:
    return pformat(arguments, width=90, sort_dicts=False).replace("\n", "\n        ")
