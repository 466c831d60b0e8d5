"""A server that has every feature of the protocol, of one era only: ``server.py handshake|stateless stdio|PORT``.

Made with the official SDK, which serves both eras; a gate before it refuses the other one as servers of one era do.
"""

import hashlib
import json
import sys
import warnings
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp.server import NotificationOptions, Server
from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp.shared.subscriptions import ResourceUpdated, ToolsListChanged

warnings.simplefilter("ignore")  # the old features are asked for on purpose
ERA = sys.argv[1]
IS_MODERN = ERA == "stateless"
MODERN = "2026-07-28"
Context = ServerRequestContext[Any, Any]
OBJECT: dict[str, Any] = {"type": "object"}
TASKS = "io.modelcontextprotocol/tasks"
SKILLS = "io.modelcontextprotocol/skills"
RECIPE = "---\nname: brew\ndescription: Makes tea.\n---\nBoil water.\n"
RECIPE_URI = "skill://brew/SKILL.md"
DIGEST = f"sha256:{hashlib.sha256(RECIPE.encode()).hexdigest()}"
SKILL = {
    "uri": RECIPE_URI,
    "frontmatter": {"name": "brew", "description": "Makes tea."},
    "resources": [{"uri": RECIPE_URI, "digest": DIGEST, "size": len(RECIPE)}],
}
PAGE = "ui://brew/page.html"
APP = "text/html;profile=mcp-app"
CSP = {"ui": {"csp": {"connectDomains": ["https://tea.example"]}}}
bus = InMemorySubscriptionBus()
names = ["echo", "progress", "block", "was_cancelled", "grow", "touch", "log", "form", "url", "sample", "roots"]
names += ["meta", "fail", "task"]
cancelled: list[str] = []
tasks: dict[str, int] = {}


def tool(name: str) -> types.Tool:
    execution = {"execution": {"taskSupport": "optional"}} if name == "task" and not IS_MODERN else {}
    return types.Tool.model_validate(
        {"name": name, "description": f"The tool {name}.", "inputSchema": OBJECT} | execution
    )


def weather() -> types.Tool:
    schema = {"type": "object", "properties": {"degrees": {"type": "integer"}}, "required": ["degrees"]}
    return types.Tool.model_validate(
        {
            "name": "weather",
            "title": "Weather",
            "description": "The tool weather.",
            "inputSchema": OBJECT,
            "outputSchema": schema,
            "annotations": {"readOnlyHint": True},
            "icons": [{"src": "https://tea.example/icon.png"}],
            "_meta": {"tea.example/kind": "green"},
        }
    )


def app() -> types.Tool:
    about = {"ui": {"resourceUri": PAGE}}
    return types.Tool.model_validate(
        {"name": "app", "description": "Shows a page.", "inputSchema": OBJECT, "_meta": about}
    )


async def list_tools(_: Context, __: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[*map(tool, names), weather(), app()])


def said(text: str, **more: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)], **more)


async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> Any:
    if params.name not in TOOLS:
        raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown tool: {params.name}")
    return await TOOLS[params.name](ctx, params)


async def echo(_: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    return said(str((params.arguments or {}).get("text")))


async def tell_weather(*_: Any) -> types.CallToolResult:
    return said('{"degrees": 21}', structured_content={"degrees": 21})


async def progress(ctx: Context, _: Any) -> types.CallToolResult:
    for step in (1, 2):
        await ctx.session.report_progress(step, 2, f"step {step}")
    return said("done")


async def block(*_: Any) -> types.CallToolResult:
    try:
        await anyio.sleep(60)
    except anyio.get_cancelled_exc_class():
        cancelled.append("block")
        raise
    return said("nobody stopped me")


async def was_cancelled(*_: Any) -> types.CallToolResult:
    return said(str(len(cancelled)))


async def grow(ctx: Context, _: Any) -> types.CallToolResult:
    names.append(f"new{len(names)}")
    if IS_MODERN:
        await bus.publish(ToolsListChanged())
    else:
        await ctx.session.send_tool_list_changed()
    return said(names[-1])


async def touch(ctx: Context, _: Any) -> types.CallToolResult:
    if IS_MODERN:
        await bus.publish(ResourceUpdated(uri="memo://watched"))
    else:
        await ctx.session.send_resource_updated("memo://watched")
    return said("touched")


async def log(ctx: Context, _: Any) -> types.CallToolResult:
    for level in ("debug", "warning"):
        await ctx.session.send_log_message(level=level, data=f"a {level}", related_request_id=ctx.request_id)  # type: ignore[arg-type]
    return said("logged")


def asks(
    request: types.InputRequest, directly: Callable[[Context], Awaitable[Any]], answer: Callable[[Any], str]
) -> Callable[[Context, types.CallToolRequestParams], Awaitable[Any]]:
    """A tool that needs the client's answer: by a question in its result, or in the middle of the call."""

    async def ask(ctx: Context, params: types.CallToolRequestParams) -> Any:
        if not IS_MODERN:
            return said(answer(await directly(ctx)))
        if params.input_responses is None:
            return types.InputRequiredResult(input_requests={"q": request}, request_state="round one")
        return said(answer(params.input_responses["q"]) if params.request_state == "round one" else "state lost")

    return ask


FORM = {"type": "object", "properties": {"leaf": {"type": "string"}}, "required": ["leaf"]}
MESSAGES = [types.SamplingMessage(role="user", content=types.TextContent(text="Which tea?"))]
TOOLS: dict[str, Callable[[Context, types.CallToolRequestParams], Awaitable[Any]]] = {
    "echo": echo,
    "weather": tell_weather,
    "progress": progress,
    "block": block,
    "was_cancelled": was_cancelled,
    "grow": grow,
    "touch": touch,
    "log": log,
    "form": asks(
        types.ElicitRequest(params=types.ElicitRequestFormParams(message="Which leaf?", requested_schema=FORM)),
        lambda ctx: ctx.session.elicit_form("Which leaf?", FORM, ctx.request_id),
        lambda found: str((found.content or {}).get("leaf")),
    ),
    "url": asks(
        types.ElicitRequest(params=types.ElicitRequestURLParams(message="Sign in.", url="https://tea.example/in")),
        lambda ctx: ctx.session.elicit_url("Sign in.", "https://tea.example/in", "visit-1", ctx.request_id),
        lambda found: str(found.action),
    ),
    "sample": asks(
        types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=MESSAGES, max_tokens=10)),
        lambda ctx: ctx.session.create_message(MESSAGES, max_tokens=10, related_request_id=ctx.request_id),
        lambda found: str(found.content.text),
    ),
    "roots": asks(
        types.ListRootsRequest(), lambda ctx: ctx.session.list_roots(), lambda found: str(found.roots[0].uri)
    ),
}


