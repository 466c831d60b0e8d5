"""What a server offers besides tools: listed page by page, made harmless, and asked for in the server's own words."""

import asyncio
import json
import re
from typing import Any

import pytest
from msgspec import Raw

from toolcrib.core import links
from toolcrib.core.errors import ProtocolError, RemoteError
from toolcrib.core.links import LINKS_MAX
from toolcrib.core.names import URI_MAX
from toolcrib.core.offers import OfferKind, RequestKind
from toolcrib.core.requests import Request
from toolcrib.core.source import HandedLinks
from toolcrib.sources.mcp.comeback import SupervisorSettings
from toolcrib.sources.mcp.link import ANY_URI, heed_news
from toolcrib.sources.mcp.listing import TEMPLATES_MAX
from toolcrib.sources.mcp.negotiate import ClientIdentity
from toolcrib.sources.mcp.source import McpSource
from toolcrib.sources.mcp.supervise import Supervisor
from toolcrib.testing import FakeServer, RecordingChannel
from toolcrib.wire import eras
from toolcrib.wire.jsonrpc import Outbound

OFFER = ClientIdentity({"name": "toolcrib", "version": "1"}, {})
ALL = {
    "tools": {},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {},
    "completions": {},
    "logging": {},
}
LISTS: dict[str, Any] = {
    "tools/list": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]},
    "resources/list": {"resources": [{"uri": "memo://b", "name": "b"}, {"uri": "memo://a", "name": "a", "size": 3}]},
    "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "memo://n/{id}", "name": "n"}]},
    "prompts/list": {"prompts": [{"name": "greet", "arguments": [{"name": "who", "required": True}]}]},
}


def hello(modern: bool, capabilities: dict[str, Any], **more: Any) -> dict[str, Any]:
    if modern:
        return {
            "server/discover": {
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "capabilities": capabilities,
                **more,
            }
        }
    about = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": {"name": "f"}, **more}
    return {"initialize": about}


def serving(answers: dict[str, Any] | None = None, *, modern: bool = False, **more: Any) -> FakeServer:
    capabilities = more.pop("capabilities", ALL)
    return FakeServer({**LISTS, **hello(modern, capabilities, **more), **(answers or {})}, modern=modern)


@pytest.fixture
async def source_of():
    made: list[McpSource] = []

    def make(server: FakeServer, *, prefix: bool = True) -> McpSource:
        supervisor = Supervisor("lib", server.dial, OFFER, SupervisorSettings(delays_s=(0.0,)), lambda event: None)
        made.append(McpSource("lib", supervisor, OFFER, is_http=True, handed=HandedLinks(prefix=prefix)))
        return made[-1]

    yield make
    for source in made:
        await source.close()


def asking(kind: RequestKind, target: str, **fields: Any) -> Request:
    return Request(f"lib__{target}", target, **({"arguments": {}, "kind": kind} | fields))


@pytest.mark.parametrize("modern", [False, True])
async def test_all_four_kinds_are_listed_with_what_the_server_says_of_itself(source_of, modern):
    """In both eras, and each sorted by name."""
    server = serving(modern=modern, instructions="Use \u200bwell.")

    listing = await source_of(server).list_offers()

    assert [tool.name for tool in listing.tools] == ["t"]
    assert [(offer.kind, offer.name) for offer in listing.others] == [
        (OfferKind.RESOURCE, "memo://a"),
        (OfferKind.RESOURCE, "memo://b"),
        (OfferKind.TEMPLATE, "memo://n/{id}"),
        (OfferKind.PROMPT, "greet"),
    ]
    assert (listing.instructions, listing.features) == ("Use well.", ("completions", "logging", "subscribe"))


async def test_only_what_a_server_announces_is_asked_for(source_of):
    """A server with tools alone is asked one thing, as ever."""
    server = serving(capabilities={"tools": {}})

    listing = await source_of(server).list_offers()

    assert (server.asked, listing.others) == (["server/discover", "initialize", "tools/list"], ())


