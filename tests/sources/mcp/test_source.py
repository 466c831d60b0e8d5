"""An MCP server as a source: its listing cleaned, its calls and results passed on unchanged."""

import asyncio
import json

import msgspec
import pytest

from toolcrib.core.access import Caller
from toolcrib.core.errors import (
    ConnectionLost,
    InvalidArguments,
    NotImplementedHere,
    ProtocolError,
    RemoteError,
    SourceUnavailable,
)
from toolcrib.core.offers import RequestKind, Tool
from toolcrib.core.requests import ErrorInfo, Request, RequestContext
from toolcrib.core.source import Listing
from toolcrib.sources.mcp import link as link_module
from toolcrib.sources.mcp import listing as listing_module
from toolcrib.sources.mcp.comeback import SupervisorSettings
from toolcrib.sources.mcp.link import ExitTrace
from toolcrib.sources.mcp.negotiate import ClientIdentity
from toolcrib.sources.mcp.redactor import Redactor
from toolcrib.sources.mcp.source import McpSource
from toolcrib.sources.mcp.supervise import Supervisor
from toolcrib.testing import FakeServer, RecordingChannel
from toolcrib.wire import eras

OFFER = ClientIdentity({"name": "toolcrib", "version": "1"}, {})
OPEN = {"type": "object"}
TEXT = {"content": [{"type": "text", "text": "done"}]}


@pytest.fixture
async def source_of():
    """Makes the source of a fake server and closes it afterwards."""
    made: list[McpSource] = []

    def make(server: FakeServer, *, is_http: bool = False, secrets: frozenset[str] = frozenset()) -> McpSource:
        settings = SupervisorSettings(delays_s=(0.0,), redactor=Redactor(secrets))
        supervisor = Supervisor("files", server.dial, OFFER, settings, lambda event: None)
        made.append(McpSource("files", supervisor, OFFER, is_http=is_http))
        return made[-1]

    yield make
    for source in made:
        await source.close()


def shown(*names: str) -> list[dict]:
    return [{"name": name, "inputSchema": OPEN} for name in names]


def pages(*listed: dict):
    """Answers ``tools/list`` page by page; each page's cursor is its number."""

    def answer(params: dict, _: object) -> dict:
        return listed[int(params.get("cursor", "0"))]

    return answer


def call(tool: str = "read", /, channel: RecordingChannel | None = None, **fields: object) -> Request:
    return Request(f"files__{tool}", tool, **({"arguments": {}, "channel": channel or RecordingChannel()} | fields))


# Listing


async def test_all_pages_are_listed_by_name(source_of):
    """However many there are; the era is part of the listing."""
    server = FakeServer(
        {"tools/list": pages({"tools": shown("c", "a"), "nextCursor": "1"}, {"tools": shown("b"), "ttlMs": 2500})}
    )

    listing = await source_of(server).list_offers()

    assert listing == Listing(tuple(Tool(name, f"files tool: {name}") for name in "abc"), ttl_s=2.5, era="2025-11-25")
    assert [params for method, params in server.link.asked if method == "tools/list"] == [{}, {"cursor": "1"}]


@pytest.mark.parametrize("page", [{}, {"tools": None}, {"tools": []}, {"tools": [], "nextCursor": ""}])
async def test_a_server_without_tools_has_none(source_of, page):
    """However it says so."""
    assert await source_of(FakeServer({"tools/list": page})).list_offers() == Listing((), era="2025-11-25")


@pytest.mark.parametrize(
    ("listed", "names", "asked"),
    [
        ([{"tools": shown("a"), "nextCursor": "0"}], ["a"], 2),
        ([{"tools": shown("a"), "nextCursor": "1"}, {"tools": shown("b"), "nextCursor": "0"}], ["a", "b"], 3),
    ],
)
async def test_a_server_that_turns_pages_in_circles_is_stopped(source_of, listed, names, asked):
    """What was found counts, and the cut is told."""
    server = FakeServer({"tools/list": pages(*listed)})

    listing = await source_of(server).list_offers()

    assert [tool.name for tool in listing.tools] == names
    assert "the list was cut: the server repeats its pages or has too many tools" in listing.problems
    assert server.asked.count("tools/list") == asked


