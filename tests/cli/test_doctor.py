"""``doctor``: what is in order, what is not, and what to do."""

import json
import sys


def verdicts(result):
    return {check["subject"]: check["level"] for check in json.loads(result.stdout)["checks"]}


def test_a_healthy_project(tiny):
    """Every line is ok, and so is the exit code."""
    network = {"SSL_CERT_FILE": "", "SSL_CERT_DIR": "", "HTTPS_PROXY": "http://proxy.example:3128"}
    result = tiny.run("doctor", "--json", **network)

    assert result.returncode == 0
    assert json.loads(result.stdout)["status"] == "ok"
    assert verdicts(result) == {
        "configuration": "ok",
        "network": "ok",
        "lock": "ok",
        "server tiny": "ok",
        "catalogue": "ok",
        "audit log": "ok",
    }


def test_a_broken_server_is_a_failure_with_advice(tiny):
    """Exit code 1; the others are looked at all the same."""
    tiny.write(tiny.tiny(), tiny.broken(), '[servers.absent]\ncommand = "no-such-program"')

    result = tiny.run("doctor")

    assert result.returncode == 1
    assert "the command 'no-such-program' is not found" in result.stdout
    assert "no luck today" in result.stdout
    assert "5 tools" in result.stdout
    assert result.stderr == "2 failed, 0 to look at.\n"


def test_a_missing_variable_is_named(toolcrib):
    """Before anything is started."""
    toolcrib.write('[servers.paid]\ncommand = "python"\nenv = { KEY = "${PAID_KEY}" }')

    result = toolcrib.run("doctor")

    assert result.returncode == 1
    assert "The variable PAID_KEY is not set" in result.stdout


def test_a_broken_configuration_is_a_failure(toolcrib):
    """With its place; there is nothing else to look at."""
    toolcrib.config.write_text("oops =\n")

    result = toolcrib.run("doctor", "--json")

    assert (result.returncode, verdicts(result)) == (1, {"configuration": "fail"})


def test_nothing_configured_is_only_a_warning(toolcrib):
    """Exit code 0, and how to begin."""
    result = toolcrib.run("doctor")

    assert result.returncode == 0
    assert "toolcrib servers add" in result.stdout


def test_what_comes_to_nothing_in_a_profile_is_told(tiny):
    """A tool it changes that is not there, one it cannot show, and a profile without tools."""
    broken = '[profiles.a.change.tiny__ech]\nname = "x"\n[profiles.a.change.tiny__echo]\nhidden = ["text"]'
    tiny.write(tiny.tiny(), broken, '[profiles.b]\nservers = ["nowhere"]')

    result = tiny.run("doctor")

    assert result.returncode == 0
    assert "it changes tiny__ech, which is not there" in result.stdout
    assert "tiny__echo is left out: it hides the parameter 'text', which the tool needs" in result.stdout
    assert result.stderr == "0 failed, 3 to look at.\n"


WORDY = """\
import json, sys

def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "initialize":
        info = {"name": "wordy", "version": "1"}
        send(id=asked["id"], result={"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": info})
    elif asked["method"] == "tools/list":
        print("noise")
        send(id=asked["id"], result={"tools": [{"name": "NAME", "inputSchema": {"type": "object"}}]})
    elif "id" in asked:
        send(id=asked["id"], error={"code": -32601, "message": "Method not found"})
"""


def test_names_that_look_alike_are_warned_of(toolcrib):
    """Both are named; it may be an accident, so it is no failure."""
    for name, tool in (("one", "delete_all"), ("two", "deIete_all")):
        script = toolcrib.home / f"{name}.py"
        script.write_text(WORDY.replace("NAME", tool).replace('print("noise")', "pass"))
    servers = [
        f"[servers.{name}]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps([f'{toolcrib.home}/{name}.py'])}"
        for name in ("one", "two")
    ]
    toolcrib.write(*servers)

    result = toolcrib.run("doctor")

    assert result.returncode == 0
    assert "one__delete_all and two__deIete_all look alike" in result.stdout


