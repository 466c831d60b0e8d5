"""``status``, ``stop``, ``restart`` and ``logs``: the toolcrib of a project, found by its run file, and no other."""

import contextlib
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field

import pytest
from tests.cli.keyboard import read
from tests.cli.program import TINY, Program
from tests.cli.test_joining import clients, is_gone, running
from tests.fleet.running import until

from toolcrib.cli.commands.lifecycle import LogTail


def test_status_shows_what_runs_and_who_is_connected(tiny: Program):
    """Address, project, process, since when, servers by state, clients; the same as JSON."""
    tiny.write('[serve]\nlinger = "0s"', tiny.tiny(), tiny.tiny("resting", "enabled = false"))
    with tiny.serving("serve") as serving, clients(tiny) as start:
        start().greet().call("tiny__echo", text="x")
        shown, said = tiny.run("status"), tiny.json("status")

    facts = {line.split()[0]: line for line in shown.stdout.splitlines() if line.strip()}
    assert serving.url in facts["at"]
    assert str(tiny.project) in facts["serves"]
    assert str(serving.process.pid) in facts["process"]
    assert facts["servers"].split(None, 1)[1] == "1 ok, 1 disabled; 5 tools"
    assert facts["test"].split()[:2] == ["test", "1"]
    assert (said["url"], said["pid"], said["isBackground"]) == (serving.url, serving.process.pid, False)
    assert [server["state"] for server in said["servers"]] == ["disabled", "ok"]
    assert [client["client"] for client in said["clients"]] == ["test 1"]


@pytest.mark.parametrize("command", ["status", "stop", "restart", "logs"])
def test_without_any_the_words_say_how_to_start_one(tiny: Program, command):
    """Exit code 4, as for whatever cannot be reached."""
    result, as_json = tiny.run(command), tiny.run(command, "--json")

    assert (result.returncode, result.stdout) == (4, "")
    assert f"No toolcrib serves {tiny.project}" in result.stderr
    assert "toolcrib up" in result.stderr
    assert json.loads(as_json.stderr)["error"]["code"] == "TOOL_UNAVAILABLE"


def test_status_of_all_shows_those_of_other_projects(tiny: Program):
    with tiny.serving("serve") as serving:
        found = tiny.json("status", "--all")

    assert [view["pid"] for view in found] == [serving.process.pid]
    assert tiny.json("status", "--all") == []


def test_stop_ends_it_in_good_order_and_waits_for_that(tiny: Program):
    with tiny.serving("serve") as serving:
        serving.tool_names()
        (run,) = running(tiny)
        result = tiny.run("stop")

        assert (result.returncode, serving.process.wait(150)) == (0, 0)
        assert is_gone(run)
        assert str(run.pid) in result.stderr
    assert running(tiny) == []


def test_one_that_was_started_in_the_background_is_stopped_too(toolcrib: Program):
    """It would have stayed for ten minutes after its client."""
    toolcrib.write(toolcrib.tiny())
    with clients(toolcrib) as start:
        client = start().greet()
        client.call("tiny__echo", text="x")
        client.leave()
        (run,) = running(toolcrib)
        told = toolcrib.json("stop")

        assert (told["pid"], run.is_background, is_gone(run)) == (run.pid, True, True)


def test_restart_keeps_process_address_options_and_clients(tiny: Program):
    """The same process begins anew where it was, and reads what is installed and configured now."""
    with tiny.serving("serve", "--level", "write", "--only", "tiny__*") as serving, clients(tiny) as start:
        client = start().greet()
        client.call("tiny__echo", text="before")
        (before,) = running(tiny)
        told = tiny.json("restart")
        (after,) = running(tiny)
        names = serving.tool_names()
        again = client.call("tiny__echo", text="after")

        assert (told["pid"], told["url"]) == (before.pid, before.url) == (after.pid, after.url)
        assert after.secret != before.secret
        assert [name for name in names if name.startswith("tiny")]
        assert "calculate" not in names
        assert again["isError"] is False
        assert tiny.starts == 2
        assert serving.stop(signal.SIGTERM) == 0


