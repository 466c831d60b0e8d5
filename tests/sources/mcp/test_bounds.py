"""What the configuration of a server comes to."""

import os
from pathlib import Path

import pytest

from toolcrib.config.model import ServerConfig, is_same_connection
from toolcrib.config.sections import IsolationConfig
from toolcrib.core.errors import SourceUnavailable
from toolcrib.core.kinds import IsolationLevel
from toolcrib.sources.mcp.bounds import UNTESTED, Isolator, from_file
from toolcrib.transports.process.spawn import Spawner
from toolcrib.transports.process.spec import ProcessSpec

SPEC = ProcessSpec(("/bin/cat",), {"PATH": os.defpath})


@pytest.fixture
async def bounds_for(tmp_path):
    spawner = Spawner()
    # No bubblewrap is on this PATH.
    env = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state"), "PATH": str(tmp_path)}

    def make(settings=None):
        return Isolator(spawner, env, settings or IsolationConfig(), "1")

    make.spawner = spawner
    yield make
    await spawner.close()


async def test_a_server_that_asks_for_nothing_gets_limits_without_a_self_test(bounds_for):
    """A plain start stays as fast as it was; that nothing was tested is said."""
    bounded = await bounds_for().around(SPEC, ServerConfig("a", command="cat"))

    assert bounded.isolation == UNTESTED
    assert bounded.confinement.limits
    assert bounds_for.spawner.pid is None


async def test_a_server_that_asks_for_limits_gets_them_tested(bounds_for):
    """Then they are reported as proven."""
    bounded = await bounds_for().around(SPEC, ServerConfig("a", command="cat", isolation="limits"))

    assert bounded.isolation == "limits"


async def test_a_minimum_makes_every_level_a_tested_one(bounds_for):
    """Somebody relies on it."""
    bounds = bounds_for(IsolationConfig(minimum={"system": "limits"}))
    server = ServerConfig("a", command="cat")

    assert (await bounds.around(SPEC, server)).isolation == "limits"
    assert await bounds.level_of(server) is IsolationLevel.LIMITS


async def test_what_was_not_tested_counts_as_none(bounds_for):
    """For whoever has to decide."""
    assert await bounds_for().level_of(ServerConfig("a", command="cat")) is IsolationLevel.NONE


async def test_the_general_level_holds_for_servers_that_say_nothing(bounds_for):
    """A server's own word counts more."""
    bounds = bounds_for(IsolationConfig(level="confined"))

    assert (await bounds.around(SPEC, ServerConfig("a", command="cat"))).isolation == "confined"
    assert (await bounds.around(SPEC, ServerConfig("a", command="cat", isolation="none"))).isolation == "none"


async def test_a_level_that_cannot_be_had_keeps_the_server_from_starting(bounds_for):
    """Fail closed; nothing runs at less than was asked for."""
    server = ServerConfig("a", command="cat", isolation="isolated")

    with pytest.raises(SourceUnavailable, match="not proven on this machine"):
        await bounds_for().around(SPEC, server)
    assert await bounds_for().level_of(server) is IsolationLevel.NONE


async def test_memory_and_processes_are_taken_over(bounds_for):
    """The rest of the limits stays."""
    import resource

    server = ServerConfig("a", command="cat", memory_bytes=10**9, processes=7)
    limits = (await bounds_for().around(SPEC, server)).confinement.limits

    assert (limits[resource.RLIMIT_DATA], limits[resource.RLIMIT_NPROC]) == (10**9, 7)
    assert limits[resource.RLIMIT_CORE] == 0


def test_a_relative_path_is_seen_from_its_file():
    """Not from wherever toolcrib was started."""
    server = ServerConfig("a", command="x", origin="/project/toolcrib.toml")

    assert from_file("data", server) == "/project/data"
    assert from_file("/data", server) == "/data"


@pytest.mark.parametrize(
    "change",
    [
        {"isolation": "confined"}, {"read": ("/a",)}, {"write": ("/a",)}, {"network": True}, {"memory_bytes": 1},
        {"processes": 1},
    ],
)  # fmt: skip
def test_other_bounds_make_it_another_connection(change):
    """The server is started anew."""
    assert not is_same_connection(ServerConfig("a", command="x"), ServerConfig("a", command="x", **change))


def test_the_state_directory_is_that_of_the_user(bounds_for, tmp_path):
    """Nothing is kept before something was measured."""
    bounds_for()

    assert not Path(tmp_path / "state").exists()
