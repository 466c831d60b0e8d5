"""The index: words indexed and parts merged in a process beside an addition, and kept in few segments."""

import asyncio
import os
import subprocess
import sys
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TypeVar

from msgspec.structs import replace

from toolcrib.core.events import Emit, Event, drop
from toolcrib.core.knowledge import (
    Arrival,
    Collection,
    KnowledgeStore,
    Merging,
    PassageSpan,
    SegmentRecord,
    SegmentRows,
)
from toolcrib.isolate.helper import import_path
from toolcrib.knowledge.indexing import (
    Fields,
    MergePart,
    build_segment,
    indexed_fields,
    merge_segments,
    owners_of,
    part_of,
    read,
    send,
)

T = TypeVar("T")


class Relay:
    """A few pieces of work under way at once; at the end of the block all are done, or given up."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._under_way: deque[asyncio.Task[None]] = deque()

    async def put(self, prepare: Callable[[], Awaitable[T]], finish: Callable[[T], Awaitable[None]]) -> None:
        """Begin, as soon as there is room; raises what went wrong with work that was put in before."""
        await self._come_down_to(self._most - 1)
        before = self._under_way[-1] if self._under_way else None
        self._under_way.append(asyncio.create_task(_run(prepare, finish, before)))

    async def _come_down_to(self, most: int) -> None:
        while len(self._under_way) > most:
            await self._under_way[0]
            self._under_way.popleft()

    async def __aenter__(self) -> "Relay":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """After an error, what was begun is still done; who is interrupted does not want to wait for that."""
        if error is None or isinstance(error, Exception):
            await self._see_through(is_well=error is None)
        else:
            await self._give_up()

    async def _see_through(self, *, is_well: bool) -> None:
        try:
            await asyncio.gather(*self._under_way, return_exceptions=not is_well)
        except BaseException:
            await self._give_up()
            raise

    async def _give_up(self) -> None:
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)


async def _run(
    prepare: Callable[[], Awaitable[T]], finish: Callable[[T], Awaitable[None]], before: asyncio.Task[None] | None
) -> None:
    prepared = await prepare()
    if before is not None:
        await before
    await finish(prepared)


FAN_IN = 8
"""How many segments of one tier become one of the next."""


Merge = Callable[[Sequence[MergePart]], Awaitable[bytes]]
"""Makes one segment of several, wherever there is room for it."""


async def merge_here(parts: Sequence[MergePart]) -> bytes:
    """In a thread of this process."""
    return await asyncio.to_thread(merge_segments, parts)


class Compaction:
    """Merging while documents are added: one merge at a time, and the addition does not wait for it before its end."""

    def __init__(self, store: KnowledgeStore, collection: str, merge: Merge) -> None:
        self._compact = partial(compact, store, collection, merge=merge)
        self._task: asyncio.Task[int] | None = None

    async def nudge(self) -> None:
        """Something was added; raises what went wrong with a merge before."""
        if self._task is not None and self._task.done():
            await self._task
            self._task = None
        if self._task is None:
            self._task = asyncio.create_task(self._compact())

    async def __aenter__(self) -> "Compaction":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Who is interrupted does not want to wait."""
        if self._task is None:
            return
        if error is not None:
            self._task.cancel()
        try:
            await asyncio.gather(self._task, return_exceptions=error is not None)
        finally:
            self._task.cancel()


async def compact(store: KnowledgeStore, collection: str, *, drop_dead: bool = False, merge: Merge = merge_here) -> int:
    """Merge until there is nothing more to merge, or nothing that another process leaves; how many merges were done."""
    if store.remote is None:
        return await _compact(store, collection, drop_dead=drop_dead, merge=merge)
    if not choose(await store.segments([collection]), {}) and not drop_dead:
        return 0
    if not await store.remote.take_merging(collection):
        return 0
    try:
        return await _compact(store, collection, drop_dead=drop_dead, merge=merge)
    finally:
        await store.remote.end_merging(collection)


async def _compact(store: KnowledgeStore, collection: str, *, drop_dead: bool, merge: Merge) -> int:
    done = 0
    while True:
        records = await store.segments([collection])
        rows = {record.id: await store.segment_rows(record.id) for record in records} if drop_dead else {}
        chosen = choose(records, {number: len(found.positions) for number, found in rows.items()})
        if not chosen or not await _merge(store, collection, chosen, merge):
            return done
        done += 1


def choose(records: Sequence[SegmentRecord], alive: Mapping[int, int]) -> Sequence[SegmentRecord]:
    """What to merge next: the lowest tier that is full, else a segment most of whose passages are dead."""
    tiers: dict[int, list[SegmentRecord]] = defaultdict(list)
    for record in records:
        tiers[record.level].append(record)
    for level in sorted(tiers):
        if len(tiers[level]) >= FAN_IN:
            return tiers[level][:FAN_IN]
    for record in records:
        if alive.get(record.id, record.size) < record.size / 2:
            return [record]
    return []


async def _merge(store: KnowledgeStore, collection: str, chosen: Sequence[SegmentRecord], merge: Merge) -> bool:
    parts, rows = list[MergePart](), list[SegmentRows]()
    for record in chosen:
        encoded = await store.segment_bytes(record.id)
        if encoded is None:
            return False
        rows.append(await store.segment_rows(record.id))
        parts.append(part_of(encoded, record.size, rows[-1]))
    owners = owners_of(rows)
    merged = await merge(parts) if owners else b""
    level = chosen[0].level + (len(chosen) > 1)
    return await store.merge(Merging(collection, tuple(chosen), merged, owners, level))


