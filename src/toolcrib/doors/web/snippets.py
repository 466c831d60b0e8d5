"""A call to copy: for a shell, for Python, for the command line, and as JSON."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from toolcrib.doors.web.schema_parts import as_json


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
    from pprint import pformat

    return pformat(arguments, width=90, sort_dicts=False).replace("\n", "\n        ")