async def test_a_server_with_endless_pages_is_stopped(source_of, monkeypatch):
    """By number of pages, and said so."""
    monkeypatch.setattr(listing_module, "PAGES_MAX", 5)

    def endless(params: dict, _: object) -> dict:
        number = int(params.get("cursor", "0"))
        return {"tools": shown(f"t{number}"), "nextCursor": str(number + 1)}

    listing = await source_of(FakeServer({"tools/list": endless})).list_offers()

    assert (len(listing.tools), listing.problems[-1][:16]) == (5, "the list was cut")


async def test_a_server_with_too_many_tools_is_cut(source_of, monkeypatch):
    """And said so when there would be more."""
    monkeypatch.setattr(listing_module, "TOOLS_MAX", 2)
    server = FakeServer({"tools/list": pages({"tools": shown("a", "b", "c"), "nextCursor": "1"}, {})})

    listing = await source_of(server).list_offers()

    assert ([tool.name for tool in listing.tools], listing.problems[-1][:16]) == (["a", "b"], "the list was cut")


@pytest.mark.parametrize("entries", [shown("a", "b", "c"), [1, 2, 3], shown("a", "a", "a")])
async def test_a_page_with_too_many_entries_is_cut(source_of, monkeypatch, entries):
    """Bad entries and repeated ones count as well: none is looked at beyond the limit, and the cut is told."""
    monkeypatch.setattr(listing_module, "TOOLS_MAX", 2)

    listing = await source_of(FakeServer({"tools/list": {"tools": entries}})).list_offers()

    assert len(listing.tools) + len([problem for problem in listing.problems if problem.startswith("left out")]) == 2
    assert listing.problems[-1][:16] == "the list was cut"


async def test_other_work_goes_on_while_a_long_list_is_read(source_of):
    """The event loop gets its turn every so often."""
    server = FakeServer({"tools/list": {"tools": shown(*(f"t{number}" for number in range(1_000)))}})
    source = source_of(server)
    await source.list_offers()
    listing = asyncio.create_task(source.list_offers())
    turns = 0
    while not listing.done():
        turns += 1
        await asyncio.sleep(0)

    assert turns >= 1_000 / listing_module.BREATH


async def test_a_name_that_is_listed_twice_counts_once(source_of):
    """The first one, over all pages."""
    first = {"name": "a", "description": "first", "inputSchema": OPEN}
    server = FakeServer({"tools/list": pages({"tools": [first], "nextCursor": "1"}, {"tools": shown("a")})})

    listing = await source_of(server).list_offers()

    assert listing.tools == (Tool("a", "first"),)
    assert listing.problems == ("left out: 'a' is listed twice",)


@pytest.mark.parametrize(
    "bad",
    [
        None,
        "text",
        5,
        [],
        {},
        {"name": 5, "inputSchema": OPEN},
        {"name": "", "inputSchema": OPEN},
        {"name": "with space", "inputSchema": OPEN},
        {"name": "x" * 200, "inputSchema": OPEN},
        {"name": "array", "inputSchema": {"type": "array"}},
        {"name": "bad", "inputSchema": "text"},
    ],
    ids=repr,
)
async def test_a_bad_tool_costs_only_itself(source_of, bad):
    """The others are there, and why it is not is told."""
    listing = await source_of(FakeServer({"tools/list": {"tools": [bad, *shown("good")]}})).list_offers()

    assert [tool.name for tool in listing.tools] == ["good"]
    assert [problem.partition(":")[0] for problem in listing.problems] == ["left out"]


async def test_unknown_fields_of_a_definition_are_kept(source_of):
    """They are the client's business."""
    definition = {**shown("a")[0], "icons": [{"src": "data:,"}], "_meta": {"k": 1}}

    listing = await source_of(FakeServer({"tools/list": {"tools": [definition]}})).list_offers()

    assert listing.tools[0].extra == {"icons": [{"src": "data:,"}], "_meta": {"k": 1}}


@pytest.mark.parametrize("answer", [b"[]", b'"x"', b'{"tools":{}}', b'{"tools":[],"nextCursor":5}', b'{"tools":1e999}'])
async def test_an_answer_that_is_no_listing_is_the_servers_protocol_error(source_of, answer):
    """It names the server."""
    with pytest.raises(ProtocolError, match="Server 'files' answered tools/list with something else"):
        await source_of(FakeServer({"tools/list": answer})).list_offers()


