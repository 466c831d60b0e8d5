"""The stdio transport over real processes, on both event loops."""

import asyncio
import os
import random
import signal
from dataclasses import replace

import pytest
from tests.transports.processes import (
    ECHO,
    FAMILY,
    FAMILY_SIZE,
    STUBBORN,
    STUBBORN_FAMILY,
    Recorder,
    helpers,
    marked,
    new_marker,
    python,
    spec,
    until,
    until_only_one_is_left,
)

from toolcrib.core.errors import SourceUnavailable
from toolcrib.transports.process.spawn import Spawner
from toolcrib.transports.process.spec import ExitReport
from toolcrib.transports.stdio import StderrRing, open_stdio


@pytest.fixture
def marker():
    return new_marker()


@pytest.fixture
async def spawner(marker):
    """A spawner; whatever the test did, nothing is left once it is closed."""
    spawner = Spawner()
    yield spawner
    await spawner.close()
    assert marked(marker) == set()
    assert helpers() == set()


@pytest.fixture
def sink():
    return Recorder()


async def test_messages_go_both_ways(spawner, sink, marker):
    """What is sent arrives as one line each, and the answers come back without their line ends."""
    transport = await open_stdio(spawner, spec(ECHO, marker), sink)
    for n in range(3):
        transport.send(b'{"id":%d}' % n)

    assert await sink.messages_until(3) == [b'{"id":0}', b'{"id":1}', b'{"id":2}']
    assert marked(marker) == {transport.pid}


async def test_the_sink_hears_of_the_end_once(spawner, sink, marker):
    """Closing, closing again and closing from several tasks end the connection a single time."""
    transport = await open_stdio(spawner, spec(ECHO, marker), sink)
    await asyncio.gather(transport.close(), transport.close(), transport.close())
    await transport.close()

    assert sink.ends == [ExitReport(0)]
    assert marked(marker) == set()


@pytest.mark.parametrize(("how", "report"), [("exit 3", ExitReport(3)), ("kill -9 $$", ExitReport(-9))])
async def test_the_sink_learns_how_the_server_ended(spawner, sink, marker, how, report):
    """An exit code, or the signal as a negative number."""
    await open_stdio(spawner, spec(("sh", "-c", how), marker), sink)

    assert await sink.end() == report


def test_an_exit_report_reads_as_words():
    """What a person sees."""
    assert [str(ExitReport(code)) for code in (3, -9, -64)] == [
        "exit code 3",
        "killed by SIGKILL",
        "killed by SIGRTMAX",
    ]


async def test_all_that_was_said_before_the_end_is_heard(spawner, sink, marker):
    """A server may answer at length and exit at once."""
    script = """for n in range(20000): print('{"id":%d}' % n)"""
    await open_stdio(spawner, spec(python(script), marker), sink)

    assert await sink.end() == ExitReport(0)
    assert len(sink.messages) == 20000


async def test_a_server_that_closes_stdout_and_stays_is_stopped(spawner, sink, marker):
    """Without stdout there is no conversation; how it ended is not known yet when the sink hears of it."""
    await open_stdio(spawner, spec(("sh", "-c", "exec >&-; exec sleep 300"), marker), sink)

    assert await sink.end() is None
    await until(lambda: not marked(marker))


async def test_stderr_is_kept(spawner, sink, marker):
    """What the server wrote last is there by the time its end is known, broken characters included."""
    transport = await open_stdio(spawner, spec(("sh", "-c", r"printf 'one\n\ntw\377o\n' >&2; exit 1"), marker), sink)
    await sink.end()

    assert transport.stderr.lines(10) == ["one", "tw\ufffdo"]
    assert transport.stderr.lines(1) == ["tw\ufffdo"]


async def test_much_stderr_does_not_stop_a_server(spawner, sink, marker):
    """It is read all the time, and only the end of it kept."""
    script = "import sys; [sys.stderr.write('x' * 1000 + '\\n') for _ in range(5000)]; print('{}')"
    transport = await open_stdio(spawner, spec(python(script), marker), sink)
    await sink.end()

    assert sink.messages == [b"{}"]
    assert 60 <= len(transport.stderr.lines(10**6)) <= 66


def test_the_stderr_ring_forgets_the_oldest():
    """Never more than its capacity, also when one chunk alone exceeds it; and no line without its beginning."""
    ring = StderrRing(8)
    for chunk in (b"aaaa\n", b"bbbb\n", b"cccccccccc\ndd\n"):
        ring.append(chunk)

    assert ring.lines(5) == ["dd"]
    assert ring.lines(0) == []


