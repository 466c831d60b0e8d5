"""``toolcrib secrets``: values that go to whoever refers to them, and are shown to nobody."""

import json
import os
from pathlib import Path

import pytest
from tests.cli.keyboard import typed
from tests.cli.program import Program
from tests.fleet.running import until

VALUE = "a-value-that-nobody-sees"


def everything_but_secrets(program: Program) -> str:
    """What stands in any file of this user, except where secrets belong."""
    files = [path for path in program.home.rglob("*") if path.is_file() and path.name != "secrets.json"]
    return "".join(path.read_bytes().decode(errors="replace") for path in files if path != program.diary)


@pytest.fixture
def needy(toolcrib: Program) -> Program:
    """A project with one server that needs a secret, and one that does not."""
    referring = 'env = { WORD = "${SECRET_WORD}" }'
    other = toolcrib.tiny("other").replace(str(toolcrib.diary), f"{toolcrib.diary}2")
    toolcrib.write(toolcrib.tiny(more=referring), other)
    return toolcrib


def test_a_secret_from_stdin_reaches_the_server_that_refers_to_it_and_no_other(needy: Program):
    """Neither its list, nor the log, nor any file but its own has the value."""
    missing = needy.run("call", "tiny__echo", "text=x")
    kept = needy.run("secrets", "set", "SECRET_WORD", "--from-stdin", stdin=f"{VALUE}\n")
    called = needy.run("call", "tiny__echo", "text=x")
    needy.run("call", "other__echo", "text=x")
    listed, shown = needy.run("secrets", "ls"), needy.json("secrets", "ls")

    assert "keep it with `toolcrib secrets set SECRET_WORD`" in missing.stderr
    assert "SECRET_WORD is kept, in" in kept.stderr
    assert "It is needed by tiny." in kept.stderr
    assert called.returncode == 0, called.stderr
    assert needy.has_noted(f"WORD is {VALUE}")
    assert "WORD" not in Path(f"{needy.diary}2").read_text()
    file = str(needy.home / "state" / "toolcrib" / "secrets.json")
    assert shown == [{"name": "SECRET_WORD", "place": file, "neededBy": ["tiny"]}]
    assert "SECRET_WORD" in listed.stdout
    assert VALUE not in listed.stdout + kept.stdout + kept.stderr + everything_but_secrets(needy)


def test_a_secret_is_typed_without_being_shown(toolcrib: Program):
    said, printed = typed(toolcrib, "secrets", "set", "WORD", answers=[("(not shown): ", VALUE)])

    assert "WORD is kept" in said
    assert VALUE not in said + printed
    assert VALUE in (toolcrib.home / "state" / "toolcrib" / "secrets.json").read_text()


def test_the_environment_counts_first_and_that_is_said(needy: Program):
    needy.env["SECRET_WORD"] = "from-the-environment"

    kept = needy.run("secrets", "set", "SECRET_WORD", stdin=VALUE)
    needy.run("call", "tiny__echo", "text=x")

    assert "The environment has SECRET_WORD, too, which counts before it." in kept.stderr
    assert needy.has_noted("WORD is from-the-environment")


def test_who_still_needs_a_removed_secret_is_named_in_every_project(needy: Program, tmp_path: Path):
    """Those toolcrib was run in."""
    needy.run("secrets", "set", "SECRET_WORD", stdin=VALUE)
    needy.run("call", "tiny__echo", "text=x")
    second = Program(needy.home, needy.env)
    elsewhere = needy.home / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "toolcrib.toml").write_text('[model]\nmodel = "ollama:m"\nkey = "${SECRET_WORD}"\n')
    known = {"id": "0" * 12, "directory": str(elsewhere), "lastUsed": "2030-01-01T00:00:00Z"}
    (needy.home / "state" / "toolcrib" / "projects.json").write_text(json.dumps({"version": 1, "projects": [known]}))

    gone = second.run("secrets", "rm", "SECRET_WORD")

    assert gone.returncode == 0
    assert f"Still needed by tiny and [model] ({elsewhere})." in gone.stderr
    assert needy.json("secrets", "ls") == []
    assert needy.run("secrets", "rm", "SECRET_WORD").returncode == 7


def test_a_file_that_others_can_read_is_refused_and_only_who_needs_it_fails(needy: Program):
    needy.run("secrets", "set", "SECRET_WORD", stdin=VALUE)
    os.chmod(needy.home / "state" / "toolcrib" / "secrets.json", 0o644)

    listed = needy.run("secrets", "ls")
    refused, fine = needy.run("call", "tiny__echo", "text=x"), needy.run("call", "other__echo", "text=x")

    assert listed.returncode == 1
    for said in (listed.stderr, refused.stderr):
        assert "Others can read the kept secrets" in said
        assert "chmod 600" in said
    assert fine.returncode == 0, fine.stderr


def test_a_running_toolcrib_starts_whoever_refers_to_a_secret_anew(needy: Program):
    """One that failed for the want of it, and one that has an older value; nobody else."""
    with needy.serving("serve") as serving:
        serving.tool_names()
        serving.wait_for("SECRET_WORD")
        needy.run("secrets", "set", "SECRET_WORD", stdin=VALUE)
        until(lambda: needy.has_noted(f"WORD is {VALUE}"), deadline_s=150, what="a start with the secret")
        needy.run("secrets", "set", "SECRET_WORD", stdin="another-value-of-it")
        until(lambda: needy.has_noted("WORD is another-value"), deadline_s=150, what="a start with the new one")

        assert VALUE not in serving.output
    assert Path(f"{needy.diary}2").read_text().count("started") <= 1


def test_nothing_is_kept_under_a_name_no_reference_can_have(toolcrib: Program):
    refused = toolcrib.run("secrets", "set", "MY-TOKEN", stdin=VALUE)
    empty = toolcrib.run("secrets", "set", "MY_TOKEN")

    assert (refused.returncode, empty.returncode) == (2, 2)
    assert "letters, digits and underscores" in refused.stderr
    assert "is empty" in empty.stderr
    assert VALUE not in refused.stderr
