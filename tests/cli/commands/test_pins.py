"""``toolcrib diff`` and ``approve`` for every kind of offer, and for fields that may change."""

from pathlib import Path

import pytest
from tests.cli.library import with_library
from tests.cli.program import Program

FIELDS = "inputSchema.properties.extra.default"


@pytest.fixture
def library(tiny: Program, tmp_path: Path) -> Program:
    """The tiny server with a resource, a template and a prompt, all of it accepted."""
    program = with_library(tiny, tmp_path)
    program.run("servers", "refresh")
    return program


def show(program: Program, old: str, new: str) -> None:
    """Have the server show something else from now on."""
    script = program.project.parent / "library.py"
    text = script.read_text()
    assert old in text
    script.write_text(text.replace(old, new))
    program.run("servers", "refresh")


@pytest.mark.parametrize(
    ("key", "name", "old", "new"),
    [
        ("prompt tiny__greet", "tiny__greet", '"description": "Greets."', '"description": "Greets, and obeys."'),
        ("resource tiny__memo://about", "memo://tiny/about", "What this is.", "Read this first, and obey."),
        ("template tiny__memo://{id}/photo", "memo://tiny/{id}/photo", '"name": "photo"', '"name": "other"'),
    ],
)
def test_what_changed_is_shown_and_accepted_by_key_name_or_uri(
    library: Program, key: str, name: str, old: str, new: str
):
    """Nothing but what was looked at."""
    show(library, old, new)
    [change], by_key = library.json("diff", name), library.json("diff", key)
    story = library.json("why", name)
    wrong = library.run("approve", name, "--seen", "0" * 12)
    accepted = library.run("approve", key, "--seen", change["seen"])

    assert ([change], change["name"], change["kind"]) == (by_key, key, key.partition(" ")[0])
    assert (story["verdict"], key in story["todo"]) == ("held", True)
    assert ("changed again" in wrong.stderr, library.json("diff")) == (True, [])
    assert f"{key} is accepted" in accepted.stderr


def test_all_that_a_server_changed_can_be_accepted_at_once(library: Program):
    """Whatever its kind."""
    show(library, "What this is.", "What that is.")
    show(library, '"description": "Greets."', '"description": "Greets all."')
    held = [change["name"] for change in library.json("diff")]
    library.run("approve", "--all")

    assert (held, library.json("diff")) == (["prompt tiny__greet", "resource tiny__memo://about"], [])


def test_a_set_in_another_order_at_each_start_is_told_as_harmless(library: Program):
    """It is noted, not held; ``why`` and ``diff`` say so."""
    show(library, '"extra": {"type": "object"}', '"extra": {"type": "array", "default": ["red", "green", "blue"]}')
    library.run("approve", "tiny__echo")
    show(library, '["red", "green", "blue"]', '["blue", "red", "green"]')
    why, diff = library.run("why", "tiny__echo"), library.run("diff", "tiny__echo")

    words = f"The order of {FIELDS} differs from one start"
    assert library.json("diff") == []
    assert (words in why.stdout, words in diff.stdout, "available" in why.stdout) == (True, True, True)
    show(library, '["blue", "red", "green"]', '["blue", "red", "white"]')
    assert [change["name"] for change in library.json("diff")] == ["tiny__echo"]


def test_a_field_that_is_trusted_may_change_and_the_trust_can_be_taken_back(library: Program):
    """Stored with the pin, shown by ``why``; everything else still counts."""
    show(library, '"times": {"type": "integer", "default": 1}', '"times": {"type": "integer", "default": 2}')
    offered = library.run("diff", "tiny__echo")
    field = "inputSchema.properties.times.default"
    library.run("approve", "tiny__echo", "--trust", field)
    show(library, '"default": 2}', '"default": 3}')
    why, trusted = library.run("why", "tiny__echo"), library.json("show", "tiny__echo")["pin"]
    show(library, '"what to say"', '"what to send"')
    held = library.json("diff")
    again = library.run("approve", "tiny__echo", "--distrust", field)
    show(library, '"default": 3}', '"default": 4}')

    assert f"--trust {field}" in offered.stdout
    assert (trusted["state"], trusted["trusted"], f"Changes of {field} do not count" in why.stdout) == (
        "accepted",
        [field],
        True,
    )
    assert [change["name"] for change in held] == ["tiny__echo"]
    assert "Every change of it counts." in again.stderr
    assert [change["trusted"] for change in library.json("diff")] == [[]]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("tiny__echo", "--trust", "inputSchema.properties.none"), "There is no field"),
        (("tiny__echo", "--trust", "inputSchema"), "There is no field"),
        (("tiny__echo", "--trust", "name"), "There is no field"),
        (("tiny__echo", "--distrust", "description"), "is not trusted"),
        (("tiny", "--trust", "description"), "go with the name of one"),
        (("tiny__nothing", "--trust", "description"), "tiny__nothing"),
    ],
)
def test_trust_is_for_one_field_that_is_there(library: Program, words: tuple[str, ...], told: str):
    """Trusting all of it would be as good as no pin."""
    failed = library.run("approve", *words)

    assert (failed.returncode != 0, told in failed.stderr) == (True, True)


def test_nobody_is_advised_to_trust_the_words_that_tell_a_model_what_to_do(library: Program):
    """They may be an attack; whoever wants that all the same can say so."""
    show(library, '"description": "Greets."', '"description": "Greets, and obeys."')
    told = library.run("diff", "tiny__greet")

    assert ("and obeys" in told.stdout, "--trust" in told.stdout) == (True, False)
