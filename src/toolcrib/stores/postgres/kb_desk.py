"""Threads that wait for the shared database, each with a connection of its own."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from toolcrib.core.errors import KnowledgeUnavailable, ToolcribError
from toolcrib.stores.postgres.database import StoreSettings, connect, read_sql, reason_of

if TYPE_CHECKING:
    from psycopg import Connection

T = TypeVar("T")

_SESSION = """
SET jit = off; SET hnsw.ef_search = 200; SET hnsw.iterative_scan = relaxed_order; SET hnsw.max_scan_tuples = 60000"""


class QueryThreads:
    """A few threads; whatever goes wrong with the engine there is ``KnowledgeUnavailable``."""

    def __init__(self, settings: StoreSettings, size: int, *, is_reader: bool) -> None:
        self._settings, self._is_reader, self._size = settings, is_reader, size
        self._threads: ThreadPoolExecutor | None = None
        self._here = threading.local()
        self._open: list[Connection[Any]] = []

    async def do(self, work: "Callable[[Connection[Any]], T]", *, is_single: bool = False) -> T:
        """Have work done with a connection; readers see one moment, and try again if the connection was lost.

        Work that is a single statement sees one moment anyhow.
        """
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._size, "toolcrib-kb")
        if self._is_reader and not is_single:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._do, partial(_at_once, work))
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._do, work)

    @property
    def lent(self) -> "Connection[Any]":
        """The connection of the thread that this is called in."""
        found: Connection[Any] = self._here.connection
        return found

    def _do(self, work: "Callable[[Connection[Any]], T]") -> T:
        import psycopg

        try:
            connection, is_new = self._connection()
            try:
                return work(connection)
            except psycopg.Error:
                if is_new or not self._is_reader or not connection.closed:
                    raise
            return work(self._connection()[0])
        except (psycopg.Error, OSError) as error:
            self._let_go_if_lost()
            raise unusable(error) from error

    def _connection(self) -> "tuple[Connection[Any], bool]":
        known: Connection[Any] | None = getattr(self._here, "connection", None)
        if known is not None and not known.closed and (self._is_reader or _answers(known)):
            return known, False
        from psycopg import IsolationLevel

        made = connect(self._settings)
        try:
            _prepare(made)
            if self._is_reader:
                made.isolation_level, made.read_only = IsolationLevel.REPEATABLE_READ, True
        except BaseException:
            made.close()
            raise
        self._here.connection = made
        self._open.append(made)
        return made, True

    def _let_go_if_lost(self) -> None:
        known = getattr(self._here, "connection", None)
        if known is not None and known.closed:
            self._here.connection = None
            self._open.remove(known)

    async def close(self) -> None:
        """Wait for what is under way, and let go of all connections."""
        threads, self._threads = self._threads, None
        if threads is not None:
            await asyncio.to_thread(threads.shutdown)
        for connection in self._open:
            with suppress(Exception):  # closing: what was acknowledged is safe already
                connection.close()
        self._open.clear()


def _at_once(work: "Callable[[Connection[Any]], T]", connection: "Connection[Any]") -> T:
    with connection.transaction():
        return work(connection)


def _answers(connection: "Connection[Any]") -> bool:
    import psycopg

    try:
        connection.execute("SELECT 1")
    except psycopg.Error:
        return False
    return True


def _prepare(connection: "Connection[Any]") -> None:
    """Make sure that there are vectors: pgvector may have been installed after the tables were made."""
    import psycopg

    connection.execute(_SESSION.encode())
    found = connection.execute("SELECT to_regclass('toolcrib.kb_document'), to_regclass('toolcrib.kb_vector')")
    tables, vectors = found.fetchone() or (None, None)
    if tables is None:
        raise KnowledgeUnavailable(
            "The shared database has no tables for the knowledge base.", hint="Run `toolcrib db upgrade`."
        )
    if vectors is None:
        try:
            with connection.transaction():
                connection.execute(read_sql("knowledge_vectors").encode())
        except psycopg.Error as error:
            raise without_pgvector(error) from error


def without_pgvector(error: Exception) -> KnowledgeUnavailable:
    """What to do where the extension is missing."""
    return KnowledgeUnavailable(
        f"The knowledge base needs pgvector in PostgreSQL: {reason_of(error)}.",
        hint="Install the extension `vector` there, or set [kb] path to keep the knowledge base in a file.",
    )


def unusable(error: Exception) -> ToolcribError:
    """The trouble in plain words, without the address: it may hold a password."""
    reason = reason_of(error)
    return KnowledgeUnavailable(
        f"The knowledge base cannot be used: {reason}.",
        hint="Check [store] url and that PostgreSQL runs; `toolcrib db status` tells more.",
        details={"reason": reason},
    )
