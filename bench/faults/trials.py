"""Trials of one store: the n-th operation fails, the power is cut after the n-th, the file is damaged at rest.

Each is counted, and each that goes wrong is told in one line. Wrong is: something acknowledged is lost, something is
there that nobody wrote, an error that is not ours or does not say what to do, a store that stays unusable when the
trouble is over.
"""

import errno
import hashlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.faults import images, sqlite
from bench.faults.disk import Disk, Failing
from bench.faults.history import History
from bench.faults.stores import STORES, Outside, Store, prepare
from toolcrib.core.errors import ToolcribError

MOST = 2_000
"""Operations after which a trial that still fails is given up."""
REOPEN = ""

FAILURES: dict[str, Failing] = {
    "disk full": Failing(0, errno.ENOSPC, lasting=True),
    "one I/O error": Failing(0, errno.EIO),
    "one full disk": Failing(0, errno.ENOSPC),
    "I/O errors": Failing(0, errno.EIO, lasting=True),
    "read-only": Failing(0, errno.EROFS, lasting=True),
    "short write": Failing(0, short=True),
}

CUTS: dict[str, tuple[images.Choice, bool]] = {
    "nothing unforced": (images.NOTHING, False),
    "names only": (images.NAMES_ONLY, False),
    "content only": (images.CONTENT_ONLY, False),
    "everything": (images.EVERYTHING, False),
    "everything, torn": (images.EVERYTHING, True),
}


@dataclass
class Tally:
    """How many cases were tried, and what went wrong in which."""

    tried: int = 0
    lost: list[str] = field(default_factory=list)
    unnamed: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> list[str]:
        return [*self.lost, *self.unnamed, *self.stuck]

    def add(self, other: "Tally") -> None:
        self.tried += other.tried
        self.lost += other.lost
        self.unnamed += other.unnamed
        self.stuck += other.stuck


