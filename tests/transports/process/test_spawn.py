"""Guard, keeper and reapers: how servers start, what they find, and that nothing outlives its owner."""

import asyncio
import importlib
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.transports.processes import (
    ECHO,
    FAMILY,
    FAMILY_SIZE,
    MARKER,
    STUBBORN,
    Recorder,
    exists,
    helpers,
    marked,
    new_marker,
    python,
    spec,
    until,
    until_only_one_is_left,
)

from toolcrib.core.errors import SourceUnavailable
from toolcrib.transports.process import spawn
from toolcrib.transports.process.environment import child_environment
from toolcrib.transports.process.spawn import Spawner
from toolcrib.transports.process.spec import ExitReport, ProcessSpec
from toolcrib.transports.stdio import open_stdio


@pytest.fixture
def marker():
    return new_marker()


WITHOUT_PROGRAM = spawn.START.replace("import spawner;", "import reaper; reaper.PROGRAMS.clear(); import spawner;")
either_reaper = pytest.mark.parametrize("start", [spawn.START, WITHOUT_PROGRAM], ids=["small", "Python"])
"""Also where the small program cannot run."""


@pytest.fixture
def start():
    return spawn.START


@pytest.fixture
async def spawner(marker, start):
    """A spawner; whatever the test did, nothing is left once it is closed."""
    spawner = Spawner(start)
    yield spawner
    await spawner.close()
    await until(lambda: not marked(marker))
    assert helpers() == set()


async def run(spawner, argv, marker, **more) -> tuple[Recorder, ExitReport | None]:
    """Run ``argv`` to its end; everything it said, and how it ended."""
    sink = Recorder()
    await open_stdio(spawner, spec(argv, marker, **more), sink)
    return sink, await sink.end()


async def start_family(spawner, marker):
    """A server with all its descendants, and its transport."""
    sink = Recorder()
    transport = await open_stdio(spawner, spec(python(FAMILY), marker), sink)
    await sink.messages_until(1)
    assert len(marked(marker)) == FAMILY_SIZE
    return transport, sink


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])


def find_keeper(transport) -> int:
    """The parent of the server's reaper."""
    return parent_of(parent_of(transport.pid))


async def test_a_server_has_three_descriptors(spawner, marker):
    """Nothing of the gateway, the spawner or the keeper is open in it."""
    script = "import os; print('{}', sorted(os.listdir('/proc/self/fd')))"
    sink, _ = await run(spawner, python(script), marker)

    assert sink.messages == [b"{} ['0', '1', '2', '3']"]  # 3 is the listing itself


async def test_a_server_leads_its_own_session_and_takes_signals_as_usual(spawner, marker):
    """No signal is blocked or ignored, although Python and the keeper ignore some."""
    sink, _ = await run(spawner, ("cat", "/proc/self/stat", "/proc/self/status"), marker)
    pid, _name, _state, _parent, _group, session, *_ = sink.noise[0].split()
    masks = dict(line.split(b":\t") for line in sink.noise if line.startswith((b"SigBlk", b"SigIgn")))
    reserved = 0b11 << 31  # 32 and 33 belong to the C library; nobody can set them

    assert pid == session
    assert {name: int(mask, 16) & ~reserved for name, mask in masks.items()} == {b"SigBlk": 0, b"SigIgn": 0}


async def test_a_server_runs_where_it_was_told(spawner, marker, tmp_path):
    """In its working directory, from which a relative command starts."""
    program = tmp_path / "here"
    program.write_text('#!/bin/sh\necho "{}" $(pwd)\n')
    program.chmod(0o755)
    sink, _ = await run(spawner, ("./here",), marker, cwd=str(tmp_path))

    assert sink.messages == [f"{{}} {tmp_path}".encode()]


async def test_a_large_environment_arrives(spawner, marker):
    """More than a socket takes at once."""
    large = {f"V{n}": "x" * 100_000 for n in range(10)}
    sink = Recorder()
    env = child_environment({MARKER: marker, **large}, os.environ)
    await open_stdio(spawner, ProcessSpec(("sh", "-c", 'echo "{}" ${#V0} ${#V9}'), env), sink)
    await sink.end()

    assert sink.messages == [b"{} 100000 100000"]


