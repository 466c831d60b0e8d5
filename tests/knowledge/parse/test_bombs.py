"""Files made to hurt: each is told within its limits, nothing of it is kept, and the others of the folder go in."""

import codecs
import os
import zipfile
import zlib
from io import BytesIO

import pytest
from tests.knowledge.conftest import Base
from tests.knowledge.documents import laughing_docx, make_docx, make_pdf, paragraph, zip_bomb

from toolcrib.knowledge.parse.reading import Parsers
from toolcrib.knowledge.survey import Adding, SourceRoot

GIB = 1 << 30


def zeros(size: int) -> bytes:
    """So many zeros, deflated; the blocks are whole, so that one can be repeated."""
    packer = zlib.compressobj(9)
    block = 1 << 24
    first = packer.compress(b"\0" * block) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(b"\0" * block) + packer.flush(zlib.Z_FULL_FLUSH)
    return first + again * (size // block - 1) + packer.flush()


def pdf_with_stream(filters: bytes, packed: bytes) -> bytes:
    """A PDF whose only page has this stream."""
    plain = make_pdf("x")
    start, end = plain.index(b"<< /Length"), plain.index(b"endstream")
    head = b"<< /Length %d /Filter %b >>\nstream\n" % (len(packed), filters)
    return plain[:start] + head + packed + b"\n" + plain[end:]


def docx_with(name: str, content: bytes) -> bytes:
    """A Word document one part of which is this."""
    out = BytesIO(make_docx(paragraph("Fine.")))
    with zipfile.ZipFile(out, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return out.getvalue()


STEALING = b'<?xml version="1.0"?><!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd">]><d>&x;</d>'

BOMBS = {
    "zip.docx": zip_bomb,
    "styles.docx": lambda: docx_with("word/styles.xml", b" " * 70_000_000),
    "laughs.docx": laughing_docx,
    "stealing.docx": lambda: docx_with("docProps/core.xml", STEALING),
    "torn.docx": lambda: make_docx(paragraph("x"))[:-40],
    "stream.pdf": lambda: pdf_with_stream(b"/FlateDecode", zeros(GIB)),
    "twice.pdf": lambda: pdf_with_stream(b"[/FlateDecode /FlateDecode]", zlib.compress(zeros(GIB), 9)),
    "nested.pdf": lambda: make_pdf("x").replace(b"[0 0 612 792]", b"[" * 1_000_000),
    "loop.pdf": lambda: make_pdf("x").replace(b"/Kids [5 0 R]", b"/Kids [2 0 R]"),
    "noise.pdf": lambda: b"%PDF-1.7\n" + os.urandom(2000),
    "deep.html": lambda: b"<div>" * 1_000_000,
    "closed.html": lambda: b"<div>" * 300_000 + b"deep" + b"</div>" * 300_000,
    "utf16.txt": lambda: "no mark at all".encode("utf-16-le"),
    "nuls.txt": lambda: b"a\0b\0" * 100,
    "named.pdf": lambda: b"this is no PDF",
    "archive.zip": zip_bomb,
}


async def test_each_bomb_is_told_and_leaves_no_trace(workers, tmp_path):
    base = Base(tmp_path / "kb.db", None, Parsers(workers))
    root = tmp_path / "files"
    root.mkdir()
    (root / "before.md").write_text("Ants carry leaves.")
    await base.add(root)
    for name, make in BOMBS.items():
        (root / name).write_bytes(make())
    with (root / "line.txt").open("wb") as file:
        file.truncate(100_000_000)
    (root / "later.md").write_text("Bees dance.")
    report = await base.add(root)
    sources = {document.source.rpartition("/")[2] for document in await base.store.documents("notes")}
    found = await base.found("ants bees root daemon")
    problems = await base.store.verify()
    await base.store.close()

    told = {skipped.source.rpartition("/")[2]: skipped.reason for skipped in report.skipped}
    assert set(told) == {*BOMBS, "line.txt"}
    assert all(0 < len(reason) < 300 for reason in told.values())
    assert (told["line.txt"], told["archive.zip"]) == ("it has 100 MB, the limit is 16 MB", "it is an archive")
    assert "nested" in told["deep.html"]
    assert "entities" in told["laughs.docx"]
    assert "entities" in told["stealing.docx"]
    assert (sources, sorted(found), problems) == ({"before.md", "later.md"}, ["before.md", "later.md"], [])


async def test_a_page_larger_than_any_paper_is_only_read(workers):
    parsed = await Parsers(workers)(
        "pdf", make_pdf("Whales sing.").replace(b"[0 0 612 792]", b"[0 0 99999999 99999999]")
    )

    assert "Whales sing." in parsed.text


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("mark.txt", codecs.BOM_UTF16_LE + "whales sing".encode("utf-16-le"), "whales sing"),
        ("mixed.txt", "whäles ".encode() + "sing Äpfel".encode("cp1252"), "sing"),
        ("late-nul.txt", b"whales sing " * 1000 + b"\0 dolphins", "dolphins"),
        ("surrogate.txt", b"whales \xed\xa0\x80 sing", "whales sing"),
        ("surrogate.json", b'{"a": "whales \\ud800 sing"}', "whales sing"),
        ("surrogate.csv", b"a,b\nwhales,\xed\xbf\xbf sing\n", "whales sing"),
        ("one-line.txt", b"whales " + b"x" * 1_000_000 + b" sing", "whales"),
        ("bell.md", b"# Whales \x07\x1b[31m\n\nsing", "whales sing"),
        ("new\nline\x1b[2J.md", b"whales sing", "whales sing"),
        ("\u202egnp.md", b"whales sing", "whales sing"),
    ],
)
async def test_odd_texts_and_names_go_in_and_are_found(base, tmp_path, name, content, words):
    root = tmp_path / "odd"
    root.mkdir()
    (root / name).write_bytes(content)
    report = await base.add(root)
    found = (await base.search(words)).passages

    assert (report.added, report.skipped) == (1, [])
    assert found[0].document.source.endswith(name)
    found[0].text.encode()
    assert await base.store.verify() == []


async def test_a_folder_swapped_for_a_link_during_the_walk_gives_nothing_away(base, tmp_path):
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "a").mkdir(parents=True)
    (root / "b").mkdir()
    outside.mkdir()
    (root / "a" / "one.md").write_text("Ants carry leaves.")
    (root / "b" / "two.md").write_text("Bees dance.")
    (outside / "two.md").write_text("The secret word is xyzzy.")
    plain_take = base.ingest._take

    def swap_then_take(candidate, *rest):
        if candidate.name == "one.md":
            (root / "b").rename(tmp_path / "moved")
            (root / "b").symlink_to(outside)
        return plain_take(candidate, *rest)

    base.ingest._take = swap_then_take
    report = await base.ingest.add([SourceRoot(root)], Adding("notes"))

    assert report.added == 1 + (len(report.skipped) == 0)
    assert all(skipped.reason == "it is a link" for skipped in report.skipped)
    assert not any("xyzzy" in found.text for found in (await base.search("secret word xyzzy")).passages)
