"""Native tools: functions with definitions that are checked, replaced and run safely."""

import asyncio
import contextvars
import errno
import socket
import ssl
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from email.message import Message
from urllib.error import HTTPError, URLError

import pytest
import requests

from toolcrib.core.errors import (
    CallCancelled,
    DefinitionError,
    InvalidExample,
    InvalidSchema,
    PermissionDenied,
    SourceUnavailable,
    ToolFailed,
    UnknownTool,
)
from toolcrib.core.events import Event
from toolcrib.core.offers import Deprecation, Example, SecurityLevel, Tool
from toolcrib.core.requests import Request
from toolcrib.sources.native.functions import define, native_tool, tool
from toolcrib.sources.native.source import NativeSource, version_key


def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Args:
        a: The first one.
    """
    return a + b


async def run(function, /, **arguments: object):
    """The result of one call to a function."""
    source = NativeSource([function])
    try:
        name = source.listing.tools[0].name
        return await source.answer(Request(name, name, arguments))
    finally:
        await source.close()


def test_a_function_is_described_by_its_signature_and_docstring():
    """Name, description, schema with defaults; a version of its own."""
    definition = define(add).tool

    assert (definition.name, definition.description, definition.version) == ("add", "Add two numbers.", "1.0.0")
    assert definition.input_schema["required"] == ["a"]
    assert definition.input_schema["properties"]["a"]["description"] == "The first one."
    assert definition.input_schema["properties"]["b"]["default"] == 2


def test_an_author_can_say_everything_about_a_tool():
    """The options are the fields of a definition."""
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}

    definition = define(
        add,
        name="kb.find",
        description="Find.",
        title="Find it",
        input_schema=schema,
        output_schema={"type": "object"},
        version="2.1",
        category="search",
        security_level="read_only",
        capabilities=["kb"],
        examples=[{"q": "a"}, Example({"q": "b"}, "another")],
        timeout_s=3,
        deprecated=Deprecation("old", "kb.search"),
        completions={"q": ["a", "b"]},
        annotations={"openWorldHint": False},
    ).tool

    assert definition == Tool(
        "kb.find",
        "Find.",
        schema,
        {"type": "object"},
        "Find it",
        {"readOnlyHint": True, "openWorldHint": False},
        {},
        version="2.1",
        category="search",
        security_level=SecurityLevel.READ_ONLY,
        capabilities=frozenset({"kb"}),
        examples=(Example({"q": "a"}), Example({"q": "b"}, "another")),
        timeout_s=3,
        deprecation=Deprecation("old", "kb.search"),
        completions={"q": ("a", "b")},
    )


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"descripton": "x"}, DefinitionError, "option 'descripton': is not known. Did you mean 'description'?"),
        ({"security_level": "root"}, DefinitionError, "security_level: 'root' is not one of read_only, write"),
        ({"input_schema": {"type": "objekt"}}, InvalidSchema, "input schema: not a valid schema"),
        ({"output_schema": {"type": 5}}, InvalidSchema, "output schema: not a valid schema"),
        ({"examples": [{"a": 1}, {"a": "x"}]}, InvalidExample, "example 2: a: expected integer"),
        ({"examples": [{}]}, InvalidExample, "example 1: missing required field 'a'"),
    ],
)
def test_a_definition_that_cannot_work_is_refused_at_registration(options, error, words):
    """The error names the tool, the part and the reason."""
    with pytest.raises(error) as refused:
        define(add, **options)

    assert str(refused.value).startswith("Tool 'add': ")
    assert words in str(refused.value)


def test_a_marked_function_stays_a_function():
    """``@tool`` with and without options leaves it callable, and its definition is found again."""
    plain, named = tool(add), tool(name="plus")(lambda a: a)

    assert plain is add
    assert (plain(1), named(1)) == (3, 1)
    assert [native_tool(function).tool.name for function in (plain, named)] == ["add", "plus"]
    assert native_tool(native_tool(plain)) is native_tool(plain)


async def test_arguments_reach_the_function_under_their_names():
    """And the result comes back as text."""
    assert (await run(add, a=1, b=5)).text == "6"


async def test_a_tool_with_its_own_schema_takes_the_arguments_object():
    """As it is."""

    @tool(input_schema={"type": "object"})
    def echo(arguments):
        return arguments

    assert (await run(echo, a=1)).structured == {"a": 1}


async def test_sync_functions_run_beside_the_loop_with_the_callers_context():
    """Two that wait for each other both finish, and context variables are there."""
    barrier, tenant = threading.Barrier(2, timeout=150), contextvars.ContextVar("tenant", default="nobody")

    def meet() -> str:
        barrier.wait()
        return tenant.get()

    tenant.set("me")
    source = NativeSource([meet])
    results = await asyncio.gather(*(source.answer(Request("meet", "meet", {})) for _ in range(2)))
    await source.close()

    assert [result.text for result in results] == ["me", "me"]


async def test_async_functions_run_on_the_loop():
    """In the task of their caller."""

    async def where() -> bool:
        return asyncio.current_task() is here

    here = asyncio.current_task()

    assert (await run(where)).text == "true"


async def test_what_is_not_finished_is_finished_first():
    """Generators become lists, awaitables are awaited."""

    def generate() -> Iterator[int]:
        yield from (1, 2)

    async def stream() -> AsyncIterator[int]:
        yield 1
        yield 2

    def later():
        async def value() -> int:
            return 3

        return value()

    assert [(await run(function)).text for function in (generate, stream, later)] == ["[1,2]", "[1,2]", "3"]


def raising(error: BaseException):
    def fails() -> None:
        raise error

    return fails


def raising_async(error: BaseException):
    async def fails() -> None:
        raise error

    return fails


def answered(status: int) -> requests.Response:
    response = requests.Response()
    response.status_code = status
    return response


def like_httpx(base: str, name: str) -> type[Exception]:
    """An error as httpx has it; the library itself need not be there to be recognised."""
    parent = type(base, (Exception,), {"__module__": "httpx"})
    return type(name, (parent,), {"__module__": "httpx"})


@pytest.mark.parametrize("make", [raising, raising_async])
@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (ValueError("no luck"), ToolFailed, "fails failed: ValueError: no luck"),
        (ValueError(), ToolFailed, "fails failed: ValueError"),
        (ZeroDivisionError("division by zero"), ToolFailed, "fails failed: ZeroDivisionError: division by zero"),
        (ConnectionRefusedError("port 1"), SourceUnavailable, "fails: the service behind this tool is unavailable"),
        (TimeoutError(), SourceUnavailable, "(TimeoutError). Try again later."),
        (socket.gaierror(-2, "Name or service not known"), SourceUnavailable, "Name or service not known)"),
        (OSError(errno.ENETUNREACH, "Network is unreachable"), SourceUnavailable, "the service behind this tool"),
        (OSError(errno.ENOENT, "No such file"), ToolFailed, "fails failed: FileNotFoundError"),
        (ssl.SSLError("handshake"), SourceUnavailable, "the service behind this tool is unavailable"),
        (URLError(ConnectionRefusedError(111, "refused")), SourceUnavailable, "the service behind this tool"),
        (URLError("no host given"), SourceUnavailable, "the service behind this tool is unavailable"),
        (URLError(FileNotFoundError(2, "no file")), ToolFailed, "fails failed: URLError"),
        (HTTPError("http://x", 503, "Busy", Message(), None), SourceUnavailable, "the service behind this tool"),
        (HTTPError("http://x", 404, "None", Message(), None), ToolFailed, "fails failed: HTTPError: HTTP Error 404"),
        (requests.ConnectionError("no route"), SourceUnavailable, "the service behind this tool is unavailable"),
        (requests.ReadTimeout("slow"), SourceUnavailable, "the service behind this tool is unavailable"),
        (requests.exceptions.InvalidURL("what?"), ToolFailed, "fails failed: InvalidURL"),
        (requests.HTTPError("busy", response=answered(429)), SourceUnavailable, "the service behind this tool"),
        (requests.HTTPError("gone", response=answered(410)), ToolFailed, "fails failed: HTTPError: gone"),
        (like_httpx("TransportError", "ConnectError")("refused"), SourceUnavailable, "the service behind this tool"),
        (like_httpx("TransportError", "TimeoutException")("late"), SourceUnavailable, "the service behind this tool"),
        (like_httpx("HTTPError", "InvalidURL")("what?"), ToolFailed, "fails failed: InvalidURL: what?"),
        (SystemExit(3), ToolFailed, "fails failed: SystemExit: 3"),
        (BaseExceptionGroup("two", [SystemExit()]), ToolFailed, "fails failed: BaseExceptionGroup"),
        (PermissionDenied("not you"), PermissionDenied, "not you"),
    ],
    ids=repr,
)
async def test_whatever_a_tool_raises_is_an_error_of_ours(make, error, kind, words):
    """Network trouble says the service is unavailable; ours passes as it is; nothing ends the process."""
    with pytest.raises(kind) as failed:
        await run(make(error))

    assert words in str(failed.value)


@pytest.mark.parametrize("make", [raising, raising_async])
async def test_an_iterator_that_is_empty_does_not_hang_the_call(make):
    """``StopIteration`` cannot travel through a future."""
    with pytest.raises(ToolFailed, match="StopIteration"):
        await asyncio.wait_for(run(make(StopIteration())), 150)


async def test_a_tool_that_cancels_itself_has_not_been_cancelled_by_anybody():
    """The caller's own cancellation is another matter, and passes."""
    with pytest.raises(CallCancelled, match="cancelled itself"):
        await run(raising_async(asyncio.CancelledError()))

    started = asyncio.Event()

    async def waits() -> None:
        started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(run(waits))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_failure_is_logged_with_its_context():
    """Which tool, which call, what was raised."""
    events: list[Event] = []
    source = NativeSource([raising(ValueError("no luck"))], emit=events.append)

    with pytest.raises(ToolFailed):
        await source.answer(Request("fails", "fails", {}, "id-1"))
    await source.close()

    assert events == [Event("call.raised", "error", {"tool": "fails", "id": "id-1", "error": "ValueError('no luck')"})]


