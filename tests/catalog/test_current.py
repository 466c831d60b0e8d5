"""The catalog of now: another one only where something changed."""

import pytest

from toolcrib.core import events
from toolcrib.core.errors import ConfigError, SourceUnavailable
from toolcrib.core.offers import Tool
from toolcrib.sources.native.functions import tool
from toolcrib.stores.lockfile import MemoryRecords
from toolcrib.testing import FakeSource, memory_crib


async def test_listeners_hear_of_real_changes_only():
    """A discovery that finds the same, or fails, is no news; the version counts changes."""
    files, changes = FakeSource("files", ["read"]), []
    async with memory_crib(files) as made:
        made.crib.on_change(lambda: changes.append(list(made.crib.catalog.routes)))
        await made.crib.refresh("files")
        version = made.crib.catalog.version
        await made.crib.refresh("files")
        files.trouble = SourceUnavailable("down")
        await made.crib.refresh("files")
        same = made.crib.catalog.version == version
        files.trouble = None
        files.tools = (Tool("write"),)
        await made.crib.refresh("files")

    assert (changes, same) == ([["files__read"], ["files__write"]], True)
    told = made.told(events.REGISTRY_UPDATED)
    assert [(each["native"], each["mcp"]) for each in told] == [(0, 0), (0, 1), (0, 1)]
    found = [each["trace_id"] for each in made.told(events.DISCOVERY_SERVER_SUCCESS)]
    assert [each.get("trace_id") for each in told] == [None, found[0], found[-1]]


async def test_without_prefixes_a_clash_that_is_known_at_start_is_an_error():
    """A person is there to choose."""
    records = MemoryRecords()
    sources = [FakeSource("a", ["read"]), FakeSource("b", ["read"])]
    async with memory_crib(*sources, records=records) as made:
        await made.crib.refresh()

    with pytest.raises(ConfigError, match="'read' of server 'b' is left out: the name is taken by server 'a'"):
        async with memory_crib(FakeSource("a"), FakeSource("b"), prefix=False, records=records):
            pass


async def test_without_prefixes_a_server_cannot_keep_it_from_starting_by_naming_a_tool_like_a_native_one():
    """The native tool stays, the server's is left out, and that is said."""
    records = MemoryRecords()
    async with memory_crib(FakeSource("a", ["file_read", "other"]), records=records) as made:
        await made.crib.refresh()

    async def file_read() -> str:
        """Read a file."""
        return "ours"

    async with memory_crib(FakeSource("a"), tools=[file_read], prefix=False, records=records) as made:
        routes = {name: route.server for name, route in made.crib.catalog.routes.items()}
        story = made.crib.explain("a__file_read")

    assert routes == {"file_read": "", "other": "a"}
    assert story.reasons == ("'file_read' of server 'a' is left out: the name is taken by a native tool.",)


async def test_a_tool_that_a_native_one_hides_is_told_once_as_an_event():
    """Whoever runs this sees it in the log, and `why` says it of either name."""

    @tool(name="files__read")
    def ours() -> str:
        """Ours."""
        return "ours"

    files = FakeSource("files", ["read", "write"])
    async with memory_crib(files, tools=[ours]) as made:
        await made.crib.refresh()
        files.tools = (*files.tools, Tool("more"))
        await made.crib.refresh()
        answer = await made.crib.call("files__read")
        story = made.crib.explain("files__read")

    hidden = "'files__read' of server 'files' is left out: the name is taken by a native tool."
    assert made.told(events.TOOL_HIDDEN) == [{"tool": "files__read", "reason": hidden}]
    assert (answer.data, hidden in story.reasons) == ("ours", True)


async def test_without_prefixes_a_clash_at_run_time_leaves_the_newcomer_out():
    """Service goes on."""
    async with memory_crib(FakeSource("a", ["read"]), FakeSource("b", ["read"]), prefix=False) as made:
        await made.crib.current()
        routes = {name: route.server for name, route in made.crib.catalog.routes.items()}

    assert routes == {"read": "a"}
    assert list(made.crib.catalog.left_out) == ["b__read"]
