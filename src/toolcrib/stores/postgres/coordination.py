"""PostgreSQL as what replicas agree through, where there is no Redis; and sessions that every replica finds."""

import asyncio
import secrets
import time
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Collection, Coroutine, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from hashlib import sha256
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import msgspec

from toolcrib.core.coordination import IDLE_S, SessionEntry
from toolcrib.core.errors import CoordinationUnavailable, StoreUnavailable
from toolcrib.stores.coordination.coordinator import Coordinator
from toolcrib.stores.coordination.engine import EngineMemory, EngineVerdict, Habits, Heard, Wish
from toolcrib.stores.postgres.database import PgDatabase, StoreSettings, connect_async, cut, read_sql, reason_of

if TYPE_CHECKING:
    from psycopg import AsyncConnection


PAYLOAD_MAX = 7000
"""What fits into a notification with its frame; larger bodies lie in a table for a minute."""
SWEEP_S = 60.0


async def open_postgres_coordination(database: PgDatabase, habits: Habits | None = None) -> Coordinator:
    """One replica's part, in contact with the engine or trying to be."""
    own = habits or Habits()
    return await Coordinator(PgEngine(database, own), own).open()


class PgEpochMemory:
    """The epoch of another engine, in a table that survives its crashes and ours."""

    def __init__(self, database: PgDatabase, engine: str) -> None:
        self._database, self._engine = database, engine

    async def recall(self) -> str:
        """The epoch; empty if there never was one."""
        statement = "SELECT id FROM toolcrib.epoch WHERE fleet = %s AND engine = %s"
        found = await self._database.quick_rows(statement, (self._database.name, self._engine))
        return str(found[0][0]) if found else ""

    async def remember(self, epoch: str) -> None:
        """Remember this one from now on."""
        statement = (
            "INSERT INTO toolcrib.epoch VALUES (%s, %s, %s) ON CONFLICT (fleet, engine) DO UPDATE SET id = excluded.id"
        )
        await self._database.quick_rows(statement, (self._database.name, self._engine, epoch))


