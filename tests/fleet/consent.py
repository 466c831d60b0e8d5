"""A person without a browser who lets a client in at toolcrib's own authorization server."""

import html
import http.client
import re
from contextlib import closing
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit

from tests.fleet.running import Running, until

FORM = "application/x-www-form-urlencoded"


@dataclass
class Person:
    """Does what a browser does: keeps cookies, follows redirects, finds names under ``localhost`` on this machine."""

    token: str
    cookies: dict[str, str] = field(default_factory=dict)
    """By host."""

    def let_in(self, url: str, level: str = "write") -> str:
        """Sign in, say yes, and go where that leads; the address it ended at, which the client has seen then."""
        place, page = self._open(url)
        if urlsplit(place).path == "/signin":
            fields = {"token": self.token, "next": _value(page, "next")}
            _, page = self._open(place, fields)
            place, page = self._open(html.unescape(re.search(r'href="(http[^"]+/signin\?[^"]+)"', page)[1]))
        assert "wants to use your tools" in page, page
        fields = {"csrf": _value(page, "csrf"), "request": _value(page, "request"), "level": level, "answer": "allow"}
        return self._open(place, fields)[0]

    def _open(self, url: str, fields: dict[str, str] | None = None) -> tuple[str, str]:
        """Where an address leads, and what is there."""
        for _ in range(10):
            status, location, page = self._send(url, fields)
            if status not in (302, 303):
                assert status < 400, (url, status, page)
                return url, page
            fields = None
            url = location if "://" in location else "{0.scheme}://{0.netloc}".format(urlsplit(url)) + location
        raise AssertionError(f"still not there: {url}")

    def _send(self, url: str, fields: dict[str, str] | None) -> tuple[int, str, str]:
        parts = urlsplit(url)
        headers = {"host": parts.netloc, "cookie": self.cookies.get(parts.netloc, "")}
        if fields is not None:
            headers |= {"content-type": FORM, "origin": f"{parts.scheme}://{parts.netloc}"}
        with closing(http.client.HTTPConnection("127.0.0.1", parts.port or 80, timeout=150)) as line:
            body = None if fields is None else urlencode(fields)
            line.request("POST" if body else "GET", f"{parts.path}?{parts.query}", body, headers)
            found = line.getresponse()
            if cookie := found.headers.get("set-cookie", ""):
                self.cookies[parts.netloc] = cookie.partition(";")[0]
            return found.status, found.headers.get("location", ""), found.read().decode()


def _value(page: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', page)
    assert found, page
    return html.unescape(found[1])


ASKED = re.compile(r"(http://127\.0\.0\.1:\d+/oauth/authorize\?\S+)\s")


def asked_for(client: Running) -> str:
    """The address that a client wants its person to open, once it has said so."""
    until(lambda: ASKED.search(client.output()) is not None, deadline_s=150, what="a client that asks its person")
    return ASKED.findall(client.output())[-1]
