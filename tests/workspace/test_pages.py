"""Pages from a real server on this machine, and every way to trick the tool into reaching where it must not."""

import asyncio
import socket

import pytest

from toolcrib.core.errors import ToolcribError
from toolcrib.transports.http.fetch import FetchLimits, is_public
from toolcrib.workspace.pages import PageTools, markdown_in, to_markdown

HTML = b"""<!doctype html><html><head><title>A page</title><script>var x = "<p>no</p>"</script></head><body>
<nav>Menu</nav><h1>Ants &amp; leaves</h1><p>They <b>carry</b> <a href="/more">leaves</a>.<br>All day.</p>
<ul><li>one<li>two<ul><li>deep</ul></ul><ol><li>first</li><li>second</li></ol>
<pre>  code &lt;here&gt;
    kept</pre><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2 | 3</td></tr></table></body></html>"""
MARKDOWN = """# A page

# Ants & leaves

They **carry** [leaves](http://x/more).
All day.

- one
- two
  - deep

1. first
2. second

```
  code <here>
    kept
```

| a | b |
| --- | --- |
| 1 | 2 \\| 3 |"""
PAGES = {
    "/page": (b"200 OK", b"content-type: text/html; charset=utf-8", HTML),
    "/plain": (b"200 OK", b"content-type: text/plain; charset=latin-1", b"caf\xe9"),
    "/json": (b"200 OK", b"content-type: application/json", b'{"a": 1}'),
    "/image": (b"200 OK", b"content-type: image/png", b"\x89PNG"),
    "/bytes": (b"200 OK", b"x: y", b"\0\1\2"),
    "/long": (b"200 OK", b"content-type: text/plain", b"0123456789" * 1000),
    "/huge": (b"200 OK", b"content-type: text/plain", b"x" * 200_000),
    "/old": (b"302 Found", b"location: /plain", b""),
    "/round": (b"302 Found", b"location: /round", b""),
    "/nowhere": (b"302 Found", b"x: y", b""),
    "/gone": (b"410 Gone", b"x: y", b""),
}


class Site:
    """A server that counts who comes, by whichever address of this machine."""

    def __init__(self, pages):
        self.pages, self.hits, self.never = pages, [], asyncio.Event()

    async def serve(self, reader, writer):
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
        self.hits.append(path)
        if path == "/slow":
            await self.never.wait()
        status, header, body = self.pages.get(path, (b"200 OK", b"content-type: text/plain", b"canary-7f3a"))
        writer.write(b"HTTP/1.1 %b\r\n%b\r\ncontent-length: %d\r\n\r\n%b" % (status, header, len(body), body))
        await writer.drain()
        writer.close()


async def here(html, url):
    return to_markdown(html, url)


@pytest.fixture
async def site():
    made = Site(dict(PAGES))
    server = await asyncio.start_server(made.serve, "0.0.0.0", 0)
    made.port = server.sockets[0].getsockname()[1]
    other = await asyncio.start_server(made.serve, "::", made.port)
    made.url = f"http://127.0.0.1:{made.port}"
    yield made
    made.never.set()
    server.close()
    other.close()


@pytest.fixture
def pages():
    """The tool, allowed to reach this machine by one of its addresses."""
    return PageTools(FetchLimits(100_000, 5.0, lambda address: address == "127.0.0.1"), here)


@pytest.fixture
def guarded():
    """The tool as it is."""
    return PageTools(FetchLimits(100_000, 3.0), here)


async def test_a_page_is_read_as_markdown(site, pages):
    found = await pages.fetch({"url": f"{site.url}/page"})

    assert found.structured["text"] == MARKDOWN.replace("http://x", site.url)


async def test_a_page_is_read_in_a_process_of_its_own(workers):
    assert await markdown_in(workers)(HTML.decode(), "http://x/") == MARKDOWN


@pytest.mark.parametrize(("path", "text"), [("/plain", "café"), ("/json", '{"a": 1}'), ("/old", "café")])
async def test_text_is_shown_as_it_is(site, pages, path, text):
    assert (await pages.fetch({"url": site.url + path})).structured["text"] == text


@pytest.mark.parametrize("charset", [b"punycode", b"idna", b"undefined", b"unicode_escape", b"zip", b"no-such"])
async def test_a_page_cannot_choose_a_codec_that_is_no_character_set(site, pages, charset):
    """Some of them fail or read something else, and one takes hours for a page of a few megabytes."""
    body = b"\\x41" + b"a" * 40_000 + b"-" + b"b" * 40_000
    site.pages["/odd"] = (b"200 OK", b"content-type: text/plain; charset=" + charset, body)

    assert (await pages.fetch({"url": f"{site.url}/odd", "limit": 5})).structured["text"] == "\\x41a"


async def test_a_long_page_is_read_in_parts(site, pages):
    first = await pages.fetch({"url": f"{site.url}/long", "limit": 100})
    last = await pages.fetch({"url": f"{site.url}/long", "offset": 9990})

    assert first.text.endswith("(9900 more characters; go on with offset 100)")
    assert (last.structured["text"], last.structured["next"]) == ("0123456789", None)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/image", "is image/png"),
        ("/bytes", "not text"),
        ("/huge", "larger body than allowed"),
        ("/round", "redirects more than 5 times"),
        ("/nowhere", "points to 'nowhere'"),
        ("/gone", "answered 410"),
    ],
)
async def test_what_cannot_be_shown_is_told(site, pages, path, reason):
    with pytest.raises(ToolcribError, match=reason):
        await pages.fetch({"url": site.url + path})


