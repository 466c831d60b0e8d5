"""The hostile servers themselves: each does what its mode says, and is proper otherwise."""

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from tests.fleet.running import until
from tests.hostile.conftest import SCRIPT, is_running
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
EXIT_CODES = {
    "exit_at_start": 7,
    "exit_in_call": 3,
    "exit_in_list": 3,
    "killed_in_call": -signal.SIGKILL,
}  # of those that end before their input does
GRANDCHILDREN = {mode for mode in MODES if mode.startswith("grandchild")}  # these keep their parent's stdout open
LEFT_TO_COMPANY = {"crowd", "daemon", "slowest_drip"}  # many processes, one that nobody waits for, and a long wait
ENDING = sorted(MODES.keys() - STAYS - GRANDCHILDREN - LEFT_TO_COMPANY)


FORKED = """
import os, sys
sys.path.insert(0, sys.argv[1])
import servers

folder, modes = sys.argv[2], sys.argv[3:]
for mode in modes:
    if os.fork() == 0:
        os.dup2(os.open(f"{folder}/input", os.O_RDONLY), 0)
        for stream, ending in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{folder}/{mode}.{ending}", os.O_WRONLY | os.O_CREAT), stream)
        sys.argv[1:] = [mode, f"{folder}/{mode}.pids"]
        sys.exit(servers.main(sys.argv[1:]))
    _, status = os.wait()
    with open(f"{folder}/{mode}.status", "w") as file:
        file.write(str(os.waitstatus_to_exitcode(status)))
"""
"""One server after the other, each in a process of its own: started as in use, but imported once."""


@dataclass(frozen=True)
class Exchange:
    """What a server did when all requests came at once and the input then ended."""

    folder: Path
    mode: str

    @property
    def stdout(self) -> bytes:
        return (self.folder / f"{self.mode}.out").read_bytes()

    @property
    def stderr(self) -> bytes:
        return (self.folder / f"{self.mode}.err").read_bytes()

    @property
    def exit_code(self) -> int:
        return int((self.folder / f"{self.mode}.status").read_text())

    @property
    def pid(self) -> int:
        return int((self.folder / f"{self.mode}.pids").read_text().split()[0])


@pytest.fixture(scope="module")
def exchange(tmp_path_factory):
    """Give the exchange with a mode that ends; one that does not leaves those after it without."""
    folder = tmp_path_factory.mktemp("exchanges")
    (folder / "input").write_bytes(INPUT)
    argv = [sys.executable, "-I", "-S", "-c", FORKED, str(SCRIPT.parent), str(folder), *ENDING]
    subprocess.run(argv, check=True, timeout=500)
    yield partial(Exchange, folder)
    shutil.rmtree(folder)


def messages(output):
    return [json.loads(line) for line in output.splitlines()]


def test_the_proper_server_answers_everything(exchange):
    """The yardstick: without a misbehaviour the script is an ordinary server."""
    greeting, listing, result = messages(exchange("proper").stdout)

    assert greeting["result"]["serverInfo"] == {"name": "hostile", "version": "1"}
    assert [tool["name"] for tool in listing["result"]["tools"]] == ["echo"]
    assert result == ECHOED


@pytest.mark.parametrize("mode", ENDING)
def test_every_mode_ends_with_its_input(exchange, mode):
    """A mode misbehaves in its own way only: ending is no part of it."""
    assert exchange(mode).exit_code == EXIT_CODES.get(mode, 0)
    assert not is_running(exchange(mode).pid)


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


def test_the_one_that_exits_says_why_on_stderr(exchange):
    """Exit code 7 and one line."""
    done = exchange("exit_at_start")

    assert (done.exit_code, done.stdout, done.stderr) == (7, b"", b"fatal: API_TOKEN is not set\n")


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
def test_the_misbehaviour_is_on_the_wire(exchange, mode, sent):
    """Byte for byte, where a few bytes tell it."""
    assert sent in exchange(mode).stdout


@pytest.mark.parametrize(
    ("mode", "size"), [("huge_line", 64 << 20), ("huge_description", 16 << 20), ("deep_result", 200_000)]
)
def test_the_big_ones_are_one_line(exchange, mode, size):
    """No newline comes before the end of the message."""
    longest = max(map(len, exchange(mode).stdout.splitlines()))

    assert longest > size


def test_the_flood_comes_before_the_answer(exchange):
    """Twenty thousand notifications, then the result."""
    lines = exchange("notification_flood").stdout.splitlines()

    assert sum(b"notifications/message" in line for line in lines) == 20_000
    assert json.loads(lines[-1]) == ECHOED
