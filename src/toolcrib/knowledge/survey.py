"""Looking at what is to be added: which files are new or changed, which are as they were, which are gone."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from toolcrib.core.errors import UnreadableSource
from toolcrib.core.knowledge import Stamp
from toolcrib.knowledge.walk import Candidate, Skipped, find_files, look

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
class Root:
    """A file or folder to add; with a label, its documents are named by that instead of by their path."""

    path: Path
    label: str = ""

    def holds(self, source: str) -> bool:
        """Whether a document of this source was found below this root."""
        place = self.label or str(self.path.resolve())
        return source == place or source.startswith(f"{place}/")


@dataclass(frozen=True, slots=True)
class Survey:
    """What has to be done."""

    to_read: list[Candidate]
    unchanged: int
    gone: list[str]
    """Ids of documents whose files are no more."""
    skipped: list[Skipped]


def survey(roots: Sequence[Root], known: Known, wanted: Adding) -> Survey:
    """Look at every file below the roots; one that looks as it did costs no more than that. Waits for the disk."""
    to_read, skipped, found = list[Candidate](), list[Skipped](), set[str]()
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
    unseen = tuple(f"{each.source}/" for each in skipped if each.is_folder)
    gone = [
        document
        for source, (document, _) in known.items()
        if source not in found and any(root.holds(source) for root in roots) and not source.startswith(unseen)
    ]
    return Survey(to_read, unchanged, gone, skipped)


def _candidates(roots: Sequence[Root]) -> Iterable[Candidate | Skipped]:
    for root in roots:
        if not root.path.exists():
            raise UnreadableSource(f"There is no file or folder {str(root.path)!r}.", hint="Check the path.")
        yield from find_files(root.path, root.label)


def is_unchanged(candidate: Candidate, known: Known, wanted: Adding) -> bool:
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
