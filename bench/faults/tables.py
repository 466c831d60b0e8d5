"""Every store that keeps something in PostgreSQL, as one thing: a value is put under a key, and read again."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol

from bench.faults.history import GONE
from toolcrib.config.lock import Record
from toolcrib.core.access import Grants
from toolcrib.core.audit import AuditEntry
from toolcrib.core.coordination import SessionEntry
from toolcrib.core.kinds import DiscoveryStatus
from toolcrib.core.knowledge import Arrival, Collection, CollectionChange, DocumentInfo, PassageSpan, Stamp, document_id
from toolcrib.core.worklist import TaskChange
from toolcrib.knowledge.indexing import build_segment
from toolcrib.stores.access_tokens import NewToken
from toolcrib.stores.audit.log import NoAuditLog, in_order
from toolcrib.stores.audit.verify import verify
from toolcrib.stores.audit.writer import AuditSettings, QueuedAudit
from toolcrib.stores.coordination.engine import Habits
from toolcrib.stores.postgres.audit import AuditTable
from toolcrib.stores.postgres.coordination import PgEngine, PgSessionBook
from toolcrib.stores.postgres.database import PgDatabase, StoreSettings
from toolcrib.stores.postgres.knowledge import PgKnowledge
from toolcrib.stores.postgres.lock import PgLedger
from toolcrib.stores.postgres.tokens import PgTokens
from toolcrib.stores.postgres.worklist import PgWorkList


class Table(Protocol):
    """One store of one fleet."""

    again: str
    """The second value of a key: another one, or ``GONE`` where things are removed and not changed."""

    async def put(self, key: str, value: str) -> None: ...
    async def read(self) -> dict[str, str]: ...
    async def faults(self) -> list[str]: ...
    async def close(self) -> None: ...


class _Table:
    again = "2"

    def __init__(self, settings: StoreSettings) -> None:
        self.settings, self.database = settings, PgDatabase(settings)

    async def faults(self) -> list[str]:
        """What is not whole, or there twice."""
        return []

    async def close(self) -> None:
        await self.database.close()


class Records(_Table):
    """What discovery found."""

    async def put(self, key: str, value: str) -> None:
        await PgLedger(self.database).update(key, lambda _: Record(key, DiscoveryStatus.SUCCESS, error=value))

    async def read(self) -> dict[str, str]:
        return {name: record.error for name, record in (await PgLedger(self.database).read()).items()}


class Answers(_Table):
    """What people answered."""

    async def put(self, key: str, value: str) -> None:
        await PgLedger(self.database).write(f"files__{key}", "local", True, value)

    async def read(self) -> dict[str, str]:
        approvals = (await PgLedger(self.database).lock()).approvals
        return {tool.removeprefix("files__"): answers["local"].by for tool, answers in approvals.items()}


class Tokens(_Table):
    """Tokens of callers: made, then revoked."""

    def __init__(self, settings: StoreSettings) -> None:
        super().__init__(settings)
        self._tokens = PgTokens(settings, lambda: 1000.0)

    async def put(self, key: str, value: str) -> None:
        await asyncio.to_thread(self._put, key, value)

    def _put(self, key: str, value: str) -> None:
        if value == "1":
            self._tokens.create(NewToken(key, Grants("write")))
        else:
            self._tokens.revoke(key)

    async def read(self) -> dict[str, str]:
        kept = await asyncio.to_thread(self._tokens.read)
        return {token.name: "1" if token.revoked is None else "2" for token in kept}

    async def faults(self) -> list[str]:
        return _twice(token.name for token in await asyncio.to_thread(self._tokens.read))


class Sessions(_Table):
    """The sessions of MCP clients."""

    again = GONE

    def __init__(self, settings: StoreSettings) -> None:
        super().__init__(settings)
        self._book = PgSessionBook(self.database, 600.0)

    async def put(self, key: str, value: str) -> None:
        if value == GONE:
            await self._book.end(key)
        else:
            await self._book.open(SessionEntry(key, "anna", "", "2025-06-18", 1.0))

    async def read(self) -> dict[str, str]:
        return {key: "1" for key in "abcde" if await self._book.find(key) is not None}


class Values(_Table):
    """Large results and other values that replicas keep for each other for a while."""

    def __init__(self, settings: StoreSettings) -> None:
        super().__init__(settings)
        self._engine = PgEngine(self.database, Habits())

    async def put(self, key: str, value: str) -> None:
        await self._engine.put(key, value.encode(), 600.0)

    async def read(self) -> dict[str, str]:
        found = {key: await self._engine.get(key) for key in "abcde"}
        return {key: value.decode() for key, value in found.items() if value is not None}


class Tasks(_Table):
    """The tasks of a workspace."""

    def __init__(self, settings: StoreSettings) -> None:
        super().__init__(settings)
        self._work = PgWorkList(self.database, "/work", lambda: "2026-01-01T00:00:00.000Z")

    async def put(self, key: str, value: str) -> None:
        known = next((task for task in await self._work.tasks() if task.title == key), None)
        if known is None:
            await self._work.add(key, value)
        else:
            await self._work.change(known.id, TaskChange(description=value))

    async def read(self) -> dict[str, str]:
        return {task.title: task.description for task in await self._work.tasks()}

    async def faults(self) -> list[str]:
        return _twice(task.title for task in await self._work.tasks())


class Audit(_Table):
    """The audit log, as a running gateway writes it."""

    def __init__(self, settings: StoreSettings) -> None:
        super().__init__(settings)
        self._place = AuditTable(settings, "postgresql://here")
        self._audit = QueuedAudit(self._place, lambda: 1_000_000, settings=AuditSettings(retry_s=0.02))

    async def put(self, key: str, value: str) -> None:
        await self._audit.commit(AuditEntry("call.begun", tool=key, execution_id=value))

    async def read(self) -> dict[str, str]:
        return dict(await asyncio.to_thread(self._entries))

    def _entries(self) -> list[tuple[str, str]]:
        try:
            with self._place.reading() as log:
                return [(entry.tool, entry.execution_id) for entry in in_order(log) if entry.event == "call.begun"]
        except NoAuditLog:
            return []

    async def faults(self) -> list[str]:
        twice = _twice(f"{tool} {value}" for tool, value in await asyncio.to_thread(self._entries) if tool != "d")
        return [*twice, *await asyncio.to_thread(self._broken)]

    def _broken(self) -> list[str]:
        with self._place.reading() as log:
            fault = verify(log).fault
        return [fault.words] if fault else []

    async def close(self) -> None:
        await self._audit.close()


class Knowledge(_Table):
    """A document and its index."""

    def __init__(self, settings: StoreSettings) -> None:
        super().__init__(settings)
        self._store = PgKnowledge(settings)

    async def put(self, key: str, value: str) -> None:
        if not await self._store.collections():
            await self._store.put_collection(Collection("notes"))
        text = f"version {value} of {key}"
        document = DocumentInfo(document_id("notes", key), "notes", key, value, "text", Stamp(f"h{value}"))
        arrivals = (Arrival(document, text, (PassageSpan(0, len(text), 1, ()),)),)
        await self._store.apply(CollectionChange("notes", arrivals, segment=build_segment(arrivals, None)))

    async def read(self) -> dict[str, str]:
        return {document.source: document.title for document in await self._store.documents("notes")}

    async def faults(self) -> list[str]:
        return await self._store.verify()

    async def close(self) -> None:
        await self._store.close()


def _twice(names: Iterable[str]) -> list[str]:
    return [f"{name} is there {count} times" for name, count in Counter(names).items() if count > 1]


TABLES: dict[str, Callable[[StoreSettings], Table]] = {
    "audit table": Audit,
    "record table": Records,
    "answer table": Answers,
    "token table": Tokens,
    "session table": Sessions,
    "value table": Values,
    "task table": Tasks,
    "knowledge tables": Knowledge,
}
