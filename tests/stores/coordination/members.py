"""Replicas in one process, over a real engine that can be made to forget."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tests.doubles.coordination import MemoryHub
from tests.fleet.engines import Postgres, Redis

from toolcrib.core.coordination import Coordination, EpochMemory
from toolcrib.stores.coordination.coordinator import Coordinator
from toolcrib.stores.coordination.engine import Habits
from toolcrib.stores.postgres.coordination import PgEngine
from toolcrib.stores.postgres.database import PgDatabase, StoreSettings
from toolcrib.stores.redis.engine import RedisEngine, RedisSettings, make_client

SETTLE_S = 0.5
WHOLE_WINDOW_S = 1.0
HOUR_US = 3_600_000_000
_NUMBERS = itertools.count(1)
_DATABASES: dict[int, str] = {}
"""One database for all fleets of a test run, by the port of its engine: names keep them apart."""


def quick(**changed: float) -> Habits:
    """A replica that does everything in a tenth of the usual time."""
    usual = {"lease_s": 0.9, "beat_s": 0.15, "settle_s": SETTLE_S, "whole_window_s": WHOLE_WINDOW_S}
    return Habits(**(usual | {"patience_s": 0.5, "poll_s": 0.1} | changed))


async def until(condition: Callable[[], Awaitable[object]], deadline_s: float = 150) -> None:
    """Wait for what an engine does in its own time."""
    async with asyncio.timeout(deadline_s):
        while not await condition():
            await asyncio.sleep(0.01)


class Hub:
    """Members of one process, which need no engine."""

    def __init__(self) -> None:
        self._hub = MemoryHub()
        self.all: list[Coordination] = []

    async def join(self) -> Coordination:
        self.all.append(member := self._hub.join(f"member{next(_NUMBERS)}"))
        return member

    async def several(self, number: int) -> list[Coordination]:
        return [await self.join() for _ in range(number)]

    async def close(self) -> None:
        for member in self.all:
            await member.close()


@dataclass
class Members:
    """The replicas of one fleet, each with connections of its own."""

    make: Callable[[Habits, EpochMemory | None], Coordinator]
    lose: Callable[[], Awaitable[None]]
    engine: str
    set_back: Callable[[], Awaitable[None]]
    """Leaves everything as if the engine's clock had just been set back by an hour."""
    all: list[Coordinator] = field(default_factory=list)
    closing: list[Callable[[], Awaitable[None]]] = field(default_factory=list)

    async def join(self, habits: Habits | None = None, memory: EpochMemory | None = None) -> Coordinator:
        member = await self.make(habits or quick(), memory).open()
        self.all.append(member)
        return member

    async def several(self, number: int) -> list[Coordinator]:
        return [await self.join() for _ in range(number)]

    async def kill(self, member: Coordinator) -> None:
        """As if its process had been killed: nothing is given back."""
        self.all.remove(member)
        await member._scope.close()
        await member._engine.close()

    async def close(self) -> None:
        for member in self.all:
            await member.close()
        for close in self.closing:
            await close()


async def redis_members(engine: Redis, name: str = "") -> Members:
    """Over a database of their own; the engine is old enough for nobody to doubt that it is the first time."""
    settings = RedisSettings(engine.fresh_database(), name or f"fleet{next(_NUMBERS)}", timeout_s=60.0)
    client = make_client(settings)

    async def is_old() -> bool:
        return float((await client.info("server"))["uptime_in_seconds"]) > SETTLE_S

    async def lose() -> None:
        await client.flushdb()

    async def set_back() -> None:
        for key in await client.keys("*"):
            kind = await client.type(key)
            if kind == b"list":
                for i, stamp in enumerate(await client.lrange(key, 0, -1)):
                    await client.lset(key, i, int(stamp) + HOUR_US)
            elif kind == b"zset":
                await client.zadd(
                    key, {member: at + HOUR_US for member, at in await client.zrange(key, 0, -1, withscores=True)}
                )
            elif kind == b"hash":
                moments = {name: int(await client.hget(key, name)) for name in ("lost", "shut")}
                await client.hset(key, mapping={name: at and at + HOUR_US for name, at in moments.items()})
            if (left_ms := await client.pttl(key)) > 0:
                await client.pexpire(key, left_ms + HOUR_US // 1000)

    await until(is_old)
    made = Members(
        lambda habits, memory: Coordinator(RedisEngine(settings, habits), habits, memory), lose, "redis", set_back
    )
    made.closing.append(client.aclose)
    return made


MOMENTS = [
    ("use_count", "until"),
    ("use_stamp", "at"),
    ("place", "until"),
    ("place_line", "since"),
    ("place_line", "seen"),
    ("agreement", "shut"),
    ("agreement", "lost"),
    ("lease", "until"),
]
UNLOGGED = "agreement, put_back, use_count, use_stamp, place, place_line, lease, kept_value, parcel"


async def postgres_members(engine: Postgres, name: str = "", timeout_s: float = 60.0) -> Members:
    """Under a name of their own."""
    if engine.port not in _DATABASES:
        _DATABASES[engine.port] = engine.fresh_database()
    settings = StoreSettings(_DATABASES[engine.port], name or f"fleet{next(_NUMBERS)}", pool=2, timeout_s=timeout_s)
    closing: list[Callable[[], Awaitable[None]]] = []

    def make(habits: Habits, memory: EpochMemory | None) -> Coordinator:
        database = PgDatabase(settings)
        closing.append(database.close)
        return Coordinator(PgEngine(database, habits), habits, memory)

    own = PgDatabase(settings)
    closing.append(own.close)

    async def lose() -> None:
        tables = ", ".join(f"toolcrib.{table}" for table in UNLOGGED.split(", "))
        await own.rows(f"TRUNCATE {tables}")

    async def set_back() -> None:
        for table, column in MOMENTS:
            later = "interval '1 hour'" if table == "lease" else str(HOUR_US)
            which = "AND agreement.lost > 0" if table == "agreement" else ""
            await own.rows(
                f"UPDATE toolcrib.{table} SET {column} = {column} + {later} WHERE fleet = %s {which}", (settings.name,)
            )

    return Members(make, lose, "postgresql", set_back, closing=closing)
