"""The Crib: one catalogue and one call path; calls never raise."""

import asyncio
import threading

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.calls.approvals import ApprovalReply
from toolcrib.calls.metrics import exposition
from toolcrib.calls.results.shown import call_result
from toolcrib.catalog.catalog import Options
from toolcrib.config.lock import Record
from toolcrib.config.model import Config, ServerConfig, ToolConfig, config_hash
from toolcrib.config.sections import SecurityConfig
from toolcrib.core import errors, events
from toolcrib.core.access import EVERYTHING, Caller, Grants
from toolcrib.core.errors import CallerError, InternalError, SourceUnavailable
from toolcrib.core.kinds import DiscoveryStatus, LinkState
from toolcrib.core.offers import SecurityLevel, Tool
from toolcrib.core.requests import CallProgress, ErrorInfo, Request, Result
from toolcrib.core.source import SourceStatus
from toolcrib.crib.builder import open_crib
from toolcrib.sources.native.functions import define
from toolcrib.sources.native.running import report_progress
from toolcrib.stores.lockfile import MemoryRecords
from toolcrib.testing import FakeSource, MemoryAudit, RecordingChannel, memory_crib


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def drop_all() -> None:
    """Drop everything."""


def server(name: str, **fields: object) -> ServerConfig:
    """The configuration ``memory_crib`` gives a source of that name, with changes."""
    return ServerConfig(name, **({"command": name} | fields))


# Calls


async def test_a_native_tool_and_a_servers_tool_are_called_the_same_way():
    """By their exposed names, with an object of arguments."""
    files = FakeSource("files", ["read"])
    async with memory_crib(files, tools=[add]) as made:
        results = [await made.crib.call("add", {"a": 1, "b": 2}), await made.crib.call("files__read", {"path": "x"})]

    assert [(result.success, result.data, result.error, result.content) for result in results] == [
        (True, 3, None, [{"type": "text", "text": "3"}]),
        (True, "read ran", None, [{"type": "text", "text": "read ran"}]),
    ]
    asked = [(call.name, call.target, call.arguments) for call in files.calls]
    assert asked == [("files__read", "read", {"path": "x"})]


async def test_nothing_is_asked_before_the_first_call_and_then_only_the_server_it_needs():
    """Opening a Crib connects to nobody."""
    files, other = FakeSource("files", ["read"]), FakeSource("other", ["read"])
    async with memory_crib(files, other) as made:
        before = files.listed
        result = await made.crib.call("files__read")

    assert (before, result.text, files.listed, other.listed) == (0, "read ran", 1, 0)


async def test_many_first_calls_make_one_discovery():
    """All of them are served."""
    files = FakeSource("files", ["read"])
    async with memory_crib(files) as made:
        results = await asyncio.gather(*(made.crib.call("files__read") for _ in range(50)))

    assert ([result.text for result in results], files.listed) == (["read ran"] * 50, 1)


async def test_fifty_calls_run_at_once():
    """Native and remote, none waits for another."""
    files, barrier = FakeSource("files", ["read"]), threading.Barrier(50, timeout=150)

    def meet() -> str:
        barrier.wait()
        return "met"

    together = asyncio.Barrier(50)

    async def answer(_: Request) -> str:
        await together.wait()
        return "read together"

    files.answers["read"] = answer
    async with memory_crib(files, tools=[meet]) as made:
        native = await asyncio.gather(*(made.crib.call("meet") for _ in range(50)))
        remote = await asyncio.gather(*(made.crib.call("files__read") for _ in range(50)))

    assert {result.text for result in native} == {"met"}
    assert {result.text for result in remote} == {"read together"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ad", "No tool named 'ad'. Did you mean 'add'?"),
        ("files__raed", "No tool named 'files__raed'. Did you mean 'files__read'?"),
        ("zzz", "No tool named 'zzz'. Run `toolcrib ls` to see what is there."),
        ("nobody__read", "No tool named 'nobody__read'."),
        ("", "No tool named ''."),
    ],
)
async def test_an_unknown_tool_is_told_the_near_ones(name, message):
    """With a warning for whoever runs this."""
    async with memory_crib(FakeSource("files", ["read"]), tools=[add]) as made:
        await made.crib.current()
        result = await made.crib.call(name)

    assert result.error.code == "TOOL_NOT_FOUND"
    assert result.error.message.startswith(message)
    assert result.text == result.error.message
    assert made.told("call.unknown") == [{"tool": name}]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("__tool", "'__tool' names no server. Write it as server__tool."),
        ("alpha__", "'alpha__' names no tool. Write it as server__tool."),
        ("files__", "'files__' names no tool. Did you mean 'files__read'?"),
        ("__", "'__' names no server. Write it as server__tool."),
        (None, "A tool is called by its name, a text; this is none: None."),
        (5, "A tool is called by its name, a text; this is none: 5."),
        (["add"], "A tool is called by its name, a text; this is none: ['add']."),
    ],
)
async def test_what_cannot_be_a_name_is_invalid_input_and_not_an_unknown_tool(name, message):
    """The caller has to write another one; no server could ever offer it."""
    async with memory_crib(FakeSource("files", ["read"]), tools=[add]) as made:
        await made.crib.current()
        result = await made.crib.call(name)

    assert (result.error.code, result.error.message, result.error.retryable) == ("TOOL_INVALID_INPUT", message, False)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda crib: crib.list_tools("bogus"), "No tool format named 'bogus'. Known formats: mcp, anthropic,"),
        (lambda crib: crib.list_tools(5), "No tool format named 5. Known formats: mcp, anthropic,"),
        (lambda crib: crib.discover(5), "A server is named by a text; this is none: 5."),
        (lambda crib: crib.discover(None), "A server is named by a text; this is none: None."),
        (lambda crib: crib.read(None), "A tool is called by its name, a text; this is none: None."),
        (lambda crib: crib.get(5), "A tool is called by its name, a text; this is none: 5."),
        (lambda crib: crib.get("add", 5), "add: the arguments must be an object, not 5."),
        (lambda crib: crib.call("add", {5: 1}), "add: the value cannot be read as JSON: Dict key must be str"),
        (lambda crib: crib.call("add", caller=5), "add: the caller must be a toolcrib.Caller, not 5."),
        (lambda crib: crib.call("add", timeout_s="1"), "add: timeout_s must be a number of seconds above 0, not '1'."),
        (lambda crib: crib.call("add", timeout_s=-1), "add: timeout_s must be a number of seconds above 0, not -1."),
    ],
)
async def test_whatever_a_program_passes_it_gets_a_result_with_a_code(ask, message):
    """Never a TypeError, and never a fault of toolcrib's own."""
    async with memory_crib(tools=[add]) as made:
        result = await ask(made.crib)

    assert (result.success, result.error.code) == (False, "TOOL_INVALID_INPUT")
    assert result.error.message.startswith(message)