async def test_an_unknown_tool_is_told_the_near_ones():
    """Should the catalogue ever be behind."""
    with pytest.raises(UnknownTool, match="Did you mean 'add'"):
        await NativeSource([add]).answer(Request("ad", "ad", {}))


def version(number: str, answer: str, name: str = "greet"):
    def greet() -> str:
        return answer

    return define(greet, name=name, version=number)


async def test_a_taken_name_is_replaced_with_a_warning():
    """The last one registered counts; the very same function again is no replacement."""
    events: list[Event] = []
    source = NativeSource([version("1.0.0", "old")], emit=events.append)
    new = version("1.0.0", "new")

    source.register(new)
    source.register(new)

    assert events == [Event("tools.registry.replaced", "warning", {"tool": "greet"})]
    assert (await source.answer(Request("greet", "greet", {}))).text == "new"


@pytest.mark.parametrize("order", [("1.9", "1.10", "2.0-rc1"), ("2.0-rc1", "1.10", "1.9"), ("1.10", "2.0-rc1", "1.9")])
async def test_versions_stand_side_by_side_and_the_newest_is_the_default(order):
    """The newest has the plain name, in whatever order they came; each of the others has name and version."""
    source = NativeSource([version(number, number) for number in order])

    answers = {
        shown.name: (await source.answer(Request(shown.name, shown.name, {}))).text for shown in source.listing.tools
    }

    assert answers == {"greet": "2.0-rc1", "greet@1.9": "1.9", "greet@1.10": "1.10"}


