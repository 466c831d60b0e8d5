"""toolcrib as the client under test: ``python client.py URL``, started by the suite once for each scenario.

The suite names the scenario in the environment. Most only want to see the server asked for its tools; `SCENARIOS` is
what the others want called. The questions a server asks on the way are answered with the defaults it proposes.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import toolcrib
from toolcrib.core.offers import OfferKind

Json = dict[str, Any]


class ObligingUser:
    """Somebody who accepts whatever is proposed."""

    capabilities: Mapping[str, Any] = {"elicitation": {}}
    takes_input_required = False
    wants_progress = False
    log_level = ""

    def notify(self, method: str, params: bytes) -> None:
        """Nothing is shown to anybody."""

    async def ask(self, method: str, params: bytes) -> bytes:
        """Accept, with the proposed value in each field."""
        fields = json.loads(params).get("requestedSchema", {}).get("properties", {})
        content = {name: field["default"] for name, field in fields.items() if "default" in field}
        return json.dumps({"action": "accept", "content": content}).encode()


async def call(crib: toolcrib.Crib, name: str, arguments: Json) -> None:
    """Call one tool and say on stderr what came of it."""
    result = await crib.call(name, arguments, channel=ObligingUser())
    print(f"{name}: {result!r}", file=sys.stderr)


async def add_numbers(crib: toolcrib.Crib) -> None:
    await call(crib, "add_numbers", {"a": 5, "b": 3})


async def call_what_the_context_names(crib: toolcrib.Crib) -> None:
    for wanted in json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])["toolCalls"]:
        await call(crib, wanted["name"], wanted["arguments"])


async def call_every_tool(crib: toolcrib.Crib) -> None:
    """With a word for each string and a number for each number, as far as the schema asks for them."""
    for tool in await crib.tools("mcp"):
        schema = tool["inputSchema"]
        kinds = {name: schema["properties"][name].get("type") for name in schema.get("required", [])}
        await call(crib, tool["name"], {name: EXAMPLES.get(kind, {}) for name, kind in kinds.items()})


async def return_the_schema(crib: toolcrib.Crib) -> None:
    """Send back one tool's schema as the other's argument, exactly as it is in the catalogue."""
    schemas = {tool["name"]: tool["inputSchema"] for tool in await crib.tools("mcp")}
    await call(crib, "json_schema_echo", {"schema": schemas["json_schema_2020_12_tool"]})


async def load_the_skill(crib: toolcrib.Crib) -> None:
    """Read what each skill begins with, and its other files only if that was what it should be."""
    for skill in await crib.offers(OfferKind.SKILL):
        first, *others = [one["uri"] for one in skill.extra["resources"]]
        begun = await crib.read(first)
        print(f"{first}: {begun!r}", file=sys.stderr)
        for uri in others if begun.success else ():
            await crib.read(uri)


async def only_list(_crib: toolcrib.Crib) -> None:
    """The tools have been listed already."""


EXAMPLES = {"string": "word", "integer": 1, "number": 1.5, "boolean": True, "array": [], "null": None}
SCENARIOS: dict[str, Callable[[toolcrib.Crib], Awaitable[None]]] = {
    "tools_call": add_numbers,
    "elicitation-sep1034-client-defaults": call_every_tool,
    "sse-retry": call_every_tool,
    "sep-2322-client-request-state": call_every_tool,
    "http-standard-headers": call_every_tool,
    "http-custom-headers": call_what_the_context_names,
    "http-invalid-tool-headers": call_every_tool,
    "json-schema-ref-no-deref": call_every_tool,
    "json-schema-2020-12-preservation": return_the_schema,
    **{f"sep-2640-client-verify-{what}": load_the_skill for what in ("digest", "size", "frontmatter")},
}


async def main(url: str) -> None:
    server = toolcrib_config(url)
    async with toolcrib.open_crib(server, prefix=False) as crib:
        tools = await crib.tools(grace_s=150)
        print(f"tools: {[tool.name for tool in tools]}; {crib.health()}", file=sys.stderr)
        await SCENARIOS.get(os.environ.get("MCP_CONFORMANCE_SCENARIO", ""), only_list)(crib)


def toolcrib_config(url: str) -> Any:
    """One server that may ask the user back."""
    from toolcrib.config.model import Config, ConnectConfig, ServerConfig

    suite = ServerConfig("suite", url=url, relay=("elicitation",))
    return Config(servers={"suite": suite}, connect=ConnectConfig(attempts=1))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
