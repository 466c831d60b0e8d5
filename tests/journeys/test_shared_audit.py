"""Two machines, one audit log in PostgreSQL: what either does is read from either, in one chain."""

import json
import re
from pathlib import Path

import pytest
from tests.cli.program import Program
from tests.fleet.running import until
from tests.server.rest.api import serving_api

PASSWORD = "hunter2-hunter2"


@pytest.fixture
def machines(postgres, tmp_path: Path) -> tuple[Program, Program]:
    """Two homes with the same configuration, and nothing else in common but the database."""
    url = postgres.fresh_database().replace("toolcrib@", f"toolcrib:{PASSWORD}@")
    made = []
    for name in ("one", "two"):
        program = Program(tmp_path / name, {"FLEET_STORE": url})
        program.project.mkdir(parents=True)
        made.append(program)
        program.write(made[0].tiny(), '[store]\nurl = "${FLEET_STORE}"')
    return made[0], made[1]


def test_what_one_machine_did_is_read_on_the_other(machines):
    """Served here, called there: one log, which ``audit`` and REST show whole, and which no file has."""
    one, two = machines
    with serving_api(one) as api:
        api.call("tiny__echo", {"text": "hi"})
        api.call("tiny__fail")
        two.run("call", "tiny__paint")
        calls = "/audit?outcome=*[a-zA-Z]*"
        until(lambda: len(api.get(calls)["entries"]) == 3, deadline_s=150, what="all three calls")
        served, verdict, health = api.get(calls)["entries"], api.get("/audit/verify"), api.get("/health")
        ready = api.serving.request("GET", "/readyz").status

    tail = [entry for entry in two.json("audit", "tail") if entry["event"] == "call"]
    assert [entry["tool"] for entry in tail] == ["tiny__echo", "tiny__fail", "tiny__paint"]
    assert [entry["tool"] for entry in served] == [entry["tool"] for entry in tail[::-1]]
    assert [entry["outcome"] for entry in two.json("audit", "search", "--tool", "tiny__[ep]*")] == ["success"] * 2
    assert (verdict["status"], ready) == ("clean", 200)
    assert re.fullmatch(r"postgresql://\*\*\*@127\.0\.0\.1:\d+/\w+ \(name 'main'\)", health["audit"]["place"])
    assert not [path for program in machines for path in program.home.rglob("audit.db*")]
    assert PASSWORD not in json.dumps([health, verdict, served]) + api.serving.output


def test_every_command_that_reads_the_log_reads_the_shared_one(machines):
    """Verify with a noted head, export, what was used, and what ``doctor`` says of it."""
    one, two = machines
    before = two.run("audit", "tail")
    one.run("call", "tiny__echo", "text=x")
    head = re.search(r"^Head: (\S+)$", two.run("audit", "verify").stdout, re.MULTILINE)[1]
    two.run("call", "tiny__echo", "text=y")

    again = one.run("audit", "verify", "--head", head)
    lines = [json.loads(line) for line in two.run("audit", "export").stdout.splitlines()]
    used = {tool["name"]: tool["calls"] for tool in one.json("cost")["tools"]}
    told = two.run("doctor")

    assert before.returncode == 7
    assert "Nothing was written to the audit log at postgresql://***@127.0.0.1" in before.stderr
    assert again.stdout.startswith("2 records, the chain is whole, and the noted head is part of it.")
    assert [line["seq"] for line in lines] == [1, 2]
    assert (used["tiny__echo"], used["tiny__paint"]) == (2, 0)
    assert re.search(r"ok    audit log +postgresql://\*\*\*@\S+ \(name 'main'\) can be written; 2 entries", told.stdout)
    assert PASSWORD not in told.stdout + told.stderr + before.stderr


def test_a_decision_at_the_command_line_is_in_the_shared_log(machines):
    """A token that was made here is known to have been made, there."""
    one, two = machines
    one.run("tokens", "create", "agent")

    assert [entry["event"] for entry in two.json("audit", "tail")] == ["token"]