async def test_a_server_without_tools_has_none_and_its_resources(source_of):
    """That it does not know the method is no failure."""
    refused = RemoteError(-32601, "Method not found")
    listing = await source_of(serving({"tools/list": refused}, capabilities={"resources": {}})).list_offers()

    assert (listing.tools, len(listing.others)) == ((), 3)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (RemoteError(-32603, "broken"), "resources/list failed: broken"),
        ({"resources": 7}, "answered resources/list with something else"),
        (RemoteError(-32601, "no such method"), ""),
    ],
)
async def test_a_list_that_fails_costs_only_its_kind(source_of, answer, problem):
    """And is told; one that is not there is none."""
    listing = await source_of(serving({"resources/list": answer})).list_offers()

    assert [offer.kind for offer in listing.others] == [OfferKind.TEMPLATE, OfferKind.PROMPT]
    assert [problem in said for said in listing.problems] == ([True] if problem else [])


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"uri": ""},
        {"uri": 7},
        {"uri": "memo://\u200bx"},
        {"uri": "memo://a\nb"},
        {"uri": "m" * (URI_MAX + 1)},
        {"uri": "memo://x", "name": "n", "icons": ["x" * 70_000]},
        "odd",
    ],
)
async def test_an_entry_that_cannot_be_used_is_left_out_and_told(source_of, entry):
    """The others stay."""
    good = {"uri": "memo://good", "name": "g"}
    listing = await source_of(serving({"resources/list": {"resources": [entry, good]}})).list_offers()

    assert [offer.name for offer in listing.others if offer.kind is OfferKind.RESOURCE] == ["memo://good"]
    assert [problem.startswith("left out: ") for problem in listing.problems] == [True]


async def test_a_server_that_announces_nothing_is_asked_for_everything(source_of):
    """Some have lists and do not say so."""
    listing = await source_of(serving(capabilities={})).list_offers()

    assert {offer.kind for offer in listing.offers} == set(OfferKind) - {OfferKind.SKILL}  # an extension is announced


async def test_the_pages_of_a_list_are_remembered_as_the_server_has_them(source_of):
    """With their cursors and in its order; not with cursors that are too long to be kept."""

    def paged_by(cursor: str) -> Any:
        first, second = {"prompts": [{"name": "c"}, {"name": "b"}], "nextCursor": cursor}, {"prompts": [{"name": "a"}]}
        return lambda params, _: second if "cursor" in params else first

    sources = [source_of(serving({"prompts/list": paged_by(cursor)})) for cursor in ("p2==", "x" * 2000)]
    found = [(await source.list_offers()).pages[OfferKind.PROMPT] for source in sources]

    assert found == [(("", ("c", "b")), ("p2==", ("a",))), ()]


async def test_endless_pages_of_resources_are_cut(source_of):
    """And told."""
    page = {"resources": [{"uri": "memo://a", "name": "a"}], "nextCursor": "again"}
    listing = await source_of(serving({"resources/list": page})).list_offers()

    assert "the list was cut: the server repeats its pages or has too many resources" in listing.problems