async def test_noise_on_stdout_is_survived_and_counted(spawner, sink, marker):
    """Lines that are no JSON go elsewhere; leading white space does not make a message noise."""
    script = r"""printf 'Starting...\n{"id":1}\n\n\xff\xfe\n  [1]\nready\n'; exec cat"""
    transport = await open_stdio(spawner, spec(("bash", "-c", script), marker), sink)
    await sink.until(lambda me: len(me.noise) == 3)

    assert sink.messages == [b'{"id":1}', b"  [1]"]
    assert sink.noise == [b"Starting...", b"\xff\xfe", b"ready"]
    assert (transport.noise_count, list(transport.noise)) == (3, sink.noise)


async def test_invalid_utf8_passes_as_it_is(spawner, sink, marker):
    """A broken character is for the parser to judge; the connection does not hang on it."""
    transport = await open_stdio(spawner, spec(ECHO, marker), sink)
    transport.send(b'{"text":"\xff\xc3"}')

    assert await sink.messages_until(1) == [b'{"text":"\xff\xc3"}']


async def test_a_line_of_ten_megabytes_goes_there_and_back(spawner, sink, marker):
    """Size alone is no fault."""
    transport = await open_stdio(spawner, spec(ECHO, marker), sink)
    message = b'{"text":"' + b"x" * 10_000_000 + b'"}'
    transport.send(message)
    await transport.drain()

    assert await sink.messages_until(1) == [message]


async def test_a_line_over_the_limit_is_dropped_and_the_next_one_heard(spawner, sink, marker):
    """The sink gets a note with the beginning of the line, enough to see which answer will not come."""
    transport = await open_stdio(spawner, spec(ECHO, marker), sink, line_limit=100_000)
    transport.send(b'{"id":7,' + b"x" * 1_000_000 + b"}")
    transport.send(b'{"id":8}')

    assert await sink.messages_until(1) == [b'{"id":8}']
    assert [line[:33] for line in sink.noise] == [b'<line dropped: too long> {"id":7,']
    assert (transport.oversized, transport.noise_count) == (1, 1)


async def test_a_slow_reader_slows_the_sender_down(spawner, sink, marker):
    """``drain`` waits while the server does not read, and ends when it does; nothing is lost."""
    transport = await open_stdio(spawner, spec(ECHO, marker), sink)
    os.kill(transport.pid, signal.SIGSTOP)
    for n in range(1000):
        transport.send(b'{"id":%d,' % n + b"x" * 1000 + b"}")
    waiting = asyncio.create_task(transport.drain())
    await asyncio.sleep(0)
    was_waiting = not waiting.done()
    os.kill(transport.pid, signal.SIGCONT)
    await waiting

    assert was_waiting
    assert [line.split(b",")[0] for line in await sink.messages_until(1000)] == [b'{"id":%d' % n for n in range(1000)]


async def test_waiting_for_a_server_that_dies_ends(spawner, sink, marker):
    """``drain`` says that the server is gone instead of waiting for ever."""
    transport = await open_stdio(spawner, spec(ECHO, marker), sink)
    os.kill(transport.pid, signal.SIGSTOP)
    transport.send(b"x" * 1_000_000)
    waiting = asyncio.create_task(transport.drain())
    await asyncio.sleep(0)
    os.kill(transport.pid, signal.SIGKILL)

    with pytest.raises(SourceUnavailable, match="takes no more messages"):
        await waiting


async def test_sending_to_a_server_that_ended_is_an_error(spawner, sink, marker):
    """The error names the command and how it ended."""
    transport = await open_stdio(spawner, spec(("sh", "-c", "exit 4"), marker), sink)
    await sink.end()

    with pytest.raises(SourceUnavailable, match=r"'sh' takes no more messages: it has ended \(exit code 4\)") as caught:
        transport.send(b"{}")
    assert caught.value.details == {"phase": "send", "command": "sh"}


async def test_closing_leaves_no_descendant(spawner, sink, marker):
    """Same group, ignoring SIGTERM, or escaped into a session of its own: all are gone when ``close`` returns."""
    transport = await open_stdio(spawner, spec(python(FAMILY), marker), sink)
    await sink.messages_until(1)
    assert len(marked(marker)) == FAMILY_SIZE
    await transport.close()

    assert marked(marker) == set()
    assert sink.ends == [ExitReport(0)]


