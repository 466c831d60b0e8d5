import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.config.lock import Lock, Pin, Record, StandingAnswer, age_s, read_lock, timestamp, with_record, write_lock
from toolcrib.config.model import ServerConfig, config_hash
from toolcrib.core.errors import ConfigError
from toolcrib.core.kinds import DiscoveryStatus

TIME = ServerConfig("time", command="uvx", args=("mcp-server-time",))

RECORD = Record(
    server="time",
    status=DiscoveryStatus.SUCCESS,
    tools=(
        {"name": "zone", "inputSchema": {"type": "object"}},
        {"icons": [], "inputSchema": {"type": "object", "properties": {"b": {}, "a": {}}}, "name": "now"},
    ),
    last_discovery="2026-11-03T12:00:00Z",
    config_hash=config_hash(TIME),
    era="2026-07-28",
    ttl_s=60,
    problems=("Tool 'x' was left out.",),
)

TEXT = """\
{
  "version": 1,
  "servers": {
    "alpha": {
      "status": "failed",
      "last_discovery": "2026-11-03T12:00:01Z",
      "error": "no such command",
      "config_hash": "",
      "era": "",
      "ttl_s": null,
      "problems": [],
      "tools": []
    },
    "time": {
      "status": "success",
      "last_discovery": "2026-11-03T12:00:00Z",
      "error": "",
      "config_hash": "HASH",
      "era": "2026-07-28",
      "ttl_s": 60.0,
      "problems": [
        "Tool 'x' was left out."
      ],
      "tools": [
        {
          "name": "now",
          "inputSchema": {
            "type": "object",
            "properties": {
              "b": {},
              "a": {}
            }
          },
          "icons": []
        },
        {
          "name": "zone",
          "inputSchema": {
            "type": "object"
          }
        }
      ]
    }
  }
}
""".replace("HASH", RECORD.config_hash)

BOTTOMLESS = '{"version": 1, "servers": {"a": {"status": "never", "tools": [{"x":' + "[" * 100_000

FAILED = Record("alpha", DiscoveryStatus.FAILED, last_discovery="2026-11-03T12:00:01Z", error="no such command")

words = st.text(max_size=6)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)
tools = st.lists(
    st.fixed_dictionaries(
        {"name": st.text(min_size=1, max_size=6)}, optional={"inputSchema": json_values, "_meta": json_values}
    ),
    unique_by=lambda tool: tool["name"],
    max_size=3,
).map(lambda found: tuple(sorted(found, key=lambda tool: tool["name"])))
records = st.builds(
    Record,
    server=st.just(""),
    status=st.sampled_from(["never", "discovering", "success", "failed"]),
    tools=tools,
    last_discovery=words,
    error=words,
    config_hash=words,
    era=words,
    ttl_s=st.none() | st.floats(0, 1e9),
    problems=st.lists(words, max_size=2).map(tuple),
    pins=st.dictionaries(
        words,
        st.builds(Pin, words, words, words, st.none() | st.dictionaries(words, json_values, max_size=2)),
        max_size=2,
    ),
)
answers = st.dictionaries(
    words,
    st.dictionaries(words, st.builds(StandingAnswer, st.booleans(), words, words), min_size=1, max_size=2),
    max_size=2,
)


def named(found: dict[str, Record]) -> Lock:
    return Lock({name: replace(record, server=name) for name, record in found.items()})


@given(st.dictionaries(words, records, max_size=3), answers)
@settings(deadline=None)
def test_what_is_written_is_read_back(found, approvals):
    """Whatever servers and their tools are called and contain, nothing is lost or changed on the way to the file."""
    lock = replace(named(found), approvals=approvals)

    assert read_lock(write_lock(lock), "toolcrib.lock") == lock


@given(st.dictionaries(words, records, max_size=3))
@settings(deadline=None)
def test_writing_again_gives_the_same_bytes(found):
    """A lock that did not change makes no noise in version control, in whatever order its servers were found."""
    lock = named(found)
    backwards = Lock(dict(reversed(lock.records.items())))

    assert write_lock(backwards) == write_lock(read_lock(write_lock(lock), "toolcrib.lock")) == write_lock(lock)


def test_the_file_is_ordered_and_easy_to_read():
    """Servers and tools by name, known keys first; a schema keeps the order its author gave it."""
    assert write_lock(Lock({"time": RECORD, "alpha": FAILED})) == TEXT


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Input data was truncated"),
        (TEXT[:200], "Input data was truncated"),
        ("[]", "Expected `object`, got `array`"),
        (
            '{"version": 1, "servers": {"a": {"status": "lost"}}}',
            "Invalid enum value 'lost' - at `$.servers[...].status`",
        ),
        ('{"version": 1, "servers": {}, "more": 1}', "Object contains unknown field `more`"),
        (BOTTOMLESS, "it is nested too deep"),
    ],
)
def test_a_damaged_lock_says_how_to_rebuild_it(text, reason):
    """Nobody has to know what a lock file is to get out of this."""
    with pytest.raises(ConfigError) as caught:
        read_lock(text, "toolcrib.lock")

    assert str(caught.value) == (
        f"toolcrib.lock: The lock file cannot be read: {reason}. "
        "Mend it, or move it away: then every tool is accepted anew as it is now, and answers are asked for again."
    )


def test_a_lock_of_a_newer_toolcrib_is_not_guessed_at():
    """An old program does not half understand a new file."""
    with pytest.raises(ConfigError, match="The lock file has version 2; this toolcrib reads version 1"):
        read_lock('{"version": 2, "servers": {}}', "toolcrib.lock")


def test_a_record_can_be_put_in_and_taken_out():
    """The other records stay as they are."""
    lock = Lock({"alpha": FAILED})

    assert with_record(lock, "time", RECORD) == Lock({"alpha": FAILED, "time": RECORD})
    assert with_record(with_record(lock, "time", RECORD), "time", None) == lock
    assert with_record(lock, "unknown", None) == lock


def test_times_are_utc_and_whole_seconds():
    """The same moment is written the same way wherever toolcrib runs."""
    moment = datetime(2026, 11, 3, 14, 0, 0, 999_999, timezone(timedelta(hours=2)))

    assert timestamp(moment) == "2026-11-03T12:00:00Z"


def test_the_age_of_a_record_is_known_unless_there_is_none():
    """A record that was never discovered, or whose time was spoilt by hand, has no age."""
    now = datetime(2026, 11, 3, 12, 5, tzinfo=UTC)

    assert age_s(RECORD, now) == 300.0
    assert age_s(Record("x"), now) is None
    assert age_s(Record("x", last_discovery="yesterday"), now) is None
    assert age_s(Record("x", last_discovery="2026-11-03T12:00:00"), now) is None


def test_a_lock_with_a_thousand_tools_is_read_in_a_moment():
    """All of it is there, and Python takes no step for each of them: starting with a large catalogue is not felt."""
    schema = {
        "type": "object",
        "properties": {f"parameter_{n}": {"type": "string", "description": "x" * 40} for n in range(6)},
    }
    many = tuple({"name": f"tool_{n:04}", "description": "d" * 100, "inputSchema": schema} for n in range(1000))
    text = write_lock(Lock({"big": Record("big", DiscoveryStatus.SUCCESS, many)}))

    steps = 0

    def count(*_: object) -> None:
        nonlocal steps
        steps += 1

    sys.setprofile(count)
    try:
        read = read_lock(text, "toolcrib.lock")
    finally:
        sys.setprofile(None)

    assert len(text) > 700_000
    assert steps < len(many)
    assert write_lock(read) == text
