"""Tasks as MCP clients see them: a server's own, handed on, and calls of toolcrib that are answered later."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.doubles.replicas import Common, replica
from tests.server.mcp.test_stdio import Client as StdioClient

from toolcrib.calls.approvals import ApprovalReply
from toolcrib.config.model import Config, TasksConfig
from toolcrib.config.sections import ExposeConfig, ProfileConfig, SecurityConfig
from toolcrib.core.access import LOCAL_USER, Caller, Grants
from toolcrib.core.errors import RemoteError
from toolcrib.core.kinds import Policy, TaskStatus
from toolcrib.core.long_work import EXTENSION, TaskState
from toolcrib.core.offers import RequestKind, SecurityLevel, Tool
from toolcrib.core.requests import Request, Result
from toolcrib.crib.builder import open_crib
from toolcrib.crib.window import ProfileSettings, ProfileView
from toolcrib.server.mcp.service import McpService, ServerIdentity
from toolcrib.testing import FakeSource, MemoryAudit, MemoryCrib, RecordingChannel, memory_crib
from toolcrib.wire.jsonrpc import Inbound
from toolcrib.wire.messages import Asker

OLD, OLDER = Asker("2025-11-25"), Asker("2025-06-18")
NEW, PLAIN = Asker("2026-07-28", {"extensions": {EXTENSION: {}}}), Asker("2026-07-28")
BOTH = pytest.mark.parametrize("asker", [OLD, NEW], ids=["handshake", "modern"])
AT_ONCE, PATIENT = TasksConfig(after_s=0.0), TasksConfig(after_s=3600.0)
ALICE = Caller("token:a", "token", Grants(SecurityLevel.SYSTEM))
BOB = Caller("token:b", "token", Grants(SecurityLevel.SYSTEM))
DONE = {"content": [{"type": "text", "text": "dug"}]}


class Client:
    """Asks one service, as one client."""

    def __init__(self, made: MemoryCrib, asker: Asker, caller: Caller = LOCAL_USER, **how: Any) -> None:
        window = ProfileView(made.crib, how.get("settings") or ProfileSettings(), how.get("profile", ""))
        self.mcp, self.asker, self.caller = McpService(window, ServerIdentity("toolcrib", "9")), asker, caller
        self.channel = RecordingChannel(
            how.get("answers"), capabilities=asker.capabilities, takes_input_required=asker.is_modern
        )

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The result, or the error."""
        body, _ = await self.mcp.respond(Inbound("2.0", 1, method, params), self.asker, self.channel, self.caller)
        answer = json.loads(body)
        if "error" in answer:
            return answer["error"]
        signed = answer["result"].get("_meta", {}).pop("io.modelcontextprotocol/serverInfo", None)
        assert (signed is not None) is self.asker.is_modern
        return {key: value for key, value in answer["result"].items() if key != "_meta" or value}

    async def call(self, name: str = "srv__dig", **more: Any) -> dict[str, Any]:
        """Call a tool, for a task where the client has to say so."""
        wish = {} if self.asker.is_modern else {"task": {"ttl": 60_000}}
        return await self.ask("tools/call", name=name, arguments={}, **wish, **more)

    async def begin(self, name: str = "srv__dig") -> str:
        """The id of the task that a call became."""
        created = await self.call(name)
        return (created if self.asker.is_modern else created["task"])["taskId"]

    async def until(self, task_id: str, *wanted: str) -> dict[str, Any]:
        """How a task stands when it stands so."""
        while True:
            state = await self.ask("tasks/get", taskId=task_id)
            if state.get("status") in wanted or "code" in state:
                return state
            await asyncio.sleep(0)


@asynccontextmanager
async def opened(*sources: FakeSource, tasks: TasksConfig = AT_ONCE, **config: Any) -> AsyncIterator[MemoryCrib]:
    audit = config.pop("audit", None)
    async with memory_crib(*sources, config=Config(tasks=tasks, **config), audit=audit) as made:
        await made.crib.current()
        yield made


def slow() -> FakeSource:
    """A server whose tool does not come to an end before it is released."""
    source = FakeSource("srv", ["dig"])
    source.answers["dig"] = Result(raw=json.dumps(DONE).encode())
    source.calling.hold()
    return source


def owner(**states: Callable[[Request], Any]) -> FakeSource:
    """A server that makes a task of a call, and says of it what it is told to."""
    source = FakeSource("srv", ["dig", "other"])
    source.features = ("tasks",)

    def answer(call: Request) -> Result:
        if call.kind is RequestKind.CALL:
            return Result(raw=b"{}", result_type="task", task=TaskState("up-1", poll_ms=70, tool=call.name))
        return states[call.arguments["action"]](call)

    source.answers["dig"] = answer
    return source


