"""The stdio link: many questions over one pair of pipes, here a list of lines."""

import asyncio
import json

import pytest
from tests.sources.thinking import Thinking

from toolcrib.core.access import Caller
from toolcrib.core.errors import ConnectionLost, ProtocolError, RemoteError, SourceUnavailable
from toolcrib.core.tasks import TaskScope
from toolcrib.sources.mcp import link as relay
from toolcrib.sources.mcp.link import LinkEvents, ServerRequest
from toolcrib.sources.mcp.stdio_link import NOISE_PAUSE_S, NOTICES_PER_S, StdioLink
from toolcrib.testing import ManualClock, RecordingChannel
from toolcrib.transports import stdio
from toolcrib.transports.process.spawn import Spawner
from toolcrib.transports.process.spec import ProcessSpec

ANN, BEN = Caller("ann", session="s1"), Caller("ben", session="s1")


class Pipes:
    """The link's transport: keeps what is sent, as decoded messages."""

    def __init__(self) -> None:
        self.sent: list[dict] = []
        self.is_broken = self.is_closed = False

    def send(self, data: bytes) -> None:
        if self.is_broken:
            raise SourceUnavailable("The pipe is broken.")
        self.sent += [json.loads(line) for line in data.split(b"\n")]

    async def drain(self) -> None:
        await asyncio.sleep(0)
        if self.is_closed:
            raise SourceUnavailable("It takes no more messages.")

    async def close(self) -> None:
        pass


class Piped(StdioLink):
    """A link without a process."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.failures: list[BaseException] = []
        self.noises: list[str] = []
        self.completed: list[tuple[dict, RecordingChannel | None]] = []
        events = LinkEvents(
            lambda: self.heard.append("changed"),
            lambda: self.heard.append("lost"),
            self.noises.append,
            asked_blindly=lambda: self.heard.append("asked"),
            completed=lambda params, sole: self.completed.append((json.loads(params), sole)),
        )
        super().__init__(events, TaskScope(lambda _, error: self.failures.append(error)))
        self._transport = self.pipes = Pipes()

    def say(self, **message: object) -> None:
        self.message_received(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def start(
        self,
        method: str = "tools/call",
        channel: RecordingChannel | None = None,
        params: bytes = b"{}",
        caller: Caller | None = ANN,
        name: str = "",
    ):
        channel = channel or RecordingChannel()
        question = ServerRequest(self.new_id(), method, params, name, channel=channel, caller=caller)
        return question, asyncio.create_task(self.ask(question))


@pytest.fixture
async def link():
    made = Piped()
    yield made
    await made._tasks.close()


async def turn() -> None:
    """Let everything that is ready run once."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_answers_find_their_questions_in_any_order(link):
    """By id; what was asked in one turn of the loop goes out together."""
    asked = [link.start()[1] for _ in range(3)]
    await turn()

    for request_id in (3, 1, 2):
        link.say(id=request_id, result={"n": request_id})

    assert [json.loads(bytes(await task)) for task in asked] == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert [message["id"] for message in link.pipes.sent] == [1, 2, 3]
    assert not link.is_busy


async def test_a_servers_error_is_raised_as_it_is(link):
    """Code, words and data."""
    _, task = link.start()
    await turn()

    link.say(id=1, error={"code": -5, "message": "no", "data": [1]})

    with pytest.raises(RemoteError) as refused:
        await task
    assert (refused.value.rpc_code, refused.value.message, refused.value.data) == (-5, "no", [1])


async def test_giving_up_tells_the_server(link):
    """So that it can stop working; the late answer is ignored."""
    question, task = link.start()
    await turn()

    task.cancel()
    await asyncio.wait([task])
    link.say(id=question.id, result={})

    assert task.cancelled()
    assert link.pipes.sent[-1] == {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": 1, "reason": "The caller gave up."},
    }


@pytest.mark.parametrize("method", ["initialize", "server/discover"])
async def test_a_handshake_is_never_cancelled(link, method):
    """The protocol forbids it."""
    _, task = link.start(method)
    await turn()

    task.cancel()
    await asyncio.wait([task])

    assert [message["method"] for message in link.pipes.sent] == [method]


