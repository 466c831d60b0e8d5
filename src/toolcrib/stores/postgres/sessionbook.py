"""Sessions of MCP clients in the shared database, where every replica finds them."""

import secrets
from collections.abc import Collection
from datetime import timedelta

import msgspec

from toolcrib.core.sessionbook import IDLE_S, SessionEntry
from toolcrib.stores.postgres.database import PgDatabase

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
