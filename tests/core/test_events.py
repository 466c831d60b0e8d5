"""News: what of the events is news, and that only plain, short, harmless values are told; and Python's own logging."""

import itertools
import logging
import sys

import pytest
from tests.fleet import launcher

from toolcrib.core import events
from toolcrib.core.events import TOPICS, Event, StandardLog, news_of, trace_ids


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


# Python's own logging


def test_what_happens_reaches_pythons_own_logging(caplog):
    """Under one name, with the event, its fields and its trace as attributes, as severe as the event is."""
    tell = StandardLog()
    caplog.set_level(logging.INFO, logger="toolcrib")

    tell(Event(events.CALL_SLOW, "warning", {"tool": "work", "seconds": 1.5, "trace_id": "ab"}))
    tell(Event(events.CALL_FINISHED, "debug", {"tool": "quiet"}))

    (record,) = caplog.records
    assert (record.name, record.levelno, record.event, record.trace_id) == ("toolcrib", 30, "call.slow", "ab")
    assert record.fields == {"tool": "work", "seconds": 1.5, "trace_id": "ab"}
    assert record.getMessage() == "call.slow tool=work seconds=1.5 trace_id=ab"
    assert (tell.hears("info"), tell.hears("debug")) == (True, False)


@pytest.mark.parametrize(
    ("setup", "lines"),
    [
        ("", []),
        ("import logging; logging.basicConfig(level='WARNING')", ["ERROR:toolcrib:call.raised"]),
        (
            "import logging; logging.basicConfig(level='DEBUG')",
            ["ERROR:toolcrib:call.raised", "DEBUG:toolcrib:call.finished"],
        ),
    ],
)
def test_a_program_hears_what_it_asked_its_logging_for(setup, lines, tmp_path):
    """Without any set-up nothing is printed; with the usual one, what is severe enough."""
    program = f"""
import asyncio
{setup}
import toolcrib

def works() -> int:
    "Works."
    return 1

def fails() -> None:
    "Fails."
    raise ValueError("no luck")

async def main() -> None:
    async with toolcrib.open_crib({{"mcpServers": {{}}}}, tools=[works, fails]) as crib:
        await crib.call("works")
        await crib.call("fails")

asyncio.run(main())
"""
    done = launcher.run([sys.executable, "-c", program], stdin="", timeout_s=150, cwd=tmp_path)

    heads = [line.split(" ")[0] for line in done.stderr.splitlines()]
    assert (done.returncode, done.stdout) == (0, "")
    assert set(lines) <= set(heads)
    assert any(head.startswith("DEBUG") for head in heads) is ("DEBUG" in setup)
    assert lines or not heads


def test_trace_ids_are_all_different_and_well_formed():
    """As the W3C wants them: 32 hexadecimal digits."""
    ids = list(itertools.islice(trace_ids(), 1000))

    assert len(set(ids)) == 1000
    assert {len(one) for one in ids} == {32}
    assert all(int(one, 16) for one in ids)
