"""Reading, writing and changing files: exactly what was asked, with everything else as it was."""

import asyncio
import os
import stat

import pytest

from toolcrib.core.errors import InvalidArguments, ToolcribError


async def test_lines_come_with_their_numbers(files):
    assert await files.read({"path": "a.txt"}) == "     1\talpha\n     2\tbeta"


async def test_a_long_file_is_read_in_parts(files, work):
    (work / "long").write_text("".join(f"line {number}\n" for number in range(1, 5001)))
    first = await files.read({"path": "long", "limit": 2})
    last = await files.read({"path": "long", "offset": 4999})
    beyond = await files.read({"path": "long", "offset": 9000})

    assert first == "     1\tline 1\n     2\tline 2\n(lines 1 to 2 of 5000; go on with offset 3)"
    assert last == "  4999\tline 4999\n  5000\tline 5000"
    assert beyond == "(the file has 5000 lines)"


async def test_a_line_without_end_is_cut(files, work):
    (work / "one").write_bytes(b"x" * 3_000_000 + b"\nnext\n")
    shown = await files.read({"path": "one"})

    assert len(shown) < 3000
    assert shown.endswith("     2\tnext")


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("grün\n".encode(), "grün"),
        (b"\xef\xbb\xbfmarked\n", "marked"),
        ("sechzehn\n".encode("utf-16"), "sechzehn"),
        (b"caf\xe9\n", "café"),
        (b"", "(the file is empty)"),
    ],
)
async def test_text_is_read_in_its_own_encoding(files, work, content, shown):
    (work / "text").write_bytes(content)

    assert (await files.read({"path": "text"})).removeprefix("     1\t") == shown


@pytest.mark.parametrize(
    "content", [b"\x7fELF\x02\x01\0\0", b"\x89PNG\r\n\x1a\n\0\0\0", bytes(range(32)) * 9 + b"\xff"]
)
async def test_what_is_not_text_is_not_shown(files, work, content):
    (work / "binary").write_bytes(content)

    with pytest.raises(InvalidArguments, match="is not text"):
        await files.read({"path": "binary"})
    with pytest.raises(InvalidArguments, match="is not text"):
        await files.edit({"path": "binary", "old_text": "E", "new_text": "e"})


async def test_a_missing_file_is_told_with_its_nearest_neighbour(files):
    with pytest.raises(InvalidArguments, match=r"There is no 'src/c\.py'\. Did you mean 'b\.py'\?"):
        await files.read({"path": "src/c.py"})


async def test_a_new_file_comes_with_its_directories(files, work):
    done = await files.write({"path": "x/y/z.txt", "content": "one\ntwo\n"})

    assert (work / "x" / "y" / "z.txt").read_text() == "one\ntwo\n"
    assert done.text == "x/y/z.txt: created, 2 lines added, 0 removed, 8 bytes now."
    assert done.structured["outcome"] == "created"


async def test_an_edit_tells_what_it_changed(files):
    done = await files.edit({"path": "src/b.py", "old_text": "return 1", "new_text": "return 2"})

    assert done.structured["diff"] == (
        "--- a/src/b.py\n+++ b/src/b.py\n@@ -2,4 +2,4 @@\n \n \n def main():\n-    return 1\n+    return 2\n"
    )
    assert (done.structured["added"], done.structured["removed"]) == (1, 1)


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o755])
async def test_a_changed_file_keeps_its_mode(files, work, mode):
    (work / "a.txt").chmod(mode)
    await files.edit({"path": "a.txt", "old_text": "alpha", "new_text": "omega"})
    await files.write({"path": "a.txt", "content": "all new"})

    assert stat.S_IMODE((work / "a.txt").stat().st_mode) == mode


