"""The overview: first steps for the newcomer, what needs attention for everybody else."""

import pytest
from tests.cli.past import log_calls
from tests.fleet.engines import a_redis
from tests.fleet.running import until
from tests.server.web.site import opened, sign_in

from toolcrib.config.model import Config
from toolcrib.config.sections import RedisConfig
from toolcrib.core.coordination import Claim
from toolcrib.core.errors import CoordinationUnavailable
from toolcrib.core.limits import Rate
from toolcrib.crib.builder import open_crib
from toolcrib.server.web.overview_page import fleet_todos

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def test_a_newcomer_is_shown_the_first_steps(toolcrib):
    """Import, add, connect."""
    with opened(toolcrib) as visitor:
        page = visitor.get("/").text

    assert "Welcome" in page
    assert 'href="/servers/import"' in page
    assert 'href="/servers/add"' in page
    assert 'href="/connect"' in page


def test_what_needs_attention_is_on_top(tiny):
    """A server that failed, with the way to its page."""
    tiny.write(tiny.tiny(), tiny.broken())
    with opened(tiny) as visitor:
        visitor.post("/servers/tiny/refresh")
        visitor.post("/servers/broken/refresh")
        page = visitor.get("/").text

    assert "1 of 2" in page
    assert "broken is not available" in page
    assert "no luck today" in page
    assert 'href="/servers/broken"' in page


def test_calls_and_failures_are_counted(tiny):
    """The chart says in words what it shows; the failing tool is named with its last error."""
    with tiny.serving("serve") as serving:
        visitor = sign_in(serving, tiny)
        for name in ("tiny__echo", "tiny__fail"):
            headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": name}
            params = {"name": name, "arguments": {"text": "x"} if name == "tiny__echo" else {}, "_meta": META}
            asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            serving.request("POST", "/mcp", asked, **headers).read()
        page = visitor.get("/").text

    assert "Calls in the last hour: 2, of which 1 failed" in page
    assert "50.0 %" in page
    assert "tiny__fail" in page
    assert "it went wrong" in page


def test_what_nobody_uses_is_told_beside_what_it_costs(tiny):
    """As soon as the log was read, which nobody waits for."""
    log_calls(tiny, (40, "tiny__hang"), (9, "tiny__echo"))
    with opened(tiny) as visitor:
        visitor.post("/servers/tiny/refresh")
        until(lambda: "4 not used in 30 days" in visitor.get("/").text, deadline_s=150, what="the note on the page")


async def test_replicas_that_cannot_be_reached_need_attention():
    """What that means for calls stands beside it."""
    with a_redis() as engine:
        config = Config(redis=RedisConfig(engine.url(), 0.5))
        async with open_crib(config) as crib, open_crib(Config()) as alone:
            engine.stop()
            with pytest.raises(CoordinationUnavailable):
                await crib.fleet.coordination.use([Claim("tool read", Rate(1, 1.0))])
            [todo] = fleet_todos(crib.parts().get("store", ""), crib.coordination.status())
            assert alone.coordination is None
            assert "store" not in alone.parts()

    assert todo.text == "Other replicas cannot be reached"
    assert todo.about == (
        "Redis cannot be used: it does not answer. "
        "What is limited is refused until it is back; everything else goes on."
    )
    assert list(fleet_todos("", None)) == []
