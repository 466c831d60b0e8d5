"""Long work of servers: handed on to clients that know tasks, followed here for all others."""

import asyncio
import json
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from toolcrib.calls.layers.deadline import deadline
from toolcrib.calls.pipeline import Subject
from toolcrib.core.access import Caller
from toolcrib.core.errors import CallTimeout, ConnectionLost, OutcomeUnknown, ProtocolError, RemoteError, ToolFailed
from toolcrib.core.kinds import TaskAction, TaskStatus
from toolcrib.core.long_work import EXTENSION, TaskState
from toolcrib.core.offers import RequestKind, Tool
from toolcrib.core.requests import Request
from toolcrib.core.source import Listing
from toolcrib.sources.mcp.comeback import SupervisorSettings
from toolcrib.sources.mcp.negotiate import ClientIdentity
from toolcrib.sources.mcp.source import McpSource
from toolcrib.sources.mcp.supervise import Supervisor
from toolcrib.sources.mcp.tasks import POLL_LEAST_S, POLL_MOST_S, SAME_FOR_S, TTL_MS, ServerTasks
from toolcrib.testing import FakeServer, RecordingChannel
from toolcrib.wire.results import read_head

MODERN, OLD = "2026-07-28", "2025-11-25"
KNOWS = {"extensions": {EXTENSION: {}}}
DONE = {"content": [{"type": "text", "text": "done"}]}
ASK = {"method": "elicitation/create", "params": {"message": "Sure?"}}


def said(status: str, **more: Any) -> dict[str, Any]:
    return {"taskId": "t1", "status": status, "createdAt": "2026-07-28T10:00:00Z", "ttlMs": 1000, **more}


class Server:
    """What a server says to each question about its work, in order, and what it was asked."""

    def __init__(self, *answers: Any, era: str = MODERN, tools: tuple[Tool, ...] = ()) -> None:
        self.answers, self.asked, self.slept = list(answers), [], []
        self.now, self.gate = 0.0, asyncio.Event()
        self.gate.set()
        self.tasks = ServerTasks("srv", self.ask, now=lambda: self.now, sleep=self.sleep)
        self.tasks.adopt(Listing(tools, era=era, features=("tasks",)))

    async def ask(self, call: Request, action: TaskAction, params: Any) -> Raw:
        del call
        self.asked.append((str(action), dict(params)))
        await self.gate.wait()
        answer = self.answers.pop(0) if self.answers else {}
        if isinstance(answer, Exception):
            raise answer
        return Raw(json.dumps(answer).encode())

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)

    async def settle(self, call: Request) -> Any:
        raw, _ = await self.tasks.settle(call, TaskState("t1", tool=call.name))
        return json.loads(bytes(raw))


def call(channel: RecordingChannel | None = None, **fields: Any) -> Request:
    return Request("srv__dig", "dig", fields.pop("arguments", {}), channel=channel or RecordingChannel(), **fields)


def with_support(said: str) -> Tool:
    return Tool("dig", extra={"execution": {"taskSupport": said}})


# Followed here


async def test_work_is_asked_about_until_it_ends():
    """The call is answered with its result."""
    server = Server(said("working"), said("working"), said("completed", result=DONE))

    assert await server.settle(call()) == DONE
    assert server.asked == [("get", {"taskId": "t1"})] * 3


async def test_a_server_says_how_often_it_is_asked_within_bounds():
    """Neither in a storm nor next year; and never all at the same moment."""
    server = Server(
        said("working", pollIntervalMs=1), said("working", pollIntervalMs=10**12), said("completed", result=DONE)
    )

    await server.settle(call())

    assert [POLL_LEAST_S * 0.9 <= pause <= POLL_LEAST_S * 1.1 for pause in server.slept[1:2]] == [True]
    assert POLL_MOST_S * 0.9 <= server.slept[2] <= POLL_MOST_S * 1.1


async def test_a_server_that_does_not_say_is_asked_less_and_less_often():
    """Up to a bound."""
    server = Server(*[said("working")] * 30, said("completed", result=DONE))

    await server.settle(call())

    assert server.slept[0] < server.slept[5] < server.slept[-1] <= POLL_MOST_S * 1.1