def test_one_in_the_background_is_restarted_with_its_clients(toolcrib: Program):
    """Each goes on, and none starts another one."""
    toolcrib.write('[serve]\nlinger = "0s"', toolcrib.tiny())
    with clients(toolcrib) as start:
        both = [start().greet(), start().greet()]
        (before,) = running(toolcrib)
        toolcrib.json("restart")
        said = [client.call("tiny__echo", text="x")["isError"] for client in both]
        (after,) = running(toolcrib)

        assert said == [False, False]
        assert (after.pid, after.url, after.is_background) == (before.pid, before.url, True)
        for client in both:
            client.leave()
        until(lambda: is_gone(after), deadline_s=150, what="the end, after the last client")


def test_nothing_is_restarted_into_a_configuration_that_cannot_be_used(tiny: Program):
    """What runs goes on, and the words say what to mend."""
    with tiny.serving("serve") as serving:
        good = tiny.config.read_text()
        tiny.config.write_text("oops =\n")
        refused = tiny.run("restart")
        (run,) = running(tiny)
        tiny.config.write_text(good)

        assert (refused.returncode, run.pid) == (1, serving.process.pid)
        assert f"{tiny.config}:1" in refused.stderr
        assert "tiny__echo" in serving.tool_names()


def test_a_restart_that_fails_is_told(tiny: Program):
    """Its configuration can be read, but not be used."""
    with tiny.serving("serve") as serving:
        tiny.config.write_text('native = ["no_such_module"]\n' + tiny.config.read_text())
        result = tiny.run("restart")

        assert result.returncode == 4
        assert f"Process {serving.process.pid} has ended and does not serve again" in result.stderr
        assert serving.process.wait(150) == 1


@dataclass
class Stranger(http.server.ThreadingHTTPServer):
    """Listens where a toolcrib did, and writes down what it is sent."""

    port: int
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        asked = self.asked

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self) -> None:
                asked.append(f"{self.command} {self.path.partition('?')[0]} {self.headers.get('authorization')}")
                self.send_response(200)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            do_GET = do_POST = answer

            def log_message(self, *_: object) -> None:
                """Nobody reads it."""

        super().__init__(("127.0.0.1", self.port), Handler)


@pytest.mark.parametrize("command", ["status", "stop", "restart"])
def test_a_stranger_in_its_place_is_sent_nothing(tiny: Program, command):
    """Whoever listens there without the secret of the run file is asked for a proof, and for nothing else."""
    with tiny.serving("serve") as serving:
        (run,) = running(tiny)
        os.kill(run.pid, signal.SIGSTOP)  # so that its run file stays, and its port is another's below
        try:
            path = next((tiny.home / "state/toolcrib/run").glob(f"{run.pid}-*.json"))
            with Stranger(0) as stranger:
                url = f"http://127.0.0.1:{stranger.server_address[1]}"
                path.write_text(json.dumps({**json.loads(path.read_text()), "url": url}))
                listening = threading.Thread(target=stranger.serve_forever, args=(0.01,))
                listening.start()
                result = tiny.run(command)
                stranger.shutdown()
                listening.join()
        finally:
            os.kill(run.pid, signal.SIGCONT)

        assert result.returncode == 4
        assert "is not the toolcrib that said so; nothing was sent" in result.stderr
        assert set(stranger.asked) == {"GET /prove None"}
        assert serving.process.poll() is None


def test_a_process_that_is_not_the_one_that_was_meant_is_not_ended(tiny: Program):
    """Another may have taken its place in between."""
    with tiny.serving("serve") as serving:
        tiny.run("open", "--print")  # makes the owner's token
        token = (tiny.home / "state/toolcrib/token").read_text().strip()
        answer = serving.request("POST", "/api/v1/process/stop", {"pid": 1}, authorization=f"Bearer {token}")

        assert answer.status == 409
        assert "Process 1 does not serve here" in json.loads(answer.read())["detail"]
        assert serving.process.poll() is None


