"""``toolcrib exam``: the marks, the misses, and what scripts make of them."""

import json

ECHO = '{"query": "give my arguments back as JSON", "tools": ["tiny__echo"]}\n'
LOST = '{"query": "translate a poem about squirrels", "tools": ["tiny__hang"]}\n'


def test_questions_are_graded_against_the_catalogue(tiny):
    """All well: exit code 0."""
    (tiny.project / "q.jsonl").write_text(ECHO)

    result = tiny.run("exam", "q.jsonl", "--min-recall5", "0.8")

    assert (result.returncode, result.stdout) == (0, "1 question: recall@1 1.00, recall@5 1.00, recall@10 1.00\n")


def test_below_the_mark_the_exit_code_is_1_and_the_winners_are_named(tiny):
    """A question no tool answers."""
    result = tiny.run("exam", "-", "--min-recall5", "0.8", "--json", stdin=ECHO + LOST)
    told = json.loads(result.stdout)

    assert (result.returncode, told["passed"], told["recall5"]) == (1, False, 0.5)
    assert [(miss["line"], miss["expected"], miss["ranks"]) for miss in told["misses"]] == [
        (2, [["tiny__hang"]], [None])
    ]
    assert "tiny__hang" not in told["misses"][0]["won"]


def test_people_see_the_misses(tiny):
    """With what was found instead."""
    result = tiny.run("exam", "-", stdin=LOST)

    assert result.returncode == 0
    assert "missed line 1: translate a poem about squirrels" in result.stdout
    assert "expected tiny__hang: not among the first 10" in result.stdout


def test_a_tool_that_does_not_exist_is_an_error_with_the_nearest_name(tiny):
    """A misspelt exam proves nothing."""
    result = tiny.run("exam", "-", stdin='{"query": "x", "tools": ["tiny__ekho"]}')

    assert result.returncode == 2
    assert "Did you mean 'tiny__echo'" in result.stderr


def test_starters_are_written_once_and_pass(tiny):
    """A file that is there stays as it is, unless told otherwise."""
    first = tiny.run("exam", "--generate", "q.jsonl")
    passed = tiny.run("exam", "q.jsonl", "--min-recall5", "1")
    (tiny.project / "q.jsonl").write_text("mine")
    again = tiny.run("exam", "--generate", "q.jsonl")
    kept = (tiny.project / "q.jsonl").read_text()
    forced = tiny.run("exam", "--generate", "q.jsonl", "--force")

    assert (first.returncode, passed.returncode, again.returncode, forced.returncode) == (0, 0, 2, 0)
    assert kept == "mine"
    assert "--force" in again.stderr
    assert "tiny__echo" in (tiny.project / "q.jsonl").read_text()


def test_a_file_that_is_not_there_is_told_with_the_way_to_one(tiny):
    """Exit code 7, as for everything that does not exist."""
    result = tiny.run("exam", "q.jsonl")

    assert (result.returncode, "toolcrib exam --generate q.jsonl" in result.stderr) == (7, True)
