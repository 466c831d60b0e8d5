"""The server behind the gateway while the official suite runs: every tool its scenarios call, and the resources
and prompts of ``upstream_offers.py``.

Runs inside the ``sdk2`` environment: ``python upstream.py stdio`` or ``python upstream.py http PORT``. Speaks both
eras. A tool that needs an answer from the client asks over the back channel where the connection has one (handshake
era) and otherwise ends the call with ``input_required`` and picks the answer up from the retry.
"""

import asyncio
import sys
import warnings
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import mcp.types as types
import task_tools
import upstream_offers as offers
from mcp.server import CacheHint, NotificationOptions, Server, ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

SILENCE_WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA=="
PAUSE_S = 0.05  # between notifications: the suite wants to see them arrive one by one

JsonSchema = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """One ``tools/call`` and the connection it came over."""

    ctx: ServerRequestContext[Any]
    params: types.CallToolRequestParams

    @property
    def arguments(self) -> Mapping[str, Any]:
        return self.params.arguments or {}

    @property
    def capabilities(self) -> types.ClientCapabilities:
        return self.ctx.session.client_capabilities or types.ClientCapabilities()


class NeedsInput(Exception):
    """The call cannot go on before the client has answered these requests."""

    def __init__(self, requests: types.InputRequests, state: str | None = None) -> None:
        super().__init__(f"needs {', '.join(requests)}")
        self.result = types.InputRequiredResult(input_requests=requests, request_state=state)


class IsTask(Exception):
    """The call is answered later."""

    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__("is a task")
        self.result = result


Run = Callable[[Call], Awaitable[list[types.ContentBlock]]]
TOOLS: dict[str, types.Tool] = {}
RUNS: dict[str, Run] = {}
BUS = InMemorySubscriptionBus()


def offer(name: str, properties: JsonSchema | None = None, **schema: Any) -> Callable[[Run], Run]:
    """Offer the decorated function as a tool; every property is required."""
    required = list(properties or {})
    default = {"type": "object", "properties": properties or {}, "required": required}

    def register(run: Run) -> Run:
        TOOLS[name] = types.Tool(name=name, description=run.__doc__, input_schema=schema or default)
        RUNS[name] = run
        return run

    return register


def text(words: str) -> list[types.ContentBlock]:
    return [types.TextContent(text=words)]


def image() -> types.ImageContent:
    return types.ImageContent(data=offers.PIXEL_PNG, mime_type="image/png")


def resource(uri: str, mime_type: str, words: str) -> types.EmbeddedResource:
    return types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, mime_type=mime_type, text=words))


def form(message: str, properties: JsonSchema, required: list[str] | None = None) -> types.ElicitRequest:
    """A question to the user."""
    schema = {"type": "object", "properties": properties, "required": required or list(properties)}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def prompt(words: str, max_tokens: int = 100) -> types.CreateMessageRequest:
    """A question to the client's model."""
    message = types.SamplingMessage(role="user", content=types.TextContent(text=words))
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(messages=[message], max_tokens=max_tokens)
    )


ANSWERS = {types.ElicitRequest: types.ElicitResult, types.CreateMessageRequest: types.CreateMessageResult}


async def ask(call: Call, key: str, request: types.ElicitRequest | types.CreateMessageRequest) -> Any:
    """The client's answer, over whichever way this connection offers."""
    answers = call.params.input_responses or {}
    if key in answers:
        return answers[key]
    if not call.ctx.session.can_send_request:
        raise NeedsInput({key: request})
    return await call.ctx.session.send_request(request, ANSWERS[type(request)])


def refuse_without(capability: str) -> NoReturn:
    """End the call because the client has not declared ``capability``."""
    data = {"requiredCapabilities": {capability: {}}}
    raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, f"This tool needs the {capability} capability.", data)


@offer("test_simple_text")
async def simple_text(_: Call) -> list[types.ContentBlock]:
    """Return one text."""
    return text("This is a simple text response for testing.")