async def test_a_modern_server_is_asked_in_its_own_way(source_of):
    """Each request carries who asks; the era of an earlier discovery is where negotiation begins."""
    server = FakeServer({"tools/list": {"tools": [], "ttlMs": 0}}, modern=True)
    source = source_of(server)
    source.adopt(Listing((), era="2026-07-28"))

    listing = await source.list_offers()

    assert (listing.ttl_s, listing.era, server.asked) == (0.0, "2026-07-28", ["server/discover", "tools/list"])
    assert server.link.asked[-1][1]["_meta"][eras.META_VERSION] == "2026-07-28"
    assert [question.version for question in server.link.questions] == ["2026-07-28"] * 2


async def test_a_remembered_handshake_saves_a_question(source_of):
    """The era comes from the record of an earlier run."""
    server = FakeServer({"tools/list": {"tools": []}})
    source = source_of(server)
    source.adopt(Listing((), era="2025-06-18"))

    await source.list_offers()

    assert server.asked == ["initialize", "tools/list"]


async def test_what_a_server_announces_and_suffers_is_passed_on(source_of):
    """Changed tools, failed attempts, its state and its last words."""
    server, heard = FakeServer({"tools/list": {"tools": []}}), []
    server.remains = ExitTrace(7, stderr=["one", "two", "key hunter22 used"])
    source = source_of(server, secrets=frozenset({"hunter22"}))
    source.on_change(lambda: heard.append("changed"))
    source.on_trouble(lambda: heard.append("trouble"))
    server.refusals = [SourceUnavailable("no")]

    with pytest.raises(SourceUnavailable):
        await source.list_offers()
    source.forgive()
    await source.list_offers()
    server.link.change()

    assert heard == ["trouble", "changed"]
    assert (source.status().state, source.status().pid) == ("connected", 7)
    assert source.log_lines(2) == ["two", "key *** used"]


# Calls


@pytest.mark.parametrize(
    "part",
    [b"1e999", b"7" * 200_000, b"[" * 150 + b"]" * 150, b'"' + b"x" * 300_000 + b'",' + b'"n":1e999'],
    ids=["number", "digits", "depth", "large"],
)
async def test_a_result_that_not_every_client_could_read_is_the_servers_error(source_of, part):
    """A client that gives up on it would wait for its answer for ever."""
    server = FakeServer({"tools/call": b'{"content":[],"structuredContent":{"a":%b}}' % part})

    with pytest.raises(ProtocolError, match="cannot be read by every client"):
        await source_of(server).answer(call())


async def test_a_result_says_once_whether_it_failed(source_of):
    """What was decided by is what is passed on."""
    server = FakeServer({"tools/call": b'{"content":[],"isError":true,"isError":false}'})

    result = await source_of(server).answer(call())

    assert (result.raw, result.error) == (b'{"content":[],"isError":false}', None)


async def test_a_call_is_passed_on_and_its_result_comes_back_byte_for_byte(source_of):
    """Name, arguments, further fields and meta; nothing is decoded on the way back."""
    raw = b'{"content":[{"type":"text","text":"d\\u00f6ne"}],"structuredContent":{"n":[1.00, 2e0]}}'
    server = FakeServer({"tools/call": raw})
    a_call = call(arguments={"path": "x"}, meta={"traceparent": "00"}, more={"extra": "s"})

    result = await source_of(server).answer(a_call)

    assert (result.raw, result.text, result.error) == (raw, "döne", None)
    assert server.link.asked[-1] == (
        "tools/call",
        {"name": "read", "arguments": {"path": "x"}, "extra": "s", "_meta": {"traceparent": "00"}},
    )
    assert a_call.context.sent
    assert server.asked.count("tools/list") == 0


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"content": [{"type": "text", "text": "no such file"}], "isError": True}, "no such file"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "isError": True}, "a\nb"),
        ({"content": [{"type": "image", "data": ""}], "isError": True}, "The tool failed without saying why."),
        ({"content": [], "isError": True, "structuredContent": {"code": 5}}, "The tool failed without saying why."),
    ],
)
async def test_a_servers_own_failure_comes_back_unchanged(source_of, body, message):
    """Only the error beside it is ours."""
    result = await source_of(FakeServer({"tools/call": body})).answer(call())

    assert result.error == ErrorInfo("TOOL_EXECUTION_FAILED", message)
    assert msgspec.json.decode(result.raw) == body