async def test_tools_can_be_listed_as_a_result():
    """The same list as ``tools`` gives, which raises what is wrong with the question."""
    async with memory_crib(tools=[add]) as made:
        plain, listed = await made.crib.tools("anthropic"), await made.crib.list_tools("anthropic")
        with pytest.raises(CallerError, match="No tool format named 'bogus'"):
            await made.crib.tools("bogus")

    assert (listed.success, listed.data) == (True, plain)


OUTCOMES = st.sampled_from(
    [
        Result({"content": []}),
        Result({"content": [], "isError": True}, error=ErrorInfo("TOOL_EXECUTION_FAILED", "no")),
        Result(raw=b'{"content":[{"type":"text","text":"raw"}]}'),
        Result(raw=b'{"content":"odd","structuredContent":{"n":1e999}}'),
        Result(raw=b'{"content":[null,5,{"type":"text"},{"type":"text","text":5}]}'),
        Result(raw=b"[]"),
        Result(raw=b"\xff"),
        "text",
        *(kind(f"{kind.__name__} it is") for kind in (errors.CallerError, errors.SourceUnavailable)),
        errors.ConnectionLost("lost"),
        errors.ProtocolError("odd"),
        errors.RemoteError(-32000, "own words", data={"a": 1}),
        errors.CallTimeout("late"),
        errors.NotImplementedHere("not yet"),
        ValueError("bug"),
        KeyError("bug"),
        RecursionError("deep"),
        OSError("disk"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
    ]
)
ARGUMENTS = (
    st.none()
    | st.just([1])
    | st.just("text")
    | st.dictionaries(st.text(max_size=3), st.text(max_size=3) | st.integers() | st.none(), max_size=2)
)


@given(OUTCOMES, ARGUMENTS, st.sampled_from(["srv__work", "srv__strict", "srv__other", "x", "", "__"]), st.booleans())
def test_a_call_never_raises(outcome, arguments, name, listing_fails):
    """Whatever a server does and a caller sends, there is a result, its code is a known one, and it can be read."""
    strict = Tool("strict", input_schema={"type": "object", "required": ["a"]}, output_schema={"type": "object"})

    async def run() -> Result:
        source = FakeSource("srv", [Tool("work"), strict])
        source.answers = {"work": outcome, "strict": outcome}
        source.trouble = outcome if listing_fails and isinstance(outcome, Exception) else None
        async with memory_crib(source) as made:
            return await made.crib.call(name, arguments)

    result = asyncio.run(run())

    assert result.success or result.error.code in errors.TOOL_CODES
    assert repr(result)
    assert call_result(result, ("", ""), 0.0).success is result.success


async def test_arguments_that_are_no_object_are_the_callers_mistake():
    """A list or a text is refused before anything runs, and that is written down."""
    log = MemoryAudit()
    async with memory_crib(tools=[add], audit=log) as made:
        result = await made.crib.call("add", [1, 2])

    assert (result.error.code, result.error.message) == (
        "TOOL_INVALID_INPUT",
        "add: the arguments must be an object, not [1, 2].",
    )
    assert [(entry.tool, entry.caller, entry.outcome, bool(entry.execution_id)) for entry in log.noted] == [
        ("add", "local", "TOOL_INVALID_INPUT", True)
    ]


async def test_bad_arguments_are_told_what_is_required():
    """The tool does not run."""
    async with memory_crib(tools=[add]) as made:
        result = await made.crib.call("add", {"a": 1})

    assert result.error == ErrorInfo(
        "TOOL_INVALID_INPUT", "add: missing required field 'b' (integer)\nRequired fields: a, b."
    )


async def test_a_fault_of_our_own_is_a_result_with_an_id_for_the_log():
    """The caller is not shown the insides."""
    files = FakeSource("files", ["read"])
    files.answers["read"] = KeyError("secret inside")
    async with memory_crib(files) as made:
        result = await made.crib.call("files__read")

    call_id, trace_id = result.metadata["execution_id"], result.metadata["trace_id"]
    assert result.error.code == "TOOL_INTERNAL"
    assert result.error.message == (
        f"toolcrib failed while running files__read (KeyError). The log has the details under id {call_id}."
    )
    told = {"tool": "files__read", "id": call_id, "trace_id": trace_id, "error": "KeyError('secret inside')"}
    assert made.told("call.internal") == [told]


async def test_a_late_tool_is_cancelled_and_says_so():
    """The caller's limit counts before the configured one."""
    files = FakeSource("files", ["read"])
    files.calling.hold()
    async with memory_crib(files) as made:
        await made.crib.refresh()  # or a busy machine spends the time on looking for the tool
        result = await made.crib.call("files__read", timeout_s=0.001)

    assert (result.error.code, result.error.retryable) == ("TOOL_TIMEOUT", True)
    assert made.crib.metrics.totals()["timedOut"] == 1


async def test_only_cancellation_is_raised():
    """Somebody who cancels does not wait for a result."""
    files = FakeSource("files", ["read"])
    files.calling.hold()
    async with memory_crib(files) as made:
        task = asyncio.create_task(made.crib.call("files__read"))
        await files.calling.reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert made.told(events.CALL_FINISHED)[0]["code"] == "TOOL_CANCELLED"


async def test_a_server_that_cannot_be_reached_is_unavailable_and_not_asked_again_at_once():
    """With the reason of the failed discovery and what is known about it."""
    files = FakeSource("files")
    files.trouble = SourceUnavailable("The server 'files' will not start.")
    files.state = SourceStatus(LinkState.FAILING, details={"phase": "starting"})
    async with memory_crib(files) as made:
        results = [await made.crib.call("files__read") for _ in range(3)]

    assert files.listed == 1
    assert {(result.error.code, result.error.message, result.error.retryable) for result in results} == {
        ("TOOL_UNAVAILABLE", "The server 'files' will not start.", True)
    }
    assert results[0].error.details == {"phase": "starting"}


async def test_a_failed_discovery_leaves_known_tools_usable():
    """The server may be up again when it is called."""
    files = FakeSource("files", ["read"])
    async with memory_crib(files) as made:
        await made.crib.refresh("files")
        files.trouble = SourceUnavailable("down")
        await made.crib.refresh("files")
        result = await made.crib.call("files__read")

    assert result.text == "read ran"


async def test_the_callers_argument_object_is_never_changed():
    """Renaming and defaults happen on a copy."""
    given_arguments = {"device_name": "lamp"}
    schema = {"type": "object", "properties": {"deviceName": {"type": "string"}}}
    home = FakeSource("home", [Tool("switch", input_schema=schema)])
    async with memory_crib(home) as made:
        await made.crib.call("home__switch", given_arguments)

    assert given_arguments == {"device_name": "lamp"}
    assert home.calls[0].arguments == {"deviceName": "lamp"}


async def test_the_layers_stand_in_their_listed_order():
    """Names are normalised before they are checked, and a refused call never reaches the server."""
    schema = {"type": "object", "properties": {"deviceName": {"type": "string"}}, "additionalProperties": False}
    home = FakeSource("home", [Tool("switch", input_schema=schema)])
    async with memory_crib(home) as made:
        good = await made.crib.call("home__switch", {"device_name": "lamp"})
        bad = await made.crib.call("home__switch", {"device_name": ["lamp", "fan"]})

    assert (good.success, bad.error.code, len(home.calls)) == (True, "TOOL_INVALID_INPUT", 1)
    assert made.crib.metrics.of("home__switch").view().refused == 1


async def test_a_program_hears_of_the_progress_of_its_call():
    """Of native functions in threads and on the loop, and of servers; a call within one is another one's."""
    source = FakeSource("files", ["copy"])

    def copy(call: Request) -> str:
        for told in (b'{"progress":3,"total":4}', b'{"progress":"much"}', b"[]"):
            call.channel.notify("notifications/progress", told)
        return "done"

    source.answers["copy"] = copy
    channel, heard = RecordingChannel(), []

    def in_thread() -> None:
        report_progress(1, message="a")

    async def on_loop() -> None:
        await made.crib.call("in_thread")
        report_progress(2, 4)

    async with memory_crib(source, tools=[in_thread, on_loop]) as made:
        for name in ("in_thread", "on_loop", "files__copy"):
            await made.crib.call(name, on_progress=heard.append, channel=channel)
        report_progress(9)

    assert heard == [CallProgress(1, message="a"), CallProgress(2, 4), CallProgress(3, 4)]
    assert channel.told == []


async def test_a_listener_that_fails_costs_the_call_nothing():
    """It is told where errors are told."""

    def count() -> int:
        report_progress(1)
        return 2

    async with memory_crib(tools=[count]) as made:
        result = await made.crib.call("count", on_progress=lambda progress: progress.missing)

    assert result.data == 2
    assert [fields["tool"] for fields in made.told("call.progress.raised")] == ["count"]


async def test_nobody_hears_of_a_call_that_is_over():
    """Its thread may still run."""
    go_on, heard, ended = threading.Event(), [], threading.Event()

    def count() -> None:
        go_on.wait(150)
        report_progress(1)
        ended.set()

    async with memory_crib(tools=[count]) as made:
        late = await made.crib.call("count", on_progress=heard.append, timeout_s=0.01)
        go_on.set()
        await asyncio.to_thread(ended.wait, 150)
        await asyncio.sleep(0)

    assert (late.error.code, heard) == ("TOOL_TIMEOUT", [])


async def test_a_crib_is_a_source_of_another_one():
    """Its tools have its name before theirs; its own rules hold and it writes calls down; it stays open."""
    log, rules = MemoryAudit(), SecurityConfig(policies={"drop_all": "deny"})
    config, kept = Config(security=rules), FakeSource("files", ["read"])
    async with memory_crib(kept, tools=[add, drop_all], config=config, audit=log) as inner:
        async with open_crib(Config(), sources=[inner.crib.as_source("team")]) as outer:
            names = [tool.name for tool in await outer.tools()]
            sum_, wrong = await outer.call("team__add", {"a": 1, "b": 1}), await outer.call("team__add", {"a": "x"})
            denied = await outer.call("team__drop_all")
        after = await inner.crib.call("add", {"a": 2, "b": 2})

    assert names == ["result_read", "team__add", "team__files__read"]
    assert (sum_.text, wrong.error.code, denied.error.code) == ("2", "TOOL_INVALID_INPUT", "TOOL_NOT_FOUND")
    assert (after.text, [entry.tool for entry in log.noted]) == ("4", ["add", "add"])


async def test_the_grants_of_a_caller_speak_of_the_names_of_the_outer_crib():
    """What it lets through, the inner one does not refuse for its own names' sake; levels are the same in both."""
    reader = Caller("ann", "token", Grants(SecurityLevel.WRITE, ("team",), ("team__add",)))
    inner_tools = [add, define(drop_all, security_level="admin")]
    async with (
        memory_crib(tools=inner_tools) as inner,
        open_crib(Config(), sources=[inner.crib.as_source("team")]) as outer,
    ):
        shown = [tool.name for tool in await outer.tools(caller=reader)]
        names = ("team__add", "team__drop_all")
        results = [await outer.call(name, {"a": 1, "b": 1}, caller=reader) for name in names]
        levels = {route.name: route.tool.security_level for route in outer.catalog.of_server("team")}

    assert shown == ["result_read", "team__add"]
    assert [result.success for result in results] == [True, False]
    assert levels == {"team__add": "write", "team__drop_all": "admin"}


async def test_a_tool_that_comes_to_an_inner_crib_comes_to_the_outer_one():
    """It says so, and is asked again."""
    async with memory_crib() as inner, open_crib(Config(), sources=[inner.crib.as_source("team")]) as outer:
        await outer.tools()
        changed = asyncio.Event()
        outer.on_change(changed.set)
        inner.crib.register(add)
        await asyncio.wait_for(changed.wait(), 150)
        result = await outer.call("team__add", {"a": 1, "b": 1})

    assert result.text == "2"


# The catalogue


async def test_all_tools_are_listed_by_name_in_any_format():
    """Native and remote together."""
    files = FakeSource("files", [Tool("read", "Read a file.")])
    async with memory_crib(files, tools=[add]) as made:
        values = await made.crib.tools()
        shapes = {format_: await made.crib.tools(format_) for format_ in ("mcp", "anthropic", "openai")}
        with pytest.raises(CallerError, match="No tool format"):
            await made.crib.tools("antropic")

    assert [tool.name for tool in values] == ["add", "files__read"]
    assert [sorted(shown[0]) for shown in shapes.values()] == [
        ["_meta", "description", "inputSchema", "name"],
        ["description", "input_schema", "name"],
        ["function", "type"],
    ]
    assert shapes["anthropic"][1] == {
        "name": "files__read",
        "description": "Read a file.",
        "input_schema": {"type": "object"},
    }


async def test_an_offer_leads_back_to_the_tools_and_tells_of_those_left_out():
    """Also in the log, for whoever only asks for the definitions."""
    odd = Tool("odd", input_schema={"type": ["string", "array"]})
    async with memory_crib(FakeSource("files", [Tool("read.all"), odd])) as made:
        offer = await made.crib.offer("gemini", Options(name_limit=46))
        definitions = await made.crib.tools("gemini")

    assert offer.original("files__read_all") == "files__read.all"
    assert offer.left_out == {"files__odd": "its arguments are not an object but string or array"}
    assert definitions == offer.definitions
    assert made.told(events.TOOLS_LEFT_OUT) == [{"format": "gemini", "tools": offer.left_out}] * 2


async def test_what_was_repaired_is_in_the_result_and_in_the_audit_log():
    """Whoever looks at the call later sees what was really sent, and why."""
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "additionalProperties": False}
    log = MemoryAudit()
    async with memory_crib(FakeSource("files", [Tool("read", input_schema=schema)]), audit=log) as made:
        result = await made.crib.call("files__read", {"Path": "/x"})

    assert result.content[-1]["text"] == "Note from toolcrib on your arguments: read 'Path' as 'path'."
    assert log.noted[-1].details["repairs"] == ["read 'Path' as 'path'"]


