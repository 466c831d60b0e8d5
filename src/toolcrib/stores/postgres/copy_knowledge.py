"""The documents of a knowledge base on both sides, to be compared once they were brought over."""

import hashlib
from collections.abc import AsyncGenerator, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib.core.errors import KnowledgeUnavailable
from toolcrib.stores.postgres.copy_tables import whereabouts
from toolcrib.stores.postgres.copying import Row
from toolcrib.stores.sqlite_file import reason_of

if TYPE_CHECKING:
    from psycopg import AsyncConnection

_HERE = "SELECT id, collection, hash, text FROM document JOIN body ON document = key ORDER BY id"
_THERE = """
SELECT d.id, d.collection, d.hash, b.text FROM toolcrib.kb_document d
JOIN toolcrib.kb_body b ON b.fleet = d.fleet AND b.document = d.key WHERE d.fleet = %s ORDER BY d.id
"""


@dataclass(frozen=True, slots=True)
class Documents:
    """What is compared: which documents there are, in which collections, and their texts."""

    path: Path
    name: str = "documents"

    @property
    def source(self) -> str:
        """Where the file is."""
        return whereabouts(self.path)

    def rows(self, skip: int) -> Iterator[Row]:
        """What the file holds."""
        del skip
        if not self.path.exists():
            return
        import apsw

        try:
            with closing(apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
                for document, collection, stamp, text in connection.execute(_HERE):
                    yield document, collection, stamp, _digest(str(text).encode())
        except apsw.Error as error:
            reason = reason_of(error)
            raise KnowledgeUnavailable(f"The knowledge base {self.path} cannot be read: {reason}.") from error

    async def arrived(self, connection: "AsyncConnection[Any]", fleet: str) -> AsyncGenerator[Row, None]:
        """What the database holds."""
        async with connection.cursor(name="arrived") as cursor:
            await cursor.execute(_THERE, (fleet,))
            async for document, collection, stamp, text in cursor:
                yield document, collection, stamp, _digest(text)


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()
