"""toolcrib as a tooling gateway: it lists its servers as agents ask for them, and serves each at its own address."""

import json
from pathlib import Path

import pytest
from tests.cli.program import Program
from tests.fleet.running import until
from tests.server.rest.api import ROOT, serving_api

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def listed(serving, path="/agents/my-app/mcpServers", **headers):
    answer = serving.request("GET", path, **headers)
    return answer.status, json.loads(answer.read())


def ask(serving, path, method, params=None, **headers):
    """One request of a stateless client."""
    asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**(params or {}), "_meta": META}}
    routed = {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
    if params:
        routed["mcp-name"] = params["name"]
    answer = serving.request("POST", path, asked, **routed, **headers)
    return answer.status, json.loads(answer.read())


def tool_names(serving, path, **headers):
    status, body = ask(serving, path, "tools/list", **headers)
    assert status == 200, body
    return [tool["name"] for tool in body["result"]["tools"]]


@pytest.fixture
def pair(program: Program) -> Program:
    """toolcrib with two servers of the same kind."""
    program.write(program.tiny("one"), program.tiny("two"))
    return program


def test_both_addresses_list_the_servers_with_their_own(pair):
    with pair.serving("serve") as serving:
        base = serving.url.removesuffix("/mcp")
        expected = {
            "mcpServers": [
                {"mcpServerName": name, "mcpServerUniqueName": name, "url": f"{base}/agents/servers/{name}"}
                for name in ("one", "two")
            ]
        }

        assert listed(serving) == (200, expected)
        assert listed(serving, "/agents/v2/my-app/mcpServers") == (200, expected)


@pytest.mark.parametrize("slash", ["", "/"])
def test_the_address_of_a_server_has_its_tools_alone(pair, slash):
    with pair.serving("serve") as serving:
        listed(serving)
        path = f"/agents/servers/one{slash}"
        everything = tool_names(serving, "/mcp")
        other = next(name for name in everything if name.startswith("two__"))
        refused = ask(serving, path, "tools/call", {"name": other, "arguments": {}})[1]

        own = [name.removeprefix("one__") for name in everything if not name.startswith("two__")]
        assert tool_names(serving, path) == own
        assert refused["error"]["code"] == -32602


def test_a_tool_is_called_by_its_own_name(pair):
    with pair.serving("serve") as serving:
        arguments = {"name": "echo", "arguments": {"text": "hello"}}

        assert "hello" in str(ask(serving, "/agents/servers/one", "tools/call", arguments)[1]["result"]["content"])


def test_what_is_not_there_is_not_found(pair):
    with pair.serving("serve") as serving:
        assert ask(serving, "/agents/servers/three", "tools/list")[0] == 404
        assert ask(serving, "/agents/servers/..%2Fmcp", "tools/list")[0] == 404
        assert listed(serving, "/agents/my-app/other")[0] == 404
        assert serving.request("POST", "/agents/my-app/mcpServers", {}).status == 405


def test_a_token_sees_the_servers_it_may_reach(pair):
    token = pair.json("tokens", "create", "narrow", "--server", "one")["token"]
    with pair.serving("serve") as serving:
        bearer = {"authorization": f"Bearer {token}"}

        assert listed(serving)[0] == 401
        assert listed(serving, authorization="Bearer nonsense")[0] == 401
        assert [entry["mcpServerName"] for entry in listed(serving, **bearer)[1]["mcpServers"]] == ["one"]
        assert tool_names(serving, "/agents/servers/one", **bearer)
        assert ask(serving, "/agents/servers/one", "tools/list")[0] == 401
        assert ask(serving, "/agents/servers/two", "tools/list", **bearer)[0] == 404


def test_a_session_at_a_servers_address_belongs_to_it(pair):
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    with pair.serving("serve") as serving:
        opened = serving.request("POST", "/agents/servers/one", hello)
        session = {"mcp-session-id": opened.getheader("mcp-session-id")}
        opened.read()
        again = serving.request("POST", "/agents/servers/one", {"jsonrpc": "2.0", "id": 2, "method": "ping"}, **session)
        other = serving.request("POST", "/agents/servers/two", {"jsonrpc": "2.0", "id": 2, "method": "ping"}, **session)

        assert (again.status, other.status) == (200, 404)


@pytest.fixture
def reader(tmp_path: Path) -> Program:
    """Another toolcrib, with nothing of its own."""
    reader = Program(tmp_path / "reader")
    reader.project.mkdir(parents=True)
    return reader


def read_from(reader, serving):
    endpoint = serving.url.removesuffix("/mcp")
    reader.write(f'[platform]\napp_id = "reader"\nendpoint = "{endpoint}"\ntoken_check = "none"')


def test_one_toolcrib_takes_its_servers_from_another(pair, reader):
    """The gateway's client and the gateway are the same program."""
    with pair.serving("serve") as serving:
        read_from(reader, serving)

        assert {server["name"] for server in reader.json("servers", "ls")} == {"one", "two"}
        echoed = reader.run("call", "one__echo", "text=hello")

    assert (echoed.returncode, echoed.stdout.strip()) == (0, '{"text": "hello"}'), echoed.stderr


def test_a_server_of_the_platform_is_in_no_file_and_that_is_said(pair, reader):
    with pair.serving("serve") as serving:
        read_from(reader, serving)
        with serving_api(reader) as api:
            until(lambda: "one" in str(api.get("/servers")), deadline_s=150, what="the platform's servers")
            refused = api.send("DELETE", "/servers/one")

    assert refused.status == 422
    assert "it comes from the platform" in refused.json["detail"]


def test_the_rest_api_is_where_it_was(pair):
    with pair.serving("serve") as serving:
        assert serving.request("GET", f"{ROOT}/version").status == 200
