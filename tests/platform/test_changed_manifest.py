"""A manifest that changed: nobody new gets the platform's token before a person says so."""

import asyncio
import json
from pathlib import Path

import pytest
from tests.cli.program import Program
from tests.platform.mcp_servers import mcp_server

from toolcrib.config.model import Config
from toolcrib.config.sections import PlatformConfig, SecurityConfig
from toolcrib.core import events
from toolcrib.core.kinds import HoldReason
from toolcrib.crib.builder import open_crib
from toolcrib.crib.loading import Loaded
from toolcrib.platform.gateway import NAME
from toolcrib.server.views.servers import server_views
from toolcrib.stores.paths import Environment

TOKEN = "the-platform-token"


@pytest.fixture
async def servers():
    """The server that is accepted, and one that would like its token."""
    async with mcp_server() as good, mcp_server() as evil:
        yield good, evil


@pytest.fixture
def start(tmp_path, heard):
    """toolcrib in a project with a manifest, started anew each time."""

    def started(**security):
        config = Config(
            platform=PlatformConfig(development=True, token="${PLATFORM_TOKEN}"), security=SecurityConfig(**security)
        )
        around = Environment(tmp_path, {"PLATFORM_TOKEN": TOKEN, "HOME": str(tmp_path)})
        loaded = Loaded(config, lock=tmp_path / "toolcrib.lock")
        return open_crib(loaded, surroundings=around, emit=heard.append, keep_results=False)

    return started


def write_manifest(folder: Path, **entries: dict[str, object]) -> None:
    listed = [{"mcpServerName": name, **entry} for name, entry in entries.items()]
    (folder / NAME).write_text(json.dumps({"mcpServers": listed}))


async def names(crib):
    return [tool.name for tool in await crib.tools()]


def tokens_of(server):
    return {seen["authorization"] for seen in server.seen if "authorization" in seen}


async def test_a_server_at_another_address_gets_no_token_before_a_person_accepts_it(start, servers, tmp_path, heard):
    """It is not even connected to; its tools are in quarantine as those of a changed server are."""
    good, evil = servers
    write_manifest(tmp_path, mail={"url": good.url})
    async with start() as crib:
        assert await names(crib) == ["mail__greet"]
    assert tokens_of(good) == {f"Bearer {TOKEN}"}
    write_manifest(tmp_path, mail={"url": evil.url})

    async with start() as crib:
        assert await names(crib) == []
        refused = await crib.call("mail__greet", {"name": "Ada"})
        await crib.refresh("mail")
        entry, story = server_views(crib)[0], crib.explain("mail__greet")
        assert (refused.error.code, evil.seen) == ("TOOL_PERMISSION_DENIED", [])
        assert (entry.state, entry.held, story.verdict) == ("held", ["mail__greet"], "held")
        assert f"It is in quarantine: {HoldReason.MOVED}." in story.reasons
        assert "`toolcrib approve mail`" in entry.error
        assert [event.fields["reason"] for event in heard if event.name == events.SERVER_HELD] == [HoldReason.MOVED]

        assert await crib.servers.approve("mail") == ["mail", "mail__greet"]
        assert await names(crib) == ["mail__greet"]
        assert (await crib.call("mail__greet", {"name": "Ada"})).text == "Hello, Ada!"
    assert tokens_of(evil) == {f"Bearer {TOKEN}"}

    async with start() as crib:
        assert await names(crib) == ["mail__greet"]


@pytest.mark.parametrize("change", [{"headers": {"X-Tenant": "other"}}, {"audience": "api://other"}])
async def test_other_headers_or_another_audience_are_a_change_as_well(start, servers, tmp_path, change):
    good, _ = servers
    write_manifest(tmp_path, mail={"url": good.url})
    async with start() as crib:
        await names(crib)
    good.seen.clear()
    write_manifest(tmp_path, mail={"url": good.url, **change})

    async with start() as crib:
        assert await names(crib) == []

    assert good.seen == []


async def test_a_change_while_toolcrib_runs_is_held_as_well(start, servers, tmp_path):
    good, evil = servers
    write_manifest(tmp_path, mail={"url": good.url})
    async with start() as crib:
        await names(crib)
        write_manifest(tmp_path, mail={"url": evil.url})
        await crib.refresh()

        assert await names(crib) == []
    assert evil.seen == []


async def test_a_server_that_joins_a_manifest_waits_for_a_person(start, servers, tmp_path):
    """Otherwise a new name would do what a new address does not. The first manifest is taken as it is."""
    good, evil = servers
    write_manifest(tmp_path, mail={"url": good.url})
    async with start() as crib:
        await names(crib)
    write_manifest(tmp_path, mail={"url": good.url}, post={"url": evil.url})

    async with start() as crib:
        assert await names(crib) == ["mail__greet"]
        story = crib.explain("post__greet")
        assert (story.verdict, story.todo, evil.seen) == ("held", "Run `toolcrib approve post`.", [])
        assert HoldReason.NEW in story.reasons[0]

        assert await crib.servers.approve("post") == ["post"]
        assert await names(crib) == ["mail__greet", "post__greet"]


async def test_without_pins_nothing_is_held(start, servers, tmp_path):
    good, evil = servers
    write_manifest(tmp_path, mail={"url": good.url})
    async with start(pins="off") as crib:
        await names(crib)
    write_manifest(tmp_path, mail={"url": evil.url})

    async with start(pins="off") as crib:
        assert await names(crib) == ["mail__greet"]


async def test_what_another_process_accepts_counts_in_a_running_one(start, servers, tmp_path):
    good, evil = servers
    write_manifest(tmp_path, mail={"url": good.url})
    async with start() as crib:
        await names(crib)
    write_manifest(tmp_path, mail={"url": evil.url})

    async with start() as running, start() as other:
        assert await names(running) == []
        await names(other)
        await other.servers.approve("mail")
        await running.servers.fresh.reload_pins()

        assert await names(running) == ["mail__greet"]


async def test_the_commands_show_it_and_accept_it(servers, tmp_path):
    """``servers ls``, ``why``, ``diff`` and ``approve``, as for a changed server."""
    good, evil = servers
    toolcrib = Program(tmp_path, {"PLATFORM_TOKEN": TOKEN})
    toolcrib.project.mkdir()
    toolcrib.write('[platform]\ndevelopment = true\ntoken = "${PLATFORM_TOKEN}"')

    async def told(*words: str) -> str:
        return (await asyncio.to_thread(toolcrib.run, *words)).stdout

    write_manifest(toolcrib.project, mail={"url": good.url})
    assert "mail__greet" in await told("ls")
    write_manifest(toolcrib.project, mail={"url": evil.url})

    listed = json.loads(await told("servers", "ls", "--json"))
    assert [(entry["name"], entry["state"]) for entry in listed] == [("mail", "held")]
    assert json.loads(await told("why", "mail__greet", "--json"))["verdict"] == "held"
    assert HoldReason.MOVED in await told("diff")
    assert evil.seen == []
    await told("approve", "--all")
    assert "Hello, Ada!" in await told("call", "mail__greet", "name=Ada")
    assert tokens_of(evil) == {f"Bearer {TOKEN}"}