async def test_a_tool_that_changed_is_called_by_its_new_definition():
    """Nothing of the old layers is left."""
    strict = {"type": "object", "required": ["a"]}
    files = FakeSource("files", [Tool("read", input_schema=strict)])
    async with memory_crib(files) as made:
        refused = await made.crib.call("files__read")
        files.tools = (Tool("read"),)
        await made.crib.refresh("files")
        await made.crib.servers.approve("files__read")
        accepted = await made.crib.call("files__read")

    assert (refused.error.code, accepted.success) == ("TOOL_INVALID_INPUT", True)


async def test_native_tools_come_change_and_go_at_run_time():
    """Each change is there at once, replacing one is warned about."""
    async with memory_crib(tools=[add]) as made:
        made.native.register(define(lambda: "old", name="greet", input_schema={"type": "object"}))
        seen = [list(made.crib.catalog.routes)]

        @made.native.register
        def greet(name: str) -> str:
            return f"Hello {name}"

        greeting = (await made.crib.call("greet", {"name": "you"})).text
        made.native.unregister("greet")
        seen.append(list(made.crib.catalog.routes))
        gone = await made.crib.call("greet", {"name": "you"})

    assert (seen, greeting, gone.error.code) == ([["add", "greet"], ["add"]], "Hello you", "TOOL_NOT_FOUND")
    assert made.told("tools.registry.replaced") == [{"tool": "greet"}]


