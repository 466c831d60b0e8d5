"""The audit log of one machine, entry by entry as it was written: numbers, hashes and bodies stay what they are."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib.core.errors import AuditUnavailable, ConfigError
from toolcrib.stores.audit_database import GENESIS
from toolcrib.stores.audit_file import AuditFile
from toolcrib.stores.audit_log import NoAuditLog
from toolcrib.stores.audit_verify import verify
from toolcrib.stores.postgres.audit_columns import row_of
from toolcrib.stores.postgres.copy_tables import whereabouts
from toolcrib.stores.postgres.copying import Row

if TYPE_CHECKING:
    from psycopg import AsyncConnection

_HEAD = "SELECT seq, hash FROM toolcrib.audit_head WHERE fleet = %s FOR UPDATE"
_ENTRY = """
COPY toolcrib.audit_entry
(fleet, seq, hash, body, time, event, tool, caller, execution, decision, outcome) FROM STDIN
"""
_MOVE_HEAD = """
INSERT INTO toolcrib.audit_head (fleet, seq, hash) VALUES (%s, %s, %s)
ON CONFLICT (fleet) DO UPDATE SET seq = excluded.seq, hash = excluded.hash
"""
_ARRIVED = "SELECT seq, hash, body FROM toolcrib.audit_entry WHERE fleet = %s ORDER BY seq"


@dataclass(frozen=True, slots=True)
class AuditPart:
    """The entries of one file; a log that is not whole stays where it is."""

    path: Path
    name: str = "audit entries"

    @property
    def source(self) -> str:
        """Where the file is."""
        return whereabouts(self.path)

    def rows(self, skip: int) -> Iterator[Row]:
        """Entry by entry; the chain is walked before the first one is given."""
        with suppress(NoAuditLog), AuditFile(self.path).reading() as log:
            if skip == 0 and (fault := verify(log).fault) is not None:
                raise AuditUnavailable(
                    f"The audit log {self.path} is not whole: {fault.words}.",
                    hint="Look at it with `toolcrib audit verify`; move it away to copy the rest without it.",
                )
            yield from log.rows(skip + 1)

    async def write(self, connection: "AsyncConnection[Any]", fleet: str, skip: int, rows: Sequence[Row]) -> None:
        """Put entries behind the last one; nobody else may have written any meanwhile."""
        head = await (await connection.execute(_HEAD, (fleet,))).fetchone() or (0, GENESIS)
        if head[0] != skip:
            raise ConfigError(
                f"The shared audit log ends with entry {head[0]}, not with {skip}: a replica writes to it already.",
                hint="Copy to an empty database, or under another [store] name, before replicas are started.",
            )
        async with connection.cursor() as cursor, cursor.copy(_ENTRY) as copy:
            for seq, digest, body in rows:
                await copy.write_row((fleet, seq, digest, body, *row_of(body)))
        await connection.execute(_MOVE_HEAD, (fleet, *rows[-1][:2]))

    async def arrived(self, connection: "AsyncConnection[Any]", fleet: str) -> AsyncGenerator[Row, None]:
        """What the database holds."""
        async with connection.cursor(name="arrived") as cursor:
            await cursor.execute(_ARRIVED, (fleet,))
            async for row in cursor:
                yield row

    async def remove(self, connection: "AsyncConnection[Any]", fleet: str) -> int | None:
        """What an audit log has taken it keeps; the next run goes on behind it."""
        del connection, fleet
        return None
