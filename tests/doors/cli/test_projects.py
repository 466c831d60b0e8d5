"""``toolcrib projects``: what was run here is remembered, listed and forgotten."""

import json
import subprocess

import pytest
from tests.fleet.running import until

from toolcrib.project import project_id


def remembered(program) -> bool:
    return (program.home / "state" / "toolcrib" / "projects.json").exists()


def entry(program) -> dict[str, object]:
    directory = program.project
    return {"id": project_id(directory), "name": "project", "directory": str(directory), "file": None}


@pytest.mark.parametrize("command", ["serve", "up"])
def test_a_directory_that_is_served_is_remembered(tiny, command):
    """Without anybody waiting for it."""
    with tiny.serving(command):
        until(lambda: remembered(tiny), deadline_s=20, what="a remembered project")

    found = tiny.json("projects", "ls")

    assert [{name: one[name] for name in entry(tiny)} for one in found] == [entry(tiny)]


def test_a_directory_that_a_client_works_in_is_remembered(tiny):
    """``stdio`` serves a project, too; with the file that was named."""
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = tiny.start("stdio", "--config", "toolcrib.toml", **streams)
    try:
        until(lambda: remembered(tiny), deadline_s=20, what="a remembered project")
    finally:
        process.communicate(timeout=20)

    assert tiny.json("projects", "ls")[0]["file"] == str(tiny.config)


def test_a_state_that_cannot_be_written_does_not_keep_toolcrib_from_serving(tiny):
    """Nobody needs the list of projects."""
    state = tiny.home / "state" / "toolcrib"
    state.mkdir(parents=True)
    (state / "projects.json").write_text("{")

    with tiny.serving("serve", "--log-level", "debug") as serving:
        serving.wait_for("projects.not.noted")

        assert "tiny__echo" in serving.tool_names()


def test_projects_are_listed_and_forgotten(toolcrib):
    """The table for people; a second time there is nothing to forget."""
    nothing = toolcrib.run("projects", "ls")
    with toolcrib.serving("serve"):
        until(lambda: remembered(toolcrib), deadline_s=20, what="a remembered project")

    listed = toolcrib.run("projects", "ls")
    forgotten = toolcrib.run("projects", "rm", "project")
    again = toolcrib.run("projects", "rm", "project", "--json")

    assert "Run `toolcrib up` in one." in nothing.stderr
    assert listed.stdout.split()[:6] == ["NAME", "ID", "LAST", "USED", "DIRECTORY", "project"]
    assert "is forgotten" in forgotten.stderr
    assert toolcrib.json("projects", "ls") == []
    assert (again.returncode, json.loads(again.stdout or again.stderr)["error"]["code"]) == (7, "RESOURCE_NOT_FOUND")
