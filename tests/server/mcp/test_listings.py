"""What callers are shown: what their grants allow, encoded once, and nothing of the rest."""

import json

import pytest

from toolcrib.config.model import Config
from toolcrib.config.sections import ProfileConfig
from toolcrib.core.access import EVERYTHING, LOCAL_USER, NOTHING, Caller, Grants
from toolcrib.core.errors import SourceUnavailable
from toolcrib.core.offers import OfferKind, SecurityLevel, Tool
from toolcrib.crib.window import ProfileSettings, ProfileView
from toolcrib.server.mcp import listings
from toolcrib.server.mcp.listings import Listings
from toolcrib.server.mcp.service import McpService, ServerIdentity
from toolcrib.sources.native.functions import tool
from toolcrib.testing import FakeSource, RecordingChannel, memory_crib
from toolcrib.wire.jsonrpc import Inbound
from toolcrib.wire.messages import Asker

OLD, NEW = Asker("2025-06-18"), Asker("2026-07-28")


def sources() -> list[FakeSource]:
    hub = FakeSource(
        "hub",
        [
            Tool("read", security_level=SecurityLevel.READ_ONLY),
            Tool("write", security_level=SecurityLevel.WRITE),
            Tool("drop", security_level=SecurityLevel.ADMIN, capabilities=frozenset({"net"})),
        ],
    )
    return [hub, FakeSource("docs", [Tool("read", security_level=SecurityLevel.READ_ONLY)])]


@tool(security_level="read_only")
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def names(mcp: McpService, grants: Grants, asker: Asker = OLD) -> list[str]:
    caller = Caller("somebody", "token", grants)
    body, _ = await mcp.respond(Inbound("2.0", 1, "tools/list", {}), asker, RecordingChannel(), caller)
    return [entry["name"] for entry in json.loads(body)["result"]["tools"]]


ALL = ["add", "docs__read", "hub__drop", "hub__read", "hub__write"]


@pytest.mark.parametrize("asker", [OLD, NEW], ids=["handshake", "modern"])
@pytest.mark.parametrize(
    ("grants", "shown"),
    [
        (EVERYTHING, ALL),
        (Grants(SecurityLevel.SYSTEM), ALL),
        (NOTHING, []),
        (Grants(SecurityLevel.READ_ONLY), ["add", "docs__read", "hub__read"]),
        (Grants(SecurityLevel.WRITE, ("hub",)), ["hub__read", "hub__write"]),
        (Grants(SecurityLevel.WRITE, ("native",)), ["add"]),
        (Grants(SecurityLevel.ADMIN, ("h*",), ("*__d*", "*__w*")), ["hub__drop", "hub__write"]),
        (Grants(SecurityLevel.ADMIN, capabilities=frozenset()), ["add", "docs__read", "hub__read", "hub__write"]),
    ],
)
async def test_a_caller_sees_what_it_may_use_and_nothing_else(grants, shown, asker):
    """By level, server, name and capability; whoever listed before."""
    async with memory_crib(*sources(), tools=[add]) as made:
        mcp = McpService(ProfileView(made.crib), ServerIdentity())
        await names(mcp, EVERYTHING, asker)

        assert await names(mcp, grants, asker) == shown
        assert await names(mcp, EVERYTHING, asker) == ALL


async def test_a_listing_follows_the_catalogue():
    """For every grants, although each is encoded once."""
    read = Grants(SecurityLevel.READ_ONLY)
    async with memory_crib(tools=[add]) as made:
        mcp = McpService(ProfileView(made.crib), ServerIdentity())
        before = await names(mcp, read), await names(mcp, EVERYTHING)
        made.native.register(tool(security_level="read_only")(_renamed("more")))

        assert before == (["add"], ["add"])
        assert (await names(mcp, read), await names(mcp, EVERYTHING)) == (["add", "more"], ["add", "more"])


def _renamed(name: str):
    def function() -> None:
        """Nothing."""

    function.__name__ = name
    return function


async def test_a_listing_is_encoded_once_for_all_callers_with_the_same_grants(monkeypatch):
    """And for no more than a bounded number of different grants."""
    monkeypatch.setattr(listings, "GRANTS_MAX", 3)
    async with memory_crib(tools=[add]) as made:
        await made.crib.current()
        kept, catalog = Listings(), made.crib.catalog
        one = kept.of(catalog, Grants(SecurityLevel.WRITE))
        again = kept.of(catalog, Grants(SecurityLevel.WRITE))
        everything = kept.of(catalog, EVERYTHING)
        for number in range(20):
            kept.of(catalog, Grants(SecurityLevel.WRITE, (f"s{number}",)))

        assert one is again
        assert kept.of(catalog, EVERYTHING) is everything
        assert len(kept._listings) <= 3


async def test_headers_of_a_tool_that_is_hidden_are_not_told():
    """Neither what it declares nor that it is there."""
    schema = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A"}}}
    async with memory_crib(FakeSource("srv", [Tool("work", input_schema=schema)])) as made:
        await made.crib.current()
        mcp = McpService(ProfileView(made.crib), ServerIdentity())

        assert mcp.declared_headers("srv__work", LOCAL_USER) == {("a",): "A"}
        assert mcp.declared_headers("srv__work", Caller("x", grants=Grants(SecurityLevel.READ_ONLY))) == {}