async def test_versions_of_a_tool_are_called_side_by_side():
    """The newest by its name alone."""

    def greet(version: str):
        def greeting() -> str:
            return version

        return define(greeting, name="greet", version=version)

    async with memory_crib(tools=[greet("1.0"), greet("2.0")]) as made:
        answers = [(await made.crib.call(name)).text for name in ("greet", "greet@1.0")]

    assert answers == ["2.0", "1.0"]


async def test_a_server_cannot_shadow_a_native_tool():
    """Its tool is left out, and said so."""

    def files__read() -> str:
        return "native"

    async with memory_crib(FakeSource("files", ["read"]), tools=[files__read]) as made:
        await made.crib.current()
        result = await made.crib.call("files__read")

    assert result.text == "native"
    assert list(made.crib.catalog.left_out) == ["files__read"]


async def test_the_registry_can_be_asked_and_changed():
    """Register, look up, see every entry, unregister: without starting anybody."""
    config = Config(servers={"files": server("files", tools={"read": ToolConfig(policy="ask")})})
    files = FakeSource("files", [Tool("read", "Read a file.")])
    async with memory_crib(files, config=config) as made:
        registered = made.crib.register(add)
        before = msgspec.to_builtins(made.crib.entries())
        await made.crib.refresh("files")
        after, route = msgspec.to_builtins(made.crib.entries()), made.crib.lookup("files__read")
        discovered = made.crib.shelves["files"].record.last_discovery
        removed = [made.crib.unregister("add"), made.crib.unregister("add")]

    native = {
        "name": "add",
        "description": "Add two numbers.",
        "kind": "native",
        "server": None,
        "originalName": "add",
        "policy": "allow",
        "level": "write",
        "held": None,
        "discoveryStatus": "success",
        "lastDiscovered": None,
    }
    assert (registered.name, before, removed, made.crib.lookup("add")) == ("add", [native], [True, False], None)
    assert after == [
        native,
        {
            "name": "files__read",
            "description": "Read a file.",
            "kind": "mcp",
            "server": "files",
            "originalName": "read",
            "policy": "ask",
            "level": "read_only",
            "held": None,
            "discoveryStatus": "success",
            "lastDiscovered": discovered,
        },
    ]
    assert (route.server, route.original_name, route.source) == ("files", "read", files)


