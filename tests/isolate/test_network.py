"""Programs with a network, for real: the world is there, this machine is not, but for the ports granted."""

import os
import socket
import sys
from dataclasses import replace

import pytest

from toolcrib.isolate.plan import confine
from toolcrib.isolate.run import run_once
from toolcrib.isolate.selftest import listen, was_called
from toolcrib.transports.process.spec import ProcessSpec

CONNECT = """
import socket, sys
for name in sys.argv[2:]:
    line = socket.socket(socket.AF_INET6 if ":" in name else socket.AF_INET)
    line.settimeout(None if name == "127.0.0.1" else 10)
    print(line.connect_ex((name, int(sys.argv[1]))), end=" ")
"""
MANY_AT_ONCE = """
import asyncio, sys
async def main():
    lines = await asyncio.gather(*(asyncio.open_connection("127.0.0.1", int(sys.argv[1])) for _ in range(40)))
    print(len(lines))
asyncio.run(main())
"""
FLIP = """
import ctypes, socket, sys, threading
libc = ctypes.CDLL(None)
granted, other = (int(port).to_bytes(2, "big") for port in sys.argv[1:3])
address = ctypes.create_string_buffer(b"\\2\\0" + granted + b"\\x7f\\0\\0\\1" + bytes(8), 16)
done = threading.Event()
def flip():
    while not done.is_set():
        for port in (other, granted):
            ctypes.memmove(ctypes.addressof(address) + 2, port, 2)
thread = threading.Thread(target=flip)
thread.start()
outcomes = set()
for _ in range(100):
    with socket.socket() as line:
        outcomes.add(libc.connect(line.fileno(), address, 16))
done.set()
thread.join()
print(sorted(outcomes))
"""
REFUSED = "13"


@pytest.fixture
def listener():
    """Somebody else's service on this machine."""
    with listen(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)) as listener:
        yield listener


def own_addresses() -> list[str]:
    """Names for this machine: the usual ones, and the address by which it reaches others, if it has one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return ["127.0.0.1", "127.1.2.3", "0.0.0.0", "::1", "::ffff:127.0.0.1"]
        return ["127.0.0.1", "127.1.2.3", "0.0.0.0", "::1", "::ffff:127.0.0.1", probe.getsockname()[0]]


async def test_this_machine_is_out_of_reach_by_whatever_name(run_python, wish, listener):
    """Waiting for the outcome or not makes no difference."""
    names = own_addresses()

    told = await run_python(CONNECT, replace(wish, network=True), listener.getsockname()[1], *names)

    assert told.split() == [REFUSED] * len(names)
    assert not was_called(listener)


async def test_a_granted_port_of_this_machine_is_reached(run_python, wish, listener):
    """For which it takes a network as well."""
    port = listener.getsockname()[1]

    told = await run_python(CONNECT, replace(wish, network=True, loopback=(port,)), port, "127.0.0.1")

    assert told == "0"
    assert was_called(listener)


async def test_outcomes_are_the_kernels_own(run_python, wish):
    """Nobody listens at a port that was granted: refused, as without anybody in between."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]

        told = await run_python(CONNECT, replace(wish, network=True, loopback=(port,)), port, "127.0.0.1", "127.1.2.3")

    assert told == "111 111"


async def test_many_connections_at_once_are_made(run_python, wish, listener):
    """By an event loop, which does not wait for each."""
    port = listener.getsockname()[1]

    assert await run_python(MANY_AT_ONCE, replace(wish, network=True, loopback=(port,)), port) == "40"


async def test_an_address_that_changes_while_it_is_looked_at_is_not_connected_to(run_python, wish, listener):
    """What was decided about is a copy: of 100 tries, with the port changed all the time, none gets through."""
    with listen(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)) as granted:
        ports = [each.getsockname()[1] for each in (granted, listener)]

        await run_python(FLIP, replace(wish, network=True, loopback=(ports[0],)), *ports)

        assert not was_called(listener)


async def test_a_program_that_nobody_answers_for_connects_nowhere(spawner, host, wish, listener):
    """A filter that asks, and no keeper that listens: the call fails."""
    argv = (sys.executable, "-I", "-S", "-c", CONNECT, str(listener.getsockname()[1]), "127.0.0.1")
    spec = ProcessSpec(argv, {"PATH": os.defpath}, stop_grace_s=0, kill_grace_s=0)
    bounded = confine(spec, replace(wish, network=True), host)
    code = bounded.confinement.connect_filter
    unheard = replace(bounded.confinement, connect_filter=b"", filter=code, filter_fd=None)

    finished = await run_once(spawner, replace(bounded, confinement=unheard), b"", 1000)

    assert finished.output.split() == [b"38"] or finished.exit.code != 0
    assert not was_called(listener)