class Trials:
    """All trials of one store, below one directory."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name, self.home = name, directory.resolve() / "home"
        self.tally = Tally()
        self._make = STORES[name]
        self._outside: Outside = {}

    def open(self) -> Store:
        return self._make(self.home, self._outside)

    def begin(self) -> None:
        """An empty place, and nobody who remembers anything."""
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir(parents=True)
        prepare(self.home)
        self._outside = {}

    # The n-th operation fails

    async def fail_each(self, *kinds: str) -> Tally:
        """Fail the first operation, then the second, until a run passes untouched; each in the next of these ways."""
        for number in range(1, MOST):
            what = kinds[number % len(kinds)]
            failing = replace(FAILURES[what], at=number)
            if not await self._fail(f"{self.name}: {what} at {number}", failing) and not failing.short:
                return self.tally
        raise AssertionError(f"{self.name} still fails after {MOST} operations")

    async def _fail(self, case: str, failing: Failing) -> bool:
        """One run with a failure; whether there was one."""
        self.begin()
        disk, history = Disk(self.home), History()
        start = images.of_directory(self.home, disk.number)
        disk.failing = failing
        with self._watched(disk):
            store = await self._play(disk, history, case)
            disk.mend()
            await self._recover(store, disk, history, case)
            await store.close()
        if not disk.failed:
            return False
        self.tally.tried += 1
        case = f"{case} ({disk.failed})"
        await self._look(case, history)
        images.put_back(self.home, images.replay(start, disk.journal).after_cut(images.NOTHING))
        await self._look(f"{case}, then a power cut", history)
        return True

    async def _play(self, disk: Disk, history: History, case: str) -> Store:
        store = self.open()
        for key, value in (("a", "1"), ("b", "1"), (REOPEN, ""), ("a", store.again), ("c", "1")):
            if key == REOPEN:
                await store.close()
                store = self.open()
                if not store.survives:
                    history.events.clear()
                continue
            await self._put(store, disk, history, (key, value), case)
            with self._named(case):
                self._judge(case, history.misses(await store.read()))
        return store

    async def _put(self, store: Store, disk: Disk, history: History, what: tuple[str, str], case: str) -> bool:
        history.note(len(disk.journal), *what, is_acknowledged=False)
        with self._named(case):
            await store.put(*what)
            history.note(len(disk.journal), *what, is_acknowledged=True)
            return True
        return False

    async def _recover(self, store: Store, disk: Disk, history: History, case: str) -> None:
        """The trouble is over: the store must work again, without being opened anew. The last put is made again first:
        that it looks as if nothing were to be done must not make it any less durable."""
        await self._put(store, disk, history, ("c", "1"), case)
        if not await self._put(store, disk, history, ("d", "1"), case):
            self.tally.stuck.append(f"{case}: the store stays unusable ({self.tally.unnamed[-1:]})")

    # The power is cut

    async def cut_each(self, cuts: Sequence[str], seeds: Sequence[int] = ()) -> Tally:
        """Cut the power after every operation of one run, with each idea of what the disk had done by then."""
        self.begin()
        disk, history = Disk(self.home), History()
        start = images.of_directory(self.home, disk.number)
        with self._watched(disk):
            store = await self._play(disk, history, self.name)
            await store.close()
        self._judge(f"{self.name}, unseen by the disk", _unseen(self.home, start, disk))
        if not store.survives:
            return self.tally
        kinds = {name: CUTS[name] for name in cuts} | {
            f"chance {seed}": (images.by_chance(seed), True) for seed in seeds
        }
        for kind, (choice, is_torn) in kinds.items():
            image = images.Image(dict(start.files), dict(start.names), directories=set(start.directories))
            await self._cut(kind, disk, history, _afterwards(image, disk, choice, is_torn=is_torn))
        return self.tally

    async def _cut(
        self, kind: str, disk: Disk, history: History, left: Iterator[tuple[int, dict[str, bytes | None]]]
    ) -> None:
        """Look at each image once, after the last operation that leaves it so: by then most is acknowledged."""
        last: dict[bytes, int] = {}
        kept: dict[bytes, dict[str, bytes | None]] = {}
        for at, content in left:
            sign = hashlib.sha256(repr(content).encode()).digest()
            last[sign], kept[sign] = at, content
            self.tally.tried += 1
        for sign, at in last.items():
            images.put_back(self.home, kept[sign])
            done = f"{disk.journal[at - 1].kind} {disk.journal[at - 1].path}" if at else "nothing"
            await self._look(f"{self.name}: power cut after {at} ({done}), {kind}", history, at)

    async def _look(self, case: str, history: History, until: int | None = None) -> None:
        """Open the store anew: what is there, is it whole, and can it be used?"""
        with Disk(self.home).watching():  # only so that no fsync is carried out
            store = self._make(self.home, dict(self._outside))
            try:
                await self._use(store, case, history, until)
            finally:
                await store.close()

    async def _use(self, store: Store, case: str, history: History, until: int | None) -> None:
        before = len(self.tally.wrong)
        with self._named(case):
            if store.survives:
                self._judge(case, history.misses(await store.read(), until))
                self._judge(case, await store.faults())
            await store.put("e", "1")
            return
        if len(self.tally.wrong) == before:
            self.tally.stuck.append(f"{case}: cannot be opened, read and written again: {self._last}")

    # The file is damaged at rest

    async def damage_each(self) -> Tally:
        """Damage the file in every way; what cannot be read is named, left alone, and not begun anew."""
        if not self.open().file:
            return self.tally
        self.begin()
        disk, history = Disk(self.home), History()
        store = await self._play(disk, history, self.name)
        await store.close()
        path = self.home / store.file
        whole, image = path.read_bytes(), images.of_directory(self.home, disk.number).after_cut(images.NOTHING)
        for what, damage in DAMAGES.items():
            if damage is _empty and store.may_be_empty:
                continue
            images.put_back(self.home, image)
            damage(path, whole)
            self.tally.tried += 1
            await self._damaged(f"{self.name}: {path.name} {what}", path, history)
        return self.tally

    async def _damaged(self, case: str, path: Path, history: History) -> None:
        store, found = self.open(), ""
        damaged = path.read_bytes() if path.is_file() else b""
        try:
            with self._named(case, path.name):
                found = "; ".join([*history.misses(await store.read()), *await store.faults()])
                if found:
                    self.tally.lost.append(f"{case}: nobody notices that {found}")
                return
            with self._named(case, path.name):
                await store.put("e", "1")
                self.tally.lost.append(f"{case}: cannot be read, but is written")
        finally:
            await store.close()
        if path.is_file() and path.read_bytes() != damaged:
            self.tally.lost.append(f"{case}: what was left of it is gone")

    # What all share

    @contextmanager
    def _watched(self, disk: Disk) -> Iterator[None]:
        with disk.watching(), sqlite.registered(disk):
            yield

    @contextmanager
    def _named(self, case: str, name: str = "") -> Iterator[None]:
        """Refusals are fine if they are ours, say what to do, and name the file."""
        self._last = ""
        try:
            yield
        except ToolcribError as error:
            self._last = f"{error.code} {error}"
            if not error.hint or (name and name not in str(error)):
                self.tally.unnamed.append(f"{case}: {error.code} {error!s} does not say what to do, or to which file")
        except Exception as error:  # the edge of the trial: whatever comes out here should not
            self._last = repr(error)
            self.tally.unnamed.append(f"{case}: {error!r} is not an error of ours")

    def _judge(self, case: str, misses: list[str]) -> None:
        self.tally.lost.extend(f"{case}: {miss}" for miss in misses)


def _afterwards(
    image: images.Image, disk: Disk, choice: images.Choice, *, is_torn: bool
) -> Iterator[tuple[int, dict[str, bytes | None]]]:
    yield 0, image.after_cut(choice)
    for at, op in enumerate(disk.journal, 1):
        image.take(op)
        yield at, image.after_cut(choice, is_torn=is_torn)


def _unseen(home: Path, start: images.Image, disk: Disk) -> list[str]:
    """Files that are not as the journal says: they were written behind the disk's back."""
    image = images.Image(dict(start.files), dict(start.names), directories=set(start.directories))
    expected = images.replay(image, disk.journal).after_cut(images.EVERYTHING)
    found = images.of_directory(home, disk.number).after_cut(images.EVERYTHING)
    return [f"{path} was written" for path in found if found[path] != expected.get(path, b"none")]