@offer("test_image_content")
async def image_content(_: Call) -> list[types.ContentBlock]:
    """Return one image."""
    return [image()]


@offer("test_audio_content")
async def audio_content(_: Call) -> list[types.ContentBlock]:
    """Return one sound."""
    return [types.AudioContent(data=SILENCE_WAV, mime_type="audio/wav")]


@offer("test_embedded_resource")
async def embedded_resource(_: Call) -> list[types.ContentBlock]:
    """Return one embedded resource."""
    return [resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")]


@offer("test_multiple_content_types")
async def multiple_content_types(_: Call) -> list[types.ContentBlock]:
    """Return a text, an image and a resource."""
    mixed = resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return [*text("Multiple content types test:"), image(), mixed]


@offer("test_error_handling")
async def error_handling(_: Call) -> list[types.ContentBlock]:
    """Always fail."""
    raise ValueError("This tool intentionally returns an error for testing")


@offer("test_tool_with_logging")
async def with_logging(call: Call) -> list[types.ContentBlock]:
    """Send three log messages."""
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await call.ctx.session.send_log_message("info", words, related_request_id=call.ctx.request_id)
        await asyncio.sleep(PAUSE_S)
    return text("Tool with logging executed successfully")


@offer("test_logging_tool")
async def logging_tool(call: Call) -> list[types.ContentBlock]:
    """Send one log message, which only a client that asked for them may see."""
    await call.ctx.session.send_log_message("info", "Logged", related_request_id=call.ctx.request_id)
    return text("Logged")


@offer("test_tool_with_progress")
async def with_progress(call: Call) -> list[types.ContentBlock]:
    """Report progress three times."""
    for done in (0, 50, 100):
        await call.ctx.session.report_progress(done, 100)
        await asyncio.sleep(PAUSE_S)
    return text("Tool with progress executed successfully")


@offer("test_sampling", {"prompt": {"type": "string"}})
async def sampling(call: Call) -> list[types.ContentBlock]:
    """Ask the client's model."""
    answer = await ask(call, "sampling", prompt(call.arguments["prompt"]))
    return text(f"LLM response: {answer.content}")


@offer("test_elicitation", {"message": {"type": "string"}})
async def elicitation(call: Call) -> list[types.ContentBlock]:
    """Ask the user for a name and an address."""
    fields = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    answer = await ask(call, "elicitation", form(call.arguments["message"], fields))
    return text(f"User response: action={answer.action}, content={answer.content}")


@offer("test_elicitation_sep1034_defaults")
async def elicitation_defaults(call: Call) -> list[types.ContentBlock]:
    """Ask the user with a default for each primitive type."""
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    answer = await ask(call, "defaults", form("Please review these values", fields))
    return text(f"Elicitation completed: action={answer.action}, content={answer.content}")


@offer("test_elicitation_sep1330_enums")
async def elicitation_enums(call: Call) -> list[types.ContentBlock]:
    """Ask the user with each way to write an enumeration."""
    plain = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"{word} Option"} for n, word in enumerate(("First", "Second"), 1)]
    fields = {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    answer = await ask(call, "enums", form("Please choose", fields))
    return text(f"Elicitation completed: action={answer.action}, content={answer.content}")


ADDRESS = {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}


@offer(
    "json_schema_2020_12_tool",
    **{
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {"$anchor": "addressDef", **ADDRESS}},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
)
async def json_schema(call: Call) -> list[types.ContentBlock]:
    """Accept arguments described with the whole of JSON Schema 2020-12."""
    return text(f"Received {sorted(call.arguments)}")


@offer("test_header_parameter", {"region": {"type": "string", "x-mcp-header": "Region"}})
async def header_parameter(call: Call) -> list[types.ContentBlock]:
    """Take an argument that HTTP clients mirror into a header."""
    return text(f"Region: {call.arguments['region']}")


@offer("test_missing_capability")
async def missing_capability(call: Call) -> list[types.ContentBlock]:
    """Work only for a client that can sample."""
    if call.capabilities.sampling is None:
        refuse_without("sampling")
    return text("The client can sample.")


@offer("test_streaming_elicitation")
async def streaming_elicitation(call: Call) -> list[types.ContentBlock]:
    """Ask the user, in a stream that must not carry a request of its own."""
    answer = await ask(call, "confirm", form("Go on?", {"ok": {"type": "boolean"}}))
    return text(f"User response: {answer.action}")


@offer("test_trigger_tool_change")
async def trigger_tool_change(call: Call) -> list[types.ContentBlock]:
    """Add or remove a tool, and tell everybody who listens."""
    name = "test_sometimes_there"
    if TOOLS.pop(name, None) is None:
        TOOLS[name] = types.Tool(name=name, description="Comes and goes.", input_schema={"type": "object"})
    await BUS.publish(ToolsListChanged())
    if call.ctx.session.can_send_request:
        await call.ctx.session.send_tool_list_changed()
    return text(f"There are {len(TOOLS)} tools now.")


@offer("test_trigger_prompt_change")
async def trigger_prompt_change(call: Call) -> list[types.ContentBlock]:
    """Add or remove a prompt, and tell everybody who listens."""
    name = "test_sometimes_there"
    if offers.PROMPTS.pop(name, None) is None:
        offers.PROMPTS[name] = ()
    await BUS.publish(PromptsListChanged())
    if call.ctx.session.can_send_request:
        await call.ctx.session.send_prompt_list_changed()
    return text(f"There are {len(offers.PROMPTS)} prompts now.")


NAME = {"name": {"type": "string"}}


@offer("test_input_required_result_elicitation")
async def input_elicitation(call: Call) -> list[types.ContentBlock]:
    """Greet the user by name."""
    answer = await ask(call, "user_name", form("What is your name?", NAME))
    return text(f"Hello, {(answer.content or {}).get('name')}!")


@offer("test_input_required_result_sampling")
async def input_sampling(call: Call) -> list[types.ContentBlock]:
    """Pass on what the client's model said."""
    answer = await ask(call, "capital_question", prompt("What is the capital of France?"))
    return text(f"The model said: {answer.content}")


@offer("test_input_required_result_list_roots")
async def input_list_roots(call: Call) -> list[types.ContentBlock]:
    """Repeat the client's roots."""
    answers = call.params.input_responses or {}
    if "client_roots" not in answers:
        raise NeedsInput({"client_roots": types.ListRootsRequest()})
    return text(f"Roots: {answers['client_roots']}")


@offer("test_input_required_result_request_state")
async def input_request_state(call: Call) -> list[types.ContentBlock]:
    """Go on only from the state it gave out."""
    if call.params.request_state != "confirming":
        raise NeedsInput({"confirm": form("Please confirm", {"ok": {"type": "boolean"}})}, "confirming")
    return text("state-ok")


@offer("test_input_required_result_tampered_state")
async def input_tampered_state(call: Call) -> list[types.ContentBlock]:
    """Refuse a state it did not give out (the sealed state is checked before this runs)."""
    return await input_request_state(call)


@offer("test_input_required_result_multiple_inputs")
async def input_multiple(call: Call) -> list[types.ContentBlock]:
    """Ask the user, the model and the roots at once."""
    requests: types.InputRequests = {
        "user_name": form("What is your name?", NAME),
        "greeting": prompt("Generate a greeting", 50),
        "client_roots": types.ListRootsRequest(),
    }
    if not requests.keys() <= (call.params.input_responses or {}).keys():
        raise NeedsInput(requests, "asked")
    return text("All three answered.")


@offer("test_input_required_result_multi_round")
async def input_multi_round(call: Call) -> list[types.ContentBlock]:
    """Ask twice, one round after the other."""
    rounds = {
        None: ({"step1": form("Step 1: What is your name?", NAME)}, "after step 1"),
        "after step 1": (
            {"step2": form("Step 2: What is your favorite color?", {"color": {"type": "string"}})},
            "after step 2",
        ),
    }
    if call.params.request_state in rounds:
        raise NeedsInput(*rounds[call.params.request_state])
    return text("Both steps done.")


@offer("test_input_required_result_capabilities")
async def input_capabilities(call: Call) -> list[types.ContentBlock]:
    """Ask only what the client can answer."""
    requests: types.InputRequests = {}
    if call.capabilities.sampling is not None:
        requests["greeting"] = prompt("Generate a greeting", 50)
    if call.capabilities.elicitation is not None:
        requests["user_name"] = form("What is your name?", NAME)
    if requests and not call.params.input_responses:
        raise NeedsInput(requests)
    return text("Nothing to ask.")


@offer("greet", NAME)
async def greet(call: Call) -> list[types.ContentBlock]:
    """Greet somebody, at once."""
    return text(f"Hello, {call.arguments['name']}!")


@offer("test_tool_with_task")
async def tool_with_task(call: Call) -> list[types.ContentBlock]:
    """Ask for a name, then greet later."""
    answer = await ask(call, "user_name", form("What is your name?", NAME))
    raise IsTask(task_tools.begin(task_tools.greet_later, answer.content or {}))


for job, (_, properties, _) in task_tools.JOBS.items():
    TOOLS[job] = types.Tool(
        name=job,
        description="Answer later.",
        input_schema={"type": "object", "properties": properties, "required": list(properties)},
    )


async def list_tools(_ctx: Any, _params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[TOOLS[name] for name in sorted(TOOLS)])


async def call_tool(
    ctx: ServerRequestContext[Any], params: types.CallToolRequestParams
) -> types.CallToolResult | types.InputRequiredResult | dict[str, Any]:
    if params.name in task_tools.JOBS:
        return await task_tools.run_job(params.name, params.arguments or {}, Call(ctx, params).capabilities)
    if params.name not in RUNS:
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
    try:
        return types.CallToolResult(content=await RUNS[params.name](Call(ctx, params)))
    except (NeedsInput, IsTask) as other:
        return other.result
    except ValueError as error:
        return types.CallToolResult(content=text(str(error)), is_error=True)


async def set_logging_level(_ctx: Any, _params: Any) -> types.EmptyResult:
    return types.EmptyResult()


def build() -> Server[Any]:
    server: Server[Any] = Server(
        "conformance-upstream",
        version="1",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_set_logging_level=set_logging_level,
        on_list_resources=offers.list_resources,
        on_list_resource_templates=offers.list_templates,
        on_read_resource=offers.read_resource,
        on_subscribe_resource=offers.subscribe,
        on_unsubscribe_resource=offers.unsubscribe,
        on_list_prompts=offers.list_prompts,
        on_get_prompt=offers.make_get_prompt(form("What is it for?", {"context": {"type": "string"}})),
        on_completion=offers.complete,
        on_subscriptions_listen=ListenHandler(BUS),
        get_tool_input_schema=lambda name: TOOLS[name].input_schema if name in TOOLS else None,
        cache_hints={"tools/list": CacheHint(ttl_ms=0, scope="public")},
    )
    task_tools.add_tasks(server)
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=server.name))
    return server


async def serve_stdio() -> None:
    server = build()
    changes = NotificationOptions(tools_changed=True, prompts_changed=True, resources_changed=True)
    options = server.create_initialization_options(changes)
    async with stdio_server() as (read, write):
        await server.run(read, write, options)


def serve_http(port: int) -> None:
    import uvicorn  # only this way of serving needs it

    uvicorn.run(build().streamable_http_app(), host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    warnings.simplefilter("ignore", MCPDeprecationWarning)  # handshake-era features are here to be tested
    if sys.argv[1] == "http":
        serve_http(int(sys.argv[2]))
    else:
        asyncio.run(serve_stdio())
