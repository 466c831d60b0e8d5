"""``serve`` and ``up``: who may connect, what they find, edits while it runs, and how it ends."""

import http.client
import json
import os
import signal
import socket
import stat

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.fleet.running import until

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


def test_serve_prints_the_port_it_took(tiny):
    """``--port 0`` takes a free one; the first thing said is where."""
    with tiny.serving("serve") as serving:
        assert serving.url == f"http://127.0.0.1:{serving.port}/mcp"
        assert "tiny__echo" in serving.tool_names()


def test_serving_starts_no_server_before_somebody_asks(tiny):
    """A server is started by the first need of its tools."""
    with tiny.serving("serve") as serving:
        assert json.loads(serving.request("GET", "/healthz").read()) == {
            "status": "healthy",
            "version": "0.1.0",
            "away": [],
        }
        assert tiny.starts == 0


def test_names_without_prefix(tiny):
    """``--no-prefix`` shows names as the servers gave them."""
    with tiny.serving("serve", "--no-prefix") as serving:
        assert serving.tool_names()[0] == "echo"


def test_two_tools_of_one_name_need_prefixes(tiny):
    """A clash is found before anything is served, and names both parties."""
    tiny.write(tiny.tiny("one"), tiny.tiny("two"))

    result = tiny.run("serve", "--no-prefix", "--port", "0")

    assert result.returncode == 1
    assert "'echo' of server 'two' is left out: the name is taken by server 'one'" in result.stderr
    assert "serving MCP" not in result.stderr


def test_up_without_any_configuration_shows_something_working(toolcrib):
    """The built-in tools, how to connect, and how to add a first server."""
    with toolcrib.serving("up") as serving:
        serving.wait_for("servers add time")

        assert ["native", "4"] in [line.split()[:2] for line in serving.output.splitlines()]
        assert f"claude mcp add --transport http toolcrib {serving.url}" in serving.output
        own = [name for name in serving.tool_names() if not name.startswith("kb_")]
        assert own == ["calculate", "clock_now", "json_query", "result_read", "text_count"]


def test_up_shows_one_row_for_each_server(tiny):
    """Server, tools, tokens, state; and what to do about the one that does not work."""
    tiny.write(tiny.tiny(), tiny.broken(), tiny.tiny("resting", "enabled = false"))

    with tiny.serving("up") as serving:
        serving.wait_for("over stdio")
        rows = {line.split()[0]: line.split() for line in serving.output.splitlines() if line.strip()}

    assert rows["SERVER"] == ["SERVER", "TOOLS", "~TOKENS", "STATE", "WHAT", "TO", "DO"]
    assert (rows["tiny"][1], rows["tiny"][3]) == ("5", "ok")
    assert rows["resting"][3:] == ["disabled", "switch", "it", "on", "(toolcrib", "servers", "enable", "resting)"]
    assert rows["broken"][3] in ("failed", "starting")


def test_up_does_not_wait_for_ever(tiny):
    """After the grace the table is shown without the server that hangs, and a signal still ends everything."""
    tiny.write("[catalog]\ngrace = 1", tiny.tiny(), '[servers.hangs]\ncommand = "sleep"\nargs = ["600"]')

    with tiny.serving("up") as serving:
        serving.wait_for("over stdio")

        assert ["hangs", "0", "0", "starting"] in [line.split()[:4] for line in serving.output.splitlines()]
        assert serving.stop(signal.SIGTERM) == 0


@pytest.mark.parametrize("command", ["serve", "up"])
@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_good_order(tiny, command, sign):
    """Within seconds, with exit code 0, although a client holds a stream open; the client sees it end."""
    with tiny.serving(command) as serving:
        session = serving.request("POST", "/mcp", HELLO).headers["mcp-session-id"]
        stream = serving.request("GET", "/mcp", **{"mcp-session-id": session, "accept": "text/event-stream"})
        serving.tool_names()

        assert serving.stop(sign) == 0
        assert stream.read().startswith(b":")
        assert "Traceback" not in serving.output