async def test_a_discovery_by_hand_is_a_result_and_never_raises():
    """What was registered; a failure names the server's reason, an unknown server the near ones."""
    files, broken = FakeSource("files", ["a", "b"]), FakeSource("broken")
    broken.trouble = SourceUnavailable("It is down.")
    async with memory_crib(files, broken) as made:
        good, bad, unknown = (
            await made.crib.discover("files"),
            await made.crib.discover(),
            await made.crib.discover("fils"),
        )

    assert good.success
    assert good.data == {"registered": 2, "servers": {"files": {"status": "success", "tools": 2, "error": None}}}
    assert (bad.error.code, bad.error.message, bad.error.retryable) == ("TOOL_UNAVAILABLE", "It is down.", True)
    assert bad.error.details["servers"]["broken"] == {"status": "failed", "tools": 0, "error": "It is down."}
    assert "Did you mean 'files'?" in unknown.error.message


async def test_whether_a_discovery_is_stale_can_be_asked():
    """Unknown servers and those never asked are; a fresh one is not, until its time is over."""
    async with memory_crib(FakeSource("files", ["a"])) as made:
        answers = [made.crib.is_stale("files"), made.crib.is_stale("nobody")]
        await made.crib.refresh("files")
        answers.append(made.crib.is_stale("files"))
        made.crib.shelves["files"].fresh_until = 0.0
        answers.append(made.crib.is_stale("files"))

    assert answers == [True, True, False, True]


