"""Connecting: the right text for each client."""

from html import unescape

import pytest
from tests.server.web.site import opened

from toolcrib.config.foreign.connectors import CONNECTORS


@pytest.fixture
def shown(tiny):
    """The text of a page of /connect, as a person reads it."""
    with opened(tiny) as visitor:
        yield lambda query: unescape(visitor.get(f"/connect?{query}").text), visitor


def test_every_client_has_text_to_copy_for_one_way_at_least(shown):
    """Over HTTP where the client can, else it starts toolcrib itself."""
    page, visitor = shown
    for client in [*CONNECTORS, "other"]:
        http, stdio = page(f"client={client}&how=http"), page(f"client={client}&how=stdio")
        assert f"http://127.0.0.1:{visitor.port}/mcp" in http
        assert '"stdio"' in stdio, client


def test_with_a_token_the_text_names_the_variable_never_the_token(shown, tiny):
    """The token itself stays in its file."""
    page, _ = shown
    token = (tiny.home / "state/toolcrib/token").read_text().strip()

    text = page("client=claude-code&token=yes")

    assert '--header "Authorization: Bearer $TOOLCRIB_TOKEN"' in text
    assert "export TOOLCRIB_TOKEN=$(cat ~/state/toolcrib/token)" in text
    assert token not in text
    assert "TOOLCRIB_TOKEN" not in page("client=claude-code&token=no")


def test_a_client_that_cannot_says_what_it_can(shown):
    """Claude Desktop takes only programs."""
    page, _ = shown

    assert "takes only programs" in page("client=claude-desktop&how=http")
    assert "toolcrib connect claude-desktop" in page("client=claude-desktop")