async def test_what_a_task_says_of_itself_is_progress():
    """Each thing once, always rising."""
    channel = RecordingChannel(wants_progress=True)
    server = Server(
        said("working", statusMessage="a"),
        said("working", statusMessage="a"),
        said("working", statusMessage="b"),
        said("completed", result=DONE),
    )

    await server.settle(call(channel))

    assert [(told["progress"], told["message"]) for _, told in channel.told] == [(1, "a"), (2, "b")]


async def test_what_a_task_asks_is_asked_of_the_client_once():
    """However long the server takes to see the answer."""
    channel = RecordingChannel({"elicitation/create": {"action": "accept"}}, capabilities={"elicitation": {}})
    asks = said("input_required", inputRequests={"q": ASK})
    server = Server(asks, {}, asks, said("completed", result=DONE))

    assert await server.settle(call(channel)) == DONE
    assert channel.asked == [("elicitation/create", {"message": "Sure?"})]
    assert [one for one in server.asked if one[0] == "update"] == [
        ("update", {"taskId": "t1", "inputResponses": {"q": {"action": "accept"}}})
    ]


async def test_a_task_that_asks_without_end_is_stopped():
    """By the number of its questions."""
    channel = RecordingChannel({"elicitation/create": {"action": "accept"}}, capabilities={"elicitation": {}})
    rounds = [
        one for n in range(200) for one in (said("input_required", inputRequests={f"q{n}": ASK}), {"resultType": "x"})
    ]

    with pytest.raises(ProtocolError, match="more than 100 times"):
        await Server(*rounds).settle(call(channel))


@pytest.mark.parametrize(
    ("end", "raised", "words"),
    [
        (said("failed", error={"code": -32000, "message": "Broken."}), RemoteError, "Broken"),
        (said("failed"), RemoteError, "It failed"),
        (said("cancelled", statusMessage="no time"), ToolFailed, "called off its work on srv__dig: no time"),
        (said("completed"), ProtocolError, "gives no result"),
        (said("completed", result=DONE) | {"taskId": "t2"}, ProtocolError, "answered about another"),
        (said("dreaming"), ProtocolError, "its status is 'dreaming'"),
        ([], ProtocolError, "not a task"),
        ({"status": "working"}, ProtocolError, "no taskId"),
        (said("input_required", inputRequests=[1]), ProtocolError, "not a task"),
        (said("input_required", inputRequests={f"k{n}": ASK for n in range(101)}), ProtocolError, "more than 100"),
        (RemoteError(-32602, "Task not found"), OutcomeUnknown, "does not know its work on srv__dig any more"),
        (RemoteError(-32000, "Later."), RemoteError, "Later"),
    ],
)
async def test_work_that_ends_otherwise_is_told_as_it_was(end, raised, words):
    """Nothing a server says of it is taken for a result that is none."""
    with pytest.raises(raised, match=words):
        await Server(end).settle(call())


async def test_work_outlives_a_connection():
    """It is asked about again on the next one."""
    server = Server(ConnectionLost("gone"), said("completed", result=DONE))

    assert await server.settle(call()) == DONE


async def test_work_whose_call_is_given_up_is_called_off():
    """Whoever gave up does not wait for that."""
    server = Server(said("working"))
    server.gate.clear()
    following = asyncio.ensure_future(server.settle(call()))
    while not server.asked:
        await asyncio.sleep(0)

    following.cancel()
    await asyncio.wait([following])
    server.gate.set()
    while len(server.asked) < 2:
        await asyncio.sleep(0)

    assert following.cancelled()
    assert server.asked[1] == ("cancel", {"taskId": "t1"})
    await server.tasks.close()


async def test_the_result_of_a_handshake_era_task_is_asked_for_in_a_question_of_its_own():
    """Which is also where it asks what it wants to know."""
    ended, asking = Server(said("completed"), DONE, era=OLD), Server(said("input_required"), DONE, era=OLD)

    assert [await ended.settle(call()), await asking.settle(call())] == [DONE, DONE]
    assert [action for action, _ in ended.asked] == [action for action, _ in asking.asked] == ["get", "result"]


# What a server is told


