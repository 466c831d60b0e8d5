"""Merging: one catalog of many listings, in one order, with every conflict settled and said."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from toolcrib.catalog.catalog import Catalog, LeftOut, LeftOutKind, Route
from toolcrib.catalog.merge import Offering, Room, beyond_capacity, merge
from toolcrib.core.offers import Tool
from toolcrib.sources.native.functions import tool
from toolcrib.sources.native.source import NativeSource
from toolcrib.testing import FakeSource, memory_crib

NATIVE = NativeSource()


def offering(source, *names: str, view=None) -> Offering:
    return Offering(source, [Tool(name) for name in names], view)


async def test_a_servers_tools_carry_its_name_and_native_tools_none():
    """Each route knows its exposed name, its server, its original name and its source."""
    files = FakeSource("files")

    catalog = merge(offering(NATIVE, "add"), [offering(files, "read")])

    assert catalog == Catalog(
        {
            "add": Route("add", "", Tool("add"), NATIVE),
            "files__read": Route("files__read", "files", Tool("read"), files),
        }
    )
    assert catalog.routes["files__read"].original_name == "read"
    assert catalog.counts() == (1, 1)
    assert [route.name for route in catalog.of_server("files")] == ["files__read"]


async def test_the_same_tool_of_two_servers_is_kept_twice():
    """Prefixes keep them apart."""
    catalog = merge(offering(NATIVE), [offering(FakeSource("b"), "read"), offering(FakeSource("a"), "read")])

    assert list(catalog.routes) == ["a__read", "b__read"]
    assert catalog.left_out == {}


async def test_a_tool_that_would_shadow_a_native_one_is_left_out_and_said_so():
    """The native tool stays."""
    catalog = merge(offering(NATIVE, "files__read"), [offering(FakeSource("files"), "read", "write")])

    assert {name: route.server for name, route in catalog.routes.items()} == {
        "files__read": "",
        "files__write": "files",
    }
    assert catalog.left_out == {
        "files__read": LeftOut(
            LeftOutKind.TAKEN_BY_NATIVE,
            "'files__read' of server 'files' is left out: the name is taken by a native tool",
        )
    }


async def test_without_prefixes_the_first_server_by_name_keeps_a_shared_name():
    """However the servers were listed; the clash is reported under the name that would have been unique."""
    catalog = merge(
        offering(NATIVE, "add"),
        [offering(FakeSource("b"), "read", "add"), offering(FakeSource("a"), "read")],
        prefix=False,
    )

    assert {name: route.server for name, route in catalog.routes.items()} == {"add": "", "read": "a"}
    assert catalog.left_out == {
        "b__read": LeftOut(
            LeftOutKind.TAKEN_BY_SERVER, "'read' of server 'b' is left out: the name is taken by server 'a'"
        ),
        "b__add": LeftOut(
            LeftOutKind.TAKEN_BY_NATIVE, "'add' of server 'b' is left out: the name is taken by a native tool"
        ),
    }
    assert all(why.is_clash for why in catalog.left_out.values())


async def test_a_view_changes_or_hides_a_tool():
    """Hidden tools are known to be hidden, and are no clash."""

    def view(name: str, tool: Tool) -> tuple[Tool, str]:
        return replace(tool, timeout_s=5), "disable" if name == "files__delete" else "ask"

    catalog = merge(offering(NATIVE), [offering(FakeSource("files"), "read", "delete", view=view)])

    assert [(route.tool, route.policy) for route in catalog.routes.values()] == [(Tool("read", timeout_s=5), "ask")]
    disabled = LeftOut(LeftOutKind.DISABLED, "disabled in the configuration")
    assert (catalog.left_out, disabled.is_clash) == ({"files__delete": disabled}, False)


async def test_beyond_the_capacity_what_comes_last_by_name_is_left_out():
    """Native tools come first; however the servers and their tools were listed, the same ones stay."""
    offers = [
        offering(FakeSource("b"), "x"),
        offering(FakeSource("a"), "z", "y", "x", view=lambda _, tool: (tool, "allow")),
    ]

    catalog = merge(offering(NATIVE, "zoo"), offers, room=Room(3))

    assert list(catalog.routes) == ["a__x", "a__y", "zoo"]
    full = LeftOut(LeftOutKind.FULL, "the catalogue is full at 3 tools ([catalog] capacity)")
    assert catalog.left_out == dict.fromkeys(["a__z", "b__x"], full)
    assert (beyond_capacity(catalog), full.is_clash) == (["a__z", "b__x"], False)


NAMES = st.lists(st.text("ab_", min_size=1, max_size=3), unique=True, max_size=3)


@given(NAMES, NAMES, NAMES, st.booleans(), st.randoms())
def test_the_order_is_by_name_whatever_the_order_of_the_offers(native, first, second, prefix, random):
    """The same listings make the same catalog, entry by entry."""
    sources = {name: type("Source", (), {"name": name})() for name in ("a", "b")}
    offers = [offering(sources["a"], *first), offering(sources["b"], *second)]
    expected = merge(offering(NATIVE, *native), offers, prefix=prefix)
    random.shuffle(offers)

    catalog = merge(offering(NATIVE, *random.sample(native, len(native))), offers, prefix=prefix)

    assert list(catalog.routes) == sorted(catalog.routes)
    assert list(catalog.routes.items()) == list(expected.routes.items())
    assert catalog.left_out == expected.left_out
    assert set(native) <= set(catalog.routes)


async def test_tools_that_say_they_are_internal_can_be_called_and_are_in_no_list():
    """By the annotation ``safeInternal``, of a server or of this process; `why` says it."""

    @tool(annotations={"safeInternal": True})
    def housekeeping() -> str:
        """Clean up."""
        return "clean"

    files = FakeSource("files", [Tool("read"), Tool("flush", annotations={"safeInternal": True})])
    async with memory_crib(files, tools=[housekeeping]) as made:
        crib = made.crib
        listed = [one.name for one in await crib.tools()]
        entries = [entry.name for entry in crib.entries()]
        found = [hit.route.name for hit in await crib.find("flush clean housekeeping")]
        answers = [(await crib.call(name)).success for name in ("housekeeping", "files__flush")]
        stories = [crib.explain(name) for name in ("housekeeping", "files__flush")]

    assert (listed, entries, answers) == (["files__read"], ["files__read"], [True, True])
    assert set(found) <= {"files__read"}
    assert [story.verdict for story in stories] == ["unlisted", "unlisted"]
    assert all("safeInternal" in story.reasons[0] for story in stories)
