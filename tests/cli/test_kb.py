"""``kb``: documents go in, are found, quoted, taken out, and carried elsewhere."""

import json
import sqlite3
from contextlib import closing

import pytest
from tests.cli.program import Program
from tests.knowledge.documents import make_pdf

OWN_WORDS = "[kb]\ndocs = false\nembedder = 'none'\n"


@pytest.fixture
def kb(toolcrib: Program) -> Program:
    """A knowledge base with two notes and a paper."""
    toolcrib.write(OWN_WORDS)
    notes = toolcrib.project / "notes"
    notes.mkdir()
    (notes / "ants.md").write_text("# Ants\n\nAnts carry leaves. They are strong.\n")
    (notes / "bees.md").write_text("# Bees\n\nBees dance to show where flowers are.\n")
    (notes / "paper.pdf").write_bytes(make_pdf("Whales sing.", "Dolphins talk.", title="Sea"))
    (notes / "picture.png").write_bytes(b"\x89PNG\0")
    added = toolcrib.run("kb", "add", "notes", "--collection", "animals", "--licence", "CC0", "--json")
    assert added.returncode == 0, added.stderr
    report = json.loads(added.stdout)
    assert (report["added"], len(report["skipped"])) == (3, 1)
    return toolcrib


def answer(program: Program, *words: str):
    result = program.run("kb", *words, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_what_was_added_is_listed_and_counted(kb: Program):
    assert [entry["collection_id"] for entry in answer(kb, "ls")] == ["animals"]
    assert [(entry["title"], entry["type"], entry["license"]) for entry in answer(kb, "ls", "animals")] == [
        ("Ants", "markdown", "CC0"),
        ("Bees", "markdown", "CC0"),
        ("Sea", "pdf", "CC0"),
    ]
    assert answer(kb, "stats")["status"] == "healthy"


def test_a_search_shows_where_the_words_stand(kb: Program):
    shown = kb.run("kb", "search", "dolphins", "-n", "1").stdout
    found = answer(kb, "search", "what", "do", "ants", "carry", "--type", "markdown")

    assert "Dolphins talk." in shown
    assert "paper.pdf, page 1" in shown
    assert found["results"][0]["citation"]["license"] == "CC0"


def test_a_question_is_answered_with_its_sources(kb: Program):
    result = kb.run("kb", "ask", "What", "do", "ants", "carry?")

    assert "Ants carry leaves. [1]" in result.stdout
    assert "[1] " in result.stdout
    assert "ants.md, Ants" in result.stdout
    assert kb.run("kb", "ask", "Who", "built", "Stonehenge?").returncode == 1


def test_a_document_is_printed_whole_or_in_part(kb: Program):
    source = str(kb.project / "notes" / "ants.md")

    assert kb.run("kb", "show", source).stdout.strip() == "# Ants\n\nAnts carry leaves. They are strong."
    assert kb.run("kb", "show", source, "--lines", "3").stdout.strip() == "Ants carry leaves. They are strong."
    assert kb.run("kb", "show", "nothing").returncode == 7
    assert "10-40" in kb.run("kb", "show", source, "--lines", "x").stderr


def test_adding_again_does_only_what_is_needed(kb: Program):
    (kb.project / "notes" / "bees.md").unlink()
    (kb.project / "notes" / "ants.md").write_text("# Ants\n\nAnts farm mushrooms now.\n")
    result = kb.run("kb", "add", "notes", "--collection", "animals")

    assert result.stdout.startswith("animals: 0 added, 1 changed, 1 removed, 1 unchanged, 1 skipped")
    assert "picture.png: it is not text." in result.stderr
    assert answer(kb, "verify") == {"ok": True, "problems": []}


def test_documents_and_collections_leave(kb: Program):
    one = answer(kb, "rm", "animals", "notes/ants.md")
    rest = answer(kb, "rm", "animals")

    assert (one["removed"], rest["removed"]) == (1, 2)
    assert answer(kb, "ls") == []
    assert (kb.project / "notes" / "ants.md").exists()


def test_documents_are_carried_elsewhere(kb: Program):
    kb.run("kb", "export", "animals", "-o", "out.jsonl")
    kb.run("kb", "rm", "animals")
    taken = answer(kb, "import", "out.jsonl")

    assert taken == {"documents": 3, "collection_ids": ["animals"], "vectors_missing": None}
    assert (kb.project / "out.jsonl").stat().st_mode & 0o077 == 0
    assert answer(kb, "search", "dolphins", "-n", "1")["results"][0]["citation"]["license"] == "CC0"


def test_an_export_may_come_from_stdin_and_go_to_stdout(kb: Program):
    exported = kb.run("kb", "export").stdout
    kb.run("kb", "rm", "animals")
    taken = kb.run("kb", "import", "-", stdin=exported)

    assert [json.loads(line).keys() & {"collection", "document"} for line in exported.splitlines()] == [
        {"collection"},
        *([{"document"}] * 3),
    ]
    assert (taken.returncode, taken.stdout) == (0, "3 documents came in.\n")
    assert kb.run("kb", "export").stdout == exported


def test_who_may_not_use_the_tools_cannot_carry_documents_away_nor_bring_any(kb: Program):
    """The commands have no entrance of their own: policies hold, and what was done is in the audit log."""
    kb.run("kb", "export", "-o", "out.jsonl")
    kb.write(OWN_WORDS + "\n[security.policies]\n'kb_export' = 'deny'\n'kb_import' = 'deny'\n")
    denied = [kb.run("kb", "export", "-o", "again.jsonl"), kb.run("kb", "import", "out.jsonl")]
    entries = json.loads(kb.run("audit", "search", "--json").stdout)

    assert [result.returncode for result in denied] == [6, 6]
    assert not (kb.project / "again.jsonl").exists()
    assert {(entry["tool"], entry["outcome"]) for entry in entries} >= {
        ("kb_export", "success"),
        ("kb_export", "TOOL_PERMISSION_DENIED"),
        ("kb_import", "TOOL_PERMISSION_DENIED"),
    }


def test_a_damaged_index_is_noticed_and_made_anew_by_the_tool(kb: Program):
    """The check is maintenance; the repair is a change like any other, and is written down."""
    with closing(sqlite3.connect(kb.home / "state" / "toolcrib" / "kb.db")) as connection, connection:
        connection.execute("UPDATE segment SET bytes = x'00'")
    noticed = kb.run("kb", "verify")
    repaired = kb.run("kb", "verify", "--repair")
    entries = json.loads(kb.run("audit", "search", "--json").stdout)

    assert (noticed.returncode, "animals: " in noticed.stderr) == (1, True)
    assert (repaired.returncode, "Made anew: the index of animals." in repaired.stderr) == (0, True)
    assert ("kb_reindex", "success") in {(entry["tool"], entry["outcome"]) for entry in entries}


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("add", "nowhere"), 7, "There is no file or folder 'nowhere'"),
        (("add", "http://127.0.0.1:1/"), 1, "inside this machine or network"),
        (("search", "x", "--collection", "animal"), 7, "Did you mean 'animals'?"),
        (("add", "notes", "--meta", "x"), 2, "KEY=VALUE"),
        (("import", "nothing.jsonl"), 7, "There is no file"),
        (("import", "notes/ants.md"), 5, "Line 1 is no exported document"),
    ],
)
def test_what_cannot_be_done_is_said_with_what_to_do(kb: Program, words, code, says):
    result = kb.run("kb", *words)

    assert (result.returncode, says in result.stderr) == (code, True), result.stderr
    assert "Traceback" not in result.stderr