def test_a_taken_port_is_explained(tiny):
    """Exit code 1 and what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = tiny.run("serve", "--port", str(taken.getsockname()[1]))

    assert result.returncode == 1
    assert "already in use" in result.stderr


def test_any_other_address_needs_a_token(tiny):
    """Made at the first start, kept for the next in a file only its owner can read, and never told in a log."""
    with tiny.serving("serve", "--host", "0.0.0.0") as serving:
        path = tiny.home / "state" / "toolcrib" / "token"
        token = path.read_text().strip()
        statuses = [
            serving.request("POST", "/mcp", HELLO, **headers).status
            for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Bearer {token}"})
        ]

        assert statuses == [401, 401, 200]
        assert serving.request("GET", "/healthz").status == 200
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert str(path) in serving.output
        assert token not in serving.output
    with tiny.serving("serve", "--host", "0.0.0.0"):
        assert path.read_text().strip() == token


def test_a_token_of_the_environment_counts_everywhere(tiny):
    """Whoever sets ``TOOLCRIB_TOKEN`` wants it asked for, on loopback too; no file is made."""
    tiny.env["TOOLCRIB_TOKEN"] = "a-token-of-my-own-choosing"

    with tiny.serving("up") as serving:
        refused = serving.request("POST", "/mcp", HELLO).status
        let_in = serving.request("POST", "/mcp", HELLO, authorization="Bearer a-token-of-my-own-choosing").status
        serving.wait_for("TOOLCRIB_TOKEN")

        assert (refused, let_in) == (401, 200)
        assert "my-own-choosing" not in serving.output
        assert not (tiny.home / "state" / "toolcrib" / "token").exists()


def test_a_weak_token_is_refused(tiny):
    """A token anybody can guess is no token."""
    result = tiny.run("serve", "--port", "0", TOOLCRIB_TOKEN="short")

    assert result.returncode == 1
    assert "too weak" in result.stderr
    assert "'short'" not in result.stderr


def test_pages_and_names_of_elsewhere_are_let_in_only_when_allowed(tiny):
    """``--allow-host`` and ``--allow-origin`` open what is otherwise closed."""
    with tiny.serving("serve", "--allow-host", "crib.example", "--allow-origin", "https://page.example") as serving:
        tried = (
            {"host": "crib.example"},
            {"host": "evil.example"},
            {"origin": "https://page.example"},
            {"origin": "https://evil.example"},
        )

        assert [serving.request("POST", "/mcp", HELLO, **headers).status for headers in tried] == [200, 421, 200, 403]


def test_health_is_for_reading(tiny):
    """Any other method is refused."""
    with tiny.serving("serve") as serving:
        assert serving.request("POST", "/healthz", {}).status == 405


def test_an_edit_is_taken_up_while_serving(tiny):
    """A server that is added to the file is there without a restart."""
    with tiny.serving("serve") as serving:
        tiny.write(tiny.tiny(), tiny.tiny("second"))
        serving.wait_for("config.applied")

        assert {name.split("__")[0] for name in serving.tool_names()} == {"tiny", "second", "result_read"}


def test_a_broken_edit_keeps_what_runs(tiny):
    """The old state goes on, the log says what is wrong, and a mended file counts again."""
    with tiny.serving("serve") as serving:
        good = tiny.config.read_text()
        tiny.config.write_text(good + "oops =\n")
        serving.wait_for("config.rejected")
        assert "tiny__echo" in serving.tool_names()
        tiny.config.write_text(good.replace("servers.tiny", "servers.renamed"))
        serving.wait_for("config.applied")

        assert "renamed__echo" in serving.tool_names()


def test_logs_are_json_where_nobody_watches(tiny):
    """Each line has time, level, event and a trace id: that of what it is about, else that of this run."""
    with tiny.serving("serve") as serving:
        serving.tool_names()
        serving.wait_for("tools.discovery.server.success")
        lines = [json.loads(line) for line in serving.output.splitlines() if line.startswith("{")]

    assert all({"time", "level", "event", "trace_id"} <= line.keys() for line in lines)
    of_discovery = {line["trace_id"] for line in lines if line["event"].startswith("tools.discovery.")}
    of_run = {line["trace_id"] for line in lines if line["event"].startswith("server.")}
    assert (len(of_discovery), len(of_run), of_discovery & of_run) == (1, 1, set())
    assert ("tiny", 5) in [(line.get("server"), line.get("tools")) for line in lines]


def test_the_log_can_be_text_and_quieter(tiny):
    """``--log-format text --log-level error`` says no more than where it serves."""
    with tiny.serving("serve", "--log-format", "text", "--log-level", "error") as serving:
        serving.tool_names()

        assert serving.output == f"toolcrib: serving MCP at {serving.url}\n"


def test_a_second_signal_does_not_wait(tiny):
    """Whoever presses Ctrl-C twice means it."""
    with tiny.serving("serve") as serving:
        connection = http.client.HTTPConnection("127.0.0.1", serving.port, timeout=150)
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "tiny__hang", "arguments": {}}}
        session = serving.request("POST", "/mcp", HELLO).headers["mcp-session-id"]
        headers = {"content-type": "application/json", "accept": "application/json", "mcp-session-id": session}
        connection.request("POST", "/mcp", json.dumps(call), headers)
        until(lambda: tiny.has_noted("called hang"), deadline_s=150, what="the call")

        os.kill(serving.process.pid, signal.SIGINT)
        os.kill(serving.process.pid, signal.SIGINT)

        assert serving.process.wait(150) in (0, 130)


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="only Linux can forbid it")
@pytest.mark.parametrize(("debug", "dumpable"), [("", 0), ("1", 1)])
def test_a_serving_gateway_cannot_be_looked_into(toolcrib, debug, dumpable):
    """Its memory and environment are closed to other programs of the user, its servers among them; a debugger may."""
    (toolcrib.project / "probe.py").write_text(
        "import ctypes, toolcrib\n"
        "@toolcrib.tool(name=f'dumpable_{ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)}')\n"
        "def probe() -> None: ...\n"
    )
    toolcrib.config.write_text('native = ["probe"]\n[kb]\nenabled = false\n')
    toolcrib.env |= {"PYTHONPATH": str(toolcrib.project), "TOOLCRIB_DEBUG": debug}

    with toolcrib.serving("serve") as serving:
        assert serving.tool_names() == [f"dumpable_{dumpable}", "result_read"]


def test_a_server_is_ready_when_its_audit_log_can_be_written(tiny):
    """And says why it is not."""
    with tiny.serving("serve") as serving:
        until(lambda: serving.request("GET", "/readyz").status == 200, deadline_s=150, what="ready")
        assert json.loads(serving.request("GET", "/readyz").read()) == {
            "ready": True,
            "reasons": [],
            "parts": {"serving": "ok", "audit": "ok"},
        }


def test_a_server_without_a_place_for_its_audit_log_is_not_ready(tiny):
    """It is alive, and serves what only reads."""
    (tiny.home / "state" / "toolcrib" / "audit.db").mkdir(parents=True)

    with tiny.serving("serve") as serving:
        until(lambda: "is a directory" in serving.output, deadline_s=150, what="the trouble in the log")
        answer = serving.request("GET", "/readyz")
        alive = serving.request("GET", "/healthz").status

    assert (answer.status, alive) == (503, 200)
    assert json.loads(answer.read()) == {
        "ready": False,
        "reasons": ["The audit log cannot be written: is a directory."],
        "parts": {"serving": "ok", "audit": "is a directory"},
    }


def test_a_server_that_drains_says_so_and_goes_on_answering(tiny):
    """A balancer has time to notice. Connections are not kept meanwhile."""
    with tiny.config.open("a") as config:
        config.write('\n[serve]\ndrain = "10m"\n')

    with tiny.serving("serve") as serving:
        until(lambda: serving.request("GET", "/readyz").status == 200, deadline_s=150, what="ready")
        os.kill(serving.process.pid, signal.SIGTERM)
        until(lambda: serving.request("GET", "/readyz").status == 503, deadline_s=150, what="draining")
        ready, listed = serving.request("GET", "/readyz"), serving.list_tools()
        told = json.loads(ready.read())

        assert (listed.status, listed.getheader("connection")) == (200, "close")
        assert (told["ready"], told["reasons"]) == (False, ["This replica is about to stop."])
        assert told["parts"]["serving"] == "draining"


def test_when_balancers_had_their_time_it_ends_well(tiny):
    with tiny.config.open("a") as config:
        config.write('\n[serve]\ndrain = "0.2s"\n')

    with tiny.serving("serve") as serving:
        os.kill(serving.process.pid, signal.SIGTERM)

        assert serving.process.wait(150) == 0


def test_a_second_signal_ends_the_draining(tiny):
    """Whoever insists does not wait."""
    with tiny.config.open("a") as config:
        config.write('\n[serve]\ndrain = "10m"\n')

    with tiny.serving("serve") as serving:
        os.kill(serving.process.pid, signal.SIGTERM)
        until(lambda: serving.request("GET", "/readyz").status == 503, deadline_s=150, what="draining")
        os.kill(serving.process.pid, signal.SIGTERM)

        assert serving.process.wait(150) == 128 + signal.SIGTERM


def test_who_presses_ctrl_c_does_not_wait_for_balancers(tiny):
    with tiny.config.open("a") as config:
        config.write('\n[serve]\ndrain = "10m"\n')

    with tiny.serving("serve") as serving:
        os.kill(serving.process.pid, signal.SIGINT)

        assert serving.process.wait(150) == 0


def test_metrics_are_served_for_prometheus(tiny):
    """Its own parser reads them; they count what was called."""
    with tiny.serving("serve") as serving:
        serving.tool_names()
        answer = serving.request("GET", "/metrics")
        text = answer.read().decode()

    families = list(text_string_to_metric_families(text))
    up = [sample.value for family in families for sample in family.samples if sample.name == "toolcrib_server_up"]
    tools = [
        sample.value for family in families for sample in family.samples if sample.name == "toolcrib_catalog_tools"
    ]
    assert answer.getheader("content-type") == "text/plain; version=0.0.4; charset=utf-8"
    assert (up, sorted(tools)) == ([1], [1, 5])


def test_metrics_need_the_token_and_probes_do_not(tiny):
    """Names of tools are nobody's business; whether it is alive is."""
    with tiny.serving("serve", "--token", "a-token-that-is-long-enough") as serving:
        statuses = [serving.request("GET", path).status for path in ("/healthz", "/readyz", "/metrics")]
        allowed = serving.request("GET", "/metrics", authorization="Bearer a-token-that-is-long-enough").status

    assert (statuses[0], statuses[1] in (200, 503), statuses[2], allowed) == (200, True, 401, 200)