def test_an_older_version_that_comes_later_is_said_to_be_no_default():
    events: list[Event] = []

    NativeSource([version(number, number) for number in ("1.0", "3.0", "2.0")], emit=events.append)

    assert events == [
        Event("tools.registry.older", "warning", {"tool": "greet", "version": "2.0", "default": "3.0"}),
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [("1.0", "1.0.1"), ("1.9", "1.10"), ("2.0.0-rc.1", "2.0.0"), ("v1", "v2"), ("", "0.1"), ("1.2-a", "1.2-b")],
)
def test_versions_are_compared_by_their_numbers(first, second):
    assert version_key(first) < version_key(second)
    assert version_key("1.0") == version_key("1.0.0")


def test_a_tool_leaves_by_its_name_and_one_version_by_name_and_version():
    """When the newest version leaves, the next one is the default."""

    def names():
        return [shown.name for shown in source.listing.tools]

    source = NativeSource([version(number, number) for number in ("1.0", "2.0", "3.0")])
    unknown = [source.unregister("greet@4.0"), source.unregister("wave")]
    gone = source.unregister("greet@3.0")
    after_newest = names()
    source.unregister("greet@1.0")
    after_oldest = names()

    assert (unknown, gone) == ([False, False], True)
    assert (after_newest, after_oldest) == (["greet", "greet@1.0"], ["greet"])
    assert (source.unregister("greet"), names()) == (True, [])


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"name": "my tool!"}, "name"),
        ({"name": "n" * 200}, "name"),
        ({"name": "prompt x"}, "name"),
        ({"name": "greet@2"}, "name"),
        ({"timeout_s": -1}, "timeout_s"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"timeout_s": float("nan")}, "timeout_s"),
        ({"timeout_s": "5"}, "timeout_s"),
        ({"timeout_s": True}, "timeout_s"),
        ({"description": "d" * 20_000}, "description"),
        ({"description": ["what it does"]}, "description"),
    ],
)
def test_a_definition_that_cannot_be_meant_is_refused_when_it_is_registered(options, part):
    with pytest.raises(DefinitionError, match=part) as refused:
        define(add, **options)

    assert refused.value.code == "TOOL_INVALID_INPUT"
    assert refused.value.hint


