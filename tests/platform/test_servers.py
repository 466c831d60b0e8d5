"""What other tooling packages do in different ways, row by row, and what toolcrib does; then caching."""

import json
import time

import pytest
from tests.platform.fake_gateway import MAIL, jwt

from toolcrib.core.errors import ConfigError
from toolcrib.platform.gateway import NAME, PlatformFailure
from toolcrib.platform.headers import InvalidToken
from toolcrib.platform.servers import McpServerConfig, PlatformToolOptions
from toolcrib.platform.settings import PlatformSettings

TOKEN = jwt(appid="me")


def write(directory, root):
    (directory / NAME).write_text(root if isinstance(root, str) else json.dumps(root))


def authorisations(found):
    return {server.mcp_server_name: server.headers.get("Authorization") for server in found}


async def test_row_search_path_the_working_directory_then_beside_the_script(tmp_path, make_platform, heard):
    """And what was looked at is told when there is nothing."""
    (tmp_path / "here").mkdir()
    platform = make_platform(development=True, cwd=tmp_path / "here", script=tmp_path / "main.py")

    assert await platform.list_tool_servers("app") == []
    told = next(event for event in heard if event.name == "platform.manifest.missing")
    assert told.fields["looked_at"] == f"{tmp_path / 'here' / NAME}, {tmp_path / NAME}"

    write(tmp_path, {"mcpServers": [MAIL]})
    assert [server.mcp_server_name for server in await platform.list_tool_servers("app")] == ["mail"]


async def test_row_default_mode_is_told_with_who_decided_it(make_platform, heard, gateway, options):
    await make_platform(gateway.url).list_tool_servers("app", TOKEN, options)

    assert heard[0].fields == {"manifest": False, "because": "use_tooling_manifest"}
    assert PlatformSettings(env={}).mode.is_development is False


async def test_row_broken_json_is_raised_with_its_line(tmp_path, make_platform):
    write(tmp_path, "{\n oops")

    with pytest.raises(ConfigError, match=f"{NAME}:2: "):
        await make_platform(development=True).list_tool_servers("app")


async def test_row_an_object_map_manifest_is_accepted(tmp_path, make_platform):
    write(tmp_path, {"mcpServers": {"mail": {"url": "http://a.example/"}}})

    found = await make_platform(development=True).list_tool_servers("app")

    assert [(server.mcp_server_name, server.url) for server in found] == [("mail", "http://a.example/")]


async def test_row_an_entry_with_only_a_unique_name_is_accepted(tmp_path, make_platform):
    write(tmp_path, {"mcpServers": [{"mcpServerUniqueName": "uniq"}]})

    found = await make_platform("http://gate.example/", development=True).list_tool_servers("app")

    assert [(server.mcp_server_name, server.url) for server in found] == [
        ("uniq", "http://gate.example/agents/servers/uniq")
    ]


async def test_row_headers_of_manifest_and_gateway_are_kept(tmp_path, make_platform, gateway, options):
    entry = {"mcpServerName": "a", "headers": {"X-Api-Key": "k", "user-agent": "mine"}}
    write(tmp_path, [entry])
    gateway.servers = [entry]

    for platform in (make_platform(development=True), make_platform(gateway.url)):
        (server,) = await platform.list_tool_servers("app", TOKEN, options)
        kept = {name: value for name, value in server.headers.items() if name != "Authorization"}
        assert kept == {"X-Api-Key": "k", "user-agent": "mine"}


@pytest.mark.parametrize("reply", [[MAIL], {"mcpServers": [MAIL]}, {"value": [MAIL]}])
async def test_row_every_form_of_gateway_reply_is_accepted(make_platform, gateway, options, reply):
    gateway.servers = reply

    found = await make_platform(gateway.url).list_tool_servers("app", TOKEN, options)

    assert [server.mcp_server_name for server in found] == ["mail"]


@pytest.mark.parametrize("slash", ["", "/"])
async def test_row_a_missing_address_is_built_with_one_slash_rule(make_platform, gateway, options, slash):
    gateway.servers = [{"mcpServerName": "mcp No Url/.."}]

    (server,) = await make_platform(gateway.url + slash).list_tool_servers("app", TOKEN, options)

    assert server.url == f"{gateway.url}/agents/servers/mcp%20No%20Url%2F.."


async def test_row_a_bad_token_is_refused_before_anything_is_sent(make_platform, gateway, options):
    for token in ("", "abc", jwt(exp=1)):
        with pytest.raises(InvalidToken):
            await make_platform(gateway.url).list_tool_servers("app", token, options)

    assert gateway.asked == []


async def test_row_the_audience_default_means_the_platforms_own(make_platform, gateway, options):
    gateway.servers = [{"mcpServerName": "mail", "audience": "default", "scope": "Mail.All"}]

    found = await make_platform(gateway.url).list_tool_servers("app", TOKEN, options)

    assert authorisations(found) == {"mail": f"Bearer {TOKEN}"}


async def test_row_development_tokens_never_cross_over(tmp_path, make_platform, heard):
    """What is for A goes to A; without a shared token, B gets none; another audience never gets the shared one."""
    entries = [{"mcpServerName": name} for name in ("A", "B")]
    write(tmp_path, [*entries, {"mcpServerName": "V2", "audience": "api://other"}])

    alone = make_platform(development=True, env={"BEARER_TOKEN_A": "tok-a"})
    shared = make_platform(development=True, env={"BEARER_TOKEN_A": "tok-a", "BEARER_TOKEN": "all"})

    assert authorisations(await alone.list_tool_servers("app")) == {"A": "Bearer tok-a", "B": None, "V2": None}
    assert authorisations(await shared.list_tool_servers("app")) == {"A": "Bearer tok-a", "B": "Bearer all", "V2": None}
    told = [event.fields for event in heard if event.name == "platform.token.missing"]
    assert told[0]["variable"] == "BEARER_TOKEN_V2"
    assert "tok-a" not in repr(heard)


