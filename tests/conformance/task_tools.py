"""The tools of the upstream that are answered later, and the methods of the tasks extension; in memory, for one run.

The SDK has no tasks, but takes methods and kinds of results of extensions. Without the extension a tool is run at once,
or refused where it can only be a task.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import mcp.types as types
from mcp.server import Server
from mcp.shared.exceptions import MCPError

EXTENSION = "io.modelcontextprotocol/tasks"
TEXT = {"type": "string"}


class TaskParams(types.RequestParams):
    """What the methods about a task are asked with."""

    task_id: str
    input_responses: dict[str, Any] | None = None


@dataclass
class Task:
    """One task, and what it waits for."""

    work: "asyncio.Task[str] | None" = None
    asked: dict[str, Any] = field(default_factory=dict)
    answers: dict[str, "asyncio.Future[Any]"] = field(default_factory=dict)
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat())

    async def ask(self, key: str, message: str) -> Any:
        """What the client says to a question."""
        schema = {"type": "object", "properties": {"confirm": {"type": "boolean"}, "name": TEXT}}
        self.asked[key] = {
            "method": "elicitation/create",
            "params": {"mode": "form", "message": message, "requestedSchema": schema},
        }
        self.answers[key] = asyncio.get_running_loop().create_future()
        return await self.answers[key]

    def state(self) -> dict[str, Any]:
        """How it stands, without its id."""
        shown: dict[str, Any] = {
            "createdAt": self.created,
            "lastUpdatedAt": datetime.now(UTC).isoformat(),
            "ttlMs": 600_000,
            "pollIntervalMs": 100,
        }
        waiting = {key: asked for key, asked in self.asked.items() if not self.answers[key].done()}
        if self.work is None or not self.work.done():
            return shown | (
                {"status": "input_required", "inputRequests": waiting} if waiting else {"status": "working"}
            )
        return shown | self._end(self.work)

    def _end(self, work: "asyncio.Task[str]") -> dict[str, Any]:
        if work.cancelled():
            return {"status": "cancelled"}
        match work.exception():
            case None:
                return {"status": "completed", "result": said(work.result())}
            case ValueError() as error:
                return {"status": "completed", "result": said(str(error)) | {"isError": True}}
            case error:
                return {"status": "failed", "error": {"code": -32603, "message": str(error)}}


def said(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}


TASKS: dict[str, Task] = {}
Work = Callable[[Task, Mapping[str, Any]], Awaitable[str]]


async def slow_compute(_task: Task, arguments: Mapping[str, Any]) -> str:
    await asyncio.sleep(arguments["seconds"])
    return f"computed {arguments.get('label')}"


async def failing_job(_task: Task, _arguments: Mapping[str, Any]) -> str:
    await asyncio.sleep(0.3)
    raise ValueError("The job failed, as it should.")


async def protocol_error_job(_task: Task, _arguments: Mapping[str, Any]) -> str:
    raise RuntimeError("The job went to pieces.")


async def confirm_delete(task: Task, arguments: Mapping[str, Any]) -> str:
    answer = await task.ask("confirm", f"Delete {arguments['filename']}?")
    return f"{arguments['filename']}: {answer['action']}"


async def multi_input(task: Task, _arguments: Mapping[str, Any]) -> str:
    await asyncio.gather(task.ask("first", "One?"), task.ask("second", "Two?"))
    return "both answered"


async def greet_later(_task: Task, arguments: Mapping[str, Any]) -> str:
    return f"Hello, {arguments['name']}!"


JOBS: dict[str, tuple[Work, dict[str, Any], bool]] = {
    "slow_compute": (slow_compute, {"seconds": {"type": "number"}, "label": TEXT}, False),
    "failing_job": (failing_job, {}, True),
    "protocol_error_job": (protocol_error_job, {}, False),
    "confirm_delete": (confirm_delete, {"filename": TEXT}, True),
    "multi_input": (multi_input, {}, True),
}
"""The work of each tool, its properties, and whether it can only be a task."""


def knows_tasks(capabilities: types.ClientCapabilities) -> bool:
    return EXTENSION in (capabilities.extensions or {})


def begin(work: Work, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a call that became a task."""
    task, task_id = Task(), str(uuid.uuid4())
    TASKS[task_id] = task
    task.work = asyncio.ensure_future(work(task, arguments))
    task.work.add_done_callback(lambda done: done.cancelled() or done.exception())
    return {"resultType": "task", "taskId": task_id, **task.state()}


async def run_job(name: str, arguments: Mapping[str, Any], capabilities: types.ClientCapabilities) -> dict[str, Any]:
    """Run one of the jobs: as a task, at once, or not at all."""
    work, _, is_required = JOBS[name]
    if knows_tasks(capabilities):
        return begin(work, arguments)
    if is_required:
        raise missing()
    return {"resultType": "complete", **said(await work(Task(), arguments))}


def missing() -> MCPError:
    needed = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
    return MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "This needs the tasks extension.", needed)


def find(ctx: Any, params: TaskParams) -> Task:
    if not knows_tasks(ctx.session.client_capabilities or types.ClientCapabilities()):
        raise missing()
    if params.task_id not in TASKS:
        raise MCPError(types.INVALID_PARAMS, "Task not found")
    return TASKS[params.task_id]


async def get(ctx: Any, params: TaskParams) -> dict[str, Any]:
    return {"taskId": params.task_id, **find(ctx, params).state()}


async def update(ctx: Any, params: TaskParams) -> dict[str, Any]:
    task = find(ctx, params)
    for key, answer in (params.input_responses or {}).items():
        if key in task.answers and not task.answers[key].done():
            task.answers[key].set_result(answer)
    await asyncio.sleep(0)
    return {}


async def cancel(ctx: Any, params: TaskParams) -> dict[str, Any]:
    task = find(ctx, params)
    if task.work is not None:
        task.work.cancel()
    return {}


def add_tasks(server: Server[Any]) -> None:
    """Serve the extension."""
    server.extensions[EXTENSION] = {}
    for name, handler in (("get", get), ("update", update), ("cancel", cancel)):
        server.add_request_handler(f"tasks/{name}", TaskParams, handler)
