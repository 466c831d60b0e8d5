"""A certified OpenID provider with an MCP server behind it, and somebody who signs in there without a browser."""

import contextlib
import http.cookiejar
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fleet.install import FLEET, node
from tests.fleet.running import running

SCRIPT = Path(__file__).with_name("oauth_provider.mjs")
PACKAGE = FLEET / "npm-oauth" / "node_modules" / "oidc-provider" / "lib" / "index.js"


@dataclass(frozen=True)
class OAuthProvider:
    """A running provider; the MCP server is at ``url``."""

    issuer: str

    @property
    def url(self) -> str:
        return f"{self.issuer}/mcp"

    def seen(self) -> dict[str, Any]:
        """What it has counted so far."""
        with urllib.request.urlopen(f"{self.issuer}/seen") as answer:
            return json.load(answer)

    def wish(self, **wishes: Any) -> None:
        """Have it behave differently from now on."""
        urllib.request.urlopen(f"{self.issuer}/wish", json.dumps(wishes).encode()).close()

    def mint(self, **claims: Any) -> str:
        """A token that it signs, for somebody who came to it in some other way; where it was told to sign."""
        asked = urllib.request.Request(f"{self.issuer}/mint", json.dumps(claims).encode())
        with urllib.request.urlopen(asked) as answer:
            found: str = json.load(answer)["token"]
        return found


@contextlib.contextmanager
def oauth_provider(**wishes: Any) -> Iterator[OAuthProvider]:
    """A provider for as long as the block runs."""
    argv = [str(node()), str(SCRIPT), str(PACKAGE), json.dumps(wishes)]
    place = re.compile(r"^http://127\.0\.0\.1:\d+$", re.MULTILINE)
    with running(argv, ready=lambda program: place.search(program.output()) is not None) as program:
        found = place.search(program.output())
        assert found, program.output()
        yield OAuthProvider(found.group())


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any) -> None:
        return None


def sign_in(url: str, name: str = "ada", *, agrees: bool = True) -> str:
    """Do what a person does in a browser; the address that it is sent back to in the end."""
    cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
    browser = urllib.request.build_opener(cookies, _Stay())
    issuer = "{0.scheme}://{0.netloc}".format(urllib.parse.urlsplit(url))
    form: dict[str, str] | None = None
    for _ in range(20):
        if not url.startswith(issuer):
            return url
        data = urllib.parse.urlencode(form).encode() if form is not None else None
        try:
            with browser.open(url, data) as answer:
                page = answer.read().decode()
        except urllib.error.HTTPError as answer:
            if answer.code not in (302, 303):
                raise
            url, form = urllib.parse.urljoin(url, answer.headers["location"]), None
            continue
        if "Authorize" in page and not agrees:
            url, form = re.search(r'href="([^"]*abort)"', page)[1], None
            continue
        action, prompt = re.search(r'action="([^"]+)"', page), re.search(r'name="prompt" value="(\w+)"', page)
        assert action is not None, page
        assert prompt is not None, page
        url = urllib.parse.urljoin(url, action[1])
        form = {"prompt": prompt[1], "login": name, "password": "x"}
    raise AssertionError(f"still not back: {url}")