def _cut_in_half(path: Path, whole: bytes) -> None:
    path.write_bytes(whole[: len(whole) // 2])


def _empty(path: Path, _whole: bytes) -> None:
    path.write_bytes(b"")


def _zero(path: Path, whole: bytes) -> None:
    path.write_bytes(bytes(len(whole)))


def _zero_the_beginning(path: Path, whole: bytes) -> None:
    cut = min(len(whole), 512)
    path.write_bytes(bytes(cut) + whole[cut:])


def _zero_the_rest(path: Path, whole: bytes) -> None:
    cut = len(whole) // 2
    path.write_bytes(whole[:cut] + bytes(len(whole) - cut))


def _flip(path: Path, whole: bytes) -> None:
    """The highest bit of every seventh byte."""
    path.write_bytes(bytes(byte ^ 0x80 if at % 7 == 3 else byte for at, byte in enumerate(whole)))


def _write_nonsense(path: Path, _whole: bytes) -> None:
    path.write_bytes(b"\x7fELF nonsense \xff" * 100)


def _make_directory(path: Path, _whole: bytes) -> None:
    path.unlink()
    path.mkdir()


def _make_loop(path: Path, _whole: bytes) -> None:
    """What cannot be opened, not even by root."""
    path.unlink()
    path.symlink_to(path.name)


DAMAGES: dict[str, Callable[[Path, bytes], None]] = {
    "cut in half": _cut_in_half,
    "emptied": _empty,
    "zeroed": _zero,
    "zeroed at the beginning": _zero_the_beginning,
    "zeroed at the end": _zero_the_rest,
    "with flipped bits": _flip,
    "full of nonsense": _write_nonsense,
    "a directory": _make_directory,
    "a link to itself": _make_loop,
}
