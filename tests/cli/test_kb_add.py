"""``kb add`` over time: following changes, showing progress, being interrupted."""

import json
import os
import shutil
import signal
import subprocess
from contextlib import contextmanager

import pytest
from tests.cli.keyboard import typed
from tests.cli.program import Program
from tests.fleet.running import until

PLAIN = "[kb]\ndocs = false\nembedder = 'none'\n"


@pytest.fixture
def notes(toolcrib: Program):
    toolcrib.write(PLAIN)
    folder = toolcrib.project / "notes"
    folder.mkdir()
    (folder / "ants.md").write_text("# Ants\n\nAnts carry leaves.\n")
    (folder / "bees.md").write_text("# Bees\n\nBees dance.\n")
    return folder


class Watch:
    """A ``kb add --watch`` under way, and what it said so far."""

    def __init__(self, process, log):
        self.process, self.log = process, log

    def says(self, words: str, times: int = 1):
        until(
            lambda: self.log.read_text().count(words) >= times,
            deadline_s=150,
            what=f"{words!r}: {self.log.read_text()}",
        )

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(150)


@contextmanager
def watching(toolcrib: Program, *words: str):
    log = toolcrib.home / "watch.log"
    with log.open("wb") as file:
        process = toolcrib.start("kb", "add", *words, "--collection", "n", "--watch", stdout=file, stderr=file)
    try:
        watch = Watch(process, log)
        watch.says("Watching for changes")
        yield watch
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def titles(toolcrib: Program) -> set[str]:
    return {entry["title"] for entry in toolcrib.json("kb", "ls", "n")}


def test_changes_are_followed_until_ctrl_c(toolcrib: Program, notes):
    with watching(toolcrib, "notes") as watch:
        watch.says("n: 2 added")
        (notes / "ants.md").write_text("# Ants now\n\nAnts farm mushrooms.\n")
        watch.says("0 added, 1 changed, 0 removed")
        (notes / "cats.md").write_text("# Cats\n\nCats sleep.\n")
        watch.says("1 added, 0 changed, 0 removed")
        (notes / "bees.md").rename(notes / "wasps.md")
        watch.says("1 added, 0 changed, 1 removed")
        (notes / "cats.md").unlink()
        watch.says("0 added, 0 changed, 1 removed")
        code = watch.stop()

    assert code == 0
    assert "Stopped watching" in watch.log.read_text()
    assert "Traceback" not in watch.log.read_text()
    assert {entry["source"].rpartition("/")[2] for entry in toolcrib.json("kb", "ls", "n")} == {"ants.md", "wasps.md"}
    assert toolcrib.json("kb", "verify") == {"ok": True, "problems": []}


def test_a_burst_of_changes_is_taken_in_whole(toolcrib: Program, notes):
    with watching(toolcrib, "notes") as watch:
        for number in range(200):
            (notes / f"burst{number}.md").write_text(f"# Burst {number}\n\nNumber {number}.\n")
        for number in range(0, 200, 2):
            (notes / f"burst{number}.md").write_text(f"# Later {number}\n\nNumber {number} again.\n")
        until(lambda: sum_of(watch, "added") >= 202, deadline_s=150, what=f"all of them: {watch.log.read_text()}")
        (notes / "last.md").write_text("# The last\n\nThe last one.\n")
        until(lambda: sum_of(watch, "added") >= 203, deadline_s=150, what="the last")
        watch.stop()

    expected = {"Ants", "Bees", "The last", *(f"{'Later' if n % 2 == 0 else 'Burst'} {n}" for n in range(200))}
    assert titles(toolcrib) == expected


def sum_of(watch: Watch, what: str) -> int:
    words = [
        part.split() for line in watch.log.read_text().splitlines() for part in line.partition(": ")[2].split(", ")
    ]
    return sum(int(pair[0]) for pair in words if len(pair) == 2 and pair[1] == what)


def test_a_folder_that_goes_away_keeps_its_documents_and_is_taken_up_again(toolcrib: Program, notes):
    with watching(toolcrib, "notes") as watch:
        shutil.move(notes, toolcrib.project / "away")
        watch.says("is not there any more")
        assert titles(toolcrib) == {"Ants", "Bees"}
        (toolcrib.project / "away" / "cats.md").write_text("# Cats\n\nCats sleep.\n")
        shutil.move(toolcrib.project / "away", notes)
        watch.says("1 added")
        assert watch.stop() == 0

    assert watch.log.read_text().count("is not there any more") == 1
    assert titles(toolcrib) == {"Ants", "Bees", "Cats"}


def test_progress_shows_rate_and_time_left_on_a_terminal(toolcrib: Program, notes):
    said, printed = typed(toolcrib, "kb", "add", "notes", "--collection", "n", answers=[])

    assert "█" * 20 + " 2/2 files, " in said
    assert "files/s, 0 s left" in said
    assert printed.startswith("n: 2 added")


def test_there_is_no_bar_beside_json_nor_without_a_terminal(toolcrib: Program, notes):
    said, printed = typed(toolcrib, "kb", "add", "notes", "--collection", "n", "--json", answers=[])
    again = toolcrib.run("kb", "add", "notes", "--collection", "other")

    assert "files/s" not in said
    assert json.loads(printed)["added"] == 2
    assert again.stderr == ""


def test_an_interrupted_addition_keeps_what_was_stored_and_says_how_to_go_on(toolcrib: Program, notes):
    for number in range(1200):
        (notes / f"n{number}.md").write_text(f"# N {number}\n\n" + f"Sentence {number} says something. " * 300)
    os.mkfifo(notes / "zz.md")
    process = toolcrib.start("kb", "add", "notes", "--collection", "n", stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        until(lambda: stored(toolcrib) > 0, deadline_s=150, what="something stored")
        process.send_signal(signal.SIGINT)
        printed, said = process.communicate(timeout=150)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    kept = stored(toolcrib)
    again = toolcrib.json("kb", "add", "notes", "--collection", "n")

    assert (process.returncode, printed) == (130, b"")
    assert b"What was stored stays; the same command goes on from there." in said
    assert 0 < kept < 1202
    assert (again["added"], again["added"] + again["unchanged"] + again["changed"]) == (1202 - kept, 1202)


def stored(toolcrib: Program) -> int:
    import sqlite3

    path = toolcrib.home / "state" / "toolcrib" / "kb.db"
    if not path.exists():
        return 0
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        try:
            return connection.execute("SELECT count(*) FROM document").fetchone()[0]
        except sqlite3.OperationalError:
            return 0