async def test_a_lost_process_fails_everything_that_waits(link):
    """And says so to its owner; nothing can be asked any more."""
    tasks = [link.start()[1] for _ in range(2)]
    await turn()

    link.connection_lost(None)

    for task in tasks:
        with pytest.raises(ConnectionLost):
            await task
    assert (link.heard, link.is_open) == (["lost"], False)
    with pytest.raises(ConnectionLost):
        await link.start()[1]


async def test_a_broken_pipe_is_known_not_to_have_carried_the_call(link):
    """It may be made again without harm."""
    link.pipes.is_broken = True
    question, task = link.start()

    with pytest.raises(ConnectionLost):
        await task

    assert not question.sent


async def test_progress_goes_to_the_call_it_belongs_to(link):
    """By the token, which is the request's id."""
    first, second = RecordingChannel(), RecordingChannel()
    link.start(channel=first)
    link.start(channel=second)
    await turn()

    link.say(method="notifications/progress", params={"progressToken": 2, "progress": 1})
    link.say(method="notifications/progress", params={"progressToken": 9, "progress": 1})
    link.say(method="notifications/progress", params=[2])

    assert (first.told, second.told) == ([], [("notifications/progress", {"progressToken": 2, "progress": 1})])


async def test_log_messages_go_to_the_only_caller(link):
    """When calls of several are under way, it is not certain whom the server means."""
    first, second, other = RecordingChannel(), RecordingChannel(log_level="info"), RecordingChannel()
    link.start(channel=first)
    await turn()
    link.say(method="notifications/message", params={"data": "one"})
    link.start(channel=second)
    await turn()
    link.say(method="notifications/message", params={"data": "two"})
    link.start(channel=other, caller=BEN)
    await turn()
    link.say(method="notifications/message", params={"data": "three"})

    assert first.told == [("notifications/message", {"data": "one"})]
    assert (second.told, other.told) == ([("notifications/message", {"data": "two"})], [])


async def test_changed_tools_are_told_and_a_flood_of_it_is_cut(link):
    """A mad server does not keep everybody busy."""
    for _ in range(NOTICES_PER_S + 500):
        link.say(method="notifications/tools/list_changed")

    assert link.heard == ["changed"] * NOTICES_PER_S


async def test_a_servers_question_is_answered_by_the_client_of_the_only_call(link):
    """And by nobody when there is none."""
    link.say(id="s1", method="ping")
    link.say(id="s2", method="roots/list")
    await turn()
    link.start(channel=RecordingChannel({"roots/list": {"roots": []}}, capabilities={"roots": {}}))
    await turn()
    link.say(id="s3", method="roots/list")
    await turn()

    answers = {message["id"]: message for message in link.pipes.sent if str(message.get("id")).startswith("s")}
    assert answers["s1"]["result"] == {}
    assert answers["s2"]["error"]["code"] == -32601
    assert answers["s3"]["result"] == {"roots": []}


def answers(link: Piped) -> dict[str, dict]:
    """What the server was answered, by the ids of its questions."""
    return {message["id"]: message for message in link.pipes.sent if "method" not in message}


def roots(name: str) -> RecordingChannel:
    return RecordingChannel({"roots/list": {"roots": [{"uri": f"file:///{name}"}]}}, capabilities={"roots": {}})


async def test_a_question_is_of_the_one_caller_whose_calls_are_under_way(link):
    """However many they are, and whatever toolcrib itself asks besides; the latest that can be asked is."""
    link.start(channel=roots("first"))
    link.start(channel=roots("second"))
    link.start(channel=RecordingChannel())
    link.start("tools/list", caller=None)
    await turn()

    link.say(id="s1", method="roots/list")
    await turn()

    assert answers(link)["s1"]["result"] == {"roots": [{"uri": "file:///second"}]}


