"""The hostile servers themselves: each does what its mode says, and is proper otherwise."""

import json
import os
import signal
import subprocess

import pytest
from tests.fleet.running import until
from tests.hostile.servers import MODES

REQUESTS = (
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "hi"}}},
)
INPUT = b"".join(json.dumps(request).encode() + b"\n" for request in REQUESTS)
ECHOED = {"jsonrpc": "2.0", "id": 3, "result": {"content": [{"type": "text", "text": "hi"}], "isError": False}}
STAYS = {  # modes that do not end with their input
    "close_stdin",
    "close_stdout",
    "endless_line",
    "hang_at_initialize",
    "hang_at_start",
    "hang_in_call",
    "hang_in_list",
    "ignore_end_of_input",
    "ignore_sigterm",
    "never_reads",
    "stop_in_call",
    "stop_in_list",
    "stops_reading_in_call",
}
GRANDCHILDREN = {mode for mode in MODES if mode.startswith("grandchild")}  # these keep their parent's stdout open
LEFT_TO_COMPANY = {"crowd", "daemon", "slowest_drip"}  # many processes, one that nobody waits for, and a long wait


def exchange(launch):
    """Everything the server prints when all requests come at once and the input then ends."""
    return subprocess.run(launch.argv, input=INPUT, capture_output=True, timeout=60, check=False)


def messages(output):
    return [json.loads(line) for line in output.splitlines()]


def test_the_proper_server_answers_everything(hostile):
    """The yardstick: without a misbehaviour the script is an ordinary server."""
    done = exchange(hostile("proper").launch)

    greeting, listing, result = messages(done.stdout)
    assert greeting["result"]["serverInfo"] == {"name": "hostile", "version": "1"}
    assert [tool["name"] for tool in listing["result"]["tools"]] == ["echo"]
    assert result == ECHOED


@pytest.mark.parametrize("mode", sorted(MODES.keys() - STAYS - GRANDCHILDREN - LEFT_TO_COMPANY))
def test_every_mode_ends_with_its_input(hostile, mode):
    """A mode misbehaves in its own way only: ending is no part of it."""
    server = hostile(mode)

    exchange(server.launch)

    assert server.pids()[0] not in server.survivors()


@pytest.mark.parametrize("mode", sorted(STAYS))
def test_the_modes_that_stay_do_stay(hostile, mode):
    """Only a signal ends them, and for one of them only the hardest."""
    server = hostile(mode)
    process = subprocess.Popen(
        server.launch.argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    process.stdin.write(INPUT)
    process.stdin.close()
    until(server.pids, deadline_s=150, what="the server's start")

    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.3)
    process.kill()
    process.wait()


@pytest.mark.parametrize("mode", sorted(GRANDCHILDREN))
def test_a_grandchild_outlives_its_parent(hostile, mode):
    """What a gateway has to clean up."""
    server = hostile(mode)
    process = subprocess.Popen(server.launch.argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    until(lambda: len(server.pids()) == 2, deadline_s=150, what="the grandchild")

    process.communicate(INPUT)

    _, grandchild = server.pids()
    assert server.survivors() == [grandchild]
    assert (os.getsid(grandchild) == os.getsid(0)) == (mode != "grandchild_in_own_session")


def test_the_one_that_ignores_sigterm_needs_a_harder_signal(hostile):
    """It goes on after SIGTERM."""
    server = hostile("ignore_sigterm")
    process = subprocess.Popen(server.launch.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdin.write(INPUT)
    process.stdin.flush()
    process.stdout.readline()

    process.send_signal(signal.SIGTERM)

    assert process.stdout.readline()
    assert server.survivors() == [process.pid]
    process.kill()
    process.communicate()


def test_the_one_that_exits_says_why_on_stderr(hostile):
    """Exit code 7 and one line."""
    done = exchange(hostile("exit_at_start").launch)

    assert (done.returncode, done.stdout, done.stderr) == (7, b"", b"fatal: API_TOKEN is not set\n")


@pytest.mark.parametrize(
    ("mode", "sent"),
    [
        ("rubbish_on_stdout", b"Starting server on port 3000..."),
        ("invalid_utf8", b"\xff\xfe not UTF-8\n"),
        ("string_ids", b'"id": "3"'),
        ("double_answer", b"SECOND ANSWER"),
        ("duplicate_names", b"The second echo."),
        ("invalid_schema", b'"type": "banana"'),
        ("cursor_loop", b'"nextCursor": "same"'),
        ("half_answer", b'"resu'),
        ("not_a_number", b"NaN"),
        ("environment", b"PATH"),
        ("secret_in_error", b"sk-live-DEADBEEF"),
    ],
)
def test_the_misbehaviour_is_on_the_wire(hostile, mode, sent):
    """Byte for byte, where a few bytes tell it."""
    assert sent in exchange(hostile(mode).launch).stdout


@pytest.mark.parametrize(
    ("mode", "size"), [("huge_line", 64 << 20), ("huge_description", 16 << 20), ("deep_result", 200_000)]
)
def test_the_big_ones_are_one_line(hostile, mode, size):
    """No newline comes before the end of the message."""
    longest = max(map(len, exchange(hostile(mode).launch).stdout.splitlines()))

    assert longest > size


def test_the_flood_comes_before_the_answer(hostile):
    """Twenty thousand notifications, then the result."""
    lines = exchange(hostile("notification_flood").launch).stdout.splitlines()

    assert sum(b"notifications/message" in line for line in lines) == 20_000
    assert json.loads(lines[-1]) == ECHOED
