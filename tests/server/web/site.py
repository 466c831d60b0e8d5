"""A browser without a screen: it follows nothing by itself, keeps its cookie, and sends forms as pages have them."""

import gzip
import html
import http.client
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit

from tests.cli.program import Program, Serving


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes
    sent_bytes: int = 0

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def place(self) -> str:
        return self.headers.get("location", "")


@dataclass
class Visitor:
    """One browser."""

    port: int
    host: str = ""
    """Where the page is for whoever is signed in; 127.0.0.1 until then."""
    cookie: str = ""
    csrf: str = ""
    sent: dict[str, str] = field(default_factory=dict)

    def send(self, method: str, path: str, body: str = "", **headers: str) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=150)
        told = {"host": self.host or f"127.0.0.1:{self.port}", "accept-encoding": "gzip"}
        told |= {**self.sent, **{k.replace("_", "-"): v for k, v in headers.items()}}
        if self.cookie:
            told["cookie"] = self.cookie
        connection.request(method, path, body or None, told)
        answer = connection.getresponse()
        raw, seen = answer.read(), {name.lower(): value for name, value in answer.getheaders()}
        connection.close()
        if "set-cookie" in seen:
            self.cookie = seen["set-cookie"].partition(";")[0]
        packed = seen.get("content-encoding") == "gzip"
        return Reply(answer.status, seen, gzip.decompress(raw) if packed else raw, len(raw))

    def get(self, path: str, **headers: str) -> Reply:
        reply = self.send("GET", path, **headers)
        if found := re.search(r'name="csrf" value="(\w+)"', reply.body.decode("utf-8", "replace")):
            self.csrf = found[1]
        return reply

    def post(self, path: str, **fields: str) -> Reply:
        """Send a form as a page of ours does, with the word that stands in it."""
        return self.forge(path, csrf=self.csrf, **fields)

    def forge(self, path: str, origin: str = "", **fields: str) -> Reply:
        origin = origin or f"http://{self.host or f'127.0.0.1:{self.port}'}"
        kind = "application/x-www-form-urlencoded"
        return self.send("POST", path, urlencode(fields), origin=origin, content_type=kind)

    def sign_in(self, token: str) -> Reply:
        """Give a token and follow where it leads: to the address the page has for its holder."""
        given = self.forge("/signin", token=token)
        assert given.status == 200, given.status
        return self.follow(html.unescape(re.search(r'href="(http[^"]+/signin\?[^"]+)"', given.text)[1]))

    def follow(self, link: str) -> Reply:
        """Open a link that signs in."""
        parts = urlsplit(link)
        self.host = parts.netloc
        return self.get(f"{parts.path}?{parts.query}")


def sign_in(serving: Serving, program: Program) -> Visitor:
    """The owner's browser."""
    visitor = Visitor(serving.port)
    visitor.get("/signin")
    assert visitor.sign_in((program.home / "state" / "toolcrib" / "token").read_text().strip()).status == 303
    visitor.get("/connect")
    return visitor


@contextmanager
def opened(program: Program, *flags: str) -> Iterator[Visitor]:
    """The page of a toolcrib that serves, with its owner signed in."""
    with program.serving("serve", *flags) as serving:
        yield sign_in(serving, program)