async def meta(ctx: Context, _: Any) -> Any:
    sent = dict(ctx.meta or {}).get("tea.example/trace")
    return types.CallToolResult.model_validate(
        {"content": [{"type": "text", "text": str(sent)}], "_meta": {"tea.example/kept": [1, 2]}}
    )


async def fail(*_: Any) -> Any:
    raise MCPError(code=-32050, message="The kettle is cold.", data={"degrees": 7})


def about_task(task_id: str) -> dict[str, Any]:
    status = "completed" if tasks[task_id] > 1 else "working"
    fields: dict[str, Any] = {
        "taskId": task_id,
        "status": status,
        "createdAt": "2026-11-18T00:00:00Z",
        "lastUpdatedAt": "2026-11-18T00:00:00Z",
    }
    return fields | ({"ttlMs": 60000, "pollIntervalMs": 20} if IS_MODERN else {"ttl": 60000, "pollInterval": 20})


RESULT = {"content": [{"type": "text", "text": "steeped"}]}


def begin_task(params: Mapping[str, Any]) -> dict[str, Any] | None:
    """A task instead of a result, if the client takes one."""
    declared = (params.get("_meta") or {}).get("io.modelcontextprotocol/clientCapabilities") or {}
    if not (TASKS in (declared.get("extensions") or {}) if IS_MODERN else "task" in params):
        return None
    task_id = f"tea-{len(tasks)}"
    tasks[task_id] = 0
    return {"resultType": "task", **about_task(task_id)} if IS_MODERN else {"task": about_task(task_id)}


def get_task(params: Mapping[str, Any]) -> dict[str, Any]:
    tasks[params["taskId"]] += 1
    about = about_task(params["taskId"])
    if not IS_MODERN:
        return about
    return {"resultType": "complete", **about, **({"result": RESULT} if about["status"] == "completed" else {})}


def task_result(params: Mapping[str, Any]) -> dict[str, Any]:
    return {**RESULT, "_meta": {"io.modelcontextprotocol/related-task": {"taskId": params["taskId"]}}}


def about_tasks(method: str, params: Mapping[str, Any]) -> dict[str, Any] | None:
    """The answers that the SDK has no types for."""
    if method == "tools/call" and params.get("name") == "task":
        return begin_task(params)
    if method == "tasks/get":
        return get_task(params)
    return task_result(params) if method == "tasks/result" and not IS_MODERN else None


async def steep(*_: Any) -> types.CallToolResult:
    return said("steeped")


TOOLS |= {"meta": meta, "fail": fail, "task": steep, "app": echo}


async def list_resources(*_: Any) -> types.ListResourcesResult:
    entries = [
        {"uri": "memo://tea", "name": "tea", "mimeType": "text/plain", "title": "Tea"},
        {"uri": "memo://watched", "name": "watched"},
        {"uri": PAGE, "name": "page", "mimeType": APP},
        {"uri": RECIPE_URI, "name": "skill", "mimeType": "text/markdown"},
    ]
    return types.ListResourcesResult.model_validate({"resources": entries})


async def list_templates(*_: Any) -> types.ListResourceTemplatesResult:
    entry = {"uriTemplate": "memo://cups/{number}", "name": "cups"}
    return types.ListResourceTemplatesResult.model_validate({"resourceTemplates": [entry]})


