"""The first ``toolcrib up``: what other programs have is offered, once, and only when nothing is configured."""

import json
import signal
import sys

import pytest
from tests.cli.keyboard import typed
from tests.cli.program import TINY


@pytest.fixture
def desktop(toolcrib):
    """Claude Desktop with one small server."""
    path = toolcrib.home / ".config" / "Claude" / "claude_desktop_config.json"
    path.parent.mkdir(parents=True)
    entry = {"command": sys.executable, "args": [str(TINY), str(toolcrib.diary)]}
    path.write_text(json.dumps({"mcpServers": {"tiny": entry}}))
    return toolcrib


def test_without_a_terminal_one_line_says_how(desktop):
    """Nothing is written, and the built-in tools are served."""
    with desktop.serving("up") as serving:
        serving.wait_for("native")
        assert "found 1 server from Claude Desktop; `toolcrib import` brings them in." in serving.output
        serving.stop(signal.SIGTERM)

    assert not desktop.config.exists()


def test_a_person_is_asked_and_the_servers_are_served(desktop):
    """From nothing to tools with one key."""
    said, _ = typed(desktop, "up", "--port", "0", answers=[("[Y/n/choose]", "y")], until="written to")

    assert "Import 1 server from Claude Desktop?" in said
    assert "[servers.tiny]" in desktop.config.read_text()


def test_import_takes_everything_without_asking(desktop):
    """For scripts."""
    with desktop.serving("up", "--import") as serving:
        assert "tiny__echo" in serving.tool_names()
        serving.stop(signal.SIGTERM)


@pytest.mark.parametrize("words", [["up", "--no-import"], ["up"]])
def test_nothing_is_offered_when_it_is_not_wanted_or_something_is_configured(desktop, words):
    """Nor are other programs' files looked at."""
    if "--no-import" not in words:
        desktop.write(desktop.tiny("own"))
    with desktop.serving(*words) as serving:
        serving.wait_for("Serving MCP at")
        assert "toolcrib import" not in serving.output
        serving.stop(signal.SIGTERM)