@pytest.mark.parametrize("content", [None, "odd", 5, [None, 5, "x", {"type": "text"}, {"type": "text", "text": 5}]])
async def test_a_failure_told_in_an_odd_way_is_still_a_failure(source_of, content):
    """Careless servers are read as well as can be."""
    result = await source_of(FakeServer({"tools/call": {"content": content, "isError": True}})).answer(call())

    assert result.error.code == "TOOL_EXECUTION_FAILED"
    assert isinstance(result.mcp["content"], list)


async def test_a_failure_does_not_give_secrets_away(source_of):
    """What the server was told stays with it."""
    failure = {"content": [{"type": "text", "text": "token hunter22 expired"}], "isError": True}
    server = FakeServer({"tools/call": failure})

    result = await source_of(server, secrets=frozenset({"hunter22"})).answer(call())

    assert result.error.message == "token *** expired"
    assert b"hunter22" not in result.raw


@pytest.mark.parametrize("secret", ['quo"ted\\key', "schl\u00fcssel", "12345678"])
async def test_a_secret_is_found_however_json_writes_it(source_of, secret):
    """Quotes and backslashes are escaped there; a number is one in other signs."""
    failure = {"content": [{"type": "text", "text": f"token {secret} expired"}], "isError": True, "n": 12345678, "m": 7}
    for encoded in (json.dumps(failure).encode(), msgspec.json.encode(failure)):
        server = FakeServer({"tools/call": encoded})

        result = await source_of(server, secrets=frozenset({secret})).answer(call())

        number = "***" if secret == "12345678" else 12345678
        assert (result.error.message, result.mcp["n"], result.mcp["m"]) == ("token *** expired", number, 7)


@pytest.mark.parametrize("ask", [lambda source: source.list_offers(), lambda source: source.answer(call())])
@pytest.mark.parametrize(
    "refusal",
    [
        lambda: RemoteError(-1, "key hunter22", data={"hunter22": ["x hunter22", {"k": "hunter22"}], "n": 1}),
        lambda: ProtocolError("key hunter22", hint="not hunter22", details={"k": ["hunter22"]}),
        lambda: SourceUnavailable("key hunter22"),
    ],
    ids=["remote", "protocol", "unavailable"],
)
async def test_no_refusal_gives_secrets_away(source_of, ask, refusal):
    """Whatever was asked: words, hint, details and data are blotted out, the rest is as it was."""
    server = FakeServer({"tools/list": refusal(), "tools/call": refusal()})

    with pytest.raises(type(refusal())) as refused:
        await ask(source_of(server, secrets=frozenset({"hunter22"})))

    error = refused.value
    assert "hunter22" not in f"{error} {error!r} {error.details} {getattr(error, 'data', None)}"
    assert error.message == "key ***"
    if isinstance(error, RemoteError):
        assert error.data == {"***": ["x ***", {"k": "***"}], "n": 1}


async def test_a_question_given_up_is_noted(source_of, monkeypatch):
    """A listing nobody waits for any more is enough to part with a silent server, a call is not."""
    monkeypatch.setattr(link_module, "SILENCE_COUNTS_S", 0.0)
    server = FakeServer({"tools/list": {"tools": []}})
    source = source_of(server)
    await source.list_offers()
    link = server.link
    link.held = {"tools/call", "tools/list"}

    kept = []
    for ask in (source.answer(call()), source.list_offers()):
        link.reached.clear()
        waiting = asyncio.create_task(ask)
        await link.reached.wait()
        waiting.cancel()
        await asyncio.wait([waiting])
        kept.append(source.supervisor.current is link)

    assert kept == [True, False]


async def test_a_json_rpc_error_keeps_its_code_words_and_data(source_of):
    """It is the server's own."""
    server = FakeServer({"tools/call": RemoteError(-32042, "pay first", data={"price": 5})})

    with pytest.raises(RemoteError) as refused:
        await source_of(server).answer(call())

    assert (refused.value.rpc_code, refused.value.message, refused.value.data) == (-32042, "pay first", {"price": 5})
    assert refused.value.details == {"rpc_code": -32042, "data": {"price": 5}}


