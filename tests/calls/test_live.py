"""Live calls: what is under way and what was, as plain values, in bounded memory."""

import asyncio

import msgspec

from toolcrib.calls.live import CallStepTime, Live, LiveCall, message_of
from toolcrib.core.access import Caller
from toolcrib.core.errors import InvalidArguments, ToolFailed, UnknownTool
from toolcrib.core.requests import Request, RequestContext
from toolcrib.testing import ManualClock

ANN = Caller("ann", "token", session="s1")
ABOUT = "files", "read_only"
SHAPE = {"path": "string 5"}


class Board:
    """A Live with both clocks in hand."""

    def __init__(self, keep: int = 500) -> None:
        self.wall, self.clock = ManualClock(1000.0), ManualClock(5.0)
        self.live = Live(self.wall, self.clock, keep)
        self.told: list[tuple[str, str]] = []

    def begin(self, number: int, name: str = "files__read") -> LiveCall:
        call = Request(name, "read", {"path": "a.txt"}, f"c{number}", ANN, context=RequestContext(trace_id="t1"))
        entry = self.live.open(call, ABOUT, SHAPE, self.clock())
        self.pass_time(1.0)
        return entry

    def end(self, entry: LiveCall, outcome: str = "success", message: str = "") -> None:
        self.live.close(entry, self.clock(), outcome, message)

    def pass_time(self, seconds: float) -> None:
        self.wall.advance(seconds)
        self.clock.advance(seconds)

    def hear(self, entry: LiveCall) -> None:
        self.told.append((entry.id, entry.outcome or "running"))


def ids(calls: list[LiveCall]) -> list[str]:
    return [call.id for call in calls]


async def test_a_call_is_seen_while_it_runs_and_after_it_ended():
    """The same entry, completed."""
    board = Board()
    entry = board.begin(1)
    while_running = msgspec.to_builtins(entry.view())
    board.end(entry)

    common = {
        "id": "c1",
        "tool": "files__read",
        "server": "files",
        "level": "read_only",
        "caller": "ann",
        "callerKind": "token",
        "session": "s1",
        "traceId": "t1",
        "beganAt": 1000.0,
        "message": "",
        "arguments": {"path": "string 5"},
        "steps": [],
    }
    assert while_running == common | {"endedAt": None, "durationMs": None, "outcome": ""}
    assert msgspec.to_builtins(entry.view()) == common | {"endedAt": 1001.0, "durationMs": 1000.0, "outcome": "success"}
    assert board.live.find("c1") is entry
    assert not entry.is_running


async def test_those_that_run_come_oldest_first_and_the_recent_ones_newest_first():
    """However they ended in between."""
    board = Board()
    entries = [board.begin(number) for number in range(4)]
    board.end(entries[2])
    board.end(entries[0])

    assert ids(board.live.running()) == ["c1", "c3"]
    assert ids(board.live.recent()) == ["c3", "c2", "c1", "c0"]
    assert ids(board.live.recent(2)) == ["c3", "c2"]
    assert board.live.recent(0) == []


async def test_the_calls_of_one_tool_can_be_asked_for():
    """Running ones included."""
    board = Board()
    board.begin(1, "files__write")
    board.end(board.begin(2, "files__read"))
    board.begin(3, "files__read")

    assert ids(board.live.of_tool("files__read")) == ["c3", "c2"]
    assert ids(board.live.of_tool("files__read", 1)) == ["c3"]
    assert board.live.of_tool("ghost") == []


async def test_only_so_many_that_ended_are_remembered():
    """Those that run are not forgotten, however many ended meanwhile."""
    board = Board(keep=3)
    board.begin(0)
    for number in range(1, 100):
        board.end(board.begin(number))

    assert ids(board.live.recent()) == ["c99", "c98", "c97", "c0"]
    assert board.live.find("c50") is None
    assert board.live.find("c0") is not None


async def test_a_finished_call_holds_on_to_nothing_but_words():
    """Not to its task, nor to the arguments it was made with."""
    board = Board()
    entry = board.begin(1)
    assert entry.task is asyncio.current_task()

    board.end(entry)

    assert entry.task is None
    assert "a.txt" not in repr(msgspec.to_builtins(entry.view()))