async def test_configured_wishes_hold_for_single_tools():
    """Hidden, given a time limit, renamed parameters."""
    tools = {"secret": ToolConfig(enabled=False), "read": ToolConfig(timeout_s=7, parameters={"path": "file"})}
    config = Config(servers={"files": server("files", tools=tools)})
    files = FakeSource("files", ["read", "secret"])
    async with memory_crib(files, config=config) as made:
        await made.crib.call("files__read", {"path": "x"})
        hidden = await made.crib.call("files__secret")
        timeout_s = made.crib.catalog.routes["files__read"].tool.timeout_s

    assert (hidden.error.code, timeout_s, files.calls[0].arguments) == ("TOOL_NOT_FOUND", 7, {"file": "x"})


# Without prefixes


async def test_without_prefixes_tools_go_by_their_own_names():
    """Discovery for a name asks all servers, at once."""
    first, second = FakeSource("a", ["read"]), FakeSource("b", ["write"])
    gate = asyncio.Barrier(2)
    for source in (first, second):
        original = source.list_offers

        async def together(original=original):
            await gate.wait()
            return await original()

        source.list_offers = together
    async with memory_crib(first, second, prefix=False) as made:
        result = await asyncio.wait_for(made.crib.call("write"), 150)

    assert result.text == "write ran"


async def test_without_prefixes_a_broken_server_hides_nobody_elses_tools():
    """An unknown name is unknown, whatever else is down."""
    broken = FakeSource("a")
    broken.trouble = SourceUnavailable("down")
    async with memory_crib(broken, FakeSource("b", ["read"]), prefix=False) as made:
        results = [await made.crib.call(name) for name in ("read", "nothing")]

    assert [result.error and result.error.code for result in results] == [None, "TOOL_NOT_FOUND"]


# Health, metrics, the end


async def test_health_shows_servers_tools_and_calls():
    """All well."""
    async with memory_crib(FakeSource("files", ["read"]), tools=[add]) as made:
        await made.crib.call("files__read")
        health, discovered = msgspec.to_builtins(made.crib.health()), made.crib.shelves["files"].record.last_discovery

    assert health["status"] == "healthy"
    assert health["tools"] == {"native": 1, "mcp": 1}
    assert health["calls"]["executed"] == 1
    assert health["servers"]["files"] == {
        "health": "healthy",
        "state": "idle",
        "discovery": "success",
        "tools": 1,
        "stale": False,
        "lastDiscovery": discovered,
        "error": "",
        "era": "",
        "restarts": 0,
        "stdoutNoise": 0,
        "breaker": "closed",
        "retryAfterSeconds": 0.0,
        "isolation": "",
        "share": "all",
        "lanes": 0,
    }


async def test_every_call_leaves_one_entry_in_the_audit_log():
    """What ran, what was not found, and what could not be asked."""
    broken = FakeSource("broken")
    broken.trouble = SourceUnavailable("down")
    log = MemoryAudit()
    async with memory_crib(FakeSource("files", ["read"]), broken, tools=[add], audit=log) as made:
        await made.crib.call("add", {"a": 1, "b": 2})
        await made.crib.call("files__read")
        await made.crib.call("add", {"a": "x"})
        await made.crib.call("nothing\x1b", {"a": 1})
        await made.crib.call("broken__read")

    assert [(entry.tool, entry.server, entry.decision, entry.outcome) for entry in log.noted] == [
        ("add", "native", "allowed", "success"),
        ("files__read", "files", "allowed", "success"),
        ("add", "native", "allowed", "TOOL_INVALID_INPUT"),
        ("nothing\\u{1b}", "", "unknown", "TOOL_NOT_FOUND"),
        ("broken__read", "", "unknown", "TOOL_UNAVAILABLE"),
    ]
    assert len({entry.trace_id for entry in log.noted}) == 5
    assert log.noted[3].details == {"arguments_size": 7, "arguments": {"a": "integer"}}
    assert log.closed