async def missing(mcp: McpService, grants: Grants, asker: Asker = OLD) -> list[dict[str, str]] | None:
    caller = Caller("somebody", "token", grants)
    body, _ = await mcp.respond(Inbound("2.0", 1, "tools/list", {}), asker, RecordingChannel(), caller)
    result = json.loads(body)["result"]
    return result.get("_meta", {}).get("toolcrib/missing")


@pytest.mark.parametrize("asker", [OLD, NEW], ids=["handshake", "modern"])
async def test_a_list_that_lacks_a_server_says_so_until_it_is_there(asker):
    """With the reason, in both eras; a list of nothing is never all there is to see."""
    down, slow = FakeSource("down"), FakeSource("slow", ["a"])
    down.trouble = SourceUnavailable("Its program is gone.")
    slow.listing.hold()
    async with memory_crib(down, slow, config=Config(list_grace_s=0.01)) as made:
        mcp = McpService(ProfileView(made.crib), ServerIdentity())
        await made.crib.current(0)
        await made.crib.refresh("down")
        first = await missing(mcp, EVERYTHING, asker)
        slow.listing.release()
        await made.crib.refresh("slow")
        second = await missing(mcp, EVERYTHING, asker)
        down.trouble = None
        await made.crib.refresh("down")
        third = await missing(mcp, EVERYTHING, asker)

    gone = {"server": "down", "status": "failed", "reason": "Its program is gone."}
    assert first == [
        gone,
        {"server": "slow", "status": "discovering", "reason": "It is starting, and has not answered yet."},
    ]
    assert second == [gone]
    assert third is None


@pytest.mark.parametrize(
    ("grants", "heard_of"),
    [
        (EVERYTHING, ["docs", "hub"]),
        (Grants(SecurityLevel.READ_ONLY), ["docs", "hub"]),
        (Grants(SecurityLevel.SYSTEM, ("hub",)), ["hub"]),
        (Grants(SecurityLevel.SYSTEM, tools=("docs__re*",)), ["docs"]),
        (Grants(SecurityLevel.SYSTEM, tools=("d*",)), ["docs"]),
        (Grants(SecurityLevel.SYSTEM, tools=("hub",)), None),
        (Grants(SecurityLevel.SYSTEM, ("other",)), None),
        (NOTHING, None),
    ],
)
async def test_a_caller_hears_only_of_missing_servers_within_its_grants(grants, heard_of):
    """Whose tools it may not use, it does not learn of."""
    made_of = [FakeSource(name) for name in ("docs", "hub")]
    for source in made_of:
        source.trouble = SourceUnavailable("no")
    async with memory_crib(*made_of) as made:
        mcp = McpService(ProfileView(made.crib), ServerIdentity())
        await made.crib.refresh()
        found = await missing(mcp, grants)

    assert (found and [one["server"] for one in found]) == heard_of


async def test_a_window_on_one_server_speaks_of_no_other():
    """Nor does a profile speak of servers it shows nothing of."""
    made_of = [FakeSource(name) for name in ("docs", "hub")]
    for source in made_of:
        source.trouble = SourceUnavailable("no")
    async with memory_crib(*made_of) as made:
        window = ProfileView(made.crib, ProfileSettings(profile=ProfileConfig(servers=("hub",))), "hub")
        mcp = McpService(window, ServerIdentity())
        await made.crib.refresh()
        found = await missing(mcp, EVERYTHING)

    assert found == [{"server": "hub", "status": "failed", "reason": "no"}]


async def test_the_only_servers_lists_come_in_its_own_pages_and_order():
    """Where its names are kept; what else is shown comes last."""
    source = FakeSource("srv", ["b", "a", "c"])
    source.pages = {OfferKind.TOOL: (("", ("b", "a")), ("next+/=", ("c",)))}
    async with memory_crib(source, tools=[add], prefix=False) as made:
        mcp = McpService(ProfileView(made.crib), ServerIdentity("toolcrib", "9"))
        pages = [await page_of(mcp, cursor) for cursor in (None, "next+/=", "other", 7)]

    assert [([tool["name"] for tool in page["tools"]], page.get("nextCursor")) for page in pages[:2]] == [
        (["b", "a"], "next+/="),
        (["c", "add"], None),
    ]
    assert [page["code"] for page in pages[2:]] == [-32602, -32602]


@pytest.mark.parametrize(("ttls", "ttl_ms"), [((None,), 300_000), ((0.0, None), 0), ((900.0, 60.0), 60_000)])
async def test_a_list_may_be_kept_as_long_as_all_its_servers_allow(ttls, ttl_ms):
    """And never for longer than toolcrib's own limit."""
    sources = [FakeSource(f"s{number}", ["work"], ttl_s=ttl_s) for number, ttl_s in enumerate(ttls)]
    async with memory_crib(*sources) as made:
        page = await page_of(McpService(ProfileView(made.crib), ServerIdentity("toolcrib", "9")), None)

    assert page["ttlMs"] == ttl_ms


async def page_of(mcp, cursor):
    params = {} if cursor is None else {"cursor": cursor}
    body, _ = await mcp.respond(Inbound("2.0", 1, "tools/list", params), Asker("2026-07-28"), RecordingChannel())
    answered = json.loads(body)
    return answered.get("result") or answered["error"]
