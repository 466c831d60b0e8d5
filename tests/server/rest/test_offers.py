"""Resources and prompts over REST: the same values as on the command line, and problems with a code."""

import pytest
from tests.cli.library import with_library
from tests.server.rest.api import serving_api


@pytest.fixture
def library(program, tmp_path):
    """A served toolcrib whose server was asked for what it offers."""
    with serving_api(with_library(program, tmp_path)) as api:
        api.send("POST", "/servers/tiny/refresh")
        yield api


def test_the_lists_are_those_of_the_command_line(library):
    """One value, made in one place."""
    listed = {kind: library.get(f"/{kind}")["offers"] for kind in ("resources", "prompts")}

    assert listed == {kind: library.program.json(kind, "ls", "--cached") for kind in ("resources", "prompts")}
    assert [entry["uri"] for entry in listed["resources"]] == ["memo://tiny/about", "memo://tiny/{id}/photo"]
    assert library.get("/resources?server=native")["offers"] == []


def test_a_resource_is_read_and_a_prompt_got_as_mcp_answers_them(library):
    """By the URI and the name that the lists show."""
    read = library.send("POST", "/resources/read", {"uri": "memo://tiny/about"})
    got = library.send("POST", "/prompts/tiny__greet/get", {"arguments": {"who": "Ann"}})

    assert read.json["contents"][0]["uri"] == "memo://tiny/about"
    assert got.json["messages"][0]["content"]["text"] == "Say hello to Ann."


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/resources/read", {"uri": "memo://tiny/none"}, 404, "TOOL_NOT_FOUND"),
        ("/resources/read", {}, 422, None),
        ("/resources/read", {"uri": "memo://tiny/about", "odd": 1}, 422, None),
        ("/prompts/tiny__none/get", {}, 404, "TOOL_NOT_FOUND"),
        ("/prompts/tiny__greet/get", {}, 422, "TOOL_INVALID_INPUT"),
    ],
)
def test_what_cannot_be_had_is_a_problem(library, path, body, status, code):
    """With the code that programs know it by."""
    reply = library.send("POST", path, body)

    assert (reply.status, code in (None, reply.json["code"])) == (status, True)


def test_one_of_them_is_shown_with_its_definition_and_why_it_is_here(library):
    """The same value as ``toolcrib show --json``; by name or URI."""
    about = library.get("/resources/memo%3A%2F%2Ftiny%2Fabout")
    greet = library.get("/prompts/tiny__greet")

    assert about["definition"]["uri"] == about["uri"] == "memo://tiny/about"
    assert (about["pin"]["state"], about["why"]["verdict"]) == ("accepted", "available")
    assert greet["arguments"] == [{"name": "who", "required": True}, {"name": "how", "required": False}]
    shown = library.program.json("show", "prompt tiny__greet")
    assert [shown[key] for key in ("name", "definition", "pin")] == [
        greet[key] for key in ("name", "definition", "pin")
    ]
    assert library.send("GET", "/prompts/tiny__echo").status == 404
    assert library.send("GET", "/resources/tiny__none").status == 404


def test_they_are_found_by_what_they_are_for(library):
    """With a score, and a line to ask for each by."""
    [found] = library.get("/prompts?query=say%20hello%20greeting")["offers"]
    resources = library.get("/resources?query=photo")["offers"]

    assert (found["name"], found["signature"]) == ("tiny__greet", "tiny__greet(who: str, how?: str) - Greets")
    assert resources[0]["uri"] == "memo://tiny/{id}/photo"
    assert 0 < resources[0]["score"] <= 1


@pytest.fixture
def guarded(program, tmp_path):
    """The same with two tokens: one for another server, one that may read everything."""
    with_library(program, tmp_path)
    narrow = program.json("tokens", "create", "narrow", "--server", "other")["token"]
    wide = program.json("tokens", "create", "wide", "--level", "read_only")["token"]
    with serving_api(program) as api:
        api.send("POST", "/servers/tiny/refresh")
        yield api, narrow, wide


def test_a_token_for_another_server_sees_nothing_of_them(guarded):
    """In no list, by no name, by no purpose; and what it asks for is answered as if it were not there."""
    library, token, _ = guarded
    looks = ["/resources", "/prompts", "/resources?query=what%20this%20is", "/prompts?query=greet", "/tools"]
    names = ["/resources/memo%3A%2F%2Ftiny%2Fabout", "/resources/tiny__memo%3A%2F%2Fabout", "/prompts/tiny__greet"]
    told = [library.send("GET", path, token=token) for path in looks]
    shown = [library.send("GET", path, token=token) for path in names]
    asked = [
        library.send("POST", "/resources/read", {"uri": "memo://tiny/about"}, token=token),
        library.send("POST", "/resources/read", {"uri": "memo://tiny/7/photo"}, token=token),
        library.send("POST", "/prompts/tiny__greet/get", {"arguments": {"who": "Ann"}}, token=token),
        library.send("POST", "/prompts/tiny__none/get", {}, token=token),
    ]

    assert not any(word in str(reply.json) for reply in told for word in ("memo", "greet", "tiny"))
    assert [reply.status for reply in shown] == [404] * 3
    assert {(reply.status, reply.json["detail"]) for reply in asked} == {(403, asked[0].json["detail"])}


def test_a_denied_server_is_only_known_to_those_who_look_after_it(guarded):
    """They see that it is denied; nobody reads it, not even they."""
    library, _, token = guarded
    library.send("PUT", "/policies/tiny__*", {"policy": "deny"})
    mine, theirs = library.get("/resources")["offers"], library.send("GET", "/resources", token=token).json["offers"]
    about = {"uri": "memo://tiny/about"}
    read = [library.send("POST", "/resources/read", about, token=who) for who in (None, token)]

    assert ({one["policy"] for one in mine}, theirs) == ({"deny"}, [])
    assert [reply.status for reply in read] == [403, 403]
    assert "(denied)" in library.program.run("resources", "ls", "--cached").stdout
    assert library.program.run("resources", "read", "memo://tiny/about").returncode != 0
    assert library.program.run("prompts", "get", "tiny__greet", "who=Ann").returncode != 0