@pytest.mark.parametrize(
    ("takes", "declared", "told"),
    [(False, {}, KNOWS), (False, {"roots": {}}, {"roots": {}} | KNOWS), (True, {}, {}), (True, KNOWS, KNOWS)],
)
async def test_a_client_of_the_stateless_era_speaks_for_itself(takes, declared, told):
    """For all others toolcrib knows tasks, because it follows them."""
    channel = RecordingChannel(capabilities=declared, takes_input_required=takes)

    assert Server().tasks.declare(channel, channel.capabilities) == told


async def test_a_server_that_knows_no_tasks_is_told_of_none():
    """Of either era."""
    tasks = ServerTasks("srv", Server().ask)
    tasks.adopt(Listing((with_support("required"),), era=MODERN))

    assert (tasks.declare(RecordingChannel(), {}), tasks.wish(call(), {})) == ({}, {})


@pytest.mark.parametrize(
    ("support", "more", "sent"),
    [
        ("required", {}, {"task": {"ttl": TTL_MS}}),
        ("required", {"task": {"ttl": 5000}}, {"task": {"ttl": 5000}}),
        ("optional", {}, {}),
        ("optional", {"task": {"ttl": 5000}, "own": 1}, {"own": 1, "task": {"ttl": 5000}}),
        ("forbidden", {"task": {"ttl": 5000}}, {}),
        ("nonsense", {"task": {}}, {}),
    ],
)
async def test_a_task_is_asked_for_where_the_tool_knows_such(support, more, sent):
    """And always where it knows nothing else."""
    assert Server(era=OLD, tools=(with_support(support),)).tasks.wish(call(), more) == sent


@pytest.mark.parametrize("support", ["required", "optional"])
async def test_a_task_is_asked_for_on_behalf_of_a_client_of_the_other_era_that_knows_tasks(support):
    """It is given one of toolcrib, as soon as its server has made one."""
    channel = RecordingChannel(capabilities=KNOWS, takes_input_required=True)
    server = Server(said("completed"), DONE, era=OLD, tools=(with_support(support),))
    asked, told = call(channel), []
    asked.context.is_long = lambda: told.append(len(server.asked))

    assert server.tasks.wish(asked, {}) == {"task": {"ttl": TTL_MS}}
    assert (await server.settle(asked), told) == (DONE, [0])


async def test_work_that_is_going_on_keeps_its_call_from_being_late():
    """As progress does."""
    server, asked = Server(said("working"), said("completed", result=DONE)), call()

    await server.settle(asked)

    assert asked.context.progressed_at > 0


@pytest.mark.parametrize("ttl", [-1, 0, True, "1", None, [], {}, float("inf"), float("nan"), 10**400])
async def test_a_nonsensical_lifetime_is_no_reason_to_refuse_a_call(ttl):
    """It is brought within bounds, or is the usual one."""
    sent = Server(era=OLD, tools=(with_support("optional"),)).tasks.wish(call(), {"task": {"ttl": ttl}})

    assert 1 <= sent["task"]["ttl"] <= 30 * 86_400_000


@pytest.mark.parametrize("ttl", [-5, 0, 1.5, "x", 1e300, 10**18, None, True, [1]])
async def test_a_servers_nonsensical_numbers_are_brought_within_bounds(ttl):
    """So that nobody waits for ever, or asks in a storm, because of them."""
    raw = Raw(msgspec.json.encode(said("working") | {"resultType": "task", "ttlMs": ttl, "pollIntervalMs": ttl}))
    task = Server().tasks.created(call(), read_head(raw), raw)

    assert task.ttl_ms is None or 1 <= task.ttl_ms <= 30 * 86_400_000
    assert task.poll_ms is None or 1 <= task.poll_ms <= 3_600_000


# Handed on


@pytest.mark.parametrize(
    ("era", "takes", "declared", "more", "handed"),
    [
        (MODERN, True, KNOWS, {}, True),
        (MODERN, True, {}, {}, False),
        (MODERN, False, {}, {"task": {}}, False),
        (OLD, False, {}, {"task": {}}, True),
        (OLD, False, KNOWS, {}, False),
        (OLD, True, KNOWS, {}, False),
    ],
)
async def test_only_a_client_that_knows_tasks_as_its_server_does_is_handed_one(era, takes, declared, more, handed):
    """For others it is followed."""
    channel = RecordingChannel(capabilities=declared, takes_input_required=takes)

    assert Server(era=era).tasks.is_handed_on(call(channel, more=more)) is handed


