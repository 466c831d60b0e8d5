"""A worker that stays gives every call a process of its own."""

import os

import pytest
from tests.isolate import jobs

from toolcrib.config.sections import IsolationConfig
from toolcrib.core.errors import ToolFailed
from toolcrib.core.kinds import AUTO
from toolcrib.isolate.levels import IsolationWanted, ResourceLimits
from toolcrib.isolate.worker import Task, Workers, module_places
from toolcrib.sources.mcp.bounds import Isolator
from toolcrib.transports.process.spawn import Spawner


@pytest.fixture
async def stay(tmp_path):
    """Start a worker for a function of ``jobs``."""
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    spawner = Spawner()
    bounds = Isolator(spawner, env, IsolationConfig(), "test")
    workers, started = Workers(spawner, bounds.host, bounds.prover, env), []

    async def start(function, **limits):
        task = Task("a job", f"{jobs.__name__}:{function}", {}, module_places(jobs.__name__))
        started.append(await workers.stay(task, IsolationWanted(AUTO, limits=ResourceLimits(**limits))))
        return started[-1]

    yield start
    for worker in started:
        worker.close()
    await spawner.close()


async def test_what_one_call_leaves_behind_is_gone_before_the_next(stay):
    worker = await stay("count_up")

    assert [await worker.ask({}) for _ in range(3)] == [b"1", b"1", b"1"]


async def test_a_call_that_ends_without_an_answer_is_told(stay):
    worker = await stay("count_up")

    with pytest.raises(ToolFailed, match="without an answer"):
        await worker.ask({"exit": 3})


async def test_the_limit_of_processor_time_holds_for_each_call_alone(stay):
    worker = await stay("spend_time", cpu_s=1)
    answers = [await worker.ask({"seconds": 0.6}) for _ in range(3)]

    assert answers == [b"done"] * 3
    with pytest.raises(ToolFailed):
        await worker.ask({"seconds": 30})
