"""Pages of a real server on this machine; that it is on this machine is allowed where a test says so."""

import asyncio

import pytest

from toolcrib.core.errors import UnreadableSource
from toolcrib.knowledge.ingest import Ingest
from toolcrib.knowledge.survey import Adding, Page, fetch

PAGES = {
    "/guide.md": (b"200 OK", b"content-type: text/markdown", b"# Guide\n\nAnts carry leaves."),
    "/old": (b"302 Found", b"location: /guide.md", b""),
    "/round": (b"302 Found", b"location: /round", b""),
    "/inside": (b"302 Found", b"location: http://169.254.169.254/latest/", b""),
    "/gone": (b"410 Gone", b"x: y", b""),
}


@pytest.fixture
async def site():
    async def serve(reader, writer):
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
        status, header, body = PAGES[path]
        writer.write(b"HTTP/1.1 %b\r\n%b\r\ncontent-length: %d\r\n\r\n%b" % (status, header, len(body), body))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def is_this_machine(address):
    return address == "127.0.0.1"


async def test_a_page_becomes_a_document_and_is_not_indexed_twice(site, base):
    async def from_here(page):
        return await fetch(page, is_this_machine)

    ingest = Ingest(base.store, base.embedder, None, from_here)
    first = await ingest.add([], Adding("notes"), pages=[Page(f"{site}/guide.md")])
    again = await ingest.add([], Adding("notes"), pages=[Page(f"{site}/guide.md")])
    (document,) = await base.store.documents("notes")

    assert (first.added, again.added, again.unchanged) == (1, 0, 1)
    assert (document.source, document.title, document.type) == (f"{site}/guide.md", "Guide", "markdown")


async def test_redirects_are_followed_while_they_lead_somewhere(site):
    assert (await fetch(Page(f"{site}/old"), is_this_machine)).bytes == PAGES["/guide.md"][2]


@pytest.mark.parametrize(
    ("path", "reason"),
    [("/round", "redirects more than"), ("/inside", "inside this machine or network"), ("/gone", "answered 410")],
)
async def test_what_cannot_be_had_is_told(site, path, reason):
    with pytest.raises(UnreadableSource, match=reason):
        await fetch(Page(site + path), is_this_machine)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]"])
async def test_this_machine_is_not_read_however_it_is_written(site, host):
    url = site.replace("127.0.0.1", host) + "/guide.md"

    with pytest.raises(UnreadableSource):
        await fetch(Page(url))
