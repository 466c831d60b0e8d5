"""Foreign files are parsed in workers of their own: what breaks one harms nothing else."""

import asyncio
import os
import signal

import pytest
from tests.knowledge.conftest import Base
from tests.knowledge.documents import make_docx, make_pdf, paragraph

from toolcrib.core.errors import UnreadableSource
from toolcrib.isolate.levels import MIB, ResourceLimits
from toolcrib.knowledge.parse.reading import LIMITS, Parsers


async def test_foreign_files_become_documents_with_pages_and_headings(workers, base, tmp_path):
    base = Base(tmp_path / "other.db", None, Parsers(workers))
    root = tmp_path / "files"
    root.mkdir()
    (root / "paper.pdf").write_bytes(make_pdf("Ants carry leaves.", "Bees dance.", title="A paper"))
    (root / "report.docx").write_bytes(make_docx(paragraph("Top", "Heading1") + paragraph("Cats sleep.")))
    (root / "page.html").write_bytes(b"<title>A page</title><h1>Birds</h1><p>Birds sing.</p>")
    (root / "mail.eml").write_bytes(b"From: a@example.org\nSubject: Fish\n\nFish swim.\n")
    report = await base.add(root)
    found = {each.document.type: each for each in (await base.search("ants bees cats birds fish")).passages}
    await base.store.close()

    assert (report.added, report.skipped) == (4, [])
    assert set(found) == {"pdf", "docx", "html", "email"}
    assert (found["pdf"].passage.place.page, found["pdf"].document.title) == (1, "A paper")
    assert found["docx"].passage.place.headings == ("Top",)


async def test_a_parser_that_takes_too_much_memory_or_time_is_ended(workers):
    hungry = Parsers(workers, ResourceLimits(memory_bytes=150 * MIB, cpu_s=LIMITS.cpu_s))
    slow = Parsers(workers, ResourceLimits(memory_bytes=768 * MIB, cpu_s=1))
    endless = b"<div><i>x</i></div>" * 3_000_000

    with pytest.raises(UnreadableSource, match=r"memory|broke|cannot be parsed"):
        await hungry("html", endless)
    with pytest.raises(UnreadableSource, match=r"time|memory|broke"):
        await slow("html", endless)


async def test_one_worker_parses_many_files_and_a_new_one_follows_a_failure(workers):
    parsers = Parsers(workers, ResourceLimits(memory_bytes=150 * MIB, cpu_s=LIMITS.cpu_s))
    pages = [b"<title>%d</title><p>Birds sing.</p>" % number for number in range(5)]
    titles = [(await parsers("html", page)).title for page in pages]
    (worker,) = parsers._idle
    calls = worker.calls
    with pytest.raises(UnreadableSource):
        await parsers("html", b"<div><i>x</i></div>" * 3_000_000)
    again = (await parsers("html", pages[0])).title
    parsers.close()

    assert (titles, again) == (["0", "1", "2", "3", "4"], "0")
    assert calls == 5


async def test_a_worker_that_was_killed_while_it_waited_costs_no_file(workers):
    """As by a machine that ran out of memory."""
    parsers = Parsers(workers)
    await parsers("html", b"<title>0</title><p>Birds sing.</p>")
    (worker,) = parsers._idle
    os.kill(worker._process.pid, signal.SIGKILL)
    async with asyncio.timeout(150):
        while not worker.has_ended:
            await asyncio.sleep(0.01)
    again = await parsers("html", b"<title>1</title><p>Birds sing.</p>")
    parsers.close()

    assert again.title == "1"
