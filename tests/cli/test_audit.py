"""``audit``: what a person finds of what was called, and whether anybody changed it."""

import json
import re
import stat
from pathlib import Path

import apsw
import pytest
from tests.cli.program import Program
from tests.fleet.running import until
from tests.stores.audit_logs import tamper, written

from toolcrib.core.audit import AuditEntry


@pytest.fixture
def log(toolcrib: Program) -> Path:
    return toolcrib.home / "state" / "toolcrib" / "audit.db"


@pytest.fixture
def used(toolcrib: Program) -> Program:
    """A toolcrib whose built-in tools were called, well and badly."""
    toolcrib.run("call", "text_count", "text=hello")
    toolcrib.run("call", "nothing_there")
    toolcrib.run("call", "text_count", "words=1")
    return toolcrib


def test_every_call_is_in_the_log(used: Program):
    """Who, what, how it ended and what the arguments looked like; not what they said."""
    result = used.run("audit", "tail")

    lines = [re.split(r"\s{2,}", line.strip()) for line in result.stdout.splitlines()]
    assert lines[0] == ["SEQ", "TIME (UTC)", "CALLER", "WHAT", "DECISION", "OUTCOME", "MS", "ARGUMENTS"]
    assert [(line[0], *line[2:6]) for line in lines[1:]] == [
        ("1", "local", "text_count", "allowed", "success"),
        ("2", "local", "nothing_there", "unknown", "TOOL_NOT_FOUND"),
        ("3", "local", "text_count", "allowed", "TOOL_INVALID_INPUT"),
    ]
    assert lines[1][-1] == "text: string 5"
    assert "hello" not in result.stdout


def test_an_entry_says_everything_a_program_wants(used: Program):
    """With ids, sizes, a UTC time and its hash."""
    entry = used.json("audit", "tail", "-n", "3")[0]

    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", entry.pop("time"))
    assert re.fullmatch(r"[0-9a-f]{32}", entry.pop("traceId"))
    assert re.fullmatch(r"[0-9a-f]{64}", entry.pop("hash"))
    assert entry.pop("executionId")
    assert entry.pop("durationMs") > 0
    assert entry == {
        "seq": 1,
        "event": "call",
        "tool": "text_count",
        "server": "native",
        "caller": "local",
        "callerKind": "local",
        "level": "read_only",
        "decision": "allowed",
        "outcome": "success",
        "details": {"arguments_size": 16, "arguments": {"text": "string 5"}, "result_size": 160},
    }


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        ([], [1, 2, 3]),
        (["--tool", "text_*"], [1, 3]),
        (["--outcome", "TOOL_*", "--since", "1h"], [2, 3]),
        (["--denied"], [2]),
        (["--caller", "nobody"], []),
        (["--since", "2999-01-01"], []),
        (["-n", "1"], [3]),
    ],
)
def test_search_finds_what_fits(used: Program, words: list[str], numbers: list[int]):
    """By tool, caller, outcome and time."""
    assert [entry["seq"] for entry in used.json("audit", "search", *words)] == numbers


def test_a_search_without_hits_says_so(used: Program):
    """On stderr: there is no data."""
    result = used.run("audit", "search", "--tool", "x")

    assert (result.returncode, result.stdout, result.stderr) == (0, "", "Nothing in the log fits.\n")


def test_verify_gives_a_head_that_can_be_checked_later(used: Program):
    """Noted elsewhere, it shows that the past is still the same."""
    clean = used.run("audit", "verify")
    head = re.search(r"^Head: (\S+)$", clean.stdout, re.MULTILINE)[1]
    used.run("call", "text_count", "text=more")

    later = used.run("audit", "verify", "--head", head)

    assert (clean.returncode, later.returncode) == (0, 0)
    assert clean.stdout.startswith("3 records, the chain is whole.\n")
    assert later.stdout.startswith("4 records, the chain is whole, and the noted head is part of it.\n")


def test_verify_names_the_record_that_was_changed(used: Program, log: Path):
    """A failure, for a cron job to notice."""
    tamper(log, "UPDATE entry SET body = replace(body, 'TOOL_NOT_FOUND', 'success') WHERE seq = 2")

    result = used.run("audit", "verify")
    document = json.loads(used.run("audit", "verify", "--json").stdout)

    assert result.returncode == 1
    assert result.stdout.splitlines()[0] == "The log was changed: record 2 was edited."
    assert (document["status"], document["entries"]) == ("changed", 1)
    assert document["fault"] == {"seq": 2, "kind": "edited", "message": "record 2 was edited"}


