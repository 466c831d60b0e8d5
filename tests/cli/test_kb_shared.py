"""``kb`` on a shared database: the same commands, and further workers beside the one that adds."""

import json
import os

import pytest
from tests.cli.program import Program
from tests.knowledge.documents import make_pdf


@pytest.fixture
def kb(toolcrib: Program, store_settings) -> Program:
    toolcrib.write(f"[kb]\ndocs = false\n\n[store]\nurl = '{store_settings.url}'\n")
    notes = toolcrib.project / "notes"
    notes.mkdir()
    (notes / "ants.md").write_text("# Ants\n\nAnts carry leaves. They are strong.\n")
    (notes / "bees.md").write_text("# Bees\n\nBees dance to show where flowers are.\n")
    (notes / "paper.pdf").write_bytes(make_pdf("Whales sing.", "Dolphins talk.", title="Sea"))
    for path in notes.iterdir():
        os.utime(path, (1_700_000_000, 1_700_000_000))
    return toolcrib


def answer(program: Program, *words: str):
    result = program.run(*words, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_documents_go_in_are_found_answer_and_leave(kb: Program):
    added = answer(kb, "kb", "add", "notes", "--collection", "animals")
    found = answer(kb, "kb", "search", "dolphins", "-n", "1")["results"]
    asked = kb.run("kb", "ask", "What", "do", "ants", "carry?")
    checked = kb.run("kb", "verify")
    removed = kb.run("kb", "rm", "animals")

    assert (added["added"], added["skipped"], added["vectors_missing"]) == (3, [], None)
    assert [each["title"] for each in found] == ["Sea"]
    assert "Ants carry leaves. [1]" in asked.stdout
    assert "fits together" in checked.stdout
    assert removed.returncode == 0, removed.stderr
    assert answer(kb, "kb", "ls") == []
    assert not list(kb.project.rglob("kb.db"))


def test_what_is_noted_for_later_is_added_by_a_worker(kb: Program):
    noted = answer(kb, "kb", "add", "notes", "--collection", "animals", "--later")
    before = answer(kb, "kb", "search", "dolphins")["results"]
    worked = answer(kb, "kb", "work")
    idle = kb.run("kb", "work")
    written = [each for each in json.loads(kb.run("audit", "search", "--json").stdout) if each["event"] == "kb"]

    assert [(entry["decision"], entry["caller"], entry["details"]) for entry in written] == [
        ("worked", "local", {"collection": "animals", "added": 3, "changed": 0, "skipped": 0})
    ]
    assert noted == {"collection_id": "animals", "waiting": 3}
    assert before == []
    assert (worked["collection_id"], worked["added"], worked["skipped"]) == ("animals", 3, [])
    assert idle.stdout == "Nothing waits to be added.\n"


def test_a_worker_reads_only_below_the_folders_it_was_given(kb: Program):
    answer(kb, "kb", "add", "notes", "--collection", "animals", "--later")
    (kb.project / "elsewhere").mkdir()
    away = kb.run("kb", "work", "--below", "elsewhere")
    wrong = kb.run("kb", "work", "--below", "nowhere")
    worked = answer(kb, "kb", "work", "--below", "elsewhere", "--below", "notes")

    assert "animals: 0 added, 0 changed, 0 skipped here" in away.stdout
    assert "3 sources are left to others." in away.stderr
    assert (wrong.returncode != 0, "There is no folder 'nowhere'." in wrong.stderr) == (True, True)
    assert (worked["added"], worked["left"]) == (3, 0)


def test_without_a_shared_database_there_is_nothing_to_take_part_in(toolcrib: Program):
    toolcrib.write("[kb]\ndocs = false\nembedder = 'none'\n")
    result = toolcrib.run("kb", "work")

    assert result.returncode != 0
    assert "[store] url" in result.stderr
