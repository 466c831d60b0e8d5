"""Sealed credentials in the shared database: every replica uses the same accounts, and one at a time renews one."""

from collections.abc import Mapping

from toolcrib.stores.postgres.database import PgDatabase, from_text, to_text

_READ = "SELECT sealed FROM toolcrib.credential WHERE fleet = %s AND name = %s"
_ALL = "SELECT name, sealed FROM toolcrib.credential WHERE fleet = %s AND starts_with(name, %s) ORDER BY name"
_REMOVE = "DELETE FROM toolcrib.credential WHERE fleet = %s AND name = %s RETURNING sealed"
_WRITE = """
INSERT INTO toolcrib.credential (fleet, name, sealed) VALUES (%s, %s, %s)
ON CONFLICT (fleet, name) DO UPDATE SET sealed = excluded.sealed RETURNING 1"""
_CLAIM = """
INSERT INTO toolcrib.credential_claim AS held (fleet, name, owner, until)
VALUES (%(fleet)s, %(name)s, %(owner)s, clock_timestamp() + make_interval(secs => %(for_s)s))
ON CONFLICT (fleet, name) DO UPDATE SET owner = excluded.owner, until = excluded.until
WHERE held.owner = excluded.owner OR held.until <= clock_timestamp() OR held.until > excluded.until
RETURNING 1"""
"""A claim that lies further ahead than anybody makes one was made before the clock was set back."""
_RELEASE = "DELETE FROM toolcrib.credential_claim WHERE fleet = %s AND name = %s AND owner = %s RETURNING 1"


class PgCredentials:
    """The credentials of one fleet."""

    def __init__(self, database: PgDatabase) -> None:
        self._database = database

    async def read(self, name: str) -> bytes | None:
        """An entry, as it is now."""
        rows = await self._database.quick_rows(_READ, (self._database.name, to_text(name)))
        return bytes(rows[0][0]) if rows else None

    async def write(self, name: str, sealed: bytes | None) -> None:
        """Put an entry in place of what was there; ``None`` removes it."""
        fleet = self._database.name
        if sealed is None:
            await self._database.quick_rows(_REMOVE, (fleet, to_text(name)))
        else:
            await self._database.quick_rows(_WRITE, (fleet, to_text(name), sealed))

    async def take(self, name: str) -> bytes | None:
        """Read an entry and remove it in one step."""
        rows = await self._database.quick_rows(_REMOVE, (self._database.name, to_text(name)))
        return bytes(rows[0][0]) if rows else None

    async def entries(self, prefix: str) -> Mapping[str, bytes]:
        """All entries whose names begin like this."""
        rows = await self._database.quick_rows(_ALL, (self._database.name, to_text(prefix)))
        return {from_text(name): bytes(sealed) for name, sealed in rows}

    async def claim(self, name: str, owner: str, for_s: float) -> bool:
        """Get the right to renew an entry, unless somebody else has it."""
        asked = {"fleet": self._database.name, "name": to_text(name), "owner": owner, "for_s": for_s}
        return bool(await self._database.quick_rows(_CLAIM, asked))

    async def release(self, name: str, owner: str) -> None:
        """Give that right back."""
        await self._database.quick_rows(_RELEASE, (self._database.name, to_text(name), owner))