def test_long_names_and_noise_are_warned_of(toolcrib):
    """Some clients take at most 64 characters; stdout is for the protocol. Neither is a failure."""
    tool = "a_tool_with_a_name" + "_that_goes_on" * 4
    script = toolcrib.home / "wordy.py"
    script.write_text(WORDY.replace("NAME", tool))
    toolcrib.write(f"[servers.wordy]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps([str(script)])}")

    result = toolcrib.run("doctor")

    assert result.returncode == 0
    assert f"wordy__{tool} has {len(tool) + 7} characters" in result.stdout
    assert "1 lines to stdout that are not MCP" in result.stdout


def test_tools_for_which_there_is_no_room_are_counted(tiny):
    """One line for all of them, with what to do."""
    tiny.write("[catalog]\ncapacity = 2", tiny.tiny())

    result = tiny.run("doctor")
    why = tiny.run("why", "tiny__paint")

    assert "4 tools are left out, from " in result.stdout
    assert "the catalogue is full" in result.stdout
    assert "Raise [catalog] capacity" in result.stdout
    assert "the catalogue is full at 2 tools" in why.stdout


def test_the_isolation_of_this_machine_is_measured_and_shown(toolcrib):
    """One row for each attempt, one column for each level, and what is proven."""
    result = toolcrib.run("doctor", "--isolation")
    lines = result.stdout.splitlines()

    assert result.returncode == 0
    assert lines[2].split() == ["none", "limits", "confined", "isolated"]
    assert next(line for line in lines if line.startswith("read a secret file")).split()[4:6] == ["open", "open"]
    assert any(line.startswith("Proven here: ") for line in lines)


def test_the_isolation_of_this_machine_as_json(toolcrib):
    """For programs: verdicts, promises, and what to do for the next level."""
    shown = json.loads(toolcrib.run("doctor", "--isolation", "--json").stdout)

    assert set(shown["levels"]) == {"none", "limits", "confined", "isolated"}
    assert shown["levels"]["limits"]["promises"] == ["file", "memory", "raise"]
    assert shown["levels"]["none"]["probes"]["secret"] == "open"
    for level in shown["levels"].values():
        assert level["proven"] or (level["reason"] and level["todo"])


def test_a_platform_that_cannot_be_asked_is_a_failure_with_advice(toolcrib):
    """The token is in no line."""
    toolcrib.write('[platform]\napp_id = "app"\nendpoint = "http://127.0.0.1:9"\ntoken = "${PLATFORM_TOKEN}"')

    result = toolcrib.run("doctor", "--json", PLATFORM_TOKEN="not-a-good-token")

    found = {check["subject"]: check for check in json.loads(result.stdout)["checks"]}
    assert result.returncode == 1
    assert found["platform"]["level"] == "fail"
    assert found["platform"]["message"] == "Invalid JWT token format"
    assert "not-a-good-token" not in result.stdout + result.stderr


def test_a_shared_database_that_is_away_is_a_failure_told_once(tiny):
    """Whatever else needs it; its password is not told."""
    tiny.write(tiny.tiny(), '[store]\nurl = "postgresql://me:hunter2@127.0.0.1:1/x"\ntimeout = 0.5')

    result = tiny.run("doctor", "--json")

    assert (result.returncode, verdicts(result)["shared database"]) == (1, "fail")
    assert result.stdout.count('"shared database"') == 1
    assert "hunter2" not in result.stdout + result.stderr


def test_the_knowledge_base_is_looked_at(toolcrib):
    """Also where nothing is in it."""
    toolcrib.write("[kb]\ndocs = false\nembedder = 'none'\n")
    result = toolcrib.run("doctor")

    assert result.returncode == 0, result.stdout
    assert "knowledge base  nothing in it yet" in result.stdout