@pytest.mark.parametrize("raw", [b"[]", b"null", b'{"isError":"yes"}'])
async def test_an_answer_that_is_no_result_is_the_servers_protocol_error(source_of, raw):
    """Not a fault of ours."""
    with pytest.raises(ProtocolError, match="not a tool result"):
        await source_of(FakeServer({"tools/call": raw})).answer(call())


async def test_a_result_is_mended_where_a_client_would_stumble(source_of):
    """Missing content, and meta that is between the server and us."""
    body = {"structuredContent": {"n": 1}, "_meta": {eras.META_SERVER_INFO: {"name": "x"}, "own": 1}}

    result = await source_of(FakeServer({"tools/call": body}, modern=True)).answer(call())

    assert result.mcp == {"structuredContent": {"n": 1}, "content": [], "_meta": {"own": 1}}


async def test_a_call_knows_whether_it_was_sent_when_the_connection_is_lost(source_of):
    """Whoever decides about a second try needs to."""
    sent = call()
    with pytest.raises(ConnectionLost):
        await source_of(FakeServer({"tools/call": ConnectionLost("gone")})).answer(sent)

    unsent, server = call(), FakeServer({"tools/call": TEXT})
    source = source_of(server)
    link = await source.supervisor.link()
    original = link.ask

    async def lost_before(question):
        link.is_open = False
        return await original(question)

    link.ask = lost_before
    with pytest.raises(ConnectionLost):
        await source.answer(unsent)

    assert (sent.context.sent, unsent.context.sent) == (True, False)


async def test_calls_that_waited_for_their_server_are_let_in_anew_once_it_is_there(source_of):
    """Each by its own limits, before anything is sent; a call that finds the server there is not asked."""
    server = FakeServer({"tools/call": TEXT})
    source, renewed = source_of(server), []

    async def renew(waited: Request) -> None:
        renewed.append((waited.arguments["n"], server.asked.count("tools/call")))

    await asyncio.gather(
        *(source.answer(call(arguments={"n": n}, context=RequestContext(renew=renew))) for n in range(3))
    )
    await source.answer(call(arguments={"n": 3}, context=RequestContext(renew=renew)))

    assert sorted(n for n, _ in renewed) == [0, 1, 2]
    assert renewed[0][1] == 0


async def test_a_call_whose_server_went_away_while_it_was_let_in_anew_waits_again(source_of):
    """It is sent over a link that is open, or not at all."""
    server = FakeServer({"tools/call": TEXT})
    source, losses = source_of(server), [1]

    async def renew(_: Request) -> None:
        if losses:
            losses.pop()
            server.link.lose()

    result = await source.answer(call(context=RequestContext(renew=renew)))

    assert (result.text, server.dialled) == ("done", 2)


async def test_a_call_that_is_given_up_leaves_the_connection_to_others(source_of):
    """Only its own question ends."""
    server = FakeServer({"tools/call": TEXT})
    source = source_of(server)
    link = await source.supervisor.link()
    link.held = {"tools/call"}
    given_up = asyncio.create_task(source.answer(call()))
    await link.reached.wait()

    given_up.cancel()
    await asyncio.wait([given_up])
    link.release()

    assert given_up.cancelled()
    assert (await source.answer(call())).text == "done"


@pytest.mark.parametrize("more", [{}, {"extra": "s"}])
@pytest.mark.parametrize("value", ["\ud800", object(), {(1, 2): 3}])
async def test_arguments_that_cannot_be_written_are_the_callers_mistake(source_of, value, more):
    """Half a surrogate pair, foreign objects, keys that are no text."""
    with pytest.raises(InvalidArguments, match="cannot be written as JSON"):
        await source_of(FakeServer()).answer(call(arguments={"a": value}, more=more))


@pytest.mark.parametrize("modern", [False, True])
async def test_progress_is_asked_for_under_a_token_of_our_own(source_of, modern):
    """The client's token is the client's; the request id is unique on the link."""
    server = FakeServer({"tools/call": TEXT}, modern=modern)
    source = source_of(server)

    await source.answer(call(channel=RecordingChannel(wants_progress=True)))
    await source.answer(call())

    asked = [params.get("_meta", {}) for method, params in server.link.asked if method == "tools/call"]
    assert [meta.get("progressToken") for meta in asked] == [server.link.questions[-2].id, None]


