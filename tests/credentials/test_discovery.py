"""From a refusal to the authorization server: in the specified order, and nowhere a stranger points to."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from tests.doubles.wrong_issuer import Asked, Told, WrongIssuer

from toolcrib.core.errors import SourceUnavailable
from toolcrib.core.network import Network
from toolcrib.credentials.discovery import (
    OutwardRequests,
    ServerDiscovery,
    check_url,
    resource_addresses,
    server_addresses,
)
from toolcrib.credentials.oauth import Challenge, IssuerRefused

URL = "https://mcp.example/team/mcp"
META = {"issuer": "https://as.example", "token_endpoint": "https://as.example/t"}


class Web:
    """Documents by their address; whatever else is asked for is not there."""

    network = Network()

    def __init__(self, documents: Mapping[str, Any]) -> None:
        self._documents, self.asked = documents, []

    async def get(self, url: str) -> tuple[int, bytes]:
        self.asked.append(url)
        found = self._documents.get(url)
        if isinstance(found, Exception):
            raise found
        return (404, b"") if found is None else (200, found if isinstance(found, bytes) else json.dumps(found).encode())


def walk(documents: Mapping[str, Any], issuer: str = "") -> tuple[ServerDiscovery, Web]:
    web = Web(documents)
    return ServerDiscovery(URL, web, issuer), web


def test_addresses_come_in_the_order_of_the_specification():
    root = "https://mcp.example/.well-known/oauth-protected-resource"
    assert list(resource_addresses(URL, None)) == [f"{root}/team/mcp", root]
    assert list(resource_addresses(URL, Challenge(resource_metadata="https://x/y"))) == ["https://x/y"]
    assert list(server_addresses("https://as.example")) == [
        "https://as.example/.well-known/oauth-authorization-server",
        "https://as.example/.well-known/openid-configuration",
    ]
    assert list(server_addresses("https://as.example/t/1")) == [
        "https://as.example/.well-known/oauth-authorization-server/t/1",
        "https://as.example/.well-known/openid-configuration/t/1",
        "https://as.example/t/1/.well-known/openid-configuration",
    ]


async def test_the_walk_ends_at_the_issuer_that_the_server_names_and_tells_each_step():
    discovery, _ = walk(
        {
            "https://mcp.example/.well-known/oauth-protected-resource": {
                "resource": "https://mcp.example/team",
                "authorization_servers": ["https://as.example"],
                "scopes_supported": ["r"],
            },
            "https://as.example/.well-known/openid-configuration": META,
        }
    )
    found = await discovery.find(None)

    assert (found.resource, found.scopes, found.server.token_endpoint) == (
        "https://mcp.example/team",
        ("r",),
        "https://as.example/t",
    )
    assert [step.is_good for step in found.steps] == [False, True, False, True]


@pytest.mark.parametrize(
    ("documents", "words"),
    [
        ({"resource": {"resource": "https://evil.example"}}, "is about"),
        ({"as": {**META, "issuer": "https://evil.example"}}, "say that it is"),
        ({"as": {**META, "authorization_endpoint": "javascript:alert(1)"}}, "not an https address"),
        ({"as": {**META, "token_endpoint": "http://as.example/t"}}, "not an https address"),
        ({"as": b"<html>"}, "no metadata"),
        ({"as": {"issuer": 5}}, "no metadata"),
        ({"as": SourceUnavailable("It is too large.")}, "no metadata"),
    ],
)
async def test_documents_that_lie_or_cannot_be_used_are_refused(documents: Mapping[str, Any], words: str):
    about = {"authorization_servers": ["https://as.example"], **documents.get("resource", {})}
    discovery, _ = walk(
        {
            "https://mcp.example/.well-known/oauth-protected-resource": about,
            "https://as.example/.well-known/oauth-authorization-server": documents.get("as", META),
        }
    )

    with pytest.raises(IssuerRefused, match=words):
        await discovery.find(None)


async def test_a_configured_issuer_is_the_only_one_and_a_server_that_names_another_is_told_of():
    about = {"authorization_servers": ["https://new.example"]}
    documents = {"https://mcp.example/.well-known/oauth-protected-resource": about}
    discovery, web = walk(documents, "https://as.example")

    with pytest.raises(IssuerRefused, match=r"now lets people in by https://new\.example"):
        await discovery.find(None)
    assert not [url for url in web.asked if "new.example" in url]


async def test_a_server_of_the_first_revision_is_its_own_issuer_at_fixed_addresses():
    discovery, _ = walk({})
    found = await discovery.find(None)

    assert found.server.token_endpoint == "https://mcp.example/token"
    assert found.resource == URL


@pytest.mark.parametrize("url", ["http://as.example/x", "file:///etc/passwd", "ftp://x", "//x", "https", ""])
def test_only_addresses_over_tls_are_asked(url: str):
    with pytest.raises(IssuerRefused):
        check_url(url)


@pytest.mark.parametrize("inside", ["https://127.0.0.1:1/x", "https://10.1.2.3/x", "https://169.254.169.254/latest"])
async def test_a_server_on_the_internet_points_to_nothing_inside(inside: str):
    """It is refused before anything is dialled."""
    with pytest.raises(SourceUnavailable, match="inside this machine or network"):
        await OutwardRequests("https://93.184.216.34/mcp", Network()).get(inside)


async def test_no_server_points_to_the_secrets_of_a_cloud():
    """Not even one on this machine."""
    with pytest.raises(SourceUnavailable, match="inside this machine or network"):
        await OutwardRequests("http://127.0.0.1:1/mcp", Network()).get("https://169.254.169.254/latest")


def test_the_query_of_a_server_is_part_of_which_resource_it_is():
    root = "https://mcp.example/.well-known/oauth-protected-resource"
    assert list(resource_addresses("https://mcp.example/mcp?tenant=alpha", None)) == [f"{root}/mcp?tenant=alpha", root]
    assert list(resource_addresses("https://mcp.example?tenant=alpha", None)) == [f"{root}?tenant=alpha", root]


@pytest.fixture
async def wrong() -> AsyncIterator[WrongIssuer]:
    async with WrongIssuer().listening() as issuer:
        yield issuer


def redirected(url: str) -> Told:
    return Told(status=302, headers={"location": url})


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Told(b'{"issuer": "' + b"x" * 400_000 + b'"}'), "larger|bytes|large"),
        (redirected("http://plain.example/meta"), "not an https address"),
        (redirected("https://169.254.169.254/latest/meta-data"), "inside this machine or network"),
        (redirected("http://[::ffff:169.254.169.254]/latest"), "not an https address"),
    ],
)
async def test_metadata_that_are_huge_or_lead_elsewhere_are_not_read(wrong: WrongIssuer, answer: Told, words: str):
    wrong.answers["/meta"] = answer
    with pytest.raises(SourceUnavailable, match=words):
        await OutwardRequests(wrong.url, Network()).get(f"{wrong.origin}/meta")


async def test_metadata_that_lead_round_in_a_circle_end(wrong: WrongIssuer):
    wrong.answers["/meta"] = redirected("/meta")
    with pytest.raises(SourceUnavailable, match="redirects more than"):
        await OutwardRequests(wrong.url, Network()).get(f"{wrong.origin}/meta")


async def test_nobody_waits_for_ever_for_an_issuer(wrong: WrongIssuer):
    """Neither for what it says of itself, nor for its tokens."""
    never = asyncio.Event()

    async def wait(_: Asked) -> Told:
        await never.wait()
        return Told()

    wrong.answers |= {"/meta": wait, "/token": wait}
    out = OutwardRequests(wrong.url, Network(), timeout_s=0.2)
    with pytest.raises(SourceUnavailable, match="within"):
        await out.get(f"{wrong.origin}/meta")
    with pytest.raises(SourceUnavailable, match="within"):
        await out.post(f"{wrong.origin}/token", b"", (), b"application/x-www-form-urlencoded")
    never.set()


async def test_a_server_that_changed_its_issuer_tells_all_that_it_names():
    about = {"authorization_servers": ["https://gone.example", "https://as.example"]}
    discovery, _ = walk(
        {
            "https://mcp.example/.well-known/oauth-protected-resource": about,
            "https://as.example/.well-known/oauth-authorization-server": META,
        }
    )
    found = await discovery.find(None)

    assert found.server.issuer == "https://as.example"
    assert found.issuers == ("https://gone.example", "https://as.example")