async def test_a_server_that_ends_alone_leaves_no_descendant(spawner, sink, marker):
    """What it left behind is cleared away although nobody closed anything, and although it holds stdout open."""
    transport = await open_stdio(spawner, spec(python(FAMILY), marker), sink)
    await sink.messages_until(1)
    transport.send(b"{}")

    assert await sink.end() == ExitReport(0)
    await until(lambda: not marked(marker))


async def test_a_server_that_does_not_end_at_eof_is_asked_before_it_is_killed(spawner, sink, marker):
    """SIGTERM gives it the time to put things in order."""
    script = "import signal, sys; signal.signal(15, lambda *_: sys.exit(5)); print('{}', flush=True); signal.pause()"
    transport = await open_stdio(spawner, spec(python(script), marker), sink)
    await sink.messages_until(1)
    await transport.close()

    assert sink.ends == [ExitReport(5)]


async def test_a_server_that_ignores_everything_is_killed(spawner, sink, marker):
    """After both graces."""
    transport = await open_stdio(spawner, spec(python(STUBBORN), marker), sink)
    await sink.messages_until(1)
    await transport.close()

    assert sink.ends == [ExitReport(-signal.SIGKILL)]


async def test_many_servers_close_side_by_side(spawner, marker, tmp_path):
    """All of them are asked to end while none of them has, or the second would wait for ever for the first."""
    sinks = [Recorder() for _ in range(20)]
    script = """trap ': > "$0/$$"' TERM; echo {}; while :; do sleep 300 & wait; done"""
    wanted = replace(spec(("sh", "-c", script, str(tmp_path)), marker, grace_s=0.01), kill_grace_s=3600)
    transports = await asyncio.gather(*(open_stdio(spawner, wanted, sink) for sink in sinks))
    await asyncio.gather(*(sink.messages_until(1) for sink in sinks))
    closing = asyncio.gather(*(transport.close() for transport in transports))
    pids = {str(transport.pid) for transport in transports}
    await until(lambda: set(os.listdir(tmp_path)) == pids)
    for pid in pids:
        os.killpg(int(pid), signal.SIGKILL)
    await closing

    assert [sink.ends for sink in sinks] == [[ExitReport(-signal.SIGKILL)]] * 20
    assert marked(marker) == set()


async def test_a_cancelled_close_still_stops_the_server(spawner, sink, marker):
    """The keeper has its order; the sink hears of the end in any case."""
    transport = await open_stdio(spawner, spec(python(STUBBORN), marker), sink)
    await sink.messages_until(1)
    closing = asyncio.create_task(transport.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing

    assert await sink.end() == ExitReport(-signal.SIGKILL)
    await until(lambda: not marked(marker))


async def use_server(spawner, marker):
    sink = Recorder()
    transport = await open_stdio(spawner, spec(python(FAMILY), marker, grace_s=0.05), sink)
    try:
        await sink.messages_until(1)
    finally:
        await transport.close()


async def test_two_cancellations_at_any_moment_leave_no_process(spawner, marker):
    """A user's Ctrl-C and a timeout may strike together, while opening, talking or closing."""
    chance = random.Random(7)
    for _ in range(25):
        task = asyncio.create_task(use_server(spawner, marker))
        for _ in range(2):
            await asyncio.sleep(chance.choice([0, 0.001, 0.05]) * chance.random())
            task.cancel()
        await asyncio.wait([task], timeout=150)
        assert task.done()

    await until_only_one_is_left(spawner, marker)


async def cycle(spawner, wanted):
    sink = Recorder()
    transport = await open_stdio(spawner, wanted, sink)
    await sink.messages_until(1)
    await transport.close()


async def test_starts_and_stops_of_unwilling_families_leak_nothing(spawner, marker):
    """No process, no keeper, no descriptor: of servers that fork grandchildren and ignore every request to end.

    Whatever leaks does so once a start or once a round: three rounds show it as well as twenty.
    """
    wanted = spec(python(STUBBORN_FAMILY), marker, grace_s=0.02)
    await cycle(spawner, wanted)
    before = len(os.listdir("/proc/self/fd"))

    for _ in range(3):
        await asyncio.gather(*(cycle(spawner, wanted) for _ in range(10)))

    assert len(os.listdir("/proc/self/fd")) == before
    assert marked(marker) == set()
    await until(lambda: len(helpers()) == 2)