async def test_another_name_of_the_same_file_keeps_the_old_content(files, work, outside):
    """A file is replaced, not written into: a hard link to something outside does not carry a change there."""
    os.link(outside / "secret.txt", work / "hard")
    await files.write({"path": "hard", "content": "pwned"})

    assert "pwned" not in (outside / "secret.txt").read_text()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"one\r\ntwo\r\nthree\r\n", b"one\r\n2\r\n2b\r\nthree\r\n"),
        (b"\xef\xbb\xbfone\ntwo\n", b"\xef\xbb\xbfone\n2\n2b\n"),
        ("\ufeffone\ntwo\n".encode("utf-16-le"), "\ufeffone\n2\n2b\n".encode("utf-16-le")),
        (b"caf\xe9\ntwo\n", b"caf\xe9\n2\n2b\n"),
        (b"one\ntwo", b"one\n2\n2b"),
        (b"a\x0cb\ntwo\n", b"a\x0cb\n2\n2b\n"),
    ],
)  # fmt: skip
async def test_encoding_and_line_ends_stay_as_they_are(files, work, before, after):
    (work / "text").write_bytes(before)
    await files.edit({"path": "text", "old_text": "two", "new_text": "2\n2b"})

    assert (work / "text").read_bytes() == after


async def test_old_text_of_several_lines_is_found_in_a_file_from_windows(files, work):
    (work / "text").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    await files.edit({"path": "text", "old_text": "one\ntwo\n", "new_text": "1\n2\n"})

    assert (work / "text").read_bytes() == b"1\r\n2\r\nthree\r\n"


async def test_a_character_the_file_cannot_hold_changes_nothing(files, work):
    (work / "text").write_bytes(b"caf\xe9\n")

    with pytest.raises(InvalidArguments, match="which has no '🌍'"):
        await files.edit({"path": "text", "old_text": "caf", "new_text": "🌍"})
    assert (work / "text").read_bytes() == b"caf\xe9\n"


@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        ({"old_text": "a", "new_text": "b"}, "is there 3 times, not 1: at line 1, 1, 2"),
        ({"old_text": "a", "new_text": "b", "count": 2}, "is there 3 times, not 2"),
        ({"old_text": "alhpa", "new_text": "b"}, r"The nearest lines are:\n     1\talpha"),
        ({"old_text": "  alpha\n\tbeta", "new_text": "b"}, "Lines 1 to 2 differ from it only in white space"),
        ({"old_text": "quite something else", "new_text": "b"}, "Nothing like it is there"),
        ({"old_text": "alpha", "new_text": "alpha"}, "are the same"),
    ],
)
async def test_an_edit_that_does_not_fit_changes_nothing_and_shows_what_is_there(files, work, edit, complaint):
    with pytest.raises(InvalidArguments, match=complaint):
        await files.edit({"path": "a.txt"} | edit)
    assert (work / "a.txt").read_text() == "alpha\nbeta\n"


async def test_all_places_change_at_once_if_that_is_meant(files, work):
    await files.edit({"path": "a.txt", "old_text": "a", "new_text": "A", "count": 3})
    await files.edit({"path": "a.txt", "old_text": "A", "new_text": "aa", "all": True})

    assert (work / "a.txt").read_text() == "aalphaa\nbetaa\n"


async def test_a_file_that_must_not_be_there_is_not_replaced(files, work):
    with pytest.raises(InvalidArguments, match="is there already"):
        await files.write({"path": "a.txt", "content": "x", "overwrite": False})
    assert (work / "a.txt").read_text() == "alpha\nbeta\n"


async def test_edits_at_the_same_time_are_all_kept(files, work):
    (work / "many").write_text("".join(f"<{number}>\n" for number in range(20)))
    edits = [{"path": "many", "old_text": f"<{n}>", "new_text": f"[{n}]"} for n in range(20)]
    await asyncio.gather(*(files.edit(edit) for edit in edits))

    assert (work / "many").read_text() == "".join(f"[{number}]\n" for number in range(20))
    assert not list(work.glob(".toolcrib-*"))


async def test_whoever_reads_meanwhile_sees_the_old_or_the_new_file(files, work):
    texts = ["a" * 200_000, "b" * 200_000]
    (work / "big").write_text(texts[0])
    seen = set()

    async def write():
        for number in range(10):
            await files.write({"path": "big", "content": texts[number % 2]})

    writing = asyncio.create_task(write())
    while not writing.done():
        seen.add(await asyncio.to_thread((work / "big").read_text))
        await asyncio.sleep(0)
    await writing

    assert seen <= set(texts)


async def test_a_directory_is_no_file(files):
    for use in (files.read({"path": "src"}), files.write({"path": "src", "content": ""}), files.read({"path": "."})):
        with pytest.raises(ToolcribError, match="is a directory"):
            await use