def test_logs_shows_what_was_logged_for_people_and_for_programs(tiny: Program):
    """Of the one that runs, or of the last one; the file is for its owner only."""
    with tiny.serving("serve") as serving:
        serving.tool_names()
        serving.wait_for("tools.discovery.server.success")
        while_it_runs, lines = tiny.run("logs"), tiny.run("logs", "--json", "-n", "1000")
        (run,) = running(tiny)
        serving.stop(signal.SIGTERM)
    after = tiny.run("logs")

    assert "tools.discovery.server.success server=tiny tools=5" in while_it_runs.stdout
    assert {json.loads(line)["event"] for line in lines.stdout.splitlines()} >= {"tools.discovery.server.success"}
    assert "this is what the last one wrote" in after.stderr
    assert while_it_runs.stdout in after.stdout
    assert os.stat(run.log).st_mode & 0o077 == 0


def test_logs_follows_what_is_written_over_a_restart(tiny: Program):
    with tiny.serving("serve") as serving:
        follower = tiny.start("logs", "-f", "--json", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            read(follower.stdout.fileno(), "tools.registry.updated")
            tiny.run("restart")
            serving.tool_names()
            seen = read(follower.stdout.fileno(), "tools.discovery.server.success")
        finally:
            with contextlib.suppress(ProcessLookupError):
                follower.send_signal(signal.SIGINT)
            assert follower.wait(150) == 130
            follower.stdout.close()

    assert all(json.loads(line) for line in seen.splitlines()[1:-1])


def test_a_log_that_is_put_aside_is_followed(tmp_path):
    """Whole lines only, each once."""
    path = tmp_path / "x.log"
    tail = LogTail(path)
    assert tail.read() == []
    path.write_text("one\ntw")
    assert tail.read() == ["one"]
    with path.open("a") as log:
        log.write("o\n")
    assert tail.read() == ["two"]
    path.rename(tmp_path / "x.log.1")
    path.write_text("three\n")
    assert tail.read() == ["three"]
    assert tail.read() == []


def test_commands_say_of_servers_what_the_running_one_says_and_start_none(tiny: Program):
    """``servers ls``, ``why``, ``doctor`` and REST agree, and nothing is started twice."""
    tiny.write(tiny.tiny(), tiny.broken())
    with tiny.serving("serve") as serving:
        tiny.run("ls")
        listed = {view["name"]: view for view in tiny.json("servers", "ls")}
        said = {view["name"]: view for view in tiny.json("status")["servers"]}
        why, checks = tiny.run("why", "tiny__echo", "--json"), json.loads(tiny.run("doctor", "--json").stdout)["checks"]

        assert {name: view["state"] for name, view in listed.items()} == {"tiny": "ok", "broken": "failed"}
        assert {name: (view["state"], view["cause"], view["next"]) for name, view in listed.items()} == {
            name: (view["state"], view["cause"], view["next"]) for name, view in said.items()
        }
        assert json.loads(why.stdout)["verdict"] == "available"
        assert [check["level"] for check in checks if check["subject"] == "server broken"] == ["fail"]
        assert tiny.starts == 1
        assert serving.process.poll() is None


def test_refresh_has_the_running_one_try_at_once(tiny: Program):
    """What the command finds is what clients are shown from then on."""
    flag = tiny.home / "mended"
    script = (
        f"import os, sys; os.path.exists({str(flag)!r}) or sys.exit('no luck'); sys.argv[1:] = [{str(tiny.diary)!r}]"
    )
    run = f"; exec(open({str(TINY)!r}).read())"
    tiny.write(f"[servers.ailing]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps(['-c', script + run])}")
    with tiny.serving("serve") as serving:
        first = tiny.run("servers", "refresh", "ailing")
        before = serving.tool_names()
        flag.touch()
        second = tiny.run("servers", "refresh", "ailing")

        assert (first.returncode, second.returncode) == (4, 0)
        assert [name for name in before if name.startswith("ailing")] == []
        assert "ailing__echo" in serving.tool_names()
        assert tiny.starts == 1
