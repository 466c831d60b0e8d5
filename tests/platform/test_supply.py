"""A Crib whose servers come from the platform: found when needed, renewed, kept when the platform fails."""

import asyncio
import json

import pytest
from tests.platform.fake_gateway import jwt, serving
from tests.platform.mcp_servers import mcp_server

from toolcrib.config.model import Config, ServerConfig
from toolcrib.config.sections import PlatformConfig
from toolcrib.crib.builder import open_crib
from toolcrib.platform.gateway import NAME
from toolcrib.stores.paths import Environment

TOKEN = jwt(sub="crib")


@pytest.fixture
async def mail():
    async with mcp_server() as server:
        yield server


@pytest.fixture
def open_here(gateway, mail, tmp_path, heard):
    """A Crib that asks the gateway, which knows one server."""
    gateway.servers = [{"mcpServerName": "mcp_MailTools", "url": mail.url}]

    def opened(platform=None, servers=(), env=None, **more):
        wanted = {"app_id": "app", "endpoint": gateway.url, "token": "${PLATFORM_TOKEN}", **more}
        config = Config({server.name: server for server in servers}, platform=platform or PlatformConfig(**wanted))
        around = Environment(tmp_path, {"PLATFORM_TOKEN": TOKEN, "HOME": str(tmp_path), **(env or {})})
        return open_crib(config, surroundings=around, emit=heard.append, keep_results=False)

    return opened


async def names(crib):
    return [tool.name for tool in await crib.tools()]


async def test_nobody_is_asked_before_somebody_needs_the_tools(open_here, gateway):
    async with open_here() as crib:
        assert gateway.asked == []
        assert await names(crib) == ["mcp_mail_tools__greet"]
        assert len(gateway.asked) == 1


async def test_a_call_finds_the_platforms_servers_by_itself(open_here, mail):
    async with open_here() as crib:
        result = await crib.call("mcp_mail_tools__greet", {"name": "Ada"})

    assert result.text == "Hello, Ada!"
    assert {seen["authorization"] for seen in mail.seen} == {f"Bearer {TOKEN}"}
    assert all(seen["user-agent"].startswith("toolcrib/") for seen in mail.seen)


async def test_a_server_that_joins_or_leaves_is_seen_after_a_refresh(open_here, gateway, mail):
    async with open_here() as crib:
        await names(crib)
        gateway.servers = [{"mcpServerName": "calendar", "url": mail.url}]
        await crib.refresh()

        assert await names(crib) == ["calendar__greet"]


async def test_a_stale_list_is_renewed_without_anybody_waiting(open_here, gateway, mail):
    async with open_here(ttl_s=0.001) as crib:
        await names(crib)
        gateway.servers = [{"mcpServerName": "calendar", "url": mail.url}]
        joined = asyncio.Event()
        crib.servers.on_change(lambda event: joined.set())

        assert await names(crib) == ["mcp_mail_tools__greet"]
        await asyncio.wait_for(joined.wait(), 150)
        assert await names(crib) == ["calendar__greet"]


async def test_what_is_known_stays_when_the_platform_fails(open_here, gateway, heard):
    async with open_here() as crib:
        before = await names(crib)
        gateway.answers = [(500, {}, b"")] * 9
        await crib.refresh()

        assert await names(crib) == before
        assert {"platform.stale"} <= {event.name for event in heard}


async def test_a_platform_that_cannot_be_asked_is_told_and_the_rest_works(open_here, gateway, mail, heard):
    gateway.answers = [(403, {}, b"")] * 9
    async with open_here(servers=[ServerConfig("own", url=mail.url)]) as crib:
        assert await names(crib) == ["own__greet"]

    told = next(event for event in heard if event.name == "platform.failed")
    assert told.fields["error"].startswith("Failed to read MCP servers from endpoint: HTTP 403")


async def test_a_server_that_is_written_down_counts_more(open_here, mail, heard):
    own = ServerConfig("mcp_mail_tools", url=mail.url, headers={"X-Own": "1"})
    async with open_here(servers=[own]) as crib:
        await crib.servers.find()

        assert crib.shelves["mcp_mail_tools"].config == own
    assert any(event.name == "platform.server.shadowed" for event in heard)


async def test_an_edit_of_the_files_leaves_the_platforms_servers(open_here, mail):
    async with open_here() as crib:
        await names(crib)
        await crib.servers.apply({"own": ServerConfig("own", url=mail.url)})

        assert await names(crib) == ["mcp_mail_tools__greet", "own__greet"]


async def test_only_the_wanted_servers_are_used(open_here, gateway, mail):
    gateway.servers = [{"mcpServerName": name, "url": mail.url} for name in ("mail", "crm", "Mail")]
    wanted = PlatformConfig("app", gateway.url, "${PLATFORM_TOKEN}", servers=("m*",))
    async with open_here(wanted) as crib:
        assert await names(crib) == ["mail__greet"]


async def test_no_list_reads_this_machines_environment(open_here, gateway, mail):
    """A gateway that writes references gets them back as they are."""
    gateway.servers = [{"mcpServerName": "odd", "url": mail.url, "headers": {"X-Odd": "${PLATFORM_TOKEN} $${HOME}"}}]
    async with open_here() as crib:
        await names(crib)

    assert {seen["x-odd"] for seen in mail.seen} == {"${PLATFORM_TOKEN} $${HOME}"}


async def test_a_server_of_another_audience_gets_the_token_that_is_written_for_it(open_here, gateway, mail):
    gateway.servers = [
        {"mcpServerName": "crm", "url": mail.url, "audience": "api://crm"},
        {"mcpServerName": "none", "url": mail.url, "audience": "api://none"},
    ]
    async with open_here(tokens={"crm": "${CRM_TOKEN}"}, env={"CRM_TOKEN": "crm-secret"}) as crib:
        await names(crib)

    assert {seen.get("authorization") for seen in mail.seen} == {"Bearer crm-secret", None}


async def test_in_development_the_manifest_counts(open_here, gateway, mail, tmp_path):
    (tmp_path / NAME).write_text(json.dumps({"mcpServers": [{"mcpServerName": "local", "url": mail.url}]}))
    async with open_here(PlatformConfig(development=True), env={"BEARER_TOKEN_LOCAL": "for-local"}) as crib:
        assert await names(crib) == ["local__greet"]

    assert gateway.asked == []
    assert {seen["authorization"] for seen in mail.seen} == {"Bearer for-local"}


async def test_neither_log_nor_record_holds_a_token(open_here, gateway, heard):
    gateway.answers = [(500, {}, TOKEN.encode())] * 3
    async with open_here() as crib:
        await names(crib)
        await crib.refresh()
        shown = repr([shelf.record for shelf in crib.shelves.values()]) + repr(crib.health())

    assert TOKEN not in repr(heard) + shown


async def test_an_expired_token_is_said_in_the_contracts_words(open_here, gateway, heard):
    async with open_here(env={"PLATFORM_TOKEN": jwt(exp=1)}) as crib:
        assert await names(crib) == []

    told = next(event for event in heard if event.name == "platform.failed")
    assert told.fields["error"] == "Authentication token has expired"
    assert gateway.asked == []


async def test_a_platform_that_never_answers_holds_up_a_listing_for_the_grace_only(open_here, mail):
    async with serving(hangs=True) as slow, open_here(endpoint=slow.url) as crib:
        assert await crib.tools(grace_s=0.05) == []