async def reindex(store: KnowledgeStore, collection: Collection) -> bool:
    """Build the index of words anew from the texts that are kept; vectors are to follow. Whether nobody interfered."""
    await store.put_collection(_without_vectors(collection))
    return await _rebuild(store, collection.id)


def _without_vectors(collection: Collection) -> Collection:
    wanted = collection.coming or collection.embedding
    coming = replace(wanted, dimensions=0) if wanted.model else None
    return replace(collection, embedder="", dimensions=0, coming=coming)


async def _rebuild(store: KnowledgeStore, collection: str) -> bool:
    records = tuple(await store.segments([collection]))
    arrivals, owners = list[Arrival](), list[tuple[int, int]]()
    for document in await store.documents(collection):
        kept, passages = await store.text(document.id), await store.passages(document.id)
        if kept is None:
            return False
        places = tuple[PassageSpan, ...](passage.place for passage in passages)
        arrivals.append(Arrival(document, kept.text, places))
        owners += [(document.key, passage.ordinal) for passage in passages]
    encoded = await asyncio.to_thread(build_segment, arrivals, None)
    return await store.merge(Merging(collection, records, encoded, tuple(owners), 1))


PATIENCE_S = 120.0
REST_S = 60.0
"""How long a process is kept that has nothing to do."""
FAILED = "kb.builder.failed"
_PROGRAM = f"import sys; sys.path[:] = sys.argv[1:]; from {build_segment.__module__} import serve; serve()"
_PASSED_ON = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")

Process = subprocess.Popen[bytes]


class Spare:
    """The process of an addition that is done, for the next one; one at most, and not for long."""

    def __init__(self, rest_s: float = REST_S) -> None:
        self._rest_s = rest_s
        self._process: Process | None = None
        self._resting: asyncio.Task[None] | None = None

    def take(self) -> Process | None:
        """The process, if there is one and it is well."""
        process, self._process = self._process, None
        resting, self._resting = self._resting, None
        if resting is not None:
            resting.cancel()
        if process is not None and process.poll() is not None:
            _end(process)
            return None
        return process

    async def leave(self, process: Process) -> None:
        """Have it kept for a while, in place of the one that is."""
        await self.close()
        self._process, self._resting = process, asyncio.create_task(self._rest())

    async def _rest(self) -> None:
        try:
            await asyncio.sleep(self._rest_s)
        finally:
            if self._resting is asyncio.current_task():  # nobody took it
                self._resting = None
                await self.close()

    async def close(self) -> None:
        """End the process."""
        process = self.take()
        if process is not None:
            await asyncio.to_thread(_end, process)


class Builder:
    """The process beside one addition; none is taken before it is wanted, nor another once it has failed."""

    def __init__(self, emit: Emit = drop, spare: Spare | None = None) -> None:
        self._emit, self._spare = emit, spare or Spare()
        self._is_wanted = False
        self._process: Process | None = None
        self._asked: asyncio.Future[bytes] | None = None
        self._turn = asyncio.Lock()

    def want(self) -> None:
        """There is enough to do for two: start, unless it was started before."""
        if self._is_wanted:
            return
        self._is_wanted = True
        try:
            self._process = self._spare.take() or _start()
        except OSError as error:
            self._tell(error)

    async def words(self, arrivals: Sequence[Arrival]) -> bytes:
        """The index of the arrivals' words, without vectors; empty if it is to be built elsewhere."""
        return await self._ask(lambda: indexed_fields(arrivals), []) if arrivals else b""

    async def merge(self, parts: Sequence[MergePart]) -> bytes:
        """One segment of several."""
        return await self._ask(list, parts) or await merge_here(parts)

    async def _ask(self, fields: Callable[[], Sequence[Fields]], parts: Sequence[MergePart]) -> bytes:
        """What the process makes of it; nothing, if it cannot be asked."""
        async with self._turn:
            if self._process is None:
                return b""
            try:
                self._asked = asyncio.ensure_future(asyncio.to_thread(_exchange, self._process, fields(), parts))
                async with asyncio.timeout(PATIENCE_S):
                    return await asyncio.shield(self._asked)
            except (OSError, EOFError, TimeoutError) as error:
                self._tell(error)
                await self._give_up()
                return b""

    def _tell(self, error: Exception) -> None:
        self._emit(Event(FAILED, "warning", {"error": type(error).__name__, "instead": "built in this process"}))

    async def __aenter__(self) -> "Builder":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """A process of which nothing is expected any more may rest; any other is ended."""
        if self._process is not None and error is None:
            await self._spare.leave(self._process)
        else:
            await self._give_up()

    async def _give_up(self) -> None:
        """End the process, whatever it is doing."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        if self._asked is not None:
            await asyncio.gather(self._asked, return_exceptions=True)
        await asyncio.to_thread(_end, process)


def _start() -> Process:
    """A Python that knows where this one finds its modules, and nothing else of it; Ctrl-C is not for it."""
    argv = [sys.executable, "-I", "-c", _PROGRAM, *import_path()]
    env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | {"OPENBLAS_NUM_THREADS": "1"}
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    return subprocess.Popen(  # noqa: S603
        argv, env=env, cwd="/", stdin=pipe, stdout=pipe, stderr=null, start_new_session=True
    )


def _exchange(process: Process, fields: Sequence[Fields], parts: Sequence[MergePart]) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    send(process.stdin, fields, parts)
    return read(process.stdout)


def _end(process: Process) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        with suppress(OSError):  # what was not sent is not missed
            pipe.close()
    process.wait()
