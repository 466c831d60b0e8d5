"""toolcrib as the client under test: ``python client.py URL``, started by the suite once for each scenario.

The suite names the scenario in the environment. Most only want to see the server asked for its tools; `SCENARIOS` is
what the others want called. The questions a server asks on the way are answered with the defaults it proposes. In the
scenarios of `auth/`, somebody signs in as often as toolcrib says that it is needed, and a tool is called.
"""

import asyncio
import json
import os
import sys
import tempfile
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import toolcrib
from toolcrib.config.model import Config, ConnectConfig, ServerConfig
from toolcrib.config.oauth import OAuthConfig
from toolcrib.core.errors import ToolcribError
from toolcrib.core.kinds import SignInMode
from toolcrib.core.offers import OfferKind
from toolcrib.stores.paths import Environment

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


SIGN_INS_MAX = 8
"""More than anybody would be asked for; the suite counts how many it takes."""
DOCUMENT = "https://conformance-test.local/client-metadata.json"
"""What the suite wants a client to call itself where the authorization server takes addresses."""


async def call_signed_in(crib: toolcrib.Crib) -> None:
    """Call the tool, and sign in as often as that needs it."""
    for _ in range(SIGN_INS_MAX):
        result = await crib.call("suite__test-tool", {})
        print(f"test-tool: {result!r}", file=sys.stderr)
        if result.error is None or result.error.code != "TOOL_AUTH_REQUIRED":
            return
        try:
            await sign_in(crib)
        except ToolcribError as error:
            print(f"not signed in: {error}", file=sys.stderr)
            return


async def sign_in(crib: toolcrib.Crib) -> None:
    """Open the address in a browser that follows it back to where toolcrib listens."""
    browsing: list[asyncio.Task[None]] = []

    def show(url: str) -> None:
        browsing.append(asyncio.create_task(asyncio.to_thread(browse, url)))

    async def paste_nothing() -> str:
        return await asyncio.Future()

    account = await crib.sign_ins.sign_in_here("suite", "", show, paste_nothing())
    print(f"signed in at {account.provider.issuer} for {account.tokens.scopes}", file=sys.stderr)
    await asyncio.gather(*browsing)
    await crib.servers.refresh("suite")


def browse(url: str) -> None:
    """Nobody has to agree at the suite's authorization servers."""
    with urllib.request.urlopen(url) as page:
        page.read()


def oauth_of(scenario: str, context: Mapping[str, str], env: dict[str, str]) -> OAuthConfig | None:
    """What a person would configure who was given what the suite gives."""
    if not scenario.startswith("auth/"):
        return None
    env |= {name.upper(): value for name, value in context.items()}
    secret = "${CLIENT_SECRET}" if "client_secret" in context else ""
    given: dict[str, Any] = {"client_id": context.get("client_id", DOCUMENT), "client_secret": secret}
    match scenario:
        case "auth/client-credentials-jwt":
            return OAuthConfig(SignInMode.CLIENT_CREDENTIALS, private_key="${PRIVATE_KEY_PEM}", **given)
        case "auth/client-credentials-basic":
            return OAuthConfig(SignInMode.CLIENT_CREDENTIALS, **given)
        case "auth/enterprise-managed-authorization":
            given |= {"idp": context["idp_issuer"], "idp_client_id": context["idp_client_id"]}
            return OAuthConfig(SignInMode.IDENTITY_ASSERTION, subject_token="${IDP_ID_TOKEN}", **given)
        case "auth/wif-jwt-bearer":
            return OAuthConfig(SignInMode.IDENTITY_ASSERTION, subject_token="${VALID_JWT}", **given)
        case _:
            return OAuthConfig(issuer=context.get("issuer", ""), **given)


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
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "HOME": home}
        oauth = oauth_of(scenario, context, env)
        around = Environment(Path(home), env)
        async with toolcrib.open_crib(config_of(url, oauth), prefix=oauth is not None, surroundings=around) as crib:
            tools = await crib.tools(grace_s=150)
            print(f"tools: {[tool.name for tool in tools]}; {crib.health()}", file=sys.stderr)
            await SCENARIOS.get(scenario, only_list if oauth is None else call_signed_in)(crib)


def config_of(url: str, oauth: OAuthConfig | None) -> Config:
    """One server that may ask the user back."""
    suite = ServerConfig("suite", url=url, relay=("elicitation",), oauth=oauth, connect_timeout_s=60)
    return Config(servers={"suite": suite}, connect=ConnectConfig(attempts=1))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
