"""Looking at what is to be added: which files are new or changed, which are as they were, which are gone."""

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from toolcrib.core.errors import ConfigError, PermissionDenied, UnreadableSource
from toolcrib.core.globs import IGNORE_FILES, NEVER, Rule, is_ignored, read_rules
from toolcrib.core.knowledge import Stamp
from toolcrib.core.network import Network
from toolcrib.knowledge.parse.reading import FOREIGN_MAX
from toolcrib.transports.http.dial import HttpFailure
from toolcrib.transports.http.fetch import FetchLimits, MayReach, is_public
from toolcrib.transports.http.fetch import fetch as http_fetch

FILES_MAX = 1_000_000
DEPTH_MAX = 64
YOUNG_NS = 2_000_000_000
"""A file changed this shortly ago may change again without looking different."""
IGNORE_BYTES_MAX = 1 << 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


@dataclass(frozen=True, slots=True)
class FileCandidate:
    """A file that may become a document: where the search began, and the way from there."""

    root: Path
    parts: tuple[str, ...]
    label: str = ""

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.root.joinpath(*self.parts)

    @property
    def source(self) -> str:
        """What it is called: its path, or its way below the label."""
        return "/".join((self.label or str(self.root).rstrip("/"), *self.parts))

    @property
    def name(self) -> str:
        """Its name, without the folders."""
        return self.parts[-1]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that did not become a document, and why."""

    source: str
    reason: str
    is_folder: bool = False
    """Whether nobody knows what is below it."""


@dataclass(frozen=True, slots=True)
class Content:
    """A file's bytes, and the cheap signs they had."""

    bytes: bytes
    stamp: Stamp
    type: str = ""
    """What kind of document it is, where somebody said so."""


def find_files(path: Path, label: str = "", within: Path | None = None) -> Iterator[FileCandidate | Skipped]:
    """The file itself, or every file of a folder that no rule leaves out, in a stable order.

    On the way from ``within`` no link is followed when the files are read.
    """
    root = path.resolve()
    is_folder = root.is_dir()
    start = within or (root if is_folder else root.parent)
    parts = root.relative_to(start).parts
    if is_folder:
        found = _walk(start, parts, ())
        yield from (replace(each, label=label) if isinstance(each, FileCandidate) else each for each in found)
    else:
        yield FileCandidate(start, parts, label)


Rules = tuple[tuple[str, tuple[Rule, ...]], ...]


def _walk(root: Path, parts: tuple[str, ...], rules: Rules) -> Iterator[FileCandidate | Skipped]:
    folder = root.joinpath(*parts)
    try:
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError as error:
        yield Skipped(str(folder), (error.strerror or "cannot be read").lower(), is_folder=True)
        return
    here = "".join(f"{part}/" for part in parts)
    rules = (*rules, *((here, read_rules(_read_rules(folder / name))) for name in IGNORE_FILES if _has(entries, name)))
    for entry in entries:
        yield from _visit(root, parts, entry, rules)


def _visit(
    root: Path, parts: tuple[str, ...], entry: "os.DirEntry[str]", rules: Rules
) -> Iterator[FileCandidate | Skipped]:
    inside = (*parts, entry.name)
    if entry.name.startswith("."):
        return
    if entry.is_symlink():
        yield Skipped(entry.path, "it is a link")
        return
    is_folder = entry.is_dir(follow_symlinks=False)
    if is_ignored("/".join(inside), is_folder, rules):
        return
    if is_folder and entry.name not in NEVER and len(inside) < DEPTH_MAX:
        yield from _walk(root, inside, rules)
    elif entry.is_file(follow_symlinks=False):
        yield (
            FileCandidate(root, inside) if _is_text(entry.name) else Skipped(ascii(entry.path), "its name is not UTF-8")
        )


def _is_text(name: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in name)


def _has(entries: "list[os.DirEntry[str]]", name: str) -> bool:
    return any(entry.name == name and entry.is_file(follow_symlinks=False) for entry in entries)


def _read_rules(path: Path) -> str:
    with suppress(OSError), path.open("rb") as file:
        return file.read(IGNORE_BYTES_MAX).decode(errors="replace")
    return ""