async def refusal(spawner, argv, marker, **more) -> SourceUnavailable:
    with pytest.raises(SourceUnavailable) as caught:
        await open_stdio(spawner, spec(argv, marker, **more), Recorder())
    assert caught.value.details["phase"] == "start"
    return caught.value


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("no-such-command", "command not found: 'no-such-command'. Install it or give the full path."),
        ("./no-such-file", "no such file: './no-such-file'. Check the path; a relative one starts from the"
                           " server's working directory."),
        ("/dev/null", "not allowed to run '/dev/null'. Make it executable: chmod +x /dev/null"),
    ],
)  # fmt: skip
async def test_a_command_that_cannot_run_is_explained(spawner, marker, command, message):
    """The error names the command and what to do."""
    assert str(await refusal(spawner, (command,), marker)) == message


async def test_a_missing_runtime_is_named(spawner, marker, tmp_path):
    """Who lacks npx lacks Node.js."""
    env = {"PATH": str(tmp_path), MARKER: marker}
    with pytest.raises(SourceUnavailable) as caught:
        await spawner.start(ProcessSpec(("npx", "-y", "server"), env))

    assert str(caught.value) == "command not found: 'npx'. Install Node.js or give the full path."
    assert caught.value.details == {"phase": "start", "command": "npx", "errno": 2, "failure": "command"}


@pytest.mark.parametrize(
    ("text", "message"),
    [("#!/no/such/interpreter\n", "its interpreter is missing"), ("\x7fELF?", "no program for this machine")],
)
async def test_a_program_that_the_system_cannot_read_is_explained(spawner, marker, tmp_path, text, message):
    """The file exists, but that is not enough."""
    program = tmp_path / "program"
    program.write_text(text)
    program.chmod(0o755)

    assert message in str(await refusal(spawner, (str(program),), marker))


async def test_a_missing_working_directory_is_explained(spawner, marker):
    """It is not the command that is missing."""
    error = await refusal(spawner, ECHO, marker, cwd="/no/such/directory")

    assert str(error) == (
        "cannot enter the working directory '/no/such/directory': No such file or directory. Check the server's cwd."
    )


@pytest.mark.parametrize("argv", [(), ("a\0b",), ("cat", "\0")])
async def test_a_command_that_cannot_be_said_is_refused(spawner, marker, argv):
    """Empty, or with a zero byte in it."""
    assert "empty or contains a zero byte" in str(await refusal(spawner, argv, marker))


async def test_running_out_of_descriptors_is_explained(spawner, marker):
    """The error says which limit to raise, and the descriptors it could get are given back."""
    await run(spawner, ("true",), marker)
    before = os.listdir("/proc/self/fd")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(before) + 4, hard))
    try:
        error = await refusal(spawner, ECHO, marker)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert str(error) == "too many open files; each server needs four. Raise the limit: ulimit -n 8192"
    assert os.listdir("/proc/self/fd") == before


async def test_windows_is_told_what_to_do(spawner, marker, monkeypatch):
    """There are no process groups there."""
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(SourceUnavailable, match="run toolcrib inside WSL"):
        await spawner.start(spec(ECHO, marker))


async def test_fifty_servers_start_at_once(spawner, marker):
    """More than may be under way at the same time; each talks to its own sink."""
    sinks = [Recorder() for _ in range(50)]
    transports = await asyncio.gather(*(open_stdio(spawner, spec(ECHO, marker), sink) for sink in sinks))
    for n, transport in enumerate(transports):
        transport.send(b'{"id":%d}' % n)

    assert [(await sink.messages_until(1))[0] for sink in sinks] == [b'{"id":%d}' % n for n in range(50)]
    assert len(helpers()) == 52  # guard, keeper, and a reaper for each


async def test_closing_the_spawner_ends_every_server(spawner, marker):
    """Also those whose transport nobody closed, gently; afterwards nothing starts any more."""
    _, family = await start_family(spawner, marker)
    quiet = Recorder()
    await open_stdio(spawner, spec(ECHO, marker), quiet)
    await spawner.close()

    assert marked(marker) == set()
    assert (family.ends, quiet.ends) == ([ExitReport(0)], [ExitReport(0)])
    assert "toolcrib is closing" in str(await refusal(spawner, ECHO, marker))