@pytest.mark.parametrize(
    "grants",
    [
        Grants(SecurityLevel.SYSTEM, servers=("files",)),
        Grants(SecurityLevel.SYSTEM, tools=("files__*",)),
        Grants(SecurityLevel.READ_ONLY),
        Grants(),
    ],
)
async def test_the_records_of_a_refused_call_do_not_tell_whether_the_tool_exists(grants):
    """Result, audit entry and tallies are the same for a tool that is hidden and for one that is not there."""
    log, caller = MemoryAudit(), Caller("token:1", "token", grants)
    async with memory_crib(FakeSource("files", ["read"]), FakeSource("other", ["there"]), audit=log) as made:
        await made.crib.tools()
        results = [await made.crib.call(name, {"a": "x"}, caller=caller) for name in ("other__there", "other__absent")]
        tallies = made.crib.metrics.unknown, made.crib.metrics.totals()["executed"]

    shown = [msgspec.structs.replace(entry, tool="", trace_id="", execution_id="") for entry in log.noted]
    assert [result.error for result in results] == [results[0].error] * 2
    assert (len(shown), shown[0]) == (2, shown[1])
    assert (shown[0].server, shown[0].level, shown[0].decision) == ("", "", "hidden")
    assert sum(tallies[0].values()) == 2
    assert tallies[1] == 0


async def test_a_timeout_is_in_the_audit_log():
    """With the call's own entry, begun before."""
    files, log = FakeSource("files", ["write"]), MemoryAudit()
    files.calling.hold()
    async with memory_crib(files, audit=log) as made:
        await made.crib.refresh()
        await made.crib.call("files__write", timeout_s=0.01)

    assert [entry.event for entry in log.committed] == ["call.begun"]
    assert [entry.outcome for entry in log.noted] == ["TOOL_TIMEOUT"]


async def test_health_and_metrics_know_the_audit_log():
    """How it is doing, for whoever watches."""
    async with memory_crib(tools=[add], audit=MemoryAudit(problem="the disk is full")) as made:
        await made.crib.call("nothing")
        health, page = made.crib.health().audit, exposition(made.crib.metrics, made.crib.health(), "1", 0.0)

    assert (health["enabled"], health["problem"], health["written"]) == (True, "the disk is full", 1)
    assert "toolcrib_audit_up 0\n" in page
    assert 'toolcrib_call_refusals_total{code="TOOL_NOT_FOUND"} 1\n' in page


async def test_health_is_degraded_while_any_part_is_away_and_names_it():
    """Although every server is well, and however the part is called."""
    files = FakeSource("files", ["read"])
    async with memory_crib(files, audit=MemoryAudit(problem="the disk is full")) as made:
        await made.crib.refresh()
        health = made.crib.health()

    assert (health.status, health.away) == ("degraded", {"audit": "the disk is full"})
    assert health.parts == {"audit": "the disk is full"}


async def test_health_follows_the_servers():
    """One of two down: degraded; known tools of a server in trouble are stale; all down: unhealthy."""
    files, other = FakeSource("files", ["read"]), FakeSource("other")
    other.trouble = SourceUnavailable("down")
    async with memory_crib(files, other) as made:
        await made.crib.refresh()
        one_down = made.crib.health()
        files.trouble = SourceUnavailable("down too")
        await made.crib.refresh("files")
        stale = made.crib.health().servers["files"]
        await made.crib.servers.apply({"other": server("other")})
        all_down = made.crib.health().status

    assert (one_down.status, one_down.servers["other"].health) == ("degraded", "unhealthy")
    assert one_down.away == {"server other": "down"}
    assert (stale.health, stale.stale, stale.error, stale.tools) == ("degraded", True, "down too", 1)
    assert all_down == "unhealthy"


async def test_metrics_are_kept_per_tool():
    """Good and bad, by exposed name."""
    files = FakeSource("files", ["read"])
    files.answers["read"] = errors.ToolFailed("no")
    async with memory_crib(files, tools=[add]) as made:
        await made.crib.call("files__read")
        await made.crib.call("add", {"a": 1, "b": 1})
        tallies = {name: (tally.executed, tally.failed) for name, tally in made.crib.metrics.tools.items()}

    assert tallies == {"files__read": (1, 1), "add": (1, 0)}


async def test_events_never_hold_argument_values():
    """Names and durations, no personal data."""
    files = FakeSource("files", ["read"])
    files.answers["read"] = errors.ToolFailed("no")
    async with memory_crib(files) as made:
        await made.crib.call("files__read", {"device_name": "hunter2"})

    assert not [event for event in made.events if "hunter2" in repr(event)]


async def test_a_slow_call_is_warned_about():
    """By the configured limit."""
    async with memory_crib(FakeSource("files", ["read"]), config=Config(slow_call_s=-1)) as made:
        await made.crib.call("files__read")

    assert [fields["tool"] for fields in made.told(events.CALL_SLOW)] == ["files__read"]


async def test_closing_closes_every_source_once():
    """Safe to do twice; afterwards calls are refused with a result."""
    files = FakeSource("files", ["read"])
    async with memory_crib(files, tools=[add]) as made:
        await made.crib.current()
        await made.crib.close()
        await made.crib.close()
        result = await made.crib.call("files__other")
        made.native.unregister("add")

    assert (files.closed, result.error.code) == (True, "TOOL_INTERNAL")


async def test_whoever_waits_when_it_closes_gets_an_answer():
    """Not a cancellation that nobody asked for."""
    files = FakeSource("files", ["read"])
    files.listing.hold()
    async with memory_crib(files) as made:
        waiting = asyncio.create_task(made.crib.call("files__read"))
        await files.listing.reached.wait()
        await made.crib.close()
        result = await asyncio.wait_for(waiting, 150)

    assert result.error.code == "TOOL_UNAVAILABLE"