def stands(status: TaskStatus, **more: Any) -> Callable[[Request], Result]:
    raw = more.pop("raw", b"{}")
    return lambda call: Result(raw=raw, task=TaskState("up-1", status, tool=call.name, **more))


# A server's own


async def test_a_servers_task_has_an_id_that_only_its_caller_can_use():
    """It says nothing of the server's own id; whoever else has it learns no more than of any other id."""
    async with opened(owner(get=stands(TaskStatus.WORKING, message="half"))) as made:
        alice, bob = Client(made, NEW, ALICE), Client(made, NEW, BOB)
        created = await alice.call()
        task_id = created["taskId"]
        seen = await alice.ask("tasks/get", taskId=task_id)
        strangers = [
            await bob.ask(f"tasks/{method}", taskId=task_id, inputResponses={})
            for method in ("get", "update", "cancel")
        ]
        nothing = await bob.ask("tasks/get", taskId="up-1")

    assert (created["resultType"], created["status"], created["pollIntervalMs"]) == ("task", "working", 70)
    assert len(task_id) >= 32
    assert "up-1" not in json.dumps([created, seen])
    assert (seen["resultType"], seen["taskId"], seen["statusMessage"]) == ("complete", task_id, "half")
    assert [error["code"] for error in strangers] == [-32602] * 3
    assert strangers[0] == nothing


async def test_what_is_asked_of_a_servers_task_reaches_it_under_its_own_id():
    """Through the layers, under the name of its tool; acknowledgements say nothing else."""
    source = owner(
        get=stands(TaskStatus.COMPLETED, raw=json.dumps(DONE).encode()),
        update=lambda _: Result(raw=b"{}"),
        cancel=lambda _: Result(raw=b"{}"),
    )
    audit = MemoryAudit()
    async with opened(source, audit=audit) as made:
        client = Client(made, NEW)
        task_id = await client.begin()
        acknowledged = [
            await client.ask("tasks/update", taskId=task_id, inputResponses={"q": {"action": "accept"}}),
            await client.ask("tasks/cancel", taskId=task_id),
        ]
        ended = await client.ask("tasks/get", taskId=task_id)

    assert acknowledged == [{"resultType": "complete"}] * 2
    assert (ended["status"], ended["result"]) == ("completed", DONE)
    assert [call.arguments for call in source.calls[1:]] == [
        {"action": "update", "taskId": "up-1", "inputResponses": {"q": {"action": "accept"}}},
        {"action": "cancel", "taskId": "up-1"},
        {"action": "get", "taskId": "up-1"},
    ]
    assert [(entry.event, entry.tool) for entry in audit.noted][-1] == ("task", "srv__dig")


async def test_who_may_not_use_the_tool_any_more_cannot_reach_its_task():
    """Neither with fewer grants, nor when the tool is denied or gone."""
    source = owner(get=stands(TaskStatus.WORKING))
    fewer = Caller(ALICE.id, "token", Grants(SecurityLevel.SYSTEM, tools=("srv__other",)))
    async with opened(source) as made:
        task_id = await Client(made, NEW, ALICE).begin()
        refused = await Client(made, NEW, fewer).ask("tasks/get", taskId=task_id)
        still = await Client(made, NEW, ALICE).ask("tasks/get", taskId=task_id)
        source.change("other")
        await made.crib.refresh("srv")
        gone = await Client(made, NEW, ALICE).ask("tasks/get", taskId=task_id)

    assert (refused["code"], still["status"], gone["code"]) == (-32602, "working", -32602)


async def test_a_task_is_known_only_at_the_address_where_it_was_given_out():
    """Another profile may show another tool under that name."""
    profile = ProfileSettings(profile=ProfileConfig(servers=("*",)))
    async with opened(owner(get=stands(TaskStatus.WORKING))) as made:
        task_id = await Client(made, NEW).begin()
        elsewhere = await Client(made, NEW, settings=profile, profile="p").ask("tasks/get", taskId=task_id)

    assert elsewhere["code"] == -32602


async def test_a_task_of_a_tool_that_was_found_and_called_can_be_asked_about():
    """By the tool it really is of."""
    settings = ProfileSettings(expose=ExposeConfig(mode="search"))
    async with opened(owner(get=stands(TaskStatus.WORKING))) as made:
        client = Client(made, NEW, settings=settings)
        created = await client.ask("tools/call", name="tools_call", arguments={"name": "srv__dig"})
        state = await client.ask("tasks/get", taskId=created["taskId"])

    assert state["status"] == "working"


