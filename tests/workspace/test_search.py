"""Searching: ripgrep and Python find the same, whatever is asked."""

import pytest

from toolcrib.core.errors import InvalidArguments
from toolcrib.workspace.root import WorkspaceRoot
from toolcrib.workspace.scan import perform
from toolcrib.workspace.search import SearchTools, find_ripgrep, scan_in

FILES = {
    "a.txt": "Alpha beta\nGAMMA delta 42\n\nend\n",
    "src/main.py": "def main():\n    return 'Grüße'\n\n\nclass Main:\n    x = [1, 2]\n    y = a.b(c)\n",
    "src/deep/data.csv": "id;name\n1;alpha\n2;beta\n",
    "windows.txt": "first line\r\nsecond alpha\r\n",
    "no_end": "alpha without end",
    ".hidden": "alpha hidden\n",
    "skipped.log": "alpha skipped\n",
    ".gitignore": "*.log\n",
    "wide.txt": "\ufeffalpha wide\n",
    "-dash.txt": "alpha dash\n",
    "with space.txt": "alpha space\n",
}

QUESTIONS = {
    "word": {"pattern": "alpha"},
    "any_case": {"pattern": "ALPHA", "ignore_case": True},
    "literal": {"pattern": "a.b(c)", "literal": True},
    "regex": {"pattern": r"\b\w+\(\)"},
    "digits": {"pattern": r"\d{2}"},
    "begin": {"pattern": "^alpha"},
    "end": {"pattern": "alpha$"},
    "empty_line": {"pattern": "^$"},
    "unicode": {"pattern": "Gr.ße"},
    "unicode_case": {"pattern": "GRÜßE", "ignore_case": True},
    "class": {"pattern": "[[:upper:]]{3}"},
    "set": {"pattern": r"[\[;]"},
    "named": {"pattern": "(?<first>be)ta"},
    "choice": {"pattern": "beta|end"},
    "glob": {"pattern": "alpha", "glob": "*.{csv,txt}"},
    "below": {"pattern": "alpha", "path": "src"},
    "one_file": {"pattern": "alpha", "path": "src/deep/data.csv"},
    "hidden": {"pattern": "alpha", "hidden": True},
    "ignored": {"pattern": "alpha", "ignored": True},
    "context": {"pattern": "class", "context": 2},
    "files": {"pattern": "alpha", "files_only": True},
    "few": {"pattern": "a", "limit": 3},
    "nothing": {"pattern": "not to be found"},
    "hopeless": {"pattern": "(a|a)*b|(x+x+)+y"},
}


@pytest.fixture
def corpus(work):
    (work / "a.txt").unlink()
    (work / "src" / "b.py").unlink()
    for name, text in FILES.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_bytes(text.encode())
    (work / "utf16.txt").write_bytes("one\nalpha sixteen\n".encode("utf-16"))
    (work / "latin.txt").write_bytes(b"caf\xe9 alpha\n")
    (work / "binary.bin").write_bytes(b"alpha\0\0\0alpha\n")
    (work / "late.bin").write_bytes(b"x\n" * 9000 + b"alpha\0\n")
    return work


@pytest.fixture
def engines(corpus, programs, workers):
    root = WorkspaceRoot(corpus)

    async def scan_here(given):
        return perform(given)

    return {
        "python": SearchTools(root, programs, scan_here, may_use_ripgrep=False),
        "worker": SearchTools(root, programs, scan_in(workers), may_use_ripgrep=False, timeout_s=4.0),
        "ripgrep": SearchTools(root, programs, scan_here),
    }


async def test_both_engines_find_the_same(engines):
    found = {
        engine: {name: (await tools.search(question)).mcp for name, question in QUESTIONS.items()}
        for engine, tools in engines.items()
        if engine != "worker"
    }

    assert found["python"] == found["ripgrep"]
    assert [(m["path"], m["line"]) for m in found["python"]["word"]["structuredContent"]["matches"]] == [
        ("-dash.txt", 1), ("late.bin", 9001), ("latin.txt", 1), ("no_end", 1), ("src/deep/data.csv", 2),
        ("utf16.txt", 2), ("wide.txt", 1), ("windows.txt", 2), ("with space.txt", 1),
    ]  # fmt: skip
    assert found["python"]["context"]["content"][0]["text"] == (
        "src/main.py\n3-\n4-\n5:class Main:\n6-    x = [1, 2]\n7-    y = a.b(c)"
    )
    assert found["python"]["few"]["structuredContent"]["cut"] is True
    assert found["python"]["nothing"]["content"][0]["text"] == "(no match)"
    assert len(found["python"]["hopeless"]["structuredContent"]["matches"]) > 0


@pytest.mark.parametrize(
    "pattern", ["(?=a)", "(?<!a)b", r"(a)\1", "(?P=x)", "a*+", "(?>a)", r"\p{L}", "(", "a{2,1}", "[z-a]"]
)
async def test_what_not_every_engine_knows_is_refused_by_both(engines, pattern):
    for tools in engines.values():
        with pytest.raises(InvalidArguments, match="The pattern"):
            await tools.search({"pattern": pattern})


async def test_a_pattern_that_never_ends_is_ended(engines, corpus):
    """ripgrep does not mind; Python would take longer than the world is old."""
    (corpus / "trap.txt").write_text("a" * 60 + "!\n")
    question = {"pattern": "(a+)+$", "path": "trap.txt"}
    quick = await engines["ripgrep"].search(question)

    assert quick.structured["matches"] == []
    with pytest.raises(Exception, match="took longer than 4 s"):
        await engines["worker"].search(question)


def test_a_ripgrep_in_the_workspace_is_not_run(work):
    (work / "rg").write_text("#!/bin/sh\necho pwned\n")
    (work / "rg").chmod(0o755)

    assert find_ripgrep(str(work), WorkspaceRoot(work)) is None
    assert find_ripgrep("", WorkspaceRoot(work)) is None