@pytest.mark.parametrize("other", [BEN, Caller("ann", session="s2")])
async def test_a_question_that_may_be_for_several_callers_is_put_to_none_of_them(link, other):
    """Nor to another session of the same caller; the server is told why, and it is noted that it asks."""
    link.start(channel=roots("ann"))
    link.start(channel=roots("other"), caller=other)
    await turn()

    link.say(id="s1", method="roots/list")
    link.say(id="s2", method="ping")
    link.say(id="s3", method="what/ever")
    await turn()

    told = answers(link)
    assert (told["s1"]["error"]["code"], told["s3"]["error"]["code"]) == (-32603, -32601)
    assert "Several callers share this server" in told["s1"]["error"]["message"]
    assert told["s2"]["result"] == {}
    assert link.heard == ["asked"]


async def test_a_question_that_names_a_task_is_of_whoever_asks_about_that_task(link):
    """The call that it came of was answered long ago: whoever's call is under way now has nothing to do with it."""
    asked = {"_meta": {"io.modelcontextprotocol/related-task": {"taskId": "t1"}}}
    question, task = link.start(caller=BEN)
    await turn()
    link.say(id=question.id, result={})
    await task
    link.start(channel=roots("ann"))
    await turn()
    link.say(id="s1", method="roots/list", params=asked)
    await turn()
    link.start("tasks/result", channel=roots("ben"), caller=BEN, name="t1")
    await turn()
    link.say(id="s2", method="roots/list", params=asked)
    link.say(id="s3", method="roots/list", params={"_meta": {"io.modelcontextprotocol/related-task": "t1"}})
    await turn()

    told = answers(link)
    assert ["error" in told[name] for name in ("s1", "s2", "s3")] == [True, False, True]
    assert told["s2"]["result"] == {"roots": [{"uri": "file:///ben"}]}


async def test_a_call_that_was_given_up_counts_until_the_server_is_done_with_it(link):
    """It may still ask on behalf of who left: that is not for who is there now."""
    question, task = link.start(caller=BEN)
    await turn()
    task.cancel()
    await asyncio.wait([task])
    link.start(channel=roots("ann"))
    await turn()

    link.say(id="s1", method="roots/list")
    link.say(id=question.id, result={})
    link.say(id="s2", method="roots/list")
    await turn()

    assert "error" in answers(link)["s1"]
    assert answers(link)["s2"]["result"] == {"roots": [{"uri": "file:///ann"}]}


@pytest.mark.parametrize(
    ("users", "channel", "is_told"),
    [
        ([ANN, ANN], roots("ann"), True),
        ([ANN, Caller("ann", session="s1", kind="token")], roots("ann"), True),
        ([BEN, ANN], roots("ann"), False),
        ([ANN, BEN, ANN], roots("ann"), False),
        ([ANN], RecordingChannel(takes_input_required=True), False),
        ([None], roots("ann"), False),
    ],
)
async def test_between_calls_a_server_speaks_to_the_only_one_who_ever_used_the_link(link, users, channel, is_told):
    """A client of the stateless era hears nothing outside its requests."""
    for user in users:
        question, task = link.start(caller=user, channel=channel)
        await turn()
        link.say(id=question.id, result={})
        await task

    link.say(method="notifications/message", params={"data": "late"})
    link.say(id="s1", method="roots/list")
    await turn()

    assert bool(channel.told) == is_told
    assert ("result" in answers(link)["s1"]) == is_told


@pytest.mark.parametrize(("users", "is_known"), [((), False), ((ANN,), True), ((ANN, ANN), True), ((BEN, ANN), False)])
async def test_what_is_done_at_an_address_is_of_the_only_one_who_ever_used_the_link(link, users, is_known):
    """Also while only one of several has a call under way: the other may have been sent there."""
    channel = RecordingChannel()
    for user in users:
        _, task = link.start(channel=channel, caller=user)
        await turn()
        if user is not ANN:
            link.say(id=link._next_id, result={})
            await task

    link.say(method="notifications/elicitation/complete", params={"elicitationId": "e1"})

    assert link.completed == [({"elicitationId": "e1"}, channel if is_known else None)]