async def test_an_error_of_the_server_stays_one():
    """Also that it does not know the task any more."""
    source = owner(get=lambda _: RemoteError(-32602, "Task has expired"), cancel=lambda _: RemoteError(-32000, "No."))
    async with opened(source) as made:
        client = Client(made, NEW)
        task_id = await client.begin()
        errors = [await client.ask(f"tasks/{method}", taskId=task_id) for method in ("get", "cancel")]

    assert [(error["code"], error["message"]) for error in errors] == [(-32602, "Task has expired"), (-32000, "No.")]


async def test_who_waits_for_a_persons_word_waits_with_a_task_and_is_not_asked_for_again():
    """The approval counts whenever it comes; how the work stands then is no new call."""
    source = owner(get=stands(TaskStatus.WORKING, message="theirs"))
    async with opened(source, security=SecurityConfig(policy=Policy.ASK)) as made:
        await made.crib.inbox.look(BOB)
        client = Client(made, NEW, ALICE)
        task_id = await client.begin()
        before = (await client.ask("tasks/get", taskId=task_id))["status"], list(source.calls)
        (found,) = await made.crib.inbox.look(BOB, 60)
        made.crib.inbox.answer(found.question.id, ApprovalReply.ONCE, BOB)
        while "statusMessage" not in (after := await client.ask("tasks/get", taskId=task_id)):
            await asyncio.sleep(0)
        again = made.crib.inbox.open_to(BOB)

    assert (before, after["statusMessage"], again) == (("working", []), "theirs", [])


# The shapes


@pytest.mark.parametrize("method", ["get", "update", "cancel"])
async def test_a_client_that_does_not_declare_tasks_cannot_ask_about_them(method):
    """It is told what it would have to declare."""
    async with opened(FakeSource("srv", ["dig"])) as made:
        error = await Client(made, PLAIN).ask(f"tasks/{method}", taskId="x", inputResponses={})

    assert error["code"] == -32021
    assert error["data"] == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}


@pytest.mark.parametrize(
    ("asker", "method"),
    [(NEW, "list"), (NEW, "result"), (OLD, "update"), (OLDER, "get"), (OLDER, "list"), (OLDER, "result")],
)
async def test_what_an_era_does_not_have_is_not_found(asker, method):
    """Nor in revisions before tasks."""
    async with opened(FakeSource("srv", ["dig"])) as made:
        assert (await Client(made, asker).ask(f"tasks/{method}", taskId="x"))["code"] == -32601


@pytest.mark.parametrize("params", [{}, {"taskId": 1}, {"taskId": ""}, {"taskId": "x" * 100_000}, {"taskId": "\0"}])
@BOTH
async def test_an_id_that_is_none_is_an_invalid_parameter(asker, params):
    """Whatever it looks like."""
    async with opened(FakeSource("srv", ["dig"])) as made:
        assert (await Client(made, asker).ask("tasks/get", **params))["code"] == -32602


async def test_tasks_are_announced_where_they_are_known():
    """Always as the extension; in the handshake era only if a server behind knows them, and not before 2025-11-25."""
    async with opened(owner()) as made, opened(FakeSource("srv", ["dig"])) as without:
        modern = (await Client(made, NEW).ask("server/discover"))["capabilities"]
        old, older, none = [
            json.loads(await Client(which, asker).mcp.initialize(asker))["capabilities"]
            for which, asker in ((made, OLD), (made, OLDER), (without, OLD))
        ]

    assert ("tasks" in modern, modern["extensions"]) == (False, {EXTENSION: {}})
    assert old["tasks"] == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    assert ("tasks" in older, "tasks" in none, "extensions" in old) == (False, False, False)


@pytest.mark.parametrize("asker", [PLAIN, OLDER])
async def test_a_client_that_does_not_know_tasks_waits_for_its_answer(asker):
    """Also one that sends what another era would ask for them with."""
    source = FakeSource("srv", ["dig"])
    async with opened(source) as made:
        result = await Client(made, asker).ask("tools/call", name="srv__dig", arguments={}, task={"ttl": 1})

    assert result["content"] == [{"type": "text", "text": "dig ran"}]
    assert source.calls[0].more == {}


@pytest.mark.parametrize(("said", "shown"), [("required", "optional"), ("optional", "optional"), (None, None)])
async def test_a_tool_that_its_server_runs_as_a_task_only_can_be_called_by_anybody(said, shown):
    """Because toolcrib follows it for those that know no tasks: clients would not even try otherwise."""
    extra = {} if said is None else {"execution": {"taskSupport": said}}
    source = FakeSource("srv", [Tool("dig", extra=extra)])
    async with opened(source) as made:
        (listed,) = (await Client(made, OLD).ask("tools/list"))["tools"]

    assert listed.get("execution", {}).get("taskSupport") == shown