async def test_steps_tell_what_took_the_time():
    """What it waited for, then the tool; one that never came to an end ends with the call."""
    board = Board()
    entry = board.begin(1)
    entry.begin("approval")
    board.pass_time(2.0)
    entry.end("approval")
    entry.begin("queue")
    board.pass_time(0.5)
    unfinished = entry.steps
    entry.end("queue")
    entry.reach_tool()
    board.pass_time(0.25)
    board.end(entry)

    assert unfinished[1] == CallStepTime("queue", 3000.0, 3500.0)
    assert entry.steps == [
        CallStepTime("approval", 1000.0, 3000.0),
        CallStepTime("queue", 3000.0, 3500.0),
        CallStepTime("tool", 3500.0, 3750.0),
    ]
    assert msgspec.to_builtins(entry.view())["steps"][2] == {"name": "tool", "startMs": 3500.0, "endMs": 3750.0}


async def test_a_call_that_ends_while_it_waits_has_its_wait_end_with_it():
    """And never came to its tool."""
    board = Board()
    entry = board.begin(1)
    entry.begin("queue")
    open_step = msgspec.to_builtins(entry.view())["steps"]
    board.pass_time(1.0)
    board.end(entry, "TOOL_TIMEOUT", "late")

    assert open_step == [{"name": "queue", "startMs": 1000.0, "endMs": None}]
    assert entry.steps == [CallStepTime("queue", 1000.0, 2000.0)]


async def test_listeners_are_told_of_beginning_waiting_and_end_until_they_are_forgotten():
    """That it comes to its tool is news only if it has waited before."""
    board = Board()
    forget = board.live.on_change(board.hear)
    entry = board.begin(1)
    entry.reach_tool()
    after_begin = len(board.told)
    entry.begin("queue")
    entry.end("queue")
    entry.reach_tool()
    board.end(entry, "TOOL_TIMEOUT", "late")
    forget()
    board.begin(2)

    assert after_begin == 1
    assert board.told == [("c1", "running")] * 4 + [("c1", "TOOL_TIMEOUT")]


async def test_a_message_is_one_short_line_without_control_characters_and_secrets():
    """Whatever a server or a function says."""
    live = Live(ManualClock(), ManualClock(), hide=lambda text: text.replace("hunter2", "***"))
    entry = live.open(Request("a", "a", {}, "c1"), ABOUT, {}, 0.0)
    live.close(entry, 1.0, "TOOL_EXECUTION_FAILED", "bad\x1b[31m \u202ehunter2\n\tline " + "x" * 5000)

    assert entry.message.startswith("bad *** line xxx")
    assert len(entry.message) == 300


async def test_a_call_that_never_came_to_the_layers_is_noted_as_ended():
    """Under a name that is safe to show, and told like any other."""
    board = Board()
    board.live.on_change(board.hear)

    board.live.note(Request("gh\x00ost", "", {}, "c1", ANN), "ghost", UnknownTool("ghost"), {})

    assert board.live.running() == []
    assert [(call.tool, call.outcome, call.message) for call in board.live.recent()] == [
        ("ghost", "TOOL_NOT_FOUND", "No tool named 'ghost'.")
    ]
    assert board.told == [("c1", "running"), ("c1", "TOOL_NOT_FOUND")]


async def test_a_call_that_is_over_or_never_was_cannot_be_ended():
    """Whoever asks learns that it was too late."""
    board = Board()
    board.end(board.begin(1))

    assert (board.live.cancel("c1"), board.live.cancel("ghost")) == (False, False)


def test_what_is_wrong_with_arguments_is_not_repeated():
    """The words may quote them; those of other errors are the error's own, those of a bug are its kind."""
    said = [message_of(error) for error in (InvalidArguments("n: got 'hunter2'"), ToolFailed("no"), KeyError("k"))]

    assert said == ["The arguments did not fit the tool's input schema.", "no", "KeyError"]
