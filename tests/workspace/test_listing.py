"""What there is, and where: listings and patterns."""

import os

import msgspec
import pytest

from toolcrib.core.globs import read_glob


async def test_a_directory_is_listed_with_sizes_and_links(lists, work):
    (work / "link").symlink_to("a.txt")
    (work / ".hidden").write_text("")
    listed = await lists.list_directory({})

    assert listed.text == "a.txt  11\nlink -> a.txt\nsrc/"
    assert [entry["kind"] for entry in listed.structured["entries"]] == ["file", "link", "directory"]


async def test_a_listing_goes_as_deep_as_asked(lists):
    assert (await lists.list_directory({"depth": 2})).text == "a.txt  11\nsrc/\nsrc/b.py  37"


async def test_a_long_listing_says_that_it_is_cut(lists, work):
    for number in range(20):
        (work / f"{number:02}").write_text("")
    listed = await lists.list_directory({"limit": 5})

    assert listed.structured["cut"] is True
    assert "only the first 5" in listed.text


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("*.py", ["src/b.py", "src/deep/c.py"]),
        ("src/*.py", ["src/b.py"]),
        ("src/**/*.py", ["src/b.py", "src/deep/c.py"]),
        ("**/deep/*", ["src/deep/c.py", "src/deep/d.ts"]),
        ("*.{py,ts}", ["src/b.py", "src/deep/c.py", "src/deep/d.ts"]),
        ("./a.txt", ["a.txt"]),
        ("[ab].*", ["a.txt", "src/b.py"]),
        ("nothing", []),
    ],
)
async def test_files_are_found_by_a_pattern(lists, work, pattern, paths):
    (work / "src" / "deep").mkdir()
    (work / "src" / "deep" / "c.py").write_text("")
    (work / "src" / "deep" / "d.ts").write_text("")

    assert (await lists.find({"pattern": pattern})).structured["paths"] == paths


async def test_a_pattern_counts_from_where_the_search_begins(lists):
    found = await lists.find({"pattern": "./*.py", "path": "src"})

    assert found.structured["paths"] == ["src/b.py"]


async def test_what_git_leaves_out_is_left_out_unless_asked_for(lists, work):
    (work / ".gitignore").write_text("*.log\nout/\n!keep.log\n")
    (work / "out").mkdir()
    for name in ("x.log", "keep.log", "out/y.txt", "src/z.log"):
        (work / name).write_text("")
    usual = await lists.find({"pattern": "**"})
    below = await lists.find({"pattern": "**", "path": "src"})
    every = await lists.find({"pattern": "*.log", "ignored": True})

    assert usual.structured["paths"] == ["a.txt", "keep.log", "src/b.py"]
    assert below.structured["paths"] == ["src/b.py"]
    assert every.structured["paths"] == ["keep.log", "src/z.log", "x.log"]


@pytest.mark.timeout(5)
def test_no_pattern_takes_long():
    glob = read_glob("*a" * 100 + "/**/" * 50 + "b")

    assert not glob.matches("/".join(["a" * 200] * 60))
    assert len(read_glob("{a,b}" * 30).alternatives) <= 64


async def test_a_name_that_is_no_text_is_shown_as_far_as_it_is(lists, search, work):
    (work / os.fsdecode(b"odd-\xff.txt")).write_text("alpha")
    listed = await lists.list_directory({})
    found = await lists.find({"pattern": "odd*"})
    searched = await search.search({"pattern": "alpha"})

    assert "odd-?.txt  5" in msgspec.json.encode(listed.mcp).decode()
    assert found.structured["paths"] == ["odd-?.txt"]
    assert searched.structured["files"] == ["a.txt"]