async def test_a_modern_server_is_told_what_this_very_client_can_answer(source_of):
    """Each call carries the capabilities of whoever made it, and the client's own meta."""
    server = FakeServer({"tools/call": TEXT}, modern=True)
    channel = RecordingChannel(capabilities={"elicitation": {}})

    await source_of(server).answer(call(channel=channel, meta={"own": 1}))

    assert server.link.asked[-1][1]["_meta"] == {
        "own": 1,
        eras.META_VERSION: "2026-07-28",
        eras.META_CLIENT_INFO: OFFER.info,
        eras.META_CLIENT_CAPABILITIES: {"elicitation": {}},
    }


# Questions back

REQUIRED = {
    "resultType": "input_required",
    "inputRequests": {"q": {"method": "elicitation/create", "params": {"message": "Sure?"}}},
    "requestState": "s1",
}


def asks_once(params: dict, _: object) -> dict:
    return TEXT if "inputResponses" in params else REQUIRED


async def test_a_question_is_answered_for_clients_that_cannot_be_handed_it(source_of):
    """They are asked in the middle of the call, and get the final result."""
    server = FakeServer({"tools/call": asks_once}, modern=True)
    channel = RecordingChannel({"elicitation/create": {"action": "accept"}}, capabilities={"elicitation": {}})

    result = await source_of(server).answer(call(channel=channel, arguments={"a": 1}))

    assert result.text == "done"
    assert channel.asked == [("elicitation/create", {"message": "Sure?"})]
    final = server.link.asked[-1][1]
    assert (final["arguments"], final["inputResponses"], final["requestState"]) == (
        {"a": 1},
        {"q": {"action": "accept"}},
        "s1",
    )


def handed(tool: str = "read", **changes: object) -> Request:
    """A call of a client that takes questions as results."""
    channel = RecordingChannel(capabilities={"elicitation": {}}, takes_input_required=True)
    return call(tool, **({"channel": channel} | changes))


async def test_a_question_is_handed_over_to_clients_that_take_it(source_of):
    """As it came but for the server's state, which is sealed; they will call again themselves."""
    server = FakeServer({"tools/call": asks_once}, modern=True)
    source = source_of(server)

    result = await source.answer(handed())
    state = result.mcp["requestState"]
    answer = {"q": {"action": "accept"}}
    done = await source.answer(handed(more={"requestState": state, "inputResponses": answer}))

    assert result.mcp == {**REQUIRED, "requestState": state}
    assert state.startswith("toolcrib.round.")
    assert (done.text, server.link.asked[-1][1]["requestState"]) == ("done", "s1")
    assert server.link.asked[-1][1]["inputResponses"] == answer


@pytest.mark.parametrize(
    "changes",
    [
        {"caller": Caller("bob")},
        {"caller": Caller("local", session="another")},
        {"arguments": {"path": "/etc/shadow"}},
        {"tool": "other"},
        {"kind": RequestKind.GET},
    ],
)
async def test_nobody_goes_on_with_a_round_that_was_not_given_to_them_for_this(source_of, changes):
    """Another caller, session, offer or other arguments: a clear error, and nothing is sent."""
    server = FakeServer({"tools/call": asks_once, "prompts/get": asks_once}, modern=True)
    source = source_of(server)
    state = (await source.answer(handed())).mcp["requestState"]
    sent = len(server.link.asked)

    with pytest.raises(InvalidArguments, match="requestState of this request is not valid"):
        await source.answer(handed(**changes, more={"requestState": state, "inputResponses": {}}))

    assert len(server.link.asked) == sent


@pytest.mark.parametrize("state", ["s1", "toolcrib.round.", "toolcrib.round.AAAA", "toolcrib.approve.AAAA", 5, {}, [1]])
async def test_a_state_that_we_did_not_give_out_is_refused(source_of, state):
    """Also the one that the server would take."""
    server = FakeServer({"tools/call": asks_once}, modern=True)
    source = source_of(server)

    with pytest.raises(InvalidArguments, match="requestState of this request is not valid") as caught:
        await source.answer(handed(more={"requestState": state, "inputResponses": {}}))

    assert caught.value.details["rpc_code"] == -32602
    assert all(method != "tools/call" for method, _ in server.link.asked)


