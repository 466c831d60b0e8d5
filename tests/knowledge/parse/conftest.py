"""Workers that parse strangers' files."""

import os

import pytest

from toolcrib.config.sections import IsolationConfig
from toolcrib.isolate.worker import Workers
from toolcrib.sources.mcp.bounds import Isolator
from toolcrib.transports.process.spawn import Spawner


@pytest.fixture(scope="session")
def state(tmp_path_factory):
    """What the self-test of isolation found is remembered for all tests."""
    return tmp_path_factory.mktemp("state")


@pytest.fixture
async def workers(tmp_path, state):
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_STATE_HOME": str(state)}
    spawner = Spawner()
    bounds = Isolator(spawner, env, IsolationConfig(), "test")
    yield Workers(spawner, bounds.host, bounds.prover, env)
    await spawner.close()
