"""Three replicas behind HAProxy, fifty callers of both eras, and everything that may break does."""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import redis as redis_client
from tests.fleet import launcher
from tests.fleet.engines import Postgres, Redis, a_postgres, a_redis
from tests.fleet.gateway import TOOLCRIB
from tests.fleet.running import Running, accepts_connections, free_port, homely, running, until
from tests.journeys.round_robin import Client, Outcome, most_within

from toolcrib.stores.postgres.database import PgDatabase, StoreSettings
from toolcrib.stores.postgres.migrate import upgrade

ROOT = Path(__file__).resolve().parents[2]
CALLERS = 50
RATE, WINDOW_S = 20, 1.0
DOCUMENTED = {
    "success",
    "no answer",
    "http 502",
    "http 503",
    "TOOL_RATE_LIMITED",
    "TOOL_UNAVAILABLE",
    "TOOL_EXECUTION_FAILED",
}
"""Everything a client may be told while parts are away; docs/scale.md says when."""

CONFIG = """
[store]
url = "{postgres}"
timeout = "2s"

[redis]
url = "{redis}"

[serve]
drain = "3s"

[kb]
enabled = false

[servers.counter]
command = "{python}"
args = ["{server}", "{diary}"]

[servers.counter.tools.rare]
rate = "{rate}/1s"
"""


class Fleet:
    """Three replicas, what they share, and the balancer in front of them."""

    def __init__(self, home: Path, postgres: Postgres, redis: Redis) -> None:
        self.home, self.postgres, self.redis = home, postgres, redis
        self.diary = home / "diary.txt"
        self.diary.touch()
        self.database = postgres.empty_database()
        self.config = home / "toolcrib.toml"
        self.config.write_text(
            CONFIG.format(
                postgres=self.database,
                redis=redis.url(),
                python=sys.executable,
                server=Path(__file__).with_name("counting_server.py"),
                diary=self.diary,
                rate=RATE,
            )
        )
        self.ports = [free_port() for _ in range(3)]
        self.balancer = free_port()
        self.replicas: list[Running] = []
        self._lives: list[contextlib.ExitStack] = [contextlib.ExitStack() for _ in range(3)]

    def start(self, number: int) -> Running:
        port = self.ports[number]
        argv = [*TOOLCRIB, "serve", "--config", str(self.config), "--port", str(port)]
        ready = running(
            argv,
            ready=lambda _: accepts_connections(port),
            env=homely(self.home / f"replica-{number}"),
            cwd=self.home,
        )
        return self._lives[number].enter_context(ready)

    @contextlib.contextmanager
    def opened(self) -> Iterator["Fleet"]:
        haproxy = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
        assert haproxy is not None, "The tests need haproxy: sudo apt-get install -y haproxy"
        for number in range(3):
            (self.home / f"replica-{number}").mkdir()
        addresses = {f"REPLICA_{number}": f"127.0.0.1:{port}" for number, port in enumerate(self.ports, 1)}
        environment = {**os.environ, **addresses, "HAPROXY_BIND": f"127.0.0.1:{self.balancer}"}
        command = [haproxy, "-f", str(ROOT / "deploy" / "haproxy.cfg"), "-db"]
        try:
            self.replicas = [self.start(number) for number in range(3)]
            with running(command, ready=lambda _: accepts_connections(self.balancer), env=environment):
                yield self
        finally:
            for life in self._lives:
                life.close()

    def kill(self, number: int) -> None:
        self.replicas[number].process.kill()
        self.replicas[number].process.wait(150)

    def drain(self, number: int) -> int:
        self.replicas[number].process.send_signal(signal.SIGTERM)
        return self.replicas[number].process.wait(150)

    def start_again(self, number: int) -> None:
        self._lives[number].close()
        self.replicas[number] = self.start(number)


