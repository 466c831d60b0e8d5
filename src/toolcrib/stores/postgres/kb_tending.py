"""Indexes of vectors: built beside the work when there are enough of them, dropped when their set is out of use."""

import time
from typing import TYPE_CHECKING, Any

from toolcrib.stores.postgres.database import read_sql

if TYPE_CHECKING:
    from psycopg import Connection

INDEX_FROM = 5_000
"""Vectors, from which on an index is quicker than comparing them one by one."""
LONGEST = 4_000
"""Numbers of a vector that an index can hold."""
MEMORY = "512MB"
SEARCHED = ("kb_vector", "kb_document", "kb_passage", "kb_body", "kb_posting")
"""Tables of which PostgreSQL has to know that they are large: until then it searches them as if they were small."""
LOOK_S = 0.25
"""How often to look whether whoever is at it has finished."""


def tend(connection: "Connection[Any]", fleet: str, collection: str, *, is_coming: bool) -> None:
    """Bring the indexes of vectors in order; if somebody else is at it, leave it to them unless it must be there."""
    if not _needs_work(connection, fleet, collection, is_coming=is_coming):
        return
    name = f"toolcrib kb index {fleet}"
    if is_coming:
        lock(connection, name)
    elif not try_lock(connection, name):
        return
    try:
        if (wanted := _unindexed(connection, fleet, collection, is_coming=is_coming)) is not None:
            _build(connection, *wanted)
        for number in _out_of_use(connection, fleet):
            _sweep(connection, fleet, number)
    finally:
        unlock(connection, name)


def try_lock(connection: "Connection[Any]", name: str) -> bool:
    """Be the only connection that does something; false if another is at it."""
    found = connection.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", (name,)).fetchone()
    return bool(found is not None and found[0])


def lock(connection: "Connection[Any]", name: str) -> None:
    """Wait to be the only one, outside of any statement: whoever builds an index waits for all that are under way."""
    while not try_lock(connection, name):
        time.sleep(LOOK_S)


def unlock(connection: "Connection[Any]", name: str) -> None:
    """Let others do it."""
    if not connection.closed:
        connection.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", (name,))


def _needs_work(connection: "Connection[Any]", fleet: str, collection: str, *, is_coming: bool) -> bool:
    wanted = _unindexed(connection, fleet, collection, is_coming=is_coming)
    return wanted is not None or bool(_out_of_use(connection, fleet))


def _unindexed(
    connection: "Connection[Any]", fleet: str, collection: str, *, is_coming: bool
) -> tuple[int, int] | None:
    """The set of vectors that wants an index, and how long they are."""
    column = "coming_vectors" if is_coming else "vectors"
    statement = read_sql("kb_unindexed").format(column=column)
    row = connection.execute(statement.encode(), {"fleet": fleet, "id": collection, "least": INDEX_FROM}).fetchone()
    return None if row is None or not 0 < row[1] <= LONGEST else (row[0], row[1])


def _build(connection: "Connection[Any]", number: int, size: int) -> None:
    connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS toolcrib.kb_hnsw_{number:d}".encode())
    connection.execute(f"SET maintenance_work_mem = '{MEMORY}'".encode())
    statement = f"""
    CREATE INDEX CONCURRENTLY kb_hnsw_{number:d} ON toolcrib.kb_vector
    USING hnsw ((embedding::halfvec({size:d})) halfvec_ip_ops) WHERE vectors = {number:d}"""
    connection.execute(statement.encode())
    connection.execute(b"RESET maintenance_work_mem")
    connection.execute(f"ANALYZE {', '.join(f'toolcrib.{table}' for table in SEARCHED)}".encode())


def _out_of_use(connection: "Connection[Any]", fleet: str) -> list[int]:
    return [row[0] for row in connection.execute(read_sql("kb_out_of_use").encode(), (fleet,)).fetchall()]


def _sweep(connection: "Connection[Any]", fleet: str, number: int) -> None:
    connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS toolcrib.kb_hnsw_{number:d}".encode())
    with connection.transaction():
        connection.execute("DELETE FROM toolcrib.kb_vector WHERE fleet = %s AND vectors = %s", (fleet, number))
        connection.execute("DELETE FROM toolcrib.kb_set WHERE fleet = %s AND id = %s", (fleet, number))