async def test_a_spawner_that_never_started_anything_closes(spawner, marker):
    """It never ran at all."""
    await spawner.close()

    assert helpers() == set()


async def test_a_cancelled_close_of_the_spawner_still_ends_everything(marker):
    """Every line is closed on the way out."""
    spawner, sink = Spawner(), Recorder()
    await open_stdio(spawner, spec(python(STUBBORN), marker), sink)
    await sink.messages_until(1)
    closing = asyncio.create_task(spawner.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])

    assert closing.cancelled()
    await until(lambda: not marked(marker) and not helpers())


@either_reaper
async def test_each_server_is_ended_with_what_it_started_and_nothing_else(spawner, marker):
    """All have the same keeper; whose a daemon is, it knows all the same."""
    markers = [marker, new_marker(), new_marker()]
    families = [await start_family(spawner, each) for each in markers]
    for number, (transport, sink) in enumerate(families):
        await transport.close()
        assert sink.ends == [ExitReport(0)]
        sizes = [len(marked(each)) for each in markers]
        assert sizes == [0] * (number + 1) + [FAMILY_SIZE] * (2 - number)


NAMELESS = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(1, b"{%d}\\n" % os.getpid())
        os.closerange(0, 3)
        os.execve("/bin/sleep", ["sleep", "3600"], {})
    os._exit(0)
os.wait()
sys.stdin.read()
"""


@either_reaper
async def test_a_daemon_that_keeps_nothing_of_its_server_ends_with_it(spawner, marker):
    """No session, no descriptor, no environment tells whose it is: only the kernel does."""
    transport, sink = await start_talking(spawner, python(NAMELESS), marker)
    bystander, other = await start_talking(spawner, python(NAMELESS), marker)
    daemon, spared = int(sink.messages[0].strip(b"{}")), int(other.messages[0].strip(b"{}"))
    await until(lambda: parent_of(daemon) == parent_of(transport.pid))
    await until(lambda: parent_of(spared) == parent_of(bystander.pid))
    await transport.close()

    assert not exists(daemon)
    assert exists(spared)
    await bystander.close()
    assert not exists(spared)


async def start_talking(spawner, argv, marker):
    """A server that has said something, and its sink."""
    sink = Recorder()
    transport = await open_stdio(spawner, spec(argv, marker), sink)
    await sink.messages_until(1)
    return transport, sink


@either_reaper
async def test_servers_do_not_need_the_guard_once_they_run(spawner, marker):
    """If it dies, running servers go on, the next one gets a new program, and all are still swept."""
    transport, sink = await start_family(spawner, marker)
    os.kill(spawner.pid, signal.SIGKILL)
    await until(lambda: spawner.pid is None)
    other = await open_stdio(spawner, spec(ECHO, marker), Recorder())
    assert find_keeper(other) != find_keeper(transport)
    assert len(marked(marker)) == FAMILY_SIZE + 1
    await asyncio.gather(transport.close(), other.close())

    assert marked(marker) == set()
    assert sink.ends == [ExitReport(0)]


@either_reaper
async def test_a_killed_reaper_takes_its_server_along(spawner, marker):
    """The kernel kills the server, the keeper what the server had started; the sink hears of the end."""
    transport, sink = await start_family(spawner, marker)
    bystander = await open_stdio(spawner, spec(ECHO, marker), Recorder())
    os.kill(parent_of(transport.pid), signal.SIGKILL)

    assert await sink.end() is None
    await until(lambda: marked(marker) == {bystander.pid})
    async with asyncio.timeout(150):
        await transport.close()


@either_reaper
async def test_a_killed_keeper_takes_all_servers_along_and_has_a_successor(spawner, marker):
    """The kernel kills reapers and servers, the guard what those had started; whoever comes next is served."""
    (one, sink), (_, other) = [await start_family(spawner, marker) for marker in (marker, marker[::-1])]
    below = helpers() | marked(marker) | marked(marker[::-1])
    os.kill(find_keeper(one), signal.SIGKILL)

    assert (await sink.end(), await other.end()) == (None, None)
    await start_family(spawner, new_marker())
    await until(lambda: not any(map(exists, below)))


@either_reaper
async def test_a_keeper_killed_when_nobody_watches_takes_its_server_along(spawner, marker):
    """With the guard dead too it is the kernel alone that ends the server."""
    transport, sink = await start_talking(spawner, python(STUBBORN), marker)
    keeper = find_keeper(transport)
    os.kill(spawner.pid, signal.SIGKILL)
    os.kill(keeper, signal.SIGKILL)

    assert await sink.end() is None
    await until(lambda: not marked(marker))


@either_reaper
async def test_keepers_do_not_mind_signals_meant_for_the_gateway(spawner, marker):
    """A service manager signals every process it knows of; servers still get their graceful end."""
    transport, sink = await start_family(spawner, marker)
    for pid in helpers():
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(pid, number)
    await transport.close()

    assert sink.ends == [ExitReport(0)]
    assert marked(marker) == set()


OWNER = """
import asyncio, os, sys
from tests.transports.processes import MARKER, Recorder, python, spec
from toolcrib.transports.process.spawn import Spawner
from toolcrib.transports.stdio import open_stdio