def test_a_function_that_says_nothing_of_itself_has_a_description_all_the_same():
    assert define(lambda: None, name="boil").tool.description == "Native tool: boil"


def test_whoever_listens_is_told_of_every_change():
    """Tools come and go at run time; what was not there is no change."""
    source, changes = NativeSource(), []
    source.on_change(lambda: changes.append([shown.name for shown in source.listing.tools]))

    source.register(add)
    left = [source.unregister("add"), source.unregister("add")]

    assert (changes, left) == ([["add"], []], [True, False])


@pytest.mark.parametrize(
    ("deprecated", "note"),
    [
        ("It is slow.", "Deprecated: It is slow."),
        (Deprecation("It is slow.", "sum"), "Deprecated: It is slow. Use sum instead."),
    ],
)
def test_a_deprecated_tool_says_so_where_a_model_reads_it(deprecated, note):
    """With the way to its successor."""
    shown = NativeSource([define(add, deprecated=deprecated)]).listing.tools[0]

    assert shown.description == f"Add two numbers.\n\n{note}"


async def test_closing_does_not_wait_for_what_still_runs():
    """A thread cannot be stopped; nobody hangs on it."""
    started, release = threading.Event(), threading.Event()

    def waits() -> None:
        started.set()
        release.wait(150)

    source = NativeSource([waits])
    task = asyncio.create_task(source.answer(Request("waits", "waits", {})))
    await asyncio.to_thread(started.wait, 5)

    await source.close()
    await source.close()
    release.set()

    assert (await asyncio.wait_for(task, 150)).content == []


async def test_what_a_tool_prints_is_not_its_result(capsys):
    """It goes where printing goes; the protocol's stdout is the door's to protect."""

    def chatty() -> str:
        print("working")
        print("warning", file=sys.stderr)
        return "done"

    assert (await run(chatty)).text == "done"
    assert capsys.readouterr() == ("working\n", "warning\n")


def test_a_category_nobody_knows_is_refused():
    """The error names those there are."""
    with pytest.raises(DefinitionError, match="'cooking' is not one of search, document, collection, admin, analysis"):
        define(lambda: None, name="boil", category="cooking")

    assert define(lambda: None, name="find", category="search").tool.category == "search"


async def test_a_registry_that_is_full_takes_no_further_tool():
    """Replacing one is still possible, another version of it is one more; the error says what to do."""
    source = NativeSource([define(add, name="a"), define(add, name="b")], capacity=2)

    source.register(define(add, name="b", description="newer"))
    with pytest.raises(DefinitionError) as refused:
        source.register(define(add, name="c"))
    with pytest.raises(DefinitionError):
        source.register(define(add, name="b", version="2.0.0"))

    assert str(refused.value) == (
        "Tool 'c': capacity: there are 2 tools already, and no more than 2 may be registered. "
        "Unregister some, or raise [catalog] capacity."
    )
    assert refused.value.code == "TOOL_INVALID_INPUT"
    assert [tool.name for tool in source.listing.tools] == ["a", "b"]


async def test_a_call_that_reached_its_function_counts_as_sent():
    """Whoever made it can tell a tool that failed from a call that never ran."""
    source = NativeSource([raising(ValueError("no luck"))])
    call, unknown = Request("fails", "fails", {}), Request("other", "other", {})
    with pytest.raises(ToolFailed):
        await source.answer(call)
    with pytest.raises(UnknownTool):
        await source.answer(unknown)
    await source.close()

    assert (call.context.sent, unknown.context.sent) == (True, False)


@pytest.mark.parametrize(
    ("expected", "said"),
    [({"sum": "three"}, "sum"), ({"sum": {1, 2}, "x": object()}, "it is no JSON")],
)
def test_an_example_that_promises_what_the_tool_cannot_give_is_refused(expected, said):
    """At registration, with the tool and the example."""
    schema = {"type": "object", "properties": {"sum": {"type": "integer"}}}

    def total() -> dict:
        return {"sum": 3}

    with pytest.raises(InvalidExample, match=f"(?s)total.*expected_output of example 1.*{said}"):
        define(total, output_schema=schema, examples=[Example({}, expected_output=expected)])
