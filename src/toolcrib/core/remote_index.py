"""An index that an engine searches itself, where the parts of a view are more than a process should hold."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from toolcrib.core.knowledge import Embedding, SegmentRecord


class RemoteIndex(Protocol):
    """What a store offers that has one; what comes from ``segment`` goes back into ``elsewhere``."""

    async def segment(self, record: "SegmentRecord") -> Any:
        """What is held here of a segment: how long its passages are; ``None`` if it was merged away meanwhile."""

    async def vectors(self, collections: Sequence[str]) -> Mapping[str, int]:
        """Which set of vectors each collection is searched by."""

    def elsewhere(self, segments: Sequence[Any], alive: Sequence[Any], vectors: Mapping[str, int], size: int) -> Any:
        """How a searcher of these segments looks up words, and meaning if vectors have a size."""

    async def sizes(self, collection: str) -> set[int]:
        """How long the vectors are that were put aside for a collection."""

    async def settle(self, collection: str, expected: "Embedding | None", now: "Embedding") -> bool:
        """Have what was put aside count from now on; not done, and false, if something changed or is missing."""

    async def take_merging(self, collection: str) -> bool:
        """Be the only one who merges segments of a collection; false if another, in whichever process, is at it."""

    async def end_merging(self, collection: str) -> None:
        """Let the next one merge."""

    async def tidy(self, collection: str) -> None:
        """After much was added: have the engine's own indexes follow."""