CONTENTS: Mapping[str, list[dict[str, Any]]] = {
    "memo://tea": [{"text": "leaves", "mimeType": "text/plain"}, {"blob": "AAEC"}],
    "memo://watched": [{"text": "pot"}],
    "memo://cups/3": [{"text": "cup 3"}],
    PAGE: [{"text": "<p>tea</p>", "mimeType": APP, "_meta": CSP}],
    RECIPE_URI: [{"text": RECIPE, "mimeType": "text/markdown"}],
}


async def read(_: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    found = CONTENTS.get(str(params.uri))
    if found is None:
        code = types.INVALID_PARAMS if IS_MODERN else -32002
        raise MCPError(code=code, message="No such resource.", data={"uri": str(params.uri)})
    return types.ReadResourceResult.model_validate({"contents": [{"uri": str(params.uri), **each} for each in found]})


async def list_prompts(*_: Any) -> types.ListPromptsResult:
    entry = {"name": "greet", "description": "Greets.", "arguments": [{"name": "who", "required": True}]}
    return types.ListPromptsResult.model_validate({"prompts": [entry]})


async def get_prompt(_: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    text = types.TextContent(text=f"Good morning, {(params.arguments or {}).get('who')}.")
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=text)])


async def complete(_: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
    values = [value for value in ("green", "grey", "white") if value.startswith(params.argument.value)]
    return types.CompleteResult(completion=types.Completion(values=values))


async def nothing(*_: Any) -> types.EmptyResult:
    return types.EmptyResult()


async def list_skills(*_: Any) -> Any:
    return {"skills": [SKILL]} | ({"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if IS_MODERN else {})


def make_server() -> Server[Any]:
    legacy: dict[str, Any] = {
        "on_subscribe_resource": nothing,
        "on_unsubscribe_resource": nothing,
        "on_set_logging_level": nothing,
    }
    server: Server[Any] = Server(
        "tea",
        version="1",
        instructions="Pour slowly.",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
        **({"on_subscriptions_listen": ListenHandler(bus)} if IS_MODERN else legacy),
    )
    server.add_request_handler("skills/list", types.RequestParams, list_skills)
    declare(server)
    return server


def declare(server: Server[Any]) -> None:
    """Announce what the SDK does not know of."""
    found = server.get_capabilities

    def get_capabilities(*_: Any, **more: Any) -> types.ServerCapabilities:
        said = found(NotificationOptions(tools_changed=True), {}, protocol_version=more.get("protocol_version"))
        shown = said.model_dump(by_alias=True, exclude_none=True)
        shown["extensions"] = {SKILLS: {}, "io.modelcontextprotocol/ui": {}} | ({TASKS: {}} if IS_MODERN else {})
        if IS_MODERN:
            shown["logging"] = {}
        else:
            shown["tasks"] = {"requests": {"tools": {"call": {}}}}
        return types.ServerCapabilities.model_validate(shown)

    server.get_capabilities = get_capabilities  # type: ignore[method-assign]


def answer_here(message: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the SDK's server does not get to see: requests of the other era, which are refused, and of tasks."""
    if "method" not in message or "id" not in message:
        return None
    params = message.get("params") or {}
    sent = params.get("_meta") or {}
    is_modern = message["method"] == "server/discover" or "io.modelcontextprotocol/protocolVersion" in sent
    if is_modern == IS_MODERN:
        result = about_tasks(message["method"], params)
        return None if result is None else {"jsonrpc": "2.0", "id": message["id"], "result": result}
    error = {"code": -32022, "message": "Unsupported protocol version", "data": {"supported": [MODERN]}}
    if not IS_MODERN:
        error = {"code": -32601, "message": "Method not found"}
    return {"jsonrpc": "2.0", "id": message["id"], "error": error}


class Gate:
    """The same over HTTP."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._inner(scope, receive, send)
            return
        body, more = b"", True
        while more:
            part = await receive()
            body, more = body + part.get("body", b""), part.get("more_body", False)
        parsed = json.loads(body)
        said = answer_here(parsed) if isinstance(parsed, dict) else None
        if said is not None:
            await answer(send, 400 if "error" in said else 200, json.dumps(said).encode())
            return
        parts = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Any:
            return parts.pop() if parts else await receive()

        await self._inner(scope, again, send)


async def answer(send: Any, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def over_stdio(server: Server[Any]) -> None:
    async with stdio_server() as (read, write):
        sending, receiving = anyio.create_memory_object_stream[Any](0)

        async def gate() -> None:
            async with sending:
                async for item in read:
                    shown = (
                        item.message.model_dump(by_alias=True, exclude_none=True) if hasattr(item, "message") else {}
                    )
                    said = answer_here(shown)
                    if said is None:
                        await sending.send(item)
                    else:
                        await write.send(SessionMessage(types.jsonrpc_message_adapter.validate_python(said)))

        async with anyio.create_task_group() as group:
            group.start_soon(gate)
            await server.run(receiving, write, server.create_initialization_options())
            group.cancel_scope.cancel()


def main() -> None:
    server = make_server()
    if sys.argv[2] == "stdio":
        anyio.run(over_stdio, server)
        return
    app_ = Gate(server.streamable_http_app())
    uvicorn.run(app_, host="127.0.0.1", port=int(sys.argv[2]), log_level="error")


main()
