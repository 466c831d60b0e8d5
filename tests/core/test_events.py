"""News: what of the events is news, and that only plain, short, harmless values are told."""

import pytest

from toolcrib.core import events
from toolcrib.core.events import TOPICS, Event, news_of


@pytest.mark.parametrize(
    ("name", "topic"),
    [
        (events.DISCOVERY_SERVER_FAILED, "server"),
        (events.DISCOVERY_SERVER_SUCCESS, "server"),
        (events.SERVER_LOST, "server"),
        (events.SERVER_PAUSED, "server"),
        (events.REGISTRY_SERVER_REMOVED, "server"),
        (events.REGISTRY_UPDATED, "catalog"),
        (events.TOOL_HELD, "catalog"),
        ("config.applied", "config"),
        ("config.restart.needed", "config"),
    ],
)
def test_what_happens_to_servers_tools_and_configuration_is_news(name, topic):
    """With the event's own name, and how bad it is."""
    found = news_of(Event(name, "warning", {"server": "files", "tools": 3}))

    assert found == (topic, {"event": name, "severity": "warning", "server": "files", "tools": 3})
    assert topic in TOPICS


@pytest.mark.parametrize("name", [events.CALL_FINISHED, events.CALL_SLOW, "server.noise", "call.internal"])
def test_all_else_is_left_to_the_log(name):
    """Calls are told by those who watch them; what a server babbles is nobody's news."""
    assert news_of(Event(name, fields={"line": "x"})) is None


def test_values_are_made_plain_and_short():
    """A stranger's text cannot move a cursor or fill a page."""
    fields = {"error": "a\x1b[2Jb\n" + "x" * 1000, "seconds": 1.5, "held": True, "names": ["a"], "none": None}

    _, data = news_of(Event(events.SERVER_LOST, "warning", fields))

    assert data["error"].startswith("a [2Jb xxx")
    assert len(data["error"]) == 300
    assert (data["seconds"], data["held"], data["names"], data["none"]) == (1.5, True, "['a']", None)


def test_what_is_wrong_with_a_configuration_is_not_told():
    """The words may quote a value that is nobody's business."""
    _, data = news_of(Event("config.rejected", "error", {"error": "line 3: token = 'hunter2'", "kept": "the old one"}))

    assert data == {"event": "config.rejected", "severity": "error", "kept": "the old one"}
