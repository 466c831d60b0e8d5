"""The reverse proxies of ``docs/connect-remote.md``, as it has them: a client comes in through each, over TLS."""

import asyncio
import http.client
import json
import os
import re
import shutil
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from tests.adapters.examples import ROOT
from tests.fleet.gateway import serving
from tests.fleet.running import accepts_connections, free_port, running
from tests.server.test_oauth import Answer, Connecting, Person

PAGE = ROOT / "docs" / "connect-remote.md"
TOOLS = '''
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello {name}"
'''


@dataclass
class Site:
    """``tools.example``, as one reaches it on this machine."""

    address: str
    trusted: ssl.SSLContext
    token: str

    def person(self) -> "TlsPerson":
        return TlsPerson(self.address, trusted=self.trusted)


@dataclass
class TlsPerson(Person):
    """One who comes by the proxy."""

    trusted: ssl.SSLContext | None = None

    def _send(self, method: str, target: str, body: bytes, headers: dict[bytes, bytes]) -> Answer:
        with closing(self.line()) as line:
            line.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in (headers | {b"content-length": str(len(body)).encode()}).items():
                line.putheader(name.decode(), value)
            line.endheaders(body)
            found = line.getresponse()
            return Answer(found.status, found.read(), {name.lower(): value for name, value in found.getheaders()})

    def line(self) -> http.client.HTTPSConnection:
        return NamedConnection("tools.example", int(self.address.partition(":")[2]), context=self.trusted, timeout=150)


class NamedConnection(http.client.HTTPSConnection):
    """Asks for ``tools.example``, and finds it on this machine."""

    def connect(self) -> None:
        self._create_connection = lambda address, *more: SOCKET(("127.0.0.1", address[1]), *more)
        super().connect()


SOCKET = http.client.HTTPSConnection("x")._create_connection


def example(mark: str) -> str:
    """The one example of the page that has this in it."""
    [found] = [
        text for text in re.findall(r"^```text\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL) if mark in text
    ]
    return found


@contextmanager
def nginx(home: Path, port: int, inner: int, cert: Path, key: Path) -> Iterator[None]:
    shown = example("proxy_pass")
    server = shown.replace("listen 443", f"listen 127.0.0.1:{port}").replace("127.0.0.1:7337", f"127.0.0.1:{inner}")
    server = re.sub(r"(ssl_certificate +)\S+;", rf"\g<1>{cert};", server)
    server = re.sub(r"(ssl_certificate_key +)\S+;", rf"\g<1>{key};", server)
    places = "".join(
        f"{name}_temp_path {home / name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = home / "nginx.conf"
    config.write_text(
        f"daemon off;\nuser root;\npid {home / 'nginx.pid'};\nerror_log stderr;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{places}{server}}}\n"
    )
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    assert program
    with running([program, "-c", str(config), "-p", str(home)], ready=lambda _: accepts_connections(port)):
        yield


@contextmanager
def caddy(home: Path, port: int, inner: int, cert: Path, key: Path) -> Iterator[None]:
    """As the page has it, but for its port, and a certificate that nobody else has to make."""
    shown = example("reverse_proxy")
    site = shown.replace(
        "tools.example {", f"https://tools.example:{port} {{\n    bind 127.0.0.1\n    tls {cert} {key}"
    )
    config = home / "Caddyfile"
    config.write_text(f"{{\n    admin off\n    auto_https disable_redirects\n}}\n{site.replace(':7337', f':{inner}')}")
    program = shutil.which("caddy")
    assert program
    argv = [program, "run", "--config", str(config), "--adapter", "caddyfile"]
    with running(argv, env={**os.environ, "HOME": str(home)}, ready=lambda _: accepts_connections(port)):
        yield


@pytest.fixture(params=[nginx, caddy])
def site(fleet: None, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    authority, port = trustme.CA(), free_port()
    made = authority.issue_cert("tools.example")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert.write_bytes(b"".join(part.bytes() for part in made.cert_chain_pems))
    key.write_bytes(made.private_key_pem.bytes())
    trusted = ssl.create_default_context()
    authority.configure_trust(trusted)
    (tmp_path / "own_tools.py").write_text(TOOLS)
    config = tmp_path / "toolcrib.toml"
    config.write_text(
        'native = ["own_tools:greet"]\n\n[serve]\noauth = "builtin"\npublic_url = "https://tools.example"\n\n'
        "[kb]\nenabled = false\n"
    )
    with serving(config) as (url, _):
        inner = int(url.rpartition(":")[2].partition("/")[0])
        with request.param(tmp_path, port, inner, cert, key):
            token = (tmp_path / ".local/state/toolcrib/token").read_text().strip()
            yield Site(f"127.0.0.1:{port}", trusted, token)


async def test_a_client_comes_in_by_the_proxy_and_hears_everything_as_it_is_written(site: Site):
    person = site.person()
    await person.sign_in(site.token)
    client = Connecting(person, site.person())
    refused = await client.call("")
    found = (await client.client.send("GET", "/.well-known/oauth-protected-resource/mcp")).json
    tokens = await client.connect()
    called = await client.call(tokens["access_token"])
    long = await client.client.send(
        "POST", "/mcp", b"x" * 3_000_000, content_type="text/plain", authorization=f"Bearer {tokens['access_token']}"
    )
    news = await asyncio.to_thread(first_news, client.client, site.token)

    assert 'resource_metadata="https://tools.example/.well-known' in refused.headers["www-authenticate"]
    assert found["authorization_servers"] == ["https://tools.example"]
    assert (called.status, b"Hello Ada" in called.body) == (200, True)
    assert long.headers["content-type"].startswith("application/")  # toolcrib's own words, not the proxy's
    assert news.startswith((b":", b"retry", b"id"))


def first_news(person: TlsPerson, token: str) -> bytes:
    """The first line of a stream that does not end: nobody who collects answers would hand it on."""
    with closing(person.line()) as line:
        line.request("GET", "/api/v1/events", headers={"authorization": f"Bearer {token}", "host": "tools.example"})
        answer = line.getresponse()
        assert answer.status == 200, json.loads(answer.read())
        return answer.readline()