@pytest.mark.parametrize("modern", [False, True])
async def test_each_kind_is_asked_for_in_the_servers_own_words(source_of, modern):
    """By its own names; what the caller said goes along."""
    answers = {
        "resources/read": {"contents": [{"uri": "memo://a", "text": "A"}]},
        "prompts/get": {"messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}]},
        "completion/complete": {"completion": {"values": ["x"]}},
    }
    server = serving(answers, modern=modern)
    source = source_of(server)
    completing = {"ref": {"type": "ref/resource", "uri": "pub"}, "argument": {"name": "id", "value": "x"}}
    read = await source.answer(asking(RequestKind.READ, "memo://a", meta={"own": 1}))
    got = await source.answer(asking(RequestKind.GET, "greet", arguments={"who": "Ann"}))
    completed = await source.answer(asking(RequestKind.COMPLETE, "memo://n/{id}", arguments=completing))
    asked = {method: params for method, params in server.link.asked if "/" in method}

    assert json.loads(read.raw) == {"contents": [{"uri": "memo://lib/a", "text": "A"}]}
    assert json.loads(got.raw) == answers["prompts/get"]
    assert json.loads(completed.raw) == answers["completion/complete"]
    metas = {method: params.pop("_meta", None) for method, params in asked.items()}
    assert asked["resources/read"] == {"uri": "memo://a"}
    assert asked["prompts/get"] == {"name": "greet", "arguments": {"who": "Ann"}}
    assert asked["completion/complete"] == {
        "ref": {"type": "ref/resource", "uri": "memo://n/{id}"},
        "argument": {"name": "id", "value": "x"},
    }
    assert metas["resources/read"]["own"] == 1
    assert (eras.META_VERSION in (metas["prompts/get"] or {})) is modern
    named = {question.method: question.name for question in server.link.questions}
    assert (named["resources/read"], named["prompts/get"], named["completion/complete"]) == ("memo://a", "greet", "")


async def test_the_links_of_a_tools_result_are_those_that_clients_know(source_of):
    """Noted for whoever was handed them; without prefixes they stay as they are."""
    result = {"content": [{"type": "resource_link", "uri": "memo://new", "name": "new"}]}
    seen = []
    for prefix in (True, False):
        source = source_of(serving({"tools/call": result}), prefix=prefix)
        answered = await source.answer(asking(RequestKind.CALL, "t"))
        seen.append((answered.content[0]["uri"], source._handed.owner("local", "lib__memo://new")))

    assert seen == [("memo://lib/new", "lib"), ("memo://new", "")]


@pytest.mark.parametrize(
    "raw", [b'{"contents":[{"uri":"m","size":1e999}]}', b'{"contents":' + b"[" * 200 + b"]" * 200 + b"}"]
)
async def test_what_not_every_client_could_read_is_refused(source_of, raw):
    """Like a tool's result."""
    source = source_of(serving({"resources/read": raw}))

    with pytest.raises(ProtocolError, match="cannot be read by every client"):
        await source.answer(asking(RequestKind.READ, "memo://a"))


async def test_a_large_resource_passes_as_the_bytes_it_came_in(source_of):
    """All but its URI."""
    blob = "QUFB" * 200_000
    raw = b'{"contents":[{"uri":"memo://a","blob":"%b"}]}' % blob.encode()
    answered = await source_of(serving({"resources/read": raw})).answer(asking(RequestKind.READ, "memo://a"))

    assert answered.raw == raw.replace(b"memo://a", b"memo://lib/a")


async def test_a_log_level_goes_to_the_server_in_the_way_of_its_era(source_of):
    """Once for a handshake server, unless somebody wants more; with each request to a stateless one."""
    old, new = serving({"tools/call": {"content": []}}), serving({"tools/call": {"content": []}}, modern=True)
    for server in (old, new):
        source = source_of(server)
        for level in ("warning", "error", "debug", ""):
            channel = RecordingChannel()
            channel.log_level = level
            await source.answer(asking(RequestKind.CALL, "t", channel=channel))

    assert [params for method, params in old.link.asked if method == "logging/setLevel"] == [
        {"level": "warning"},
        {"level": "debug"},
    ]
    calls = [params for method, params in new.link.asked if method == "tools/call"]
    assert [params["_meta"].get(eras.META_LOG_LEVEL) for params in calls] == ["warning", "error", "debug", None]


async def test_watched_resources_are_subscribed_to_in_the_way_of_the_era_and_again_after_a_loss(source_of):
    """What may have changed in between is told as changed."""
    old, new = serving({"resources/subscribe": {}, "resources/unsubscribe": {}}), serving(modern=True)
    told: list[str] = []
    for server in (old, new):
        source = source_of(server)
        source.on_update(lambda _, uri: told.append(uri))
        await source.watch(frozenset({"memo://a", "memo://b"}))
        await source.watch(frozenset({"memo://a"}))
        server.link.events.updated("memo://a")
        server.link.lose()
        await source.list_offers()
        await source.close()

    subscribed = [
        (method, params["uri"]) for link in old.links for method, params in link.asked if "subscribe" in method
    ]
    assert sorted(subscribed[:2]) == [("resources/subscribe", "memo://a"), ("resources/subscribe", "memo://b")]
    assert subscribed[2:] == [("resources/unsubscribe", "memo://b"), ("resources/subscribe", "memo://a")]
    assert new.link.listening["notifications"] == {
        "toolsListChanged": True,
        "resourcesListChanged": True,
        "promptsListChanged": True,
        "resourceSubscriptions": ["memo://a"],
    }
    assert told == ["memo://a"] * 4


async def test_a_subscription_that_the_server_refuses_is_none(source_of):
    """And its words are passed on."""
    server = serving({"resources/subscribe": RemoteError(-32602, "no")})
    source = source_of(server)

    with pytest.raises(RemoteError, match="no"):
        await source.watch(frozenset({"memo://a"}))
    assert source.supervisor._watched == frozenset()


async def test_a_subscription_that_nobody_waits_for_any_more_is_none(source_of):
    """Whatever the server makes of it later; it is asked again for the next who wants to know."""
    server = serving({"resources/subscribe": {}})
    source = source_of(server)
    await source.list_offers()
    server.link.held.add("resources/subscribe")
    waiting = asyncio.create_task(source.watch(frozenset({"memo://a"})))
    await server.link.reached.wait()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert source.supervisor._watched == frozenset()


async def test_no_server_can_say_that_everything_changed(source_of):
    """The word for that is toolcrib's own, for what may have been missed."""
    source, told = source_of(serving({"resources/subscribe": {}})), []
    source.on_update(lambda _, uri: told.append(uri))
    await source.watch(frozenset({"memo://a"}))
    link = source.supervisor.use()
    for uri in (ANY_URI, "memo://a"):
        params = Raw(json.dumps({"uri": uri}).encode())
        heed_news(Outbound(method="notifications/resources/updated", params=params), link.events)

    assert told == ["memo://a"]


async def test_a_result_that_speaks_of_too_many_resources_is_refused(source_of):
    """A read and a call alike, before any of it is taken apart."""
    contents = [{"uri": "memo://a", "text": ""}] * (LINKS_MAX + 1)
    linked = [{"type": "resource_link", "uri": "memo://a"}] * (LINKS_MAX + 1)
    source = source_of(serving({"resources/read": {"contents": contents}, "tools/call": {"content": linked}}))

    for kind in (RequestKind.READ, RequestKind.CALL):
        with pytest.raises(ProtocolError, match="more than 10,000 resources at once"):
            await source.answer(asking(kind, "memo://a"))


def escaped(shown: object) -> bytes:
    """JSON that says the same, its words written as escapes."""
    words = re.compile(rb"uri|resource_link|resourceUri")
    return words.sub(lambda word: b"".join(b"\\u%04x" % letter for letter in word[0]), json.dumps(shown).encode())


@pytest.mark.parametrize(("name", "more"), [("contents", {"text": ""}), ("content", {"type": "resource_link"})])
def test_resources_are_counted_however_their_names_are_written(name: str, more: dict[str, str]):
    """Escapes are no way past the count."""
    raw = escaped({name: [{"uri": "memo://a", **more}] * (LINKS_MAX + 1)})

    with pytest.raises(ProtocolError, match="more than 10,000 resources at once"):
        links.translate_read(raw, str) or links.translate_result(raw, str)


def test_a_link_is_translated_however_its_names_are_written():
    """Or a server could send clients to its neighbours."""
    shown = {
        "content": [{"type": "resource_link", "uri": "a", "_meta": {"ui": {"resourceUri": "b"}}}],
        "_meta": {"ui/resourceUri": "c"},
    }

    assert links.has_links(escaped(shown))
    assert json.loads(links.translate_result(escaped(shown), lambda uri: f"own-{uri}")) == {
        "content": [{"type": "resource_link", "uri": "own-a", "_meta": {"ui": {"resourceUri": "own-b"}}}],
        "_meta": {"ui/resourceUri": "own-c"},
    }


async def test_so_many_templates_and_no_more_are_taken_of_a_server(source_of):
    """Every URI that no list contains is held against each."""
    templates = [{"uriTemplate": f"memo://{number}/{{id}}"} for number in range(TEMPLATES_MAX + 1)]

    listing = await source_of(serving({"resources/templates/list": {"resourceTemplates": templates}})).list_offers()

    assert sum(offer.kind is OfferKind.TEMPLATE for offer in listing.others) == TEMPLATES_MAX
    assert "the list was cut" in listing.problems[-1]


async def test_a_tool_without_a_description_is_described_by_its_server_and_its_name(source_of):
    """A model, and a list, have something to show."""
    tools = [{"name": "a"}, {"name": "b", "description": ""}, {"name": "c", "description": None}]

    server = serving({"tools/list": {"tools": [{**one, "inputSchema": {"type": "object"}} for one in tools]}})
    listing = await source_of(server).list_offers()

    assert [tool.description for tool in listing.tools] == ["lib tool: a", "lib tool: b", "lib tool: c"]
