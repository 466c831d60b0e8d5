"""One client of one era asks for every feature: ``probes.py ERA TARGET SERVER_ERA``; TARGET is a URL or a JSON command.

Each feature is one exchange within a time limit; what came of it is a line of JSON on stdout.
"""

import asyncio
import json
import sys
import warnings
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from typing import Any

import mcp_types as types
from mcp.client.client import Client
from mcp.client.extension import advertise
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

ERA, TARGET, HAS_OTHER_ERA = sys.argv[1], sys.argv[2], sys.argv[3] != sys.argv[1]
IS_MODERN = ERA == "stateless"
LIMIT_S, CONNECT_S = 8.0, 60.0
TASKS, SKILLS, UI = (f"io.modelcontextprotocol/{name}" for name in ("tasks", "skills", "ui"))
APP = "text/html;profile=mcp-app"

warnings.simplefilter("ignore")


class Lost(Exception):
    """The feature did not arrive."""


def want(fact: object, otherwise: str) -> None:
    if not fact:
        raise Lost(otherwise)


class Probe:
    """A connected client, and what it was told and asked."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.logs: list[Any] = []
        self.news = asyncio.Event()
        self.client: Client
        self._stack = AsyncExitStack()

    async def open(self, patience_s: float) -> None:
        async with asyncio.timeout(patience_s):
            self.client = await self._stack.enter_async_context(self._client())
            if IS_MODERN:  # nothing has been sent yet: a program that is still starting gets its time here
                with suppress(MCPError):
                    await self.client.session.send_discover("2026-07-28")

    async def close(self) -> None:
        with suppress(Exception):  # whatever a half-dead connection raises, the next one is new
            async with asyncio.timeout(LIMIT_S):
                await self._stack.aclose()

    def _client(self) -> Client:
        return Client(
            self._transport(),
            mode="2026-07-28" if IS_MODERN else "legacy",
            sampling_callback=self._sample,
            list_roots_callback=self._roots,
            elicitation_callback=self._elicit,
            logging_callback=self._log,
            message_handler=self._hear,
            log_level="warning",
            extensions=[advertise(SKILLS), advertise(UI, {"mimeTypes": [APP]})],
            cache=None,
        )

    @staticmethod
    def _transport() -> Any:
        if TARGET.startswith("http"):
            return streamable_http_client(TARGET)
        command, *args = json.loads(TARGET)
        return stdio_client(StdioServerParameters(command=command, args=args), errlog=sys.stderr)

    async def _sample(self, *_: Any) -> types.CreateMessageResult:
        return types.CreateMessageResult(role="assistant", content=types.TextContent(text="oolong"), model="m")

    async def _roots(self, *_: Any) -> types.ListRootsResult:
        return types.ListRootsResult.model_validate({"roots": [{"uri": "file:///tea"}]})

    async def _elicit(self, _: Any, params: Any) -> types.ElicitResult:
        if getattr(params, "mode", "form") == "url":
            want(params.url == "https://tea.example/in", "another URL arrived")
            return types.ElicitResult(action="accept")
        return types.ElicitResult(action="accept", content={"leaf": "sencha"})

    async def _log(self, params: Any) -> None:
        self.logs.append((params.level, params.data))
        self.news.set()

    async def _hear(self, message: Any) -> None:
        self.told.append(message)
        self.news.set()

    async def raw(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Past the SDK's types, which do not know of tasks and skills."""
        session: Any = self.client.session
        data, options = {"method": method, "params": params}, dict[str, Any]()
        session._stamp(data, options)
        if IS_MODERN:  # only here, because the SDK's own calls would not know what to do with a task
            declared = data["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]
            declared["extensions"] = {**(declared.get("extensions") or {}), TASKS: {}}
        if "taskId" in params:
            options.setdefault("headers", {})["mcp-name"] = params["taskId"]
        found: dict[str, Any] = await session._dispatcher.send_raw_request(method, data["params"], options)
        return found

    async def said(self, tool: str, arguments: dict[str, Any] | None = None) -> str:
        result = await self.client.call_tool(tool, arguments or {})
        text = "".join(getattr(block, "text", "") for block in result.content)
        want(not result.is_error, text[:150])
        return text

    async def until(self, fact: Callable[[], object]) -> None:
        while not fact():
            self.news.clear()
            await self.news.wait()


async def list_tools(probe: Probe) -> None:
    tools = (await probe.client.list_tools()).tools
    want({"echo", "weather"} <= {tool.name for tool in tools}, f"{len(tools)} tools")


async def call_tool(probe: Probe) -> None:
    want(await probe.said("echo", {"text": "hot"}) == "hot", "another answer")


async def structured(probe: Probe) -> None:
    result = await probe.client.call_tool("weather", {})
    want(result.structured_content == {"degrees": 21}, f"structured content {result.structured_content}")


async def metadata(probe: Probe) -> None:
    tool = next(tool for tool in (await probe.client.list_tools()).tools if tool.name == "weather")
    shown = tool.model_dump(by_alias=True, exclude_none=True)
    for field in ("title", "outputSchema", "annotations", "icons"):
        want(field in shown, f"no {field}")
    want((tool.meta or {}).get("tea.example/kind") == "green", "no _meta")


async def request_meta(probe: Probe) -> None:
    result = await probe.client.call_tool("meta", {}, meta={"tea.example/trace": "t1"})  # type: ignore[typeddict-unknown-key]
    want(result.content[0].text == "t1", "the server did not get it")
    want((result.meta or {}).get("tea.example/kept") == [1, 2], "the client did not get it")


async def errors(probe: Probe) -> None:
    try:
        result = await probe.client.call_tool("fail", {})
    except MCPError as error:
        found = error.error
        want((found.code, found.data) == (-32050, {"degrees": 7}), f"code {found.code}, data {found.data}")
        want(found.message == "The kettle is cold.", f"message {found.message!r}")
        return
    raise Lost(f"a result instead of an error: {result.content[:1]}")


async def progress(probe: Probe) -> None:
    seen: list[float] = []

    async def hear(done: float, *_: Any) -> None:
        seen.append(done)
        probe.news.set()

    await probe.client.call_tool("progress", {}, progress_callback=hear)
    await probe.until(lambda: seen == [1, 2])


async def cancel(probe: Probe) -> None:
    before = await probe.said("was_cancelled")
    call = asyncio.ensure_future(probe.client.call_tool("block", {}))
    await asyncio.sleep(0.7)
    call.cancel()
    with suppress(asyncio.CancelledError, Exception):
        await call
    while await probe.said("was_cancelled") == before:
        await asyncio.sleep(0.1)


async def list_resources(probe: Probe) -> None:
    found = {str(one.uri): one.title for one in (await probe.client.list_resources()).resources}
    want(found.get("memo://tea") == "Tea", f"{sorted(found)[:4]}")


async def read(probe: Probe) -> None:
    found = (await probe.client.read_resource("memo://tea")).contents
    want([getattr(one, "text", getattr(one, "blob", "")) for one in found] == ["leaves", "AAEC"], f"{found}")


async def templates(probe: Probe) -> None:
    found = (await probe.client.list_resource_templates()).resource_templates
    want([one.uri_template for one in found] == ["memo://cups/{number}"], f"{found}")
    contents = (await probe.client.read_resource("memo://cups/3")).contents
    want(getattr(contents[0], "text", "") == "cup 3", f"{contents}")


async def not_found(probe: Probe) -> None:
    try:
        await probe.client.read_resource("memo://gone")
    except MCPError as error:
        wanted = types.INVALID_PARAMS if IS_MODERN else -32002
        want(error.error.code == wanted, f"code {error.error.code}")
        return
    raise Lost("no error")


async def again(probe: Probe, tool: str) -> None:
    """Make it happen until it was heard of: a gateway may still be about to listen to the server."""
    while True:
        await probe.said(tool)
        await asyncio.sleep(1.5)


async def heard(probe: Probe, tool: str, notice: str) -> None:
    probe.told.clear()
    cause = asyncio.ensure_future(again(probe, tool))
    try:
        await probe.until(lambda: any(getattr(one, "method", "") == notice for one in probe.told))
    finally:
        cause.cancel()


async def next_event(probe: Probe, tool: str, stream: Any) -> Any:
    cause = asyncio.ensure_future(again(probe, tool))
    try:
        return await anext(aiter(stream))
    finally:
        cause.cancel()


async def updated(probe: Probe) -> None:
    if IS_MODERN:
        async with probe.client.listen(resource_subscriptions=["memo://watched"]) as stream:
            event = await next_event(probe, "touch", stream)
            want("memo://watched" in str(event), f"{event}")
        return
    await probe.client.subscribe_resource("memo://watched")
    await heard(probe, "touch", "notifications/resources/updated")


async def list_changed(probe: Probe) -> None:
    before = {tool.name for tool in (await probe.client.list_tools()).tools}
    if IS_MODERN:
        async with probe.client.listen(tools_list_changed=True) as stream:
            await next_event(probe, "grow", stream)
    else:
        await heard(probe, "grow", "notifications/tools/list_changed")
    want({tool.name for tool in (await probe.client.list_tools()).tools} > before, "the list is the old one")


async def prompts(probe: Probe) -> None:
    found = (await probe.client.list_prompts()).prompts
    want([one.name for one in found] == ["greet"], f"{found}")
    made = await probe.client.get_prompt("greet", {"who": "Ada"})
    want(made.messages[0].content.text == "Good morning, Ada.", f"{made.messages}")  # type: ignore[union-attr]


async def completion(probe: Probe) -> None:
    found = await probe.client.complete(types.PromptReference(name="greet"), {"name": "who", "value": "gre"})
    want(found.completion.values == ["green", "grey"], f"{found.completion.values}")


async def logging(probe: Probe) -> None:
    if not IS_MODERN:
        await probe.client.set_logging_level("warning")
    await probe.said("log")
    await probe.until(lambda: ("warning", "a warning") in probe.logs)


async def form(probe: Probe) -> None:
    want(await probe.said("form") == "sencha", "another answer")


async def url(probe: Probe) -> None:
    want(await probe.said("url") == "accept", "another answer")


async def sampling(probe: Probe) -> None:
    want(await probe.said("sample") == "oolong", "another answer")


async def roots(probe: Probe) -> None:
    want(await probe.said("roots") == "file:///tea", "another answer")


async def tasks(probe: Probe) -> None:
    params: dict[str, Any] = {"name": "task", "arguments": {}} | ({} if IS_MODERN else {"task": {"ttl": 60000}})
    begun = await probe.raw("tools/call", params)
    if IS_MODERN and HAS_OTHER_ERA and begun.get("resultType") == "complete":
        want(begun["content"][0]["text"] == "steeped", f"{begun}")  # whether it is a task is not for the client to say
        return
    about = begun if IS_MODERN else begun.get("task", {})
    want(about.get("taskId"), f"no task: {str(begun)[:100]}")
    named = {"taskId": about["taskId"]}
    while (now := await probe.raw("tasks/get", named))["status"] == "working":
        await asyncio.sleep(0.05)
    want(now["status"] == "completed", now["status"])
    result = now["result"] if IS_MODERN else await probe.raw("tasks/result", named)
    want(result["content"][0]["text"] == "steeped", f"{result}")


async def apps(probe: Probe) -> None:
    tool = next(tool for tool in (await probe.client.list_tools()).tools if tool.name == "app")
    page = ((tool.meta or {}).get("ui") or {}).get("resourceUri", "")
    want(page.startswith("ui://"), f"resourceUri {page!r}")
    item = (await probe.client.read_resource(page)).contents[0]
    want(item.mime_type == APP, f"mime {item.mime_type}")
    want((item.meta or {}).get("ui", {}).get("csp"), "no CSP")


async def skills(probe: Probe) -> None:
    found = (await probe.raw("skills/list", {}))["skills"]
    want(found[0]["frontmatter"]["name"] == "brew", f"{found}")
    contents = (await probe.client.read_resource(found[0]["uri"])).contents
    want(getattr(contents[0], "text", "").endswith("Boil water.\n"), f"{contents}")


async def instructions(probe: Probe) -> None:
    said = probe.client.instructions
    if IS_MODERN:
        said = (await probe.client.session.send_discover("2026-07-28")).get("instructions")
    want("Pour slowly." in (said or ""), f"{said!r}")


async def ping(probe: Probe) -> None:
    await probe.client.send_ping()


PROBES: dict[str, Callable[[Probe], Awaitable[None]]] = {
    "tools/list": list_tools,
    "tools/call": call_tool,
    "structured output": structured,
    "titles, icons, annotations, _meta": metadata,
    "_meta of requests and results": request_meta,
    "errors of the server": errors,
    "progress": progress,
    "cancellation": cancel,
    "resources/list": list_resources,
    "resources/read": read,
    "resource templates": templates,
    "resource not found": not_found,
    "resource updates": updated,
    "list_changed": list_changed,
    "prompts": prompts,
    "completion": completion,
    "logging": logging,
    "elicitation, form": form,
    "elicitation, URL": url,
    "sampling": sampling,
    "roots": roots,
    "tasks": tasks,
    "apps": apps,
    "skills": skills,
    "instructions": instructions,
    "ping": ping,
}


async def try_one(work: Callable[[Probe], Awaitable[None]], probe: Probe) -> str:
    try:
        async with asyncio.timeout(LIMIT_S):
            await work(probe)
    except TimeoutError:
        return f"nothing came within {LIMIT_S:.0f} s"
    except BaseExceptionGroup as group:
        return words(group.exceptions[0])
    except Exception as error:
        return words(error)
    return ""


def words(error: BaseException) -> str:
    return " ".join((str(error) or type(error).__name__).split())[:150]


class Line:
    """A connection for one feature after the other; after a failure it is made anew."""

    def __init__(self) -> None:
        self._orders: asyncio.Queue[tuple[Callable[[Probe], Awaitable[None]], asyncio.Future[str]]] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._patience_s = CONNECT_S  # what never answered is not given that much time again

    async def run(self, work: Callable[[Probe], Awaitable[None]]) -> str:
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._serve())
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        await self._orders.put((work, answer))
        await asyncio.wait([answer, self._task], return_when=asyncio.FIRST_COMPLETED)
        return answer.result() if answer.done() else "the connection broke"

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=LIMIT_S)

    async def _serve(self) -> None:
        """One task opens the connection, uses it and closes it: the SDK insists."""
        probe = Probe()
        try:
            await probe.open(self._patience_s)
        except Exception as error:
            self._patience_s = LIMIT_S / 2
            await probe.close()
            (await self._orders.get())[1].set_result(f"no connection: {words(error)}")
            return
        self._patience_s = CONNECT_S
        try:
            while True:
                work, answer = await self._orders.get()
                problem = await try_one(work, probe)
                if problem:
                    await probe.close()
                answer.set_result(problem)
                if problem:
                    return
        finally:
            await probe.close()


async def main() -> None:
    line = Line()
    for name in sys.argv[4:] or PROBES:
        print(json.dumps({"feature": name, "problem": await line.run(PROBES[name])}), flush=True)
    await line.close()


asyncio.run(main())