@pytest.mark.parametrize(
    ("era", "asker", "shown"), [("2026-07-28", OLD, True), ("2026-07-28", NEW, False), ("2025-11-25", OLD, False)]
)
async def test_handshake_clients_are_told_which_tools_of_the_other_era_can_be_tasks(era, asker, shown):
    """They ask for a task only where a tool says so."""
    source = owner()
    source.era = era
    async with opened(source) as made:
        listed = (await Client(made, asker).ask("tools/list"))["tools"]

    assert ["execution" in tool for tool in listed] == [shown, shown]


async def test_the_work_for_a_caller_that_was_turned_away_ends():
    """Others go on."""
    source = slow()
    async with opened(source) as made:
        alice, bob = Client(made, NEW, ALICE), Client(made, NEW, BOB)
        ids = [await alice.begin(), await bob.begin()]
        alice.mcp.tasks.see_off(lambda caller: caller == BOB)
        gone = await alice.until(ids[0], "cancelled")
        still = await bob.ask("tasks/get", taskId=ids[1])

    assert (gone["status"], still["status"]) == ("cancelled", "working")


# Our own


async def test_a_quick_call_is_answered_at_once():
    """Knowing tasks costs a client nothing."""
    async with opened(FakeSource("srv", ["dig"]), tasks=PATIENT) as made:
        result = await Client(made, NEW).call()

    assert (result["resultType"], result["content"]) == ("complete", [{"type": "text", "text": "dig ran"}])


@BOTH
async def test_a_call_that_takes_long_is_answered_later(asker):
    """It goes on, whether anybody asks or not, and its result is kept."""
    source = slow()
    async with opened(source) as made:
        client = Client(made, asker)
        task_id = await client.begin()
        working = await client.ask("tasks/get", taskId=task_id)
        source.calling.release()
        ended = await client.until(task_id, "completed")
        result = ended["result"] if asker is NEW else await client.ask("tasks/result", taskId=task_id)

    assert (working["status"], ended["status"]) == ("working", "completed")
    meta = {} if asker is NEW else {"_meta": {"io.modelcontextprotocol/related-task": {"taskId": task_id}}}
    assert result == {**DONE, **meta}
    assert ("ttlMs" in ended, "ttl" in ended) == (asker is NEW, asker is OLD)


async def test_a_handshake_client_that_asks_for_a_task_gets_one_however_quick_the_answer_is():
    """It takes nothing else."""
    async with opened(FakeSource("srv", ["dig"]), tasks=PATIENT) as made:
        client = Client(made, OLD)
        created = await client.call()
        result = await client.ask("tasks/result", taskId=created["task"]["taskId"])

    assert created["task"]["status"] == "completed"
    assert result["content"] == [{"type": "text", "text": "dig ran"}]


@pytest.mark.parametrize(("name", "code"), [("srv__dig", "TOOL_PERMISSION_DENIED"), ("srv__none", "TOOL_NOT_FOUND")])
async def test_a_call_that_is_refused_is_no_task(name, code):
    """A client that takes nothing else is told so by an error."""
    async with opened(FakeSource("srv", ["dig"]), security=SecurityConfig(policy=Policy.DENY)) as made:
        refused = await Client(made, OLD).call(name)

    assert (refused["code"], refused["data"]["code"]) == (-32602, code)


@BOTH
async def test_a_task_that_is_cancelled_ends_its_call(asker):
    """Cancelling what has ended is acknowledged in the one era, and refused in the other."""
    source = slow()
    async with opened(source) as made:
        client = Client(made, asker)
        task_id = await client.begin()
        await source.calling.reached.wait()
        first = await client.ask("tasks/cancel", taskId=task_id)
        ended = await client.until(task_id, "cancelled")
        second = await client.ask("tasks/cancel", taskId=task_id)

    assert ended["status"] == "cancelled"
    if asker is NEW:
        assert first == second == {"resultType": "complete"}
    else:
        assert (first["status"], second["code"]) == ("cancelled", -32602)


async def test_a_failed_tool_has_a_result_and_a_broken_call_an_error():
    """Only what is an error of the protocol makes a task fail."""
    source = FakeSource("srv", ["dig", "break"])
    source.answers = {
        "dig": Result({"content": [{"type": "text", "text": "no"}], "isError": True}),
        "break": RemoteError(-32050, "Broken.", data={"why": 1}),
    }
    source.calling.hold()
    async with opened(source) as made:
        client = Client(made, NEW)
        ids = [await client.begin(f"srv__{name}") for name in ("dig", "break")]
        source.calling.release()
        failed, broken = [await client.until(task_id, "completed", "failed") for task_id in ids]

    assert (failed["status"], failed["result"]["isError"]) == ("completed", True)
    assert (broken["status"], broken["error"]) == ("failed", {"code": -32050, "message": "Broken.", "data": {"why": 1}})
    assert "result" not in broken


