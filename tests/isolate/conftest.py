"""What the tests of isolation share: this machine, what it proves, and programs run within bounds."""

import asyncio
import os
import sys

import pytest

from toolcrib.core.kinds import IsolationLevel
from toolcrib.isolate.levels import IsolationWanted
from toolcrib.isolate.plan import Host, confine
from toolcrib.isolate.run import run_once
from toolcrib.isolate.selftest import measure_all
from toolcrib.transports.process.environment import child_environment
from toolcrib.transports.process.spawn import Spawner
from toolcrib.transports.process.spec import ProcessSpec


@pytest.fixture(scope="session")
def host():
    host = Host.here(os.environ)
    assert host.bwrap, "bubblewrap is not installed: run `./dev` once"
    return host


@pytest.fixture(scope="session")
def proof(host):
    """Everything tried at every level, once for all tests."""

    async def examine():
        spawner = Spawner()
        try:
            return await measure_all(spawner, host)
        finally:
            await spawner.close()

    return asyncio.run(examine())


@pytest.fixture
async def spawner():
    spawner = Spawner()
    yield spawner
    await spawner.close()


@pytest.fixture
def run_python(spawner, host, proof):
    """Runs a script at a level, returns what it printed; where the level is not proven, the test fails saying why."""

    async def run(script, wish, *arguments, cwd=None):
        level = IsolationLevel(wish.level)
        assert proof.holds(level), f"{level.value} is not proven on this machine: {proof.why_not(level)}"
        argv = (sys.executable, "-I", "-S", "-c", script, *map(str, arguments))
        spec = ProcessSpec(argv, child_environment({}, os.environ), cwd, stop_grace_s=0, kill_grace_s=0)
        finished = await run_once(spawner, confine(spec, wish, host), b"", 1 << 20)
        assert finished.exit is not None
        assert finished.exit.code == 0, finished.stderr
        return finished.output.decode().strip()

    return run


CONFINED = IsolationWanted(IsolationLevel.CONFINED)


@pytest.fixture(params=[IsolationLevel.CONFINED, IsolationLevel.ISOLATED])
def wish(request):
    """At both levels that restrict."""
    return IsolationWanted(request.param)
