"""What REST answers, what ``--json`` prints and what the page reads is one value."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from tests.cli.program import Program
from tests.server.rest.api import Api, serving_api

from toolcrib.config.model import Config
from toolcrib.core.access import LOCAL_USER
from toolcrib.crib.loading import Loaded
from toolcrib.project.project import Project
from toolcrib.server.views.caller import CallerView
from toolcrib.server.views.servers import server_views
from toolcrib.server.web.server_rows import server_rows
from toolcrib.testing import FakeSource, memory_crib

OWN = frozenset({"durationMs", "executionId", "traceId", "tally"})
"""What differs from call to call, or is counted by each process for itself."""


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    program = Program(tmp_path_factory.mktemp("one"))
    program.project.mkdir()
    program.write("[security.policies]\ntiny__add = 'ask'", program.tiny())
    with serving_api(program) as api:
        api.send("POST", "/servers/tiny/refresh")
        api.call("tiny__echo", {"text": "x"})
        yield api


def by(name: str, entries: list[dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    return {entry[name]: {key: value for key, value in entry.items() if key not in OWN} for entry in entries}


@pytest.mark.parametrize(
    ("path", "member", "words", "key"),
    [
        ("/servers", "servers", ("servers", "ls"), "name"),
        ("/tools", "tools", ("ls", "--cached"), "name"),
        ("/policies", "tools", ("policy",), "name"),
        ("/audit", "entries", ("audit", "tail"), "seq"),
        ("/pins", "pins", ("diff",), "name"),
        ("/costs", "servers", ("cost", "--cached"), "name"),
        ("/costs", "tools", ("cost", "--cached"), "name"),
        ("/approvals/answers", "answers", ("approvals", "ls"), "tool"),
    ],
)
def test_rest_and_the_command_line_say_the_same(api: Api, path: str, member: str, words: tuple[str, ...], key: str):
    """The same names and values of one running project."""
    printed = api.program.json(*words)
    answered = api.get(path)[member]

    assert by(key, printed if isinstance(printed, list) else printed[member]) == by(key, answered)


def test_one_tool_and_one_result_are_the_same(api: Api):
    """With its definition; with the same members, whether the call went well or not."""
    for name in ("tiny__echo", "tiny__fail"):
        arguments = {"text": "x"} if name == "tiny__echo" else {}
        printed = json.loads(
            api.program.run("call", name, *(f"{k}={v}" for k, v in arguments.items()), "--json").stdout
        )
        answered = api.call(name, arguments).json

        assert printed.keys() == answered.keys()
        assert by("success", [printed]) == by("success", [answered])
        assert by("name", [api.program.json("show", name)]) == by("name", [api.get(f"/tools/{name}")])


def test_a_call_in_a_session_has_the_result_of_any_other(api: Api):
    """One result for both: ``error`` is there when it went well, too."""
    project = next(one for one in api.get("/projects")["projects"] if one["isServed"])
    session = api.send("POST", f"/projects/{project['id']}/sessions", {}).json["session"]["id"]
    inside = api.send("POST", f"/sessions/{session}/tools/tiny__echo/call", {"arguments": {"text": "x"}}).json

    assert by("success", [inside]) == by("success", [api.call("tiny__echo", {"text": "x"}).json])
    assert inside["error"] is None


async def test_the_page_reads_the_servers_that_rest_answers():
    """A row is the view, with the page's words beside it."""
    async with memory_crib(FakeSource("files", ["read"]), FakeSource("other")) as made:
        await made.crib.refresh()

        view = CallerView(Project(made.crib, Loaded(Config())), LOCAL_USER, is_operator=True)

        assert list(map(msgspec.to_builtins, server_rows(view))) == list(
            map(msgspec.to_builtins, server_views(made.crib))
        )