async def test_the_task_of_a_call_belongs_to_the_tool_that_was_called():
    """In both shapes; an answer that is no task is none."""
    old = Server(era=OLD, tools=(with_support("optional"),))
    nested = Raw(msgspec.json.encode({"task": {"taskId": "t1", "status": "working", "ttl": 60, "pollInterval": 5}}))

    task = old.tasks.created(call(), read_head(nested), nested)

    assert task == TaskState("t1", ttl_ms=60, poll_ms=5, tool="srv__dig")
    assert old.tasks.created(call(), read_head(b"{}"), Raw(b"{}")) is None


def about(action: str, **more: Any) -> Request:
    return call(arguments={"action": action, "taskId": "t1", **more}, kind=RequestKind.TASK)


async def test_a_client_is_told_how_its_task_stands():
    """With the result once there is one."""
    server = Server(said("completed", result=DONE, statusMessage="ok"))

    state, result = await server.tasks.act(about("get"))

    assert (state.status, state.message, json.loads(result)) == (TaskStatus.COMPLETED, "ok", DONE)


async def test_a_server_that_answers_about_another_task_is_not_believed():
    """It could be another caller's."""
    with pytest.raises(ProtocolError, match="answered about another"):
        await Server(said("working") | {"taskId": "t2"}).tasks.act(about("get"))


async def test_many_who_ask_at_once_ask_once():
    """And those who come right after them get the same; what changes a task makes that answer old."""
    server = Server(said("working"), said("working"), {}, said("completed", result=DONE))

    await asyncio.gather(*(server.tasks.act(about("get")) for _ in range(50)))
    server.now = SAME_FOR_S / 2
    await server.tasks.act(about("get"))
    assert len(server.asked) == 1
    server.now = 2 * SAME_FOR_S
    await server.tasks.act(about("get"))
    await server.tasks.act(about("update", inputResponses={"q": {"action": "accept"}}))
    state, _ = await server.tasks.act(about("get"))

    assert [action for action, _ in server.asked] == ["get", "get", "update", "get"]
    assert state.status is TaskStatus.COMPLETED


async def test_who_has_the_result_of_a_task_is_not_told_that_it_goes_on():
    """However soon after the last question."""
    server = Server(said("working"), DONE, said("completed", result=DONE), era=OLD)

    await server.tasks.act(about("get"))
    await server.tasks.act(about("result"))
    state, _ = await server.tasks.act(about("get"))

    assert state.status is TaskStatus.COMPLETED


@pytest.mark.parametrize("other", [Caller("other", session="one"), Caller("me", session="two")])
async def test_nobody_is_told_how_anothers_task_of_the_same_id_stands(other):
    """Each lane is a process of its own, and many of them number their tasks."""
    mine = Caller("me", session="one")
    server = Server(said("completed", result=DONE), said("working"))

    states = [
        (await server.tasks.act(msgspec.structs.replace(about("get"), caller=who)))[0] for who in (mine, other, mine)
    ]

    assert [state.status for state in states] == [TaskStatus.COMPLETED, TaskStatus.WORKING, TaskStatus.COMPLETED]


async def test_large_answers_are_not_kept():
    """Whoever asks next asks the server."""
    large = said("completed", result={"content": [{"type": "text", "text": "x" * 20_000}]})
    server = Server(large, large)

    for _ in range(2):
        await server.tasks.act(about("get"))

    assert len(server.asked) == 2


async def test_who_gives_up_asking_takes_the_answer_from_nobody():
    """The question goes on for the others."""
    server = Server(said("working"))
    server.gate.clear()
    first, second = (asyncio.ensure_future(server.tasks.act(about("get"))) for _ in range(2))
    while not server.asked:
        await asyncio.sleep(0)

    first.cancel()
    server.gate.set()
    state, _ = await second

    assert state.status is TaskStatus.WORKING
    await server.tasks.close()


# On the wire