async def test_a_question_of_several_calls_ends_with_the_last_of_them(link):
    """Nobody can tell which of one caller's calls it belongs to."""
    client = Thinking()
    first, one = link.start(channel=client)
    second, other = link.start(channel=client)
    await turn()
    link.say(id="s1", method="roots/list")
    await turn()

    link.say(id=second.id, result={})
    await asyncio.wait([other])
    await turn()
    still = client.gave_up
    link.say(id=first.id, result={})
    await asyncio.wait([one])
    await turn()

    assert (still, client.gave_up, link._asking.running) == (0, 1, {})


@pytest.mark.parametrize(
    "line",
    [b"hello", b"[]", b'{"id":1,"result":{"a":"\xff"}}', b'{"id":1,"result":', b'{"id":true,"result":{}}'],
)
async def test_a_line_that_is_no_message_costs_at_most_the_call_it_answers(link, line):
    """The next line is read as ever."""
    _, task = link.start()
    await turn()

    link.message_received(line)
    await turn()
    _, other = link.start()
    await turn()
    link.say(id=2, result={"n": 2})
    link.say(id=1, result={"n": 1})

    assert json.loads(bytes(await other)) == {"n": 2}
    outcome = (await asyncio.gather(task, return_exceptions=True))[0]
    assert isinstance(outcome, ProtocolError) or json.loads(bytes(outcome)) == {"n": 1}


@pytest.mark.parametrize("message", [{"id": 1}, {"id": "1", "result": {}}, {"id": 99, "result": {}}, {"result": {}}])
async def test_an_answer_that_is_nobodys_or_empty_hurts_nobody(link, message):
    """An empty one is an error of the server."""
    _, task = link.start()
    await turn()

    link.say(**message)
    link.say(id=1, result={})

    outcome = (await asyncio.gather(task, return_exceptions=True))[0]
    assert isinstance(outcome, RemoteError) == (message == {"id": 1})


async def test_modern_servers_are_subscribed_to(link):
    """Older ones tell unasked."""
    link.agree("2025-06-18")
    link.listen(b"{}")
    link.agree("2026-07-28")
    link.listen(b'{"notifications":{}}')

    assert [message["method"] for message in link.pipes.sent] == ["subscriptions/listen"]


async def test_a_large_question_waits_until_it_is_taken(link):
    """So that a slow server does not fill the memory."""
    _, task = link.start(params=json.dumps({"x": "y" * 100_000}).encode())
    await turn()

    link.say(id=1, result={})

    assert bytes(await task) == b"{}"


async def test_a_pipe_that_closes_while_a_large_question_is_taken_is_a_lost_connection(link):
    """How much of it arrived is not known: it counts as sent."""
    link.pipes.is_closed = True
    question, task = link.start(params=json.dumps({"x": "y" * 100_000}).encode())

    with pytest.raises(ConnectionLost, match="takes no more messages"):
        await task

    assert question.sent


async def test_a_null_error_beside_a_result_is_none(link):
    """Many a library writes all members it knows."""
    _, task = link.start()
    await turn()

    link.message_received(b'{"jsonrpc":"2.0","id":1,"result":{"n":1},"error": null}')

    assert json.loads(bytes(await task)) == {"n": 1}


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_questions_of_the_server_end_with_the_call_they_were_asked_in(link, is_cancelled):
    """Answered or given up: the client need not think any longer."""
    client = Thinking()
    question, task = link.start(channel=client)
    await turn()
    link.say(id="s1", method="roots/list")
    await turn()

    if is_cancelled:
        task.cancel()
    else:
        link.say(id=question.id, result={})
    await asyncio.wait([task])
    await turn()

    assert (client.thinking, client.gave_up, link._asking.running) == (1, 1, {})
    assert "s1" not in [message.get("id") for message in link.pipes.sent]