async def test_questions_that_a_stateless_client_cannot_answer_are_not_handed_to_it(source_of):
    """What it cannot answer nobody can, so that it hears why."""
    server = FakeServer({"tools/call": asks_once}, modern=True)
    channel = RecordingChannel(capabilities={"roots": {}}, takes_input_required=True)

    with pytest.raises(NotImplementedHere, match="needs an answer from the client"):
        await source_of(server).answer(handed(channel=channel))


ADDRESS = {"mode": "url", "url": "https://x.example/", "message": "Go"}
MOVED = RemoteError(-32042, "Sign in first.", data={"elicitations": [{**ADDRESS, "elicitationId": "e1"}]})


async def test_an_error_that_sends_people_to_an_address_is_a_question_in_the_stateless_era(source_of):
    """When the client comes back the call is made again, and the server hears nothing of the round."""
    answers = iter([MOVED, TEXT])

    def say(params: dict, _: object) -> dict:
        del params
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    server = FakeServer({"tools/call": say})
    source = source_of(server)
    channel = RecordingChannel(capabilities={"elicitation": {"url": {}}}, takes_input_required=True)

    asked = (await source.answer(handed(channel=channel))).mcp
    more = {"requestState": asked["requestState"], "inputResponses": {"url1": {"action": "accept"}}}
    done = await source.answer(handed(channel=channel, more=more))

    assert asked["inputRequests"] == {"url1": {"method": "elicitation/create", "params": ADDRESS}}
    assert done.text == "done"
    assert not {"requestState", "inputResponses"} & server.link.asked[-1][1].keys()


async def test_an_error_that_sends_people_to_an_address_stays_one_before_2026(source_of):
    """And the client is told when it is done there, once."""

    def say(params: dict, _: object) -> dict:
        del params
        raise MOVED

    channel = RecordingChannel(capabilities={"elicitation": {"url": {}}})
    source = source_of(FakeServer({"tools/call": say}))

    with pytest.raises(RemoteError) as caught:
        await source.answer(call(channel=channel))
    for said in (b'{"elicitationId":"other"}', b'{"elicitationId":"e1"}', b'{"elicitationId":"e1"}', b"[]"):
        OFFER.asking.complete(said)

    assert (caught.value.rpc_code, caught.value.data) == (-32042, MOVED.data)
    assert channel.told == [("notifications/elicitation/complete", {"elicitationId": "e1"})]


async def test_a_question_nobody_can_answer_is_an_error_that_says_so(source_of):
    """The tool has not done its work."""
    with pytest.raises(NotImplementedHere, match="elicitation/create"):
        await source_of(FakeServer({"tools/call": asks_once}, modern=True)).answer(call())


# Arguments mirrored into headers

MIRRORED = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
TWICE = {
    "type": "object",
    "properties": {
        "a": {"type": "string", "x-mcp-header": "A"},
        "b": {"type": "string", "x-mcp-header": "a"},
    },
}


@pytest.mark.parametrize(
    ("modern", "is_http", "expected"),
    [(True, True, [(b"Mcp-Param-Region", b"eu")]), (True, False, []), (False, True, [])],
)
async def test_arguments_are_mirrored_only_over_http_to_modern_servers(source_of, modern, is_http, expected):
    """As the tool declares it."""
    listed = {"tools": [{"name": "read", "inputSchema": MIRRORED}]}
    server = FakeServer({"tools/list": listed, "tools/call": TEXT}, modern=modern)
    source = source_of(server, is_http=is_http)
    await source.list_offers()

    await source.answer(call(arguments={"region": "eu"}))

    assert list(server.link.questions[-1].headers) == expected


async def test_mirrored_arguments_are_remembered_and_forgotten_with_the_definition(source_of):
    """From an earlier discovery, until a newer one says otherwise."""
    server = FakeServer({"tools/list": {"tools": shown("read")}, "tools/call": TEXT}, modern=True)
    source = source_of(server, is_http=True)
    source.adopt(Listing((Tool("read", input_schema=MIRRORED),), era="2026-07-28"))

    await source.answer(call(arguments={"region": "eu"}))
    await source.list_offers()
    await source.answer(call(arguments={"region": "eu"}))

    calls = [question for question in server.link.questions if question.method == "tools/call"]
    assert [list(question.headers) for question in calls] == [[(b"Mcp-Param-Region", b"eu")], []]


