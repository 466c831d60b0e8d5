"""``toolcrib resources`` and ``toolcrib prompts``: what a server offers besides tools, for people and scripts."""

import base64
import json
from pathlib import Path

import pytest
from tests.cli.library import with_library
from tests.cli.program import Program


@pytest.fixture
def library(tiny: Program, tmp_path: Path) -> Program:
    """The tiny server with a resource, a template and a prompt."""
    return with_library(tiny, tmp_path)


def test_the_lists_show_what_to_ask_by(library: Program):
    """URIs with the server in them; prompts with their arguments, the optional ones in brackets."""
    resources, prompts = library.run("resources", "ls"), library.run("prompts", "ls")
    told = [library.json(kind, "ls") for kind in ("resources", "prompts")]

    assert [line.split()[0] for line in resources.stdout.splitlines()] == [
        "URI",
        "memo://tiny/about",
        "memo://tiny/{id}/photo",
    ]
    assert prompts.stdout.splitlines()[1].split() == ["tiny__greet", "who", "[how]", "Greets."]
    assert [entry["name"] for entry in (*told[0], *told[1])] == [
        "tiny__memo://about",
        "tiny__memo://{id}/photo",
        "tiny__greet",
    ]
    assert library.starts == 1


def test_a_resource_is_read_by_its_uri_or_its_name(library: Program, tmp_path: Path):
    """Text goes into a pipe as it is; what is no text is saved where one wants it."""
    by_uri, by_name = (library.run("resources", "read", name) for name in ("memo://tiny/about", "tiny__memo://about"))
    library.run("resources", "read", "memo://tiny/7/photo", "--save", str(tmp_path / "out"))
    whole = library.json("resources", "read", "memo://tiny/about")

    assert by_uri.stdout == by_name.stdout == "A \x1b[31mlibrary\n"
    assert [path.read_bytes() for path in (tmp_path / "out").iterdir()] == [b"memo://7/photo"]
    assert whole["contents"][0]["uri"] == "memo://tiny/about"


def test_a_prompt_is_got_with_its_arguments(library: Program):
    """One that lacks an argument says which."""
    got, lacking = library.run("prompts", "get", "tiny__greet", "who=Ann"), library.run("prompts", "get", "tiny__greet")

    assert got.stdout == "user:\nSay hello to Ann.\n"
    assert (lacking.returncode != 0, "missing required field 'who'" in lacking.stderr) == (True, True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("resources", "read", "memo://tiny/none"), "No resource named 'tiny__memo://none'"),
        (("prompts", "get", "tiny__none"), "No prompt named 'tiny__none'"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(library: Program, words: tuple[str, ...], told: str):
    """In words, and with --json in a form that a script can read."""
    failed, coded = library.run(*words), library.run(*words, "--json")

    assert told in failed.stderr
    assert json.loads(coded.stdout)["error"]["code"] == "TOOL_NOT_FOUND"
    assert failed.returncode == coded.returncode != 0


def test_a_server_without_any_is_said_to_have_none(tiny: Program):
    """And an empty list is an empty list."""
    assert "No server offers prompts." in tiny.run("prompts", "ls").stderr
    assert tiny.json("resources", "ls") == []


def test_pictures_are_not_printed(library: Program):
    """Their kind and size are."""
    assert library.run("resources", "read", "memo://tiny/7/photo").stdout.startswith("[image/png 14")
    assert base64.b64encode(b"memo") not in library.run("resources", "read", "memo://tiny/7/photo").stdout.encode()


def test_ls_find_show_and_why_know_every_kind(library: Program):
    """By the names and URIs that people see."""
    every, prompts = library.run("ls", "--kind", "all"), library.json("ls", "--kind", "prompt")
    tools = library.run("ls")
    found, best = library.run("find", "greet somebody"), library.json("find", "greet somebody", "--kind", "prompt")
    resource, prompt = library.run("show", "memo://tiny/about"), library.run("show", "tiny__greet")
    story = library.json("why", "memo://tiny/{id}/photo")

    heads = [line.split()[0] for line in every.stdout.splitlines()]
    assert {"TOOL", "URI", "PROMPT", "memo://tiny/about", "tiny__greet", "tiny__echo"} <= set(heads)
    assert [one["kind"] for one in prompts] == ["prompt"]
    assert "2 resources and 1 prompt besides" in tools.stderr
    assert ("prompt tiny__greet(who: str" in found.stdout, best[0]["name"]) == (True, "tiny__greet")
    assert "toolcrib resources read memo://tiny/about" in resource.stdout
    assert "toolcrib prompts get tiny__greet who=…" in prompt.stdout
    assert (story["verdict"], story["facts"]["kind"]) == ("available", "template")
    assert library.run("why", "memo://tiny/nothing").returncode != 0


def test_a_policy_names_a_resource_by_its_uri(library: Program):
    """As its list shows it; then nobody is shown it, and ``why`` says by which rule."""
    library.run("servers", "refresh")
    library.run("policy", "memo://tiny/ab*", "deny")
    refused, story = library.run("resources", "read", "memo://tiny/about"), library.json("why", "memo://tiny/about")
    [row] = library.json("policy", "memo://tiny/about")

    assert "denied by the configuration" in refused.stderr
    assert (story["verdict"], "'memo://tiny/ab*'" in row["why"]) == ("denied", True)