async def test_what_a_call_says_while_it_runs_is_said_of_its_task():
    """As its message; nothing more is sent to a client that was answered."""
    source = slow()
    go = asyncio.Event()

    async def dig(call: Request) -> Result:
        call.channel.notify("notifications/progress", b'{"progressToken":1,"progress":1,"message":"half"}')
        call.channel.notify("notifications/message", b'{"level":"info","data":"x"}')
        await go.wait()
        return Result(dict(DONE))

    source.answers["dig"] = dig
    async with opened(source) as made:
        client = Client(made, NEW)
        task_id = await client.begin()
        source.calling.release()
        while "statusMessage" not in (state := await client.ask("tasks/get", taskId=task_id)):
            await asyncio.sleep(0)
        go.set()

    assert (state["statusMessage"], client.channel.told) == ("half", [])


@BOTH
async def test_what_a_call_asks_in_the_middle_is_asked_by_its_task(asker):
    """In the stateless era by ``tasks/update``, in the other while its client waits for the result."""
    source = slow()

    async def dig(call: Request) -> Result:
        answer = await call.channel.ask("elicitation/create", b'{"message":"Sure?"}')
        return Result({"content": [], "structuredContent": json.loads(answer)})

    source.answers["dig"] = dig
    asks = {**asker.capabilities, "elicitation": {}}
    async with opened(source) as made:
        client = Client(made, Asker(asker.version, asks), answers={"elicitation/create": {"action": "accept"}})
        task_id = await client.begin()
        source.calling.release()
        state = await client.until(task_id, "input_required")
        if asker is NEW:
            (key,) = state["inputRequests"]
            await client.ask("tasks/update", taskId=task_id, inputResponses={"nothing": 1})
            await client.ask("tasks/update", taskId=task_id, inputResponses={key: {"action": "accept"}})
            result = (await client.until(task_id, "completed"))["result"]
        else:
            result = await client.ask("tasks/result", taskId=task_id)

    assert result["structuredContent"] == {"action": "accept"}
    if asker is NEW:
        assert state["inputRequests"][key] == {"method": "elicitation/create", "params": {"message": "Sure?"}}
    else:
        related = {"io.modelcontextprotocol/related-task": {"taskId": task_id}}
        assert client.channel.asked == [("elicitation/create", {"message": "Sure?", "_meta": related})]


async def test_a_call_that_asks_before_it_takes_long_becomes_a_task_at_once():
    """A client of the stateless era cannot be asked in the middle of a call."""
    source = FakeSource("srv", ["dig"])

    async def dig(call: Request) -> Result:
        await call.channel.ask("elicitation/create", b"{}")
        return Result(dict(DONE))

    source.answers["dig"] = dig
    async with opened(source, tasks=PATIENT) as made:
        created = await Client(made, NEW).call()

    assert (created["resultType"], created["status"]) == ("task", "input_required")


@BOTH
async def test_a_call_whose_server_answers_later_becomes_a_task_at_once(asker):
    """Nobody waits to see whether it takes long: it does."""
    source, go = FakeSource("srv", ["dig"]), asyncio.Event()

    async def dig(call: Request) -> Result:
        call.context.is_long()
        await go.wait()
        return Result(dict(DONE))

    source.answers["dig"] = dig
    async with opened(source, tasks=PATIENT) as made:
        client = Client(made, asker)
        task_id = await client.begin()
        go.set()
        ended = await client.until(task_id, "completed")

    assert ended["status"] == "completed"


async def test_a_result_that_asks_back_is_asked_by_a_task_that_was_given_out():
    """The call is made again with the answers, and the state that belongs to them."""
    source = slow()

    def dig(call: Request) -> Result:
        if "inputResponses" not in call.more:
            asked = {"name": {"method": "elicitation/create", "params": {"message": "Who?"}}}
            return Result({"resultType": "input_required", "inputRequests": asked, "requestState": "s1"})
        return Result({"content": [], "structuredContent": dict(call.more)})

    source.answers["dig"] = dig
    async with opened(source) as made:
        client = Client(made, NEW)
        task_id = await client.begin()
        source.calling.release()
        (key,) = (await client.until(task_id, "input_required"))["inputRequests"]
        await client.ask("tasks/update", taskId=task_id, inputResponses={key: {"action": "accept"}})
        ended = await client.until(task_id, "completed")

    assert ended["result"]["structuredContent"] == {
        "inputResponses": {"name": {"action": "accept"}},
        "requestState": "s1",
    }