async def main():
    spawner, sink = Spawner(), Recorder()
    transport = await open_stdio(spawner, spec(python(*sys.argv[1:]), os.environ[MARKER]), sink)
    await sink.messages_until(1)
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def run_and_kill_gateway(marker: str, *server: str) -> set[int]:
    """A gateway of its own runs the server until it is ready, and is killed; every process there was below it."""
    root = Path(__file__).parents[3]
    env = {**os.environ, MARKER: marker, "PYTHONPATH": os.pathsep.join([str(root), str(root / "src")])}
    with subprocess.Popen([sys.executable, "-c", OWNER, *server], env=env, stdout=subprocess.PIPE) as owner:
        assert owner.stdout.readline() == b"ready\n"
        below = helpers(owner.pid) | marked(marker) - {owner.pid}
        owner.kill()
    assert len(below) >= 3
    return below


@pytest.mark.parametrize("script", [FAMILY, STUBBORN], ids=["family", "stubborn"])
async def test_nothing_survives_the_gateway_being_killed(marker, script):
    """After kill -9 of the owner: no server, no descendant of any kind, no keeper, no spawner."""
    below = run_and_kill_gateway(marker, script)

    await until(lambda: not any(map(exists, below)))
    assert marked(marker) == set()


async def test_servers_of_a_killed_gateway_end_gently(marker, tmp_path):
    """They see the end of stdin and are asked to end before they are killed."""
    script = """
import signal, sys
def finish(*_):
    open(sys.argv[1], "w").write("eof, then asked")
    sys.exit()
signal.signal(signal.SIGTERM, finish)
print("{}", flush=True)
assert sys.stdin.read() == ""
signal.pause()
"""
    below = run_and_kill_gateway(marker, script, str(tmp_path / "note"))
    await until(lambda: not any(map(exists, below)))

    assert (tmp_path / "note").read_text() == "eof, then asked"


async def test_a_cancelled_start_leaves_no_process(spawner, marker):
    """At every step on the way; the keeper finds its line closed."""
    for steps in range(6):
        starting = asyncio.create_task(spawner.start(spec(("sleep", "300"), marker)))
        for _ in range(steps):
            await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait([starting])
        assert starting.cancelled()

    await until_only_one_is_left(spawner, marker)


def test_descendants_are_found_at_any_depth(monkeypatch):
    """Whatever group they are in; the root itself and its relatives are not among them."""
    monkeypatch.syspath_prepend(Path(spawn.__file__).parent)  # the program next door, as it imports itself
    find_below = importlib.import_module("spawner").find_below
    table = {1: (0, 1), 5: (1, 5), 6: (5, 6), 7: (6, 7), 8: (7, 6), 9: (1, 9)}

    assert find_below(table, {5}) == {6, 7, 8}
    assert find_below(table, {9}) == set()


def test_what_ended_by_itself_was_not_left_behind(monkeypatch):
    """Neither one that is gone, nor one whose parent has not taken leave of it yet."""
    monkeypatch.syspath_prepend(str(Path(spawn.__file__).parent))
    stays_behind = importlib.import_module("spawner").stays_behind
    running, ended = subprocess.Popen(["sleep", "600"]), subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and stays in the table

    found = stays_behind(running.pid), stays_behind(ended.pid)
    running.kill()
    for process in (running, ended):
        process.wait()

    assert found == (True, False)
    assert not stays_behind(ended.pid)