def test_names_that_would_play_with_a_terminal_are_shown_harmless(toolcrib: Program):
    toolcrib.write(OWN_WORDS)
    folder = toolcrib.project / "odd"
    folder.mkdir()
    (folder / "red\x1b[31m\nskipped.png").write_bytes(b"\x89PNG\0")
    (folder / "blue\x1b[34m\nants.md").write_text("# An\x1b[5mts\n\nAnts carry leaves.\n")
    said = [
        toolcrib.run("kb", "add", "odd", "--collection", "odd"),
        toolcrib.run("kb", "ls", "odd"),
        toolcrib.run("kb", "search", "leaves"),
        toolcrib.run("kb", "ask", "What do ants carry?"),
    ]

    assert [result.returncode for result in said] == [0, 0, 0, 0]
    assert not any("\x1b" in result.stdout + result.stderr for result in said)
    assert "blue" in said[2].stdout


def test_the_tools_are_listed_once_something_was_added_or_where_they_are_asked_for(toolcrib: Program):
    """toolcrib's own documentation alone costs no model anything."""

    def listed() -> int:
        return sum(entry["name"].startswith("kb_") for entry in json.loads(toolcrib.run("ls", "--json").stdout))

    toolcrib.write("[kb]\nembedder = 'none'\n")
    own = toolcrib.run("kb", "search", "isolation")
    before, why = listed(), toolcrib.run("why", "kb.answer")
    (toolcrib.project / "notes.md").write_text("# Ants\n\nAnts carry leaves.\n")
    toolcrib.run("kb", "add", "notes.md")
    added = listed()
    toolcrib.write(OWN_WORDS + 'expose = "never"\n')
    hidden = listed()
    toolcrib.write("[kb]\nenabled = false\n")

    assert (own.returncode, before, added, hidden, listed()) == (0, 0, 12, 0, 0)
    assert "kb_answer" in why.stdout
    assert "is not listed" in why.stdout