async def test_work_that_its_server_goes_on_with_is_asked_about_there():
    """Though the client had its task from toolcrib by then."""
    source = owner(get=stands(TaskStatus.WORKING, message="theirs"))
    source.calling.hold()
    async with opened(source) as made:
        client = Client(made, NEW)
        task_id = await client.begin()
        source.calling.release()
        while "statusMessage" not in (state := await client.ask("tasks/get", taskId=task_id)):
            await asyncio.sleep(0)

    assert (state["taskId"], state["statusMessage"]) == (task_id, "theirs")


async def test_a_handshake_client_lists_the_tasks_of_its_session():
    """And nobody else's, be it of the same caller."""
    source = slow()
    here, there = (
        Caller("local", grants=LOCAL_USER.grants, session="a"),
        Caller("local", grants=LOCAL_USER.grants, session="b"),
    )
    async with opened(source) as made:
        task_id = await Client(made, OLD, here).begin()
        listed = [await Client(made, OLD, who).ask("tasks/list") for who in (here, there)]
        paged = await Client(made, OLD, here).ask("tasks/list", cursor="2")

    assert [[task["taskId"] for task in one["tasks"]] for one in listed] == [[task_id], []]
    assert paged["code"] == -32602


# Too much


async def test_a_caller_with_too_many_tasks_waits_for_its_answers():
    """Others are not held up, and a client that takes nothing but tasks is told why."""
    source = slow()
    async with opened(source, tasks=TasksConfig(after_s=0.0, per_caller=3)) as made:
        client = Client(made, NEW, ALICE)
        for _ in range(3):
            await client.begin()
        waiting = asyncio.ensure_future(client.call())
        refused = await Client(made, OLD, ALICE).call()
        other = await Client(made, NEW, BOB).call()
        source.calling.release()
        blocked = await waiting

    assert (blocked["resultType"], blocked["content"]) == ("complete", DONE["content"])
    assert (refused["code"], refused["data"]["code"], other["resultType"]) == (-32602, "TOOL_RATE_LIMITED", "task")
    told = [json.dumps(call.channel.capabilities) for call in source.calls if call.caller.id == ALICE.id]
    assert ["tasks" in one for one in told] == [True, True, True, False]


async def test_a_task_ends_with_its_time():
    """It is not known any more then, and makes room."""
    source = slow()
    async with opened(source, tasks=TasksConfig(after_s=0.0, ttl_s=3600.0, per_caller=1)) as made:
        client = Client(made, NEW)
        task_id = await client.begin()
        made.crib.tasks._now = lambda: 4e9
        gone = await client.ask("tasks/get", taskId=task_id)
        again = await client.call()

    assert (gone["code"], again["resultType"]) == (-32602, "task")


@pytest.mark.parametrize("ttl", [-1, 0, 10**30, "x", None, True, {}, 1.5])
async def test_a_nonsensical_lifetime_is_brought_within_bounds(ttl):
    """Whatever a client wishes."""
    async with opened(slow()) as made:
        created = await Client(made, OLD).ask("tools/call", name="srv__dig", arguments={}, task={"ttl": ttl})

    assert 0 < created["task"]["ttl"] <= 3_600_000


async def test_calls_that_begin_at_once_become_no_more_tasks_than_there_may_be():
    """Each has its place from when it begins, though it takes a while until it is a task."""
    source = slow()
    async with opened(source, tasks=TasksConfig(after_s=0.0, per_caller=3)) as made:
        client = Client(made, NEW, ALICE)
        calls = [asyncio.ensure_future(client.call()) for _ in range(10)]
        while sum(call.done() for call in calls) < 3 or len(source.calls) < 10:
            await asyncio.sleep(0)
        source.calling.release()
        kinds = [(await call)["resultType"] for call in calls]

    assert (kinds.count("task"), kinds.count("complete")) == (3, 7)


@pytest.mark.parametrize(
    "large",
    [
        Result({"content": [{"type": "text", "text": "x" * 600}]}),
        RemoteError(-32050, "Broken.", data="x" * 600),
    ],
    ids=["result", "error"],
)
async def test_results_that_nobody_asks_for_do_not_fill_the_memory(monkeypatch, large):
    """What cannot be kept is told as such."""
    monkeypatch.setattr("toolcrib.crib.tasks.RESULTS_MAX", 4000)
    source = FakeSource("srv", ["dig"])
    source.answers["dig"] = large
    source.calling.hold()
    async with opened(source) as made:
        client = Client(made, NEW)
        ids = [await client.begin() for _ in range(2)]
        source.calling.release()
        ended = [await client.until(task_id, "completed", "failed") for task_id in ids]

    assert sorted("no room" in json.dumps(state) for state in ended) == [False, True]


