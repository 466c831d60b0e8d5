"""Health, tallies and version over REST; the way to the page, and the command that opens it."""

import re

from tests.server.rest.api import serving_api


def test_health_is_told_of_the_servers_a_caller_may_know_of(program):
    """Everything to the owner, their own part to others."""
    near = program.json("tokens", "create", "near", "--server", "tiny")["token"]
    far = program.json("tokens", "create", "far", "--server", "other")["token"]
    with serving_api(program) as api:
        owner, known, strange = (api.get("/health", token=token) for token in (api.token, near, far))

    assert (list(owner["servers"]), owner["audit"]["enabled"]) == (["tiny"], True)
    assert (list(known["servers"]), known["audit"], known["calls"]) == (["tiny"], None, None)
    assert (strange["servers"], strange["status"]) == ({}, "healthy")


def test_tallies_count_what_was_called(program):
    """For the owner, and for tokens that were made for that."""
    watcher = program.json("tokens", "create", "watcher", "--capability", "metrics")["token"]
    with serving_api(program) as api:
        api.call("tiny__echo", {"text": "hi"})
        api.call("tiny__nope")
        found = api.get("/metrics", token=watcher)

    assert found["tools"]["tiny__echo"]["executed"] == 1
    assert found["unknown"] == {"TOOL_NOT_FOUND": 1}


LINK = r"http://[0-9a-f]{{32}}\.localhost:{port}/signin\?link=[\w-]{{32}}"


def test_the_version_is_no_secret(api):
    """The same that the command says."""
    assert api.get("/version", token="") == {"name": "toolcrib", "version": "0.1.0"}


def test_only_the_owners_own_token_signs_somebody_in(program):
    """Another that may do everything does not."""
    other = program.json("tokens", "create", "other", "--level", "system")["token"]
    with serving_api(program) as api:
        made = api.send("POST", "/signin-links")
        refused = api.send("POST", "/signin-links", token=other)

    assert made.status == 201
    assert re.fullmatch(LINK.format(port=api.serving.port), made.json["url"])
    assert refused.status == 403


def test_the_command_prints_an_address_that_signs_in(api):
    """It asks the toolcrib that runs."""
    done = api.program.run("open", "--print", "--url", api.serving.url)

    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(LINK.format(port=api.serving.port) + "\n", done.stdout)


def test_the_command_opens_the_browser(api):
    """The one that is configured; what it opens is not printed."""
    opened = api.program.home / "opened"
    script = api.program.home / "browser"
    script.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}\n')
    script.chmod(0o755)
    done = api.program.run("open", "--url", api.serving.url, BROWSER=f"{script} %s")

    assert done.returncode == 0, done.stderr
    assert "/signin?link=" in opened.read_text()
    assert "link=" not in done.stdout + done.stderr


def test_without_a_toolcrib_that_runs_the_command_says_what_to_do(program):
    """Nothing is opened."""
    done = program.run("open", "--url", "http://127.0.0.1:9")

    assert done.returncode != 0
    assert "toolcrib up" in done.stderr