async def test_a_crib_that_was_never_opened_says_so():
    """What to do instead."""
    async with memory_crib() as made:
        unopened = type(made.crib)(made.crib._parts, ())

    with pytest.raises(InternalError, match="not open"):
        await unopened.tools()


async def test_records_of_an_earlier_run_are_there_at_once():
    """No server is asked for what is known; before its first call it is asked once whether that still holds."""
    records = MemoryRecords()
    async with memory_crib(FakeSource("files", ["read"]), records=records) as made:
        await made.crib.current()
    later = FakeSource("files", ["read"])

    async with memory_crib(later, records=records) as made:
        known, asked = list(made.crib.catalog.routes), later.listed
        results = [await made.crib.call("files__read") for _ in range(2)]

    assert (known, asked) == (["files__read"], 0)
    assert ([result.text for result in results], later.listed) == (["read ran"] * 2, 1)


async def test_the_limit_of_a_call_holds_for_finding_its_tool_too():
    """A server that is slow to be discovered does not keep the caller longer than it asked for."""
    slow = FakeSource("slow", ["read"])
    slow.listing.hold()
    async with memory_crib(slow) as made:
        result = await made.crib.call("slow__read", timeout_s=0.05)

    assert result.error.code == "TOOL_TIMEOUT"
    assert [fields["code"] for fields in made.told("call.finished")] == ["TOOL_TIMEOUT"]


async def test_without_prefixes_a_hanging_server_does_not_delay_calls_to_others():
    """The tool is called as soon as somebody offers it."""
    slow, quick = FakeSource("a_slow", ["other"]), FakeSource("b_quick", ["read"])
    slow.listing.hold()
    async with memory_crib(slow, quick, prefix=False) as made:
        result = await made.crib.call("read", timeout_s=20)

    assert result.success


async def test_a_damaged_record_costs_only_its_bad_entries():
    """The lock is a file, and files get edited."""
    good, bad = {"name": "read", "inputSchema": {"type": "object"}}, {"description": "no name"}
    config = server("files")
    record = Record(
        "files", DiscoveryStatus.SUCCESS, (good, bad), "2026-01-01T00:00:00Z", config_hash=config_hash(config)
    )
    records = MemoryRecords()
    await records.update("files", lambda _: record)
    async with memory_crib(FakeSource("files", ["read"]), records=records) as made:
        assert list(made.crib.catalog.routes) == ["files__read"]


async def test_a_tool_that_changed_since_the_last_run_is_not_called_even_if_nobody_lists():
    """Its server is asked once before the first call of a run; whoever only calls is protected, too."""
    records = MemoryRecords()
    async with memory_crib(FakeSource("files", [Tool("read", description="Read.")]), records=records) as made:
        await made.crib.current()
    changed = FakeSource("files", [Tool("read", description="Read. And more.")])

    async with memory_crib(changed, records=records) as made:
        results = [await made.crib.call("files__read") for _ in range(2)]

    assert [result.error.code for result in results] == ["TOOL_PERMISSION_DENIED"] * 2
    assert changed.calls == []


async def test_a_denial_that_comes_while_a_person_thinks_counts():
    """The answer was given to another question."""
    owner, source = Caller("owner", "token", EVERYTHING), FakeSource("files", ["write"])
    config = Config({"files": server("files")}, security=SecurityConfig(policy="ask"))
    async with memory_crib(source, config=config) as made:
        await made.crib.current()
        await made.crib.inbox.look(owner)
        waiting = asyncio.create_task(made.crib.call("files__write"))
        (found,) = await made.crib.inbox.look(owner, 60)
        await made.crib.servers.apply(config.servers, SecurityConfig(policy="deny"))
        made.crib.inbox.answer(found.question.id, ApprovalReply.ONCE, owner)
        result = await waiting

    assert result.error.code == "TOOL_PERMISSION_DENIED"
    assert "changed while it waited" in result.error.message
    assert source.calls == []


async def test_a_call_that_is_called_off_while_its_tool_is_looked_for_is_in_the_audit_log():
    """It never came to the layers, and still leaves one entry."""
    files, log = FakeSource("files", ["read"]), MemoryAudit()
    files.listing.hold()
    async with memory_crib(files, audit=log) as made:
        call = asyncio.create_task(made.crib.call("files__read"))
        await files.listing.reached.wait()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        files.listing.release()

    assert [(entry.tool, entry.outcome) for entry in log.noted] == [("files__read", "TOOL_CANCELLED")]


async def test_a_tool_that_is_gone_since_the_last_run_is_unknown():
    """Its server is not bothered with a call it cannot understand."""
    records = MemoryRecords()
    async with memory_crib(FakeSource("files", ["read", "write"]), records=records) as made:
        await made.crib.current()
    later = FakeSource("files", ["read"])

    async with memory_crib(later, records=records) as made:
        results = [await made.crib.call("files__write") for _ in range(2)]

    assert [result.error.code for result in results] == ["TOOL_NOT_FOUND"] * 2
    assert later.calls == []