async def test_a_client_that_goes_before_it_was_answered_ends_its_call():
    """Only what was given out goes on."""
    source = slow()
    async with opened(source, tasks=PATIENT) as made:
        calling = asyncio.ensure_future(Client(made, NEW).call())
        await source.calling.reached.wait()
        calling.cancel()
        await asyncio.wait([calling])
        while made.crib.metrics.in_flight:
            await asyncio.sleep(0)

    assert calling.cancelled()


# News


def as_new(params: dict[str, Any], asker: Asker = NEW) -> dict[str, Any]:
    prefix = "io.modelcontextprotocol"
    meta = {f"{prefix}/protocolVersion": asker.version, f"{prefix}/clientCapabilities": asker.capabilities}
    return {**params, "_meta": meta}


def listen_to(*task_ids: Any, asker: Asker = NEW) -> dict[str, Any]:
    return as_new({"notifications": {"taskIds": list(task_ids)}}, asker)


async def test_a_client_that_listens_is_told_of_changes_of_its_tasks():
    """With all there is to know, until they end; of strangers' tasks it is told nothing."""
    source = slow()
    async with opened(source) as made:
        client, stranger = StdioClient(made, ALICE), Client(made, NEW, BOB)
        created = await client.ask(1, "tools/call", as_new({"name": "srv__dig", "arguments": {}}))
        mine, theirs = created["result"]["taskId"], await stranger.begin()
        acknowledged = await client.ask(2, "subscriptions/listen", listen_to(mine, theirs, "none", 7, mine))
        source.calling.release()
        told = await client.read()
        await client.door.close()

    assert acknowledged["params"]["notifications"] == {"taskIds": [mine]}
    assert told["method"] == "notifications/tasks"
    said = told["params"]
    assert (said["taskId"], said["status"], said["result"]) == (mine, "completed", DONE)
    assert ("resultType" in said, said["_meta"]) == (False, {"io.modelcontextprotocol/subscriptionId": 2})


async def test_who_listens_to_a_task_that_has_ended_is_told_of_it_at_once():
    """After the subscription was acknowledged, and once."""
    source = slow()
    async with opened(source) as made:
        client = StdioClient(made)
        created = await client.ask(1, "tools/call", as_new({"name": "srv__dig", "arguments": {}}))
        source.calling.release()
        await Client(made, NEW).until(created["result"]["taskId"], "completed")
        first = await client.ask(2, "subscriptions/listen", listen_to(created["result"]["taskId"]))
        second = await client.read()
        await client.door.close()

    assert [message["method"] for message in (first, second)] == [
        "notifications/subscriptions/acknowledged",
        "notifications/tasks",
    ]


async def test_a_client_that_does_not_declare_tasks_cannot_listen_to_them():
    """It is told what it would have to declare."""
    async with opened(FakeSource("srv", ["dig"])) as made:
        client = StdioClient(made)
        refused = await client.ask(1, "subscriptions/listen", listen_to("x", asker=PLAIN))
        await client.door.close()

    assert refused["error"]["code"] == -32021


async def test_nothing_is_said_to_a_client_about_a_call_that_is_answered_later():
    """No progress and no log messages: they are not for tasks."""
    source = slow()
    spoke = asyncio.Event()

    async def dig(call: Request) -> Result:
        call.channel.notify("notifications/progress", b'{"progressToken":1,"progress":1}')
        spoke.set()
        return Result(dict(DONE))

    source.answers["dig"] = dig
    async with opened(source) as made:
        client = StdioClient(made)
        params = as_new({"name": "srv__dig", "arguments": {}})
        params["_meta"]["progressToken"] = "p"
        created = await client.ask(1, "tools/call", params)
        source.calling.release()
        await spoke.wait()
        state = await client.ask(2, "tasks/get", as_new({"taskId": created["result"]["taskId"]}))
        await client.door.close()

    assert state["id"] == 2


async def test_a_handshake_client_is_told_how_its_task_stands():
    """Each change once, without the result."""
    source = slow()
    async with opened(source) as made:
        client = StdioClient(made)
        await client.ask(0, "initialize", {"protocolVersion": OLD.version, "capabilities": {}, "clientInfo": {}})
        created = await client.ask(1, "tools/call", {"name": "srv__dig", "arguments": {}, "task": {}})
        source.calling.release()
        told = await client.read()
        await client.door.close()

    assert told["method"] == "notifications/tasks/status"
    assert (told["params"]["taskId"], told["params"]["status"]) == (created["result"]["task"]["taskId"], "completed")
    assert "result" not in told["params"]