@pytest.fixture
async def fleet(tmp_path: Path):
    with a_postgres(("fsync=on", "max_connections=100")) as postgres, a_redis() as redis:
        made = Fleet(tmp_path, postgres, redis)
        database = PgDatabase(StoreSettings(made.database))
        await upgrade(database)
        await database.close()
        with made.opened():
            yield made


class Crowd:
    """All callers at once, until the crowd is told to go home."""

    def __init__(self, port: int) -> None:
        self.clients = [Client(f"c{number}", port, is_modern=number % 2 == 0) for number in range(CALLERS)]
        self._is_over = False
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def outcomes(self) -> list[Outcome]:
        return [outcome for client in self.clients for outcome in client.outcomes]

    async def __aenter__(self) -> "Crowd":
        self._tasks = [asyncio.create_task(client.run(lambda: self._is_over)) for client in self.clients]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_over = True
        await asyncio.wait_for(asyncio.gather(*self._tasks), 150)

    async def goes_on(self, count: int = 150) -> None:
        """Return when both eras have had that many more successes."""
        before = self._successes()
        async with asyncio.timeout(150):
            while min(self._successes()[era] - before[era] for era in (True, False)) < count:
                await asyncio.sleep(0.02)

    def _successes(self) -> Counter[bool]:
        done = Counter({True: 0, False: 0})
        for client in self.clients:
            done[client.is_modern] += sum(outcome.kind == "success" for outcome in client.outcomes)
        return done


async def disturb(fleet: Fleet, crowd: Crowd) -> None:
    """One thing after the other, with good times in between."""
    await crowd.goes_on()
    await asyncio.to_thread(fleet.kill, 0)
    await crowd.goes_on()
    await asyncio.to_thread(fleet.start_again, 0)
    await crowd.goes_on()
    assert await asyncio.to_thread(fleet.drain, 1) == 0
    await crowd.goes_on()
    await asyncio.to_thread(fleet.start_again, 1)
    await crowd.goes_on()
    await asyncio.to_thread(fleet.postgres.stop)
    await asyncio.to_thread(fleet.postgres.start)
    await crowd.goes_on()
    await asyncio.to_thread(redis_client.Redis.from_url(fleet.redis.url()).flushall)
    await crowd.goes_on()


@pytest.mark.timeout(300)
async def test_fifty_callers_lose_nothing_while_everything_breaks_once(fleet):
    async with Crowd(fleet.balancer) as crowd:
        await disturb(fleet, crowd)
    carried_out = fleet.diary.read_text().splitlines()
    succeeded = [outcome for outcome in crowd.outcomes if outcome.kind == "success"]
    rare = [outcome for outcome in succeeded if outcome.tool.endswith("rare")]

    assert {outcome.kind for outcome in crowd.outcomes} <= DOCUMENTED
    assert [client.sessions for client in crowd.clients if not client.is_modern] == [1] * (CALLERS // 2)
    assert [line for line, times in Counter(carried_out).items() if times > 1] == []
    assert {f"{outcome.tool[9:]} {outcome.mark}" for outcome in succeeded} <= set(carried_out)
    assert rare
    assert most_within(rare, WINDOW_S) <= RATE
    until(lambda: begun(fleet) >= len(carried_out), deadline_s=150, what="every call in the log")
    assert begun(fleet) >= len(carried_out)
    verify(fleet)


def begun(fleet: Fleet) -> int:
    """The calls that the log says were begun."""
    counted = """SELECT count(*) FROM toolcrib.audit_entry WHERE body::jsonb ->> 'event' = 'call.begun'"""
    with psycopg.connect(fleet.database) as connection:
        row = connection.execute(counted).fetchone()
    assert row is not None
    return int(row[0])


def verify(fleet: Fleet) -> None:
    """The chain of all replicas' entries is whole."""
    command = [*TOOLCRIB, "audit", "verify", "--config", str(fleet.config)]
    done = launcher.run(command, stdin="", timeout_s=150, env=homely(fleet.home))
    assert done.returncode == 0, done.stdout + done.stderr