class PgEngine:
    """One connection for decisions, one for news, the pool for the rest."""

    name = "postgresql"

    def __init__(self, database: PgDatabase, habits: Habits) -> None:
        self._database, self._habits = database, habits
        self._line: AsyncConnection[Any] | None = None
        self._channel = f"toolcrib_{sha256(database.name.encode()).hexdigest()[:16]}"
        self._swept_at = time.monotonic()
        self._always = {
            "replica": habits.replica,
            "channel": self._channel,
            "settle": round(habits.settle_s * 1e6),
            "whole": round(habits.whole_window_s * 1e6),
            "lease": round(habits.lease_s * 1e6),
            "patience": round(habits.patience_s * 1e6),
        }

    async def connect(self) -> EngineMemory:
        """Make the connection for decisions anew; the database remembers its epoch itself."""
        await self._hang_up()
        self._line = await open_line(self._database.settings)
        return EngineMemory()

    async def decide(self, known: EngineMemory, wishes: Sequence[Wish]) -> EngineVerdict:
        """One round trip, one transaction."""
        if self._line is None:
            raise CoordinationUnavailable("PostgreSQL is not connected.", details={"was_cut": True})
        request = {**self._always, "known": known.epoch, "fresh": token_hex(8), "wishes": wishes}
        asked = (self._database.name, msgspec.json.encode(request).decode())
        try:
            await self._sweep(self._line)
            rows = await self._rows(self._line, "SELECT * FROM toolcrib.agree(%s, %s::jsonb)", asked)
        except BaseException:
            await self._hang_up()
            raise
        return EngineVerdict(*rows[0])

    async def _rows(self, line: "AsyncConnection[Any]", statement: str, parameters: Sequence[Any]) -> Any:
        cursor = await in_time(line, line.execute(statement.encode(), parameters), self._database.settings.timeout_s)
        return await cursor.fetchall()

    async def _sweep(self, line: "AsyncConnection[Any]") -> None:
        """What nobody asks for any more goes, now and then; before a decision, so that none is made in vain."""
        if time.monotonic() - self._swept_at > SWEEP_S:
            self._swept_at = time.monotonic()
            await self._rows(line, "SELECT toolcrib.agree_sweep(%s)", (self._database.name,))

    async def _hang_up(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            await line.close()

    @asynccontextmanager
    async def tune(self) -> AsyncIterator[AsyncIterator[Heard]]:
        """A connection that hears the one channel of this fleet."""
        line = await open_line(self._database.settings)
        try:
            await in_time(line, line.execute(f"LISTEN {self._channel}".encode()), self._database.settings.timeout_s)
            yield self._hear(line)
        finally:
            await line.close()

    async def _hear(self, line: "AsyncConnection[Any]") -> AsyncIterator[Heard]:
        """What is said; a connection that answers nothing any more is dead."""
        while True:
            for notice in await self._next(line):
                said = _said(notice.payload)
                body = await self._body(said) if said is not None else None
                if said is not None and body is not None:
                    yield Heard(said.get("from", ""), said["topic"], body)

    async def _next(self, line: "AsyncConnection[Any]") -> list[Any]:
        timeout_s = self._database.settings.timeout_s

        async def gather() -> list[Any]:
            return [notice async for notice in line.notifies(timeout=self._habits.beat_s, stop_after=1)]

        heard: list[Any] = await in_time(line, gather(), self._habits.beat_s + timeout_s)
        if not heard:
            await in_time(line, line.execute("SELECT 1"), timeout_s)
        return heard

    async def _body(self, said: dict[str, str]) -> bytes | None:
        if "text" in said:
            return said["text"].encode()
        if "body" in said:
            return b64decode(said["body"])
        found = await self._do(
            "SELECT body FROM toolcrib.parcel WHERE fleet = %(fleet)s AND id = %(id)s", id=said["parcel"]
        )
        return found[0][0] if found else None

    async def publish(self, topic: str, body: bytes) -> None:
        """Tell all who listen; a large body is laid aside for them."""
        said = {"from": self._habits.replica, "topic": topic}
        if len(body) * 4 // 3 + len(topic.encode()) < PAYLOAD_MAX:
            said["body"] = b64encode(body).decode()
        else:
            said["parcel"] = str((await self._do(read_sql("lay_aside"), body=body))[0][0])
        payload = msgspec.json.encode(said).decode()
        await self._do("SELECT pg_notify(%(channel)s, %(payload)s)", channel=self._channel, payload=payload)

    async def lease(self, name: str, token: str, for_s: float) -> bool:
        """Take a lease, or keep it."""
        return (True,) in await self._do(read_sql("lease"), name=name, token=token, seconds=for_s)

    async def end_lease(self, name: str, token: str) -> None:
        """Give a lease back, if it is still ours."""
        statement = "DELETE FROM toolcrib.lease WHERE fleet = %(fleet)s AND name = %(name)s AND token = %(token)s"
        await self._do(statement, name=name, token=token)

    async def put(self, key: str, value: bytes, ttl_s: float) -> None:
        """Keep a value for a while."""
        await self._do(read_sql("put_value"), key=key, value=value, seconds=ttl_s)

    async def get(self, key: str) -> bytes | None:
        """The value, if it is still kept."""
        statement = (
            "SELECT value FROM toolcrib.kept_value"
            " WHERE fleet = %(fleet)s AND key = %(key)s AND until > clock_timestamp()"
        )
        found = await self._do(statement, key=key)
        return found[0][0] if found else None

    async def forget(self, key: str) -> None:
        """Keep a value no longer."""
        await self._do("DELETE FROM toolcrib.kept_value WHERE fleet = %(fleet)s AND key = %(key)s", key=key)

    async def _do(self, statement: str, **parameters: Any) -> list[tuple[Any, ...]]:
        try:
            return await self._database.quick_rows(statement, {"fleet": self._database.name, **parameters})
        except StoreUnavailable as error:
            raise unavailable(error) from error

    async def close(self) -> None:
        """Let go of the connections that are not the pool's."""
        await self._hang_up()


async def open_line(settings: StoreSettings) -> "AsyncConnection[Any]":
    """A connection of one's own."""
    import psycopg

    try:
        async with asyncio.timeout(settings.timeout_s):
            return await connect_async(settings)
    except (psycopg.Error, OSError, TimeoutError) as error:
        raise unavailable(error) from error


async def in_time(line: "AsyncConnection[Any]", work: Coroutine[Any, Any, Any], seconds: float) -> Any:
    """What the work returns; if it takes too long the connection is cut, because a polite end would wait again."""
    import psycopg

    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait([task], timeout=seconds)
        if not done:
            raise unavailable(TimeoutError())
        return task.result()
    except (psycopg.Error, OSError) as error:
        raise unavailable(error) from error
    finally:
        if not task.done():
            cut(line)
            await asyncio.wait([task])


def unavailable(error: Exception) -> CoordinationUnavailable:
    """The trouble in plain words, without the address: it may hold a password."""
    reason = str(error.details.get("reason", "")) if isinstance(error, StoreUnavailable) else reason_of(error)
    return CoordinationUnavailable(
        f"PostgreSQL cannot be used to agree with other replicas: {reason or 'it does not answer'}.",
        hint="Try again shortly. If it lasts, check [store] url; `toolcrib db status` tells more.",
        details={"reason": reason, "was_cut": type(error).__name__ in ("OperationalError", "AdminShutdown")},
    )


def _said(payload: str) -> dict[str, str] | None:
    """A word of a replica; nothing if it is of another kind, or of a version that speaks otherwise."""
    try:
        said = msgspec.json.decode(payload, type=dict[str, str])
    except (msgspec.MsgspecError, ValueError):
        return None
    return said if "topic" in said else None


MOST = 100_000
"""Sessions that are kept at once; the longest unused go first."""


class PgSessionBook:
    """By the database's clock, so that replicas need not agree on the time."""

    def __init__(self, database: PgDatabase, idle_s: float = IDLE_S) -> None:
        self._database, self._idle = database, timedelta(seconds=idle_s)
        self._fleet = database.name

    async def open(self, entry: SessionEntry) -> None:
        """Write a new session down."""
        await self._database.quick_rows(
            "INSERT INTO toolcrib.session (fleet, key, caller, address, version, client, opened_at)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s)",
            (self._fleet, entry.key, entry.caller, entry.address, entry.version, _client(entry), entry.opened_at),
        )

    async def find(self, key: str) -> SessionEntry | None:
        """The session, while it lasts."""
        found = await self._database.quick_rows(
            "UPDATE toolcrib.session SET used = clock_timestamp()"
            " WHERE fleet = %s AND used > clock_timestamp() - %s AND key = %s"
            " RETURNING caller, address, version, opened_at, client",
            (self._fleet, self._idle, key),
        )
        if not found:
            return None
        caller, address, version, opened_at, client = found[0]
        capabilities, info = msgspec.json.decode(client)
        return SessionEntry(key, caller, address, version, opened_at, capabilities, info)

    async def touch(self, keys: Collection[str]) -> set[str]:
        """Note that these are in use; those that have ended are returned."""
        if not keys:
            return set()
        alive = await self._database.quick_rows(
            "UPDATE toolcrib.session SET used = clock_timestamp()"
            " WHERE fleet = %s AND used > clock_timestamp() - %s AND key = ANY(%s) RETURNING key",
            (self._fleet, self._idle, sorted(keys)),
        )
        return set(keys) - {key for (key,) in alive}

    async def end(self, key: str) -> bool:
        """End a session for all replicas."""
        gone = await self._database.quick_rows(
            "DELETE FROM toolcrib.session"
            " WHERE fleet = %s AND used > clock_timestamp() - %s AND key = %s RETURNING key",
            (self._fleet, self._idle, key),
        )
        return bool(gone)

    async def sweep(self) -> None:
        """Forget what was unused for too long, and what is too much."""
        await self._database.rows(
            "DELETE FROM toolcrib.session WHERE fleet = %s AND used <= clock_timestamp() - %s",
            (self._fleet, self._idle),
        )
        await self._database.rows(
            "DELETE FROM toolcrib.session WHERE (fleet, key) IN"
            " (SELECT fleet, key FROM toolcrib.session WHERE fleet = %s ORDER BY used DESC OFFSET %s)",
            (self._fleet, MOST),
        )


async def read_secret(database: PgDatabase, name: str) -> bytes:
    """What only the replicas know, made by the first that asks."""
    await database.quick_rows(
        "INSERT INTO toolcrib.secret (fleet, name, value) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
        (database.name, name, secrets.token_bytes(32)),
    )
    found = await database.quick_rows(
        "SELECT value FROM toolcrib.secret WHERE fleet = %s AND name = %s", (database.name, name)
    )
    return bytes(found[0][0])


def _client(entry: SessionEntry) -> bytes:
    return msgspec.json.encode((entry.capabilities, entry.info))