def look(candidate: FileCandidate) -> Stamp:
    """The cheap signs of a file, without its hash; raises ``UnreadableSource``."""
    try:
        status = candidate.path.lstat()
    except OSError as error:
        raise _unreadable(error) from None
    return Stamp("", status.st_size, status.st_mtime_ns)


def read(candidate: FileCandidate, size_max: int) -> Content:
    """The bytes of a regular file below its root, reached without passing a link; raises ``UnreadableSource``."""
    with opened(candidate) as (descriptor, status):
        if status.st_size > size_max:
            raise UnreadableSource(f"it has {status.st_size / 1e6:.0f} MB, the limit is {size_max / 1e6:.0f} MB")
        content = _read_all(descriptor, size_max)
    return Content(content, Stamp("", status.st_size, status.st_mtime_ns))


@contextmanager
def opened(candidate: FileCandidate) -> Iterator[tuple[int, os.stat_result]]:
    """The descriptor of a regular file, and what the system says of it; what the system refuses is told in words."""
    try:
        with _open(candidate) as descriptor:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise UnreadableSource("it is no ordinary file")
            yield descriptor, status
    except OSError as error:
        raise _unreadable(error) from None


@contextmanager
def _open(candidate: FileCandidate) -> Iterator[int]:
    """Step by step from the root: what was a folder when it was listed may be a link by now."""
    held = os.open(candidate.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in candidate.parts[:-1]:
            below = os.open(name, _FOLDER, dir_fd=held)
            os.close(held)
            held = below
        descriptor = os.open(candidate.parts[-1], _FILE, dir_fd=held)
    finally:
        os.close(held)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _read_all(descriptor: int, size_max: int) -> bytes:
    pieces, left = [], size_max + 1
    while left > 0 and (piece := os.read(descriptor, min(left, 1 << 20))):
        pieces.append(piece)
        left -= len(piece)
    if left <= 0:
        raise UnreadableSource("it grows while it is read")
    return b"".join(pieces)


def _unreadable(error: OSError) -> UnreadableSource:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return UnreadableSource("it is a link")
    return UnreadableSource((error.strerror or "it cannot be read").lower())


Known = Mapping[str, tuple[str, Stamp]]
"""Source → document id and stamp."""


@dataclass(frozen=True, slots=True)
class Adding:
    """What is wanted of an addition; what is said here counts more than what documents say of themselves."""

    collection: str
    title: str = ""
    licence: str | None = None
    version: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    embedder: str = ""
    """Who makes the collection's vectors; empty leaves it as it is, or to the configuration."""

    @property
    def says(self) -> str:
        """A short hash of what it says; empty if nothing."""
        said = [self.title, self.licence, self.version, self.metadata]
        if said == ["", None, None, {}]:
            return ""
        return hashlib.sha256(msgspec.json.encode(said, enc_hook=str, order="sorted")).hexdigest()[:8]

    def digest(self, content: bytes) -> str:
        """The hash of a document: of its bytes, and of what was said when it was added."""
        return hashlib.sha256(content).hexdigest() + (f":{self.says}" if self.says else "")

    def is_same(self, digest: str, known: Stamp | None) -> bool:
        """Whether a document with this hash need not be added again; who says nothing leaves it as it was added."""
        if known is None:
            return False
        return digest == known.hash if self.says else digest == known.hash.partition(":")[0]


@dataclass(frozen=True, slots=True)
class SourceRoot:
    """A file or folder to add; with a label, its documents are named by that instead of by their path."""

    path: Path
    label: str = ""
    within: Path | None = None
    """A folder above it, from which files are reached without passing a link."""

    @property
    def place(self) -> str:
        """What the sources of its documents are, or begin with."""
        return self.label or str(self.path.resolve())


@dataclass(frozen=True, slots=True)
class Survey:
    """What has to be done."""

    to_read: list[FileCandidate]
    unchanged: int
    gone: list[str]
    """Ids of documents whose files are no more."""
    skipped: list[Skipped]


def survey(roots: Sequence[SourceRoot], known: Known, wanted: Adding) -> Survey:
    """Look at every file below the roots; one that looks as it did costs no more than that. Waits for the disk."""
    to_read, skipped, found = list[FileCandidate](), list[Skipped](), set[str]()
    unchanged = 0
    for candidate in _candidates(roots):
        if isinstance(candidate, Skipped):
            skipped.append(candidate)
        elif candidate.source in found:
            continue
        else:
            found.add(candidate.source)
            if is_unchanged(candidate, known, wanted):
                unchanged += 1
            else:
                to_read.append(candidate)
    places = [root.place for root in roots]
    unseen = tuple(f"{each.source}/" for each in skipped if each.is_folder)
    gone = [
        document
        for source, (document, _) in known.items()
        if source not in found
        and any(source == place or source.startswith(f"{place}/") for place in places)
        and not source.startswith(unseen)
    ]
    return Survey(to_read, unchanged, gone, skipped)


def _candidates(roots: Sequence[SourceRoot]) -> Iterable[FileCandidate | Skipped]:
    for root in roots:
        if not root.path.exists():
            raise UnreadableSource(f"There is no file or folder {str(root.path)!r}.", hint="Check the path.")
        yield from find_files(root.path, root.label, root.within)


@dataclass(frozen=True, slots=True)
class AllowedFolders:
    """What documents may be added from: folders with all that is below them and not hidden, or single files."""

    base: Path = Path()
    """Where relative paths begin."""
    folders: tuple[Path, ...] = ()

    def find(self, path: str) -> SourceRoot:
        """A file or folder to add; raises ``PermissionDenied`` for one elsewhere. Waits for the disk.

        The same is said of what is not there and of what may not be read: nobody finds out which files exist.
        """
        with suppress(OSError, ValueError):  # no system has a path like this
            found = Path(os.path.realpath(self.base / path))
            for folder in (Path(os.path.realpath(self.base / each)) for each in self.folders):
                if found == folder:
                    return SourceRoot(found, within=folder if folder.is_dir() else folder.parent)
                if is_below(found, folder):
                    return SourceRoot(found, within=folder)
        raise PermissionDenied(
            f"{path[:200]!r} is not below a folder that documents may be added from.",
            hint="`toolcrib kb add` adds it at a terminal; for everybody else, name the folder in [kb] add_from.",
        )


def is_below(path: Path, folder: Path) -> bool:
    """Whether a search of the folder could come there: not by what is hidden."""
    return path.is_relative_to(folder) and not any(part[0] == "." for part in path.relative_to(folder).parts)


def is_unchanged(candidate: FileCandidate, known: Known, wanted: Adding) -> bool:
    """Whether the cheap signs say that a file is as it was."""
    if candidate.source not in known:
        return False
    stamp = known[candidate.source][1]
    if wanted.says and stamp.hash.partition(":")[2] != wanted.says:
        return False
    try:
        signs = look(candidate)
    except UnreadableSource:
        return False
    return bool(stamp.mtime_ns) and (signs.size, signs.mtime_ns) == (stamp.size, stamp.mtime_ns)


def is_address(source: str) -> bool:
    """Whether something to add is a page of the web."""
    return source.startswith(("http://", "https://"))


PATIENCE_S = 60.0
_KINDS = {
    "text/html": "html",
    "application/xhtml+xml": "html",
    "application/pdf": "pdf",
    "text/markdown": "markdown",
    "text/csv": "csv",
    "application/json": "json",
}


@dataclass(frozen=True, slots=True)
class Page:
    """A document to be fetched."""

    url: str

    @property
    def source(self) -> str:
        """What it is called: its address."""
        return self.url

    @property
    def name(self) -> str:
        """What a file of it would be called."""
        parts = urlsplit(self.url)
        return unquote(PurePosixPath(parts.path).name) or parts.hostname or "page"


async def fetch(page: Page, may_reach: MayReach = is_public, network: Network | None = None) -> Content:
    """The bytes of a page; raises ``UnreadableSource``."""
    limits = FetchLimits(FOREIGN_MAX, PATIENCE_S, may_reach, network)
    try:
        found = await http_fetch(page.url, [(b"accept", b"text/html, */*;q=0.8")], limits)
    except (HttpFailure, ConfigError) as error:
        raise UnreadableSource(error.message.rstrip(".")) from None
    if found.status != 200:
        raise UnreadableSource(f"the server answered {found.status}")
    return Content(found.body, Stamp("", len(found.body), 0), _KINDS.get(found.kind, ""))