async def test_row_an_application_id_cannot_change_the_path(make_platform, gateway, options):
    for app_id in ("app/../evil", "app%2f..%2fevil", "app?x"):
        with pytest.raises(Exception, match="cannot stand in an address"):
            await make_platform(gateway.url).list_tool_servers(app_id, TOKEN, options)

    assert gateway.asked == []


async def test_row_timeouts_retries_and_the_last_good_answer(make_platform, gateway, options, heard):
    clock = iter(range(0, 100_000, 1000)).__next__
    platform = make_platform(gateway.url, clock=clock)
    first = await platform.list_tool_servers("app", TOKEN, options)
    gateway.answers = [(503, {}, b"")] * 3

    assert await platform.list_tool_servers("app", TOKEN, options) == first
    assert [event.name for event in heard if event.level == "warning"] == ["platform.stale"]
    assert len(gateway.asked) == 4


async def test_each_server_of_another_audience_is_given_a_token_of_its_own(make_platform, gateway):
    wanted = []

    async def exchange(entry, scope):
        wanted.append((entry.name, scope))
        return f"for-{entry.name}" if scope else None

    gateway.servers = [MAIL, {"mcpServerName": "crm", "audience": "api://crm", "scope": "All"}]
    found = await make_platform(gateway.url).list_tool_servers("app", TOKEN, PlatformToolOptions(tokens=exchange))

    assert authorisations(found) == {"mail": f"Bearer {TOKEN}", "crm": "Bearer for-crm"}
    assert wanted == [("mail", ""), ("crm", "api://crm/All")]


async def test_a_server_at_another_host_is_listed_without_the_platforms_token(make_platform, gateway, options):
    gateway.servers = [{"mcpServerName": "far", "url": "https://far.example/mcp"}]

    found = await make_platform(gateway.url).list_tool_servers("app", TOKEN, options)

    assert authorisations(found) == {"far": None}


@pytest.mark.parametrize("url", ["file:///etc/passwd", "javascript:1", "https://user:pw@x.example/", "https://[x"])
async def test_an_impossible_address_is_left_out_and_told(make_platform, gateway, options, heard, url):
    gateway.servers = [{"mcpServerName": "odd", "url": url}, MAIL]

    found = await make_platform(gateway.url).list_tool_servers("app", TOKEN, options)

    assert [server.mcp_server_name for server in found] == ["mail"]
    assert any(event.name == "platform.server.left_out" for event in heard)


async def test_the_gateway_is_told_who_asks(make_platform, gateway, options):
    await make_platform(gateway.url).list_tool_servers("app", TOKEN, options)

    headers = gateway.asked[0].headers
    assert headers["authorization"] == f"Bearer {TOKEN}"
    assert headers["user-agent"].endswith("; Claude)")
    assert headers["x-ms-agentid"] == "me"
    assert headers["x-ms-correlation-id"]


async def test_a_fresh_answer_is_kept_for_the_same_application_and_token_only(make_platform, gateway, options):
    platform = make_platform(gateway.url)
    for _ in range(3):
        await platform.list_tool_servers("app", TOKEN, options)
    assert len(gateway.asked) == 1

    await platform.list_tool_servers("app", jwt(sub="another"), options)
    assert len(gateway.asked) == 2


async def test_an_answer_that_has_not_changed_is_not_sent_again(make_platform, gateway, options):
    gateway.etag = '"1"'
    platform = make_platform(gateway.url, ttl_s=0.0)
    first = await platform.list_tool_servers("app", TOKEN, options)

    assert await platform.list_tool_servers("app", TOKEN, options) == first
    assert gateway.asked[1].headers["if-none-match"] == '"1"'


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_refusal_ends_what_was_known(make_platform, gateway, options, status):
    """A token that was withdrawn shows nothing, however good the last answer was."""
    platform = make_platform(gateway.url, ttl_s=0.0)
    await platform.list_tool_servers("app", TOKEN, options)
    gateway.answers = [(status, {}, b"")] * 2

    with pytest.raises(PlatformFailure):
        await platform.list_tool_servers("app", TOKEN, options)


async def test_a_gateway_with_tokens_of_another_kind_can_be_asked(make_platform, gateway, options):
    opaque = PlatformToolOptions(token_check="none", patience=options.patience)

    assert await make_platform(gateway.url).list_tool_servers("app", "tc_opaque", opaque)
    with pytest.raises(InvalidToken):
        await make_platform(gateway.url).list_tool_servers("app", "a\r\nb", opaque)


def test_a_server_is_shown_without_its_headers_and_written_with_them():
    server = McpServerConfig("a", "https://a.example", {"Authorization": "Bearer secret"})

    assert "secret" not in repr(server)
    assert server.to_dict() == {
        "mcpServerName": "a",
        "url": "https://a.example",
        "headers": {"Authorization": "Bearer secret"},
    }


async def test_an_expired_token_is_not_answered_from_memory(make_platform, gateway, options):
    token = jwt(exp=time.time() + 3600)
    platform = make_platform(gateway.url)
    await platform.list_tool_servers("app", token, options)

    with pytest.raises(InvalidToken, match="has expired"):
        await platform.list_tool_servers("app", jwt(exp=1), options)