async def test_a_tool_with_an_invalid_declaration_is_left_out(source_of):
    """It could never be called rightly."""
    listed = {"tools": [{"name": "bad", "inputSchema": TWICE}, *shown("good")]}

    listing = await source_of(FakeServer({"tools/list": listed}, modern=True), is_http=True).list_offers()

    assert [tool.name for tool in listing.tools] == ["good"]
    assert len(listing.problems) == 1
    assert listing.problems[0].lower() == "left out: 'bad': x-mcp-header 'a' is declared twice"


# Servers of both eras

SHAKEN = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "fake", "version": "1"}}
IN_VAIN = "Cannot send 'elicitation/create': this transport context has no back-channel for server-initiated requests."
IN_VAIN_TOO = (
    "Server-to-client requests are not available on protocol revision 2026-07-28: 'sampling/createMessage'"
    " cannot be sent while serving a request on that revision."
)


def asks_in_the_old_way(how: str) -> FakeServer:
    """A server of both eras whose tool asks in the middle of a call."""

    def work(params: dict, _: object) -> dict:
        if eras.META_VERSION not in params.get("_meta", {}):
            return TEXT
        if how == "error":
            raise RemoteError(-32600, IN_VAIN)
        return {"content": [{"type": "text", "text": IN_VAIN_TOO}], "isError": True}

    return FakeServer({"initialize": SHAKEN, "tools/call": work}, modern=True)


@pytest.mark.parametrize("how", ["error", "result"])
async def test_a_server_that_asks_in_vain_in_the_stateless_era_is_spoken_to_in_the_other(source_of, how):
    """The call whose question was lost may have had effects; the next one goes well, and the era is remembered."""
    server = asks_in_the_old_way(how)
    source, changed = source_of(server), []
    source.on_change(lambda: changed.append(source.supervisor.remembered))

    with pytest.raises(ConnectionLost, match="spoken to in the handshake era"):
        await source.answer(call())
    result = await source.answer(call())

    assert result.text == "done"
    assert changed == ["2025-11-25"]
    assert (await source.list_offers()).era == "2025-11-25"


async def test_a_server_that_only_says_so_is_turned_to_once(source_of):
    """One that fails with these words in every era cannot have itself restarted again and again."""
    server = asks_in_the_old_way("error")
    del server.answers["initialize"]
    source = source_of(server)

    with pytest.raises(ConnectionLost):
        await source.answer(call())
    with pytest.raises(RemoteError, match="no back-channel"):
        await source.answer(call())

    assert server.dialled == 2


@pytest.mark.parametrize("words", ["elicitation/create failed", "server-initiated requests are fun", ""])
async def test_other_failures_say_nothing_of_the_era(source_of, words):
    """They are what they are."""
    failure = {"content": [{"type": "text", "text": words}], "isError": True}
    server = FakeServer({"tools/call": failure}, modern=True)

    result = await source_of(server).answer(call())

    assert (result.success, server.dialled) == (False, 1)


@pytest.mark.parametrize("kind", [RequestKind.GET, RequestKind.READ])
async def test_prompts_and_resources_ask_back_like_calls(source_of, kind):
    """Handed over to clients that take it, with the state sealed; asked and made again for others."""
    method = {RequestKind.GET: "prompts/get", RequestKind.READ: "resources/read"}[kind]
    final = {"messages": []} if kind is RequestKind.GET else {"contents": []}
    asks = {method: lambda params, _: final if "inputResponses" in params else REQUIRED}
    server = FakeServer(asks, modern=True)
    source = source_of(server)
    older = RecordingChannel({"elicitation/create": {"action": "accept"}}, capabilities={"elicitation": {}})

    asked = await source.answer(handed(kind=kind))
    more = {"requestState": asked.mcp["requestState"], "inputResponses": {"q": {"action": "accept"}}}
    done = await source.answer(handed(kind=kind, more=more))
    looped = await source.answer(call(channel=older, kind=kind))

    assert (asked.asks_back, asked.mcp["inputRequests"]) == (True, REQUIRED["inputRequests"])
    assert asked.mcp["requestState"].startswith("toolcrib.round.")
    assert done.mcp == looped.mcp == final
    assert [sent["requestState"] for _, sent in server.link.asked if "requestState" in sent] == ["s1", "s1"]