@pytest.fixture
async def source_of():
    """Makes the source of a fake server and closes it afterwards."""
    made: list[McpSource] = []

    async def make(server: FakeServer) -> McpSource:
        offer = ClientIdentity({"name": "toolcrib", "version": "1"}, {})
        supervisor = Supervisor("srv", server.dial, offer, SupervisorSettings(delays_s=(0.0,)), lambda event: None)
        made.append(McpSource("srv", supervisor, offer, is_http=False))
        await made[-1].list_offers()
        return made[-1]

    yield make
    for source in made:
        await source.close()


def knowing(**answers: Any) -> FakeServer:
    """A server of the stateless era that knows the extension, and makes a task of each call."""
    discovered = {"supportedVersions": [MODERN], "capabilities": {"tools": {}, **KNOWS}, "resultType": "complete"}
    listed = {"tools": [{"name": "dig", "inputSchema": {"type": "object"}}]}
    created = {"resultType": "task", **said("working", pollIntervalMs=1)}
    scripts = {"server/discover": discovered, "tools/list": listed, "tools/call": created}
    return FakeServer({**scripts, **{f"tasks/{name}": answer for name, answer in answers.items()}}, modern=True)


def declared(server: FakeServer, method: str) -> list[Any]:
    key = "io.modelcontextprotocol/clientCapabilities"
    return [params["_meta"][key] for asked, params in server.link.asked if asked == method]


async def test_a_call_of_a_client_that_knows_no_tasks_is_answered_with_the_result_of_one(source_of):
    """The server is told that tasks are known, with every request; its id is where a router finds it."""
    server = knowing(get=said("completed", result=DONE))

    result = await (await source_of(server)).answer(call())

    assert (result.mcp, result.task) == (DONE, None)
    assert declared(server, "tools/call") == declared(server, "tasks/get") == [KNOWS]
    assert [question.name for question in server.link.questions if question.method == "tasks/get"] == ["t1"]


async def test_a_client_that_knows_tasks_is_handed_the_one_its_server_made(source_of):
    """And speaks for itself."""
    server = knowing()
    channel = RecordingChannel(capabilities={"roots": {}, **KNOWS}, takes_input_required=True)

    result = await (await source_of(server)).answer(call(channel))

    assert (result.task.id, result.task.tool, result.result_type) == ("t1", "srv__dig", "task")
    assert declared(server, "tools/call") == [{"roots": {}, **KNOWS}]


async def test_a_task_that_nobody_asked_for_is_followed(source_of):
    """A server that ignores what a client declared does not get it into trouble."""
    server = knowing(get=said("completed", result=DONE))

    result = await (await source_of(server)).answer(call(RecordingChannel(takes_input_required=True)))

    assert (result.mcp, declared(server, "tools/call")) == (DONE, [{}])


async def test_work_that_never_ends_is_called_off_when_its_call_is_late(source_of):
    """The server is told so, whoever waits is not held up."""
    server = knowing(get=said("working", pollIntervalMs=1), cancel={"resultType": "complete"})
    step = deadline(0.01)(Subject("srv__dig", "srv", Tool("dig")), (await source_of(server)).answer)

    with pytest.raises(CallTimeout):
        await step(call())
    while "tasks/cancel" not in server.asked:
        await asyncio.sleep(0)

    assert [params["taskId"] for method, params in server.link.asked if method == "tasks/cancel"] == ["t1"]


async def test_a_handshake_era_tool_that_can_only_be_a_task_is_called_as_one(source_of):
    """And only where its server says that it knows tasks."""
    capabilities = {"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}}
    greeting = {"protocolVersion": OLD, "capabilities": capabilities, "serverInfo": {"name": "s", "version": "1"}}
    tool = {"name": "dig", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}}
    created = {"task": {"taskId": "t1", "status": "working", "ttl": 1000, "pollInterval": 1}}
    server = FakeServer(
        {
            "initialize": greeting,
            "tools/list": {"tools": [tool]},
            "tools/call": created,
            "tasks/get": said("completed"),
            "tasks/result": DONE,
        }
    )

    result = await (await source_of(server)).answer(call())

    sent = [params for method, params in server.link.asked if method == "tools/call"]
    assert (result.mcp, sent) == (DONE, [{"name": "dig", "arguments": {}, "task": {"ttl": TTL_MS}}])
