"""Workers that parse strangers' files."""

import os

import pytest

from toolcrib.config.security import IsolationConfig
from toolcrib.isolate.worker import Workers
from toolcrib.sources.bounds import Bounds
from toolcrib.transports.spawn import Spawner


@pytest.fixture
async def workers(tmp_path):
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    spawner = Spawner()
    bounds = Bounds(spawner, env, IsolationConfig(), "test")
    yield Workers(spawner, bounds.host, bounds.prover, env)
    await spawner.close()