# Replicas


async def test_every_replica_knows_every_task():
    """How it stands, and its result; of the caller it belongs to alone."""
    common, source = Common(), slow()
    config = Config(tasks=AT_ONCE)
    async with (
        replica(common, "one", source, config=config) as one,
        replica(common, "two", FakeSource("srv", ["dig"]), config=config) as two,
    ):
        await one.made.crib.current()
        await two.made.crib.current()
        here, there = Client(one.made, NEW, ALICE), Client(two.made, NEW, ALICE)
        task_id = await here.begin()
        working = await there.ask("tasks/get", taskId=task_id)
        stranger = await Client(two.made, NEW, BOB).ask("tasks/get", taskId=task_id)
        source.calling.release()
        ended = await there.until(task_id, "completed")

    assert (working["status"], working["taskId"], stranger["code"]) == ("working", task_id, -32602)
    assert (ended["taskId"], ended["result"]) == (task_id, DONE)


async def test_what_is_asked_of_a_task_reaches_the_replica_that_does_the_work():
    """Answers, and that it is not wanted any more."""
    common, source = Common(), slow()
    config = Config(tasks=AT_ONCE)

    async def dig(call: Request) -> Result:
        answer = await call.channel.ask("elicitation/create", b"{}")
        return Result({"content": [], "structuredContent": json.loads(answer)})

    source.answers["dig"] = dig
    async with (
        replica(common, "one", source, config=config) as one,
        replica(common, "two", FakeSource("srv", ["dig"]), config=config) as two,
    ):
        await one.made.crib.current()
        await two.made.crib.current()
        here, there = Client(one.made, NEW), Client(two.made, NEW)
        answered, cancelled = await here.begin(), await here.begin()
        await there.ask("tasks/cancel", taskId=cancelled)
        gone = await there.until(cancelled, "cancelled")
        source.calling.release()
        (key,) = (await there.until(answered, "input_required"))["inputRequests"]
        await there.ask("tasks/update", taskId=answered, inputResponses={key: {"action": "accept"}})
        ended = await there.until(answered, "completed")

    assert gone["status"] == "cancelled"
    assert ended["result"]["structuredContent"] == {"action": "accept"}


async def test_a_servers_task_is_asked_about_by_every_replica():
    """Each has its own way to the server."""
    common, config = Common(), Config(tasks=PATIENT)
    states = stands(TaskStatus.COMPLETED, raw=json.dumps(DONE).encode())
    async with (
        replica(common, "one", owner(get=states), config=config) as one,
        replica(common, "two", owner(get=states), config=config) as two,
    ):
        await one.made.crib.current()
        await two.made.crib.current()
        task_id = await Client(one.made, NEW, ALICE).begin()
        ended = await Client(two.made, NEW, ALICE).ask("tasks/get", taskId=task_id)

    assert (ended["taskId"], ended["result"]) == (task_id, DONE)


async def test_a_result_that_is_too_large_to_share_is_told_as_such_elsewhere(monkeypatch):
    """The replica that did the work has it."""
    monkeypatch.setattr("toolcrib.crib.tasks.SHARED_MAX", 10)
    common, source, config = Common(), slow(), Config(tasks=AT_ONCE)
    async with (
        replica(common, "one", source, config=config) as one,
        replica(common, "two", FakeSource("srv", ["dig"]), config=config) as two,
    ):
        await one.made.crib.current()
        await two.made.crib.current()
        here, there = Client(one.made, NEW), Client(two.made, NEW)
        task_id = await here.begin()
        source.calling.release()
        ends = (await here.until(task_id, "completed"))["result"], await there.until(task_id, "failed")

    assert (ends[0], ends[1]["error"]["code"]) == (DONE, -32603)


async def test_a_task_behind_a_crib_within_a_crib_can_be_asked_about():
    """Each translates the name of the tool, and the server's id goes all the way."""
    source = owner(get=stands(TaskStatus.COMPLETED, raw=json.dumps(DONE).encode()))
    async with opened(source) as inner, open_crib(Config(), sources=[inner.crib.as_source("in")]) as outer:
        await outer.current()
        client = Client(MemoryCrib(outer, inner.native, inner.records, [], {}), NEW)
        task_id = await client.begin("in__srv__dig")
        ended = await client.ask("tasks/get", taskId=task_id)

    assert (ended["taskId"], ended["result"]) == (task_id, DONE)
    assert source.calls[-1].arguments == {"action": "get", "taskId": "up-1"}