async def test_a_server_that_does_not_answer_is_not_waited_for(site):
    impatient = PageTools(FetchLimits(1000, 0.3, lambda _: True), here)

    with pytest.raises(ToolcribError, match=r"did not come within 0\.3 s"):
        await impatient.fetch({"url": f"{site.url}/slow"})


SPELLINGS = [
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "2130706433",
    "0x7f000001",
    "0x7f.0.0.1",
    "0177.0.0.1",
    "017700000001",
    "127.0.0.1.",
    "0",
    "0.0.0.0",
    "0x0",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "foo.localhost",
    "[::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "[fe80::1]",
    "[fe80::1%25lo]",
    "[fec0::1]",
    "[fd00::1]",
    "127.0.0.2",
    "127.255.255.254",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.0.1",
    "169.254.169.254",
    "100.64.0.1",
    "100.100.100.200",
    "192.0.0.192",
    "198.18.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "240.0.0.1",
    "①②⑦.⓪.⓪.①",
    "127。0。0。1",
    "%31%32%37.0.0.1",
    "user@127.0.0.1",
    "public.example@127.0.0.1",
    "127.0.0.1\\@public.example",
    "127.0.0.1#@public.example",
    "127.0.0.1%00.public.example",
    "127.0.0.1%2f",
]


@pytest.mark.parametrize("host", SPELLINGS)
async def test_this_machine_and_its_network_are_out_of_reach_however_they_are_written(site, guarded, host):
    with pytest.raises(ToolcribError):
        await guarded.fetch({"url": f"http://{host}:{site.port}/canary"})
    assert site.hits == []


SCHEMES = [
    "file:///etc/passwd",
    "ftp://127.0.0.1/",
    "gopher://127.0.0.1:{port}/_x",
    "//127.0.0.1:{port}/",
    "data:,x",
    "",
    "http:///canary",
    "http:127.0.0.1:{port}",
    "javascript:1",
    "http://127.0.0.1:99999/",
    "http://[::1",
    "jar:http://127.0.0.1!/",
    "http://127.0.0.1:{port}\r\nHost: public.example/",
    " http://127.0.0.1:{port}/",
    "HTTP://127.0.0.1:{port}/",
]


@pytest.mark.parametrize("url", SCHEMES)
async def test_nothing_but_public_http_is_reached(site, guarded, url):
    with pytest.raises(ToolcribError) as caught:
        await guarded.fetch({"url": url.format(port=site.port)})
    assert site.hits == []
    assert caught.value.code in ("TOOL_INVALID_INPUT", "TOOL_PERMISSION_DENIED", "TOOL_UNAVAILABLE")


REDIRECTS = [
    "http://127.0.0.2:{port}/canary",
    "http://[::1]:{port}/canary",
    "http://0:{port}/canary",
    "file:///etc/passwd",
    "//0.0.0.0:{port}/canary",
    "http://169.254.169.254/latest/meta-data/",
    "http://2130706434:{port}/canary",
    "http://user:word@127.0.0.1:{port}/canary",
    "http://[::ffff:7f00:2]:{port}/canary",
    "gopher://127.0.0.1/",
]


@pytest.mark.parametrize("target", REDIRECTS)
async def test_a_redirect_leads_nowhere_that_could_not_be_asked_for(site, pages, target):
    """The first server may be reached, so that only the check of the next one stands in between."""
    location = target.format(port=site.port).encode()
    site.pages["/out"] = (b"302 Found", b"location: " + location, b"")

    with pytest.raises(ToolcribError):
        await pages.fetch({"url": f"{site.url}/out"})
    assert site.hits == ["/out"]


async def test_a_name_that_changes_its_meaning_gains_nothing(site, guarded, monkeypatch):
    """What is checked is what is dialled: the name is not looked up a second time."""
    asked = []

    def resolve(host, port, *_, **__):
        asked.append(host)
        address = "192.0.2.1" if len(asked) == 1 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    tool = PageTools(FetchLimits(1000, 0.5, lambda address: address == "192.0.2.1"), here)
    with pytest.raises(ToolcribError):
        await tool.fetch({"url": f"http://rebind.example:{site.port}/canary"})

    assert site.hits == []
    assert asked.count("rebind.example") == 1


async def test_one_address_inside_among_several_is_enough_to_refuse(site, guarded, monkeypatch):
    def resolve(_host, port, *_, **__):
        both = ("93.184.215.14", "127.0.0.1")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in both]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with pytest.raises(ToolcribError, match="inside this machine or network"):
        await guarded.fetch({"url": f"http://both.example:{site.port}/canary"})
    assert site.hits == []


@pytest.mark.parametrize(
    "address",
    [
        "fec0::1",
        "::7f00:1",
        "5f00::1",
        "3fff::1",
        "100:0:0:1::1",
        "192.88.99.1",
        "192.0.0.8",
        "64:ff9b::1",
        "2001:0:1::1",
        "ff02::1",
        "not an address",
    ],
)
def test_addresses_that_only_look_public_are_not(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", ["93.184.215.14", "1.1.1.1", "2606:4700:4700::1111", "2a00:1450:4001:800::200e"])
def test_public_addresses_are(address):
    assert is_public(address)


@pytest.mark.parametrize(
    "html", ["<" * 20_000, "<p>" * 20_000, "<!--" * 5000, "&#" * 20_000, "<table><tr><td>" * 5000, "</a>" * 9000]
)
def test_broken_pages_still_become_text(html):
    assert isinstance(to_markdown(html), str)