async def test_a_call_without_an_end_is_shown(toolcrib: Program, log: Path):
    """By ``tail`` and by ``verify``: its outcome was not recorded."""
    await written(log, [AuditEntry("call.begun", tool="files__write", caller="me", execution_id="1")])

    tail, verify = toolcrib.run("audit", "tail"), toolcrib.run("audit", "verify")

    assert "files__write" in tail.stdout
    assert "not recorded" in tail.stdout
    assert verify.returncode == 0
    assert "Outcome not recorded (still running, or the process ended first):" in verify.stdout


def test_export_writes_one_line_per_entry(used: Program):
    """To stdout, or to a file only the user may read."""
    printed = used.run("audit", "export")
    saved = used.run("audit", "export", "-o", "log.jsonl")

    file = used.project / "log.jsonl"
    assert [json.loads(line)["seq"] for line in printed.stdout.splitlines()] == [1, 2, 3]
    assert file.read_text() == printed.stdout
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert saved.stderr == "3 entries written to log.jsonl.\n"


def test_what_strangers_wrote_cannot_rewrite_the_terminal(toolcrib: Program):
    """Names of tools and arguments are a caller's words."""
    toolcrib.run("call", "a\x1b[2Jb", "--input-json", '{"k\\u001b[31m": 1}')

    shown = [toolcrib.run("audit", *words).stdout for words in (["tail"], ["tail", "--json"], ["export"])]

    assert not any("\x1b" in text for text in shown)
    assert all("TOOL_NOT_FOUND" in text for text in shown)


def test_values_are_written_when_wanted_and_never_secrets(toolcrib: Program):
    """What a server is given as a secret, and what looks like one, is masked."""
    server = toolcrib.tiny(more='env = { API_KEY = "${MY_KEY}" }')
    toolcrib.write("[audit]\nvalues = true", server)

    toolcrib.run("call", "tiny__echo", "text=the key is hush-hush-hush", "--timeout", "20", MY_KEY="hush-hush-hush")
    toolcrib.run("call", "tiny__echo", '--input-json={"text": "x", "password": "letmein"}', MY_KEY="hush-hush-hush")

    values = [entry["details"]["values"] for entry in toolcrib.json("audit", "search", "--tool", "tiny__echo")]
    assert values == ['{"text":"the key is ***"}', '{"text":"x","password":"***"}']


def test_the_log_goes_where_it_is_told(toolcrib: Program, log: Path):
    """``[audit] path``, seen from where toolcrib runs."""
    toolcrib.config.write_text('[audit]\npath = "here/my.db"\n')

    toolcrib.run("call", "text_count", "text=x")

    assert (toolcrib.project / "here" / "my.db").is_file()
    assert not log.exists()
    assert len(toolcrib.json("audit", "tail")) == 1


def test_the_log_can_be_switched_off(toolcrib: Program, log: Path):
    """Then there is none, and asking for it says why."""
    toolcrib.config.write_text("[audit]\nenabled = false\n")
    toolcrib.run("call", "text_count", "text=x")

    asked = toolcrib.run("audit", "tail")

    assert asked.returncode == 7
    assert f"There is no audit log at {log}." in asked.stderr
    assert "[audit] enabled = false" in asked.stderr


def test_looking_around_writes_nothing(tiny: Program, log: Path):
    """Only calls and decisions are worth an entry."""
    tiny.run("ls")
    tiny.run("doctor")

    assert not log.exists()


def test_a_log_that_cannot_be_written_refuses_what_writes_and_allows_what_reads(tiny: Program, log: Path):
    """Of the tiny server's tools ``paint`` counts as write, ``echo`` only reads."""
    log.parent.mkdir(parents=True)
    log.mkdir()

    writes = tiny.run("call", "tiny__paint")
    reads = tiny.run("call", "tiny__echo", "text=x")

    assert writes.returncode == 4
    assert "tiny__paint was not run: nothing above read_only runs unrecorded." in writes.stderr
    assert reads.returncode == 0


def test_times_that_are_none_are_refused(used: Program):
    """With what to write instead."""
    result = used.run("audit", "search", "--since", "yesterday")

    assert result.returncode == 2
    assert "--since 'yesterday' is no time." in result.stderr


def test_follow_shows_what_comes(used: Program):
    """Until it is stopped."""
    log = used.home / "follow.log"
    with log.open("wb") as file:
        process = used.start("audit", "tail", "-n", "1", "--follow", stdout=file)
    try:
        until(lambda: "TOOL_INVALID_INPUT" in log.read_text(), deadline_s=150, what="the last entry")
        used.run("call", "text_count", "text=abc")
        until(lambda: "string 3" in log.read_text(), deadline_s=150, what="the new entry")
    finally:
        process.kill()
        process.wait()


def test_people_may_look_with_a_tool_of_their_own(used: Program, log: Path):
    """The file has a view in plain columns."""
    rows = apsw.Connection(str(log)).execute("SELECT seq, tool, outcome FROM record ORDER BY seq").fetchall()

    assert rows[0] == (1, "text_count", "success")
