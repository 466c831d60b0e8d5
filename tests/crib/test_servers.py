"""The servers of a Crib while it runs: they come, change and go."""

import asyncio
from dataclasses import replace

import pytest

from toolcrib.config.model import Config, ServerConfig, ToolConfig
from toolcrib.core import errors, events
from toolcrib.core.errors import CallerError
from toolcrib.core.offers import Tool
from toolcrib.crib.builder import open_crib
from toolcrib.testing import FakeSource, memory_crib


def server(name: str, **fields: object) -> ServerConfig:
    """The configuration ``memory_crib`` gives a source of that name, with changes."""
    return ServerConfig(name, **({"command": name} | fields))


async def test_whoever_wants_is_told_of_servers_that_come_change_and_go():
    """Once each, by name, until they do not want to know any more."""
    heard: list[tuple[str, str]] = []
    one, two = ServerConfig("one", command="x"), ServerConfig("two", command="x")
    async with open_crib(Config(servers={"one": one})) as crib:
        forget = crib.servers.on_change(lambda event: heard.append((event.name, event.fields["server"])))
        await crib.servers.apply({"one": replace(one, description="new"), "two": two})
        await crib.servers.apply({"two": two})
        forget()
        await crib.servers.apply({})

    assert heard == [("server.changed", "one"), ("server.created", "two"), ("server.removed", "one")]


async def test_servers_are_added_changed_and_removed_while_it_runs():
    """Only what changed is touched, and the names of it are told."""
    kept, changed, removed = (FakeSource(name, ["read"]) for name in ("kept", "changed", "removed"))
    heard = []
    async with memory_crib(kept, changed, removed) as made:
        await made.crib.current()
        made.crib.on_change(lambda: heard.append(list(made.crib.catalog.routes)))
        made.upcoming["changed"] = FakeSource("changed", ["write"])
        made.upcoming["added"] = FakeSource("added", ["read"])

        touched = await made.crib.servers.apply(
            {"kept": server("kept"), "changed": server("changed", args=("new",)), "added": server("added")}
        )
        tools = [tool.name for tool in await made.crib.tools()]

    assert touched == ["added", "changed", "removed"]
    assert tools == ["added__read", "changed__write", "kept__read"]
    assert (kept.listed, removed.closed, changed.closed) == (1, True, True)
    assert heard[0] == ["kept__read"]
    gone = [(each["server"], each["removed"]) for each in made.told(events.REGISTRY_SERVER_REMOVED)]
    assert gone == [("changed", 1), ("removed", 1)]


async def test_a_changed_setting_keeps_what_was_discovered():
    """Only what is run or reached makes a new discovery necessary."""
    async with memory_crib(FakeSource("files", ["read"])) as made:
        await made.crib.current()
        await made.crib.servers.apply({"files": server("files", call_timeout_s=9)})

        routes = made.crib.catalog.routes
        asked = made.sources["files"].listed

    assert (asked, routes["files__read"].tool.timeout_s) == (1, 9)


async def test_a_disabled_server_leaves_and_comes_back():
    """With its tools."""
    async with memory_crib(FakeSource("files", ["read"])) as made:
        await made.crib.current()
        await made.crib.servers.apply({"files": server("files", enabled=False)})
        without = list(made.crib.catalog.routes), list(made.crib.disabled)
        made.upcoming["files"] = FakeSource("files", ["read"])
        await made.crib.servers.apply({"files": server("files")})
        again = [tool.name for tool in await made.crib.tools()]

    assert (without, again, dict(made.crib.disabled)) == (([], ["files"]), ["files__read"], {})


async def test_a_server_that_is_disabled_from_the_start_is_never_made():
    """Its tools are not found."""
    config = Config(servers={"off": server("off", enabled=False)})
    async with memory_crib(config=config) as made:
        result = await made.crib.call("off__read")

    assert (result.error.code, made.sources) == ("TOOL_NOT_FOUND", {})


async def test_the_same_configuration_again_changes_nothing():
    """Where it was written does not matter."""
    async with memory_crib(FakeSource("files", ["read"])) as made:
        touched = await made.crib.servers.apply({"files": replace(server("files"), origin="elsewhere.toml", line=9)})

    assert touched == []


async def test_a_call_that_waits_for_a_server_that_is_removed_gets_an_answer():
    """Not a cancellation that nobody asked for."""
    files = FakeSource("files", ["read"])
    files.listing.hold()
    async with memory_crib(files) as made:
        waiting = asyncio.create_task(made.crib.call("files__read"))
        await files.listing.reached.wait()
        await made.crib.servers.apply({})
        result = await asyncio.wait_for(waiting, 150)

    assert result.error.code == "TOOL_UNAVAILABLE"


async def test_a_removed_tool_is_gone_before_its_server_is():
    """While the old server takes its time to stop, nobody is sent to it any more."""
    files, stopping, stopped = FakeSource("files", ["read"]), asyncio.Event(), asyncio.Event()

    async def slow_close() -> None:
        stopping.set()
        await stopped.wait()

    files.close = slow_close
    async with memory_crib(files) as made:
        await made.crib.current()
        applying = asyncio.create_task(made.crib.servers.apply({}))
        await stopping.wait()
        result = await made.crib.call("files__read")
        stopped.set()
        await applying

    assert result.error.code == "TOOL_NOT_FOUND"


async def test_a_manual_refresh_gives_the_records():
    """Of those named, or of all; an unknown one is told the near ones."""
    async with memory_crib(FakeSource("files", ["read"]), FakeSource("other")) as made:
        some, everything = await made.crib.refresh("files"), await made.crib.refresh()
        with pytest.raises(CallerError, match=r"No server named 'fils'. Did you mean 'files'\?"):
            await made.crib.refresh("fils")

    assert {name: record.status for name, record in some.items()} == {"files": "success"}
    assert sorted(everything) == ["files", "other"]


async def test_an_edit_of_wishes_takes_effect_and_leaves_the_connection_alone():
    """New renames hold for the next call; the source is the same."""
    schema = {"type": "object", "properties": {"target": {"type": "integer"}}, "additionalProperties": False}
    files = FakeSource("files", [Tool("move", input_schema=schema)])
    async with memory_crib(files) as made:
        before = await made.crib.call("files__move", {"to": 1})
        source = made.crib.shelves["files"].source
        wishes = {"move": ToolConfig(parameters={"to": "target"})}
        changed = await made.crib.servers.apply({"files": server("files", tools=wishes)})
        after = await made.crib.call("files__move", {"to": 1})

        assert (before.error.code, after.success, changed) == ("TOOL_INVALID_INPUT", True, ["files"])
        assert made.crib.shelves["files"].source is source


async def test_a_restart_puts_a_new_source_in_the_place_of_the_old_one():
    """The old one is closed, the new one asked and called; a server there is not is an error."""
    old, new = FakeSource("files", [Tool("read")]), FakeSource("files", [Tool("read")])
    async with memory_crib(old) as made:
        await made.crib.call("files__read")
        made.upcoming["files"] = new
        record = await made.crib.servers.restart("files")
        result = await made.crib.call("files__read")
        with pytest.raises(errors.UnknownServer, match="ghost"):
            await made.crib.servers.restart("ghost")

    assert (record.status, result.text, old.closed) == ("success", "read ran", True)
    assert (len(old.calls), len(new.calls)) == (1, 1)