@pytest.mark.parametrize("asked_as", ["s1", 7])
async def test_a_question_that_its_server_calls_off_ends_at_the_client_and_no_other_does(link, asked_as):
    """The call goes on, and the server gets no answer to what it called off."""
    client = Thinking()
    question, task = link.start(channel=client)
    await turn()
    for request_id in (asked_as, "s2"):
        link.say(id=request_id, method="roots/list")
    await turn()

    for params in ({"requestId": "unknown"}, {"requestId": [1]}, {}, {"requestId": str(question.id)}):
        link.say(method="notifications/cancelled", params=params)
    await turn()
    assert (client.thinking, client.gave_up) == (2, 0)
    for _ in range(2):
        link.say(method="notifications/cancelled", params={"requestId": asked_as})
        await turn()

    assert (client.thinking, client.gave_up, list(link._asking._by_id)) == (2, 1, ["s2"])
    link.say(id=question.id, result={"n": 1})
    assert json.loads(bytes(await task)) == {"n": 1}
    await turn()
    assert (client.gave_up, link._asking._by_id) == (2, {})
    assert [message["id"] for message in link.pipes.sent if "method" not in message] == []


async def test_one_question_too_many_is_refused(link, monkeypatch):
    """A server cannot fill the client's screen; when one is answered, the next may come."""
    monkeypatch.setattr(relay, "QUESTIONS_MAX", 2)
    client = Thinking()
    _, task = link.start(channel=client)
    await turn()

    for number in range(3):
        link.say(id=f"s{number}", method="roots/list")
    await turn()

    assert client.thinking == 2
    assert [(answer["id"], answer["error"]["code"]) for answer in link.pipes.sent if "error" in answer] == [
        ("s2", -32603)
    ]
    task.cancel()


async def test_a_ping_is_answered_without_a_task_and_a_flood_of_it_is_cut(link):
    """It costs one line each, up to a limit a second."""
    before = asyncio.all_tasks()

    for number in range(NOTICES_PER_S + 500):
        link.say(id=number, method="ping")

    assert asyncio.all_tasks() == before
    assert [message["id"] for message in link.pipes.sent] == list(range(NOTICES_PER_S))


async def test_noise_is_told_once_a_second_and_kept(link):
    """Enough to find out, too little to fill a log."""
    clock = ManualClock(100.0)
    clock.time = clock
    link._loop = clock

    for number in range(6):
        link.noise_received(b"Starting %d \xff" % number)
        clock.advance(NOISE_PAUSE_S / 2)
    link.message_received(b"{nonsense")

    assert link.noises[:3] == ["Starting 0 \ufffd", "Starting 2 \ufffd", "Starting 4 \ufffd"]
    assert link.noises[3].endswith("{nonsense")
    assert len(link._noise) == 5


async def test_the_time_of_the_last_message_is_kept():
    """Whoever wonders whether the server hangs can see it."""
    tasks, spawner = TaskScope(lambda _, error: None), Spawner()
    greeting = ProcessSpec(("/bin/sh", "-c", 'read line; echo \'{"id":1,"result":{}}\'; read line'), {})
    link = await StdioLink.open(spawner, greeting, LinkEvents(lambda: None, lambda: None), tasks)
    before, began = link.remains().heard_at, asyncio.get_running_loop().time()

    await asyncio.wait_for(link.ask(ServerRequest(1, "ping", b"{}")), 150)
    heard_at = link.remains().heard_at
    await link.close()
    await spawner.close()

    assert (before, heard_at > began) == (0.0, True)


async def test_a_server_that_reads_nothing_is_lost_before_it_fills_the_memory(monkeypatch):
    """What is kept for it has a hard limit; whoever waits is told."""
    monkeypatch.setattr(stdio, "UNSENT_MAX_BYTES", 256 * 1024)
    tasks, spawner, lost = TaskScope(lambda _, error: None), Spawner(), asyncio.Event()
    deaf = ProcessSpec(("/bin/sleep", "600"), {})
    link = await StdioLink.open(spawner, deaf, LinkEvents(lambda: None, lost.set), tasks)
    waiting = asyncio.create_task(link.ask(ServerRequest(1, "tools/call", b"{}")))
    await turn()

    for _ in range(20):
        link.tell("notifications/x", b'{"x":"%b"}' % (b"y" * 65536))

    assert (link.is_open, lost.is_set()) == (False, True)
    with pytest.raises(ConnectionLost):
        await waiting
    await link.close()
    await spawner.close()