def test_a_start_is_in_the_audit_log(tiny):
    """With what was started."""
    with tiny.serving("serve") as serving:
        url = serving.url
        serving.stop(signal.SIGTERM)

    [entry] = tiny.json("audit", "tail")
    assert (entry["event"], entry["details"]) == ("start", {"version": "0.1.0", "url": url})


PROFILES = """
[expose]
clients = { "searcher" = "search" }

[profiles.small]
tools = ["tiny__echo"]

[profiles.other]
tools = ["tiny__fail"]
"""


def test_each_profile_has_an_address_of_its_own(tiny):
    """Beside the one with everything; clients are shown what is set for their name; ``--profile`` moves one to /mcp."""
    tiny.write(tiny.tiny(), PROFILES)
    with tiny.serving("serve") as serving:
        assert len(serving.tool_names()) == 6
        assert serving.tool_names("/mcp/small") == ["result_read", "tiny__echo"]
        assert serving.tool_names("/mcp/other") == ["result_read", "tiny__fail"]
        assert serving.tool_names(client="searcher") == ["result_read", "tools_find", "tools_describe", "tools_call"]
        refused = serving.list_tools("/mcp/none")
        assert (refused.status, b"Profiles: other, small." in refused.read()) == (404, True)
    with tiny.serving("serve", "--profile", "small", "--expose", "search") as serving:
        assert serving.tool_names() == ["result_read", "tools_find", "tools_describe", "tools_call"]
    assert "no profile 'none'" in tiny.run("serve", "--profile", "none", "--port", "0").stderr


def test_the_address_of_a_profile_needs_a_token_where_mcp_does(tiny):
    """Whether there is such a profile or not."""
    token = "t" * 40
    tiny.write(tiny.tiny(), PROFILES)
    tiny.env["TOOLCRIB_TOKEN"] = token
    with tiny.serving("serve") as serving:
        assert [serving.list_tools(path).status for path in ("/mcp", "/mcp/small", "/mcp/none")] == [401] * 3
        assert serving.tool_names("/mcp/small", Authorization=f"Bearer {token}") == ["result_read", "tiny__echo"]
