"""What is known of one server, and where it is kept."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from toolcrib.config.lock import Record
from toolcrib.config.model import ServerConfig
from toolcrib.core.source import ServerSource
from toolcrib.core.tool import Tool


class RecordStore(Protocol):
    """Where discovery records are kept."""

    async def read(self) -> Mapping[str, Record]:
        """All records."""

    async def update(self, server: str, change: Callable[[Record | None], Record | None]) -> None:
        """Change one record in one step; what others write meanwhile is not lost."""


@dataclass(slots=True)
class Shelf:
    """What is known of one server."""

    config: ServerConfig
    source: ServerSource
    record: Record
    tools: tuple[Tool, ...] = ()
    fresh_until: float = 0.0
    is_known: bool = False
    """Whether ``tools`` come from a discovery of this very configuration."""
    stored: Record = field(init=False)
    """What the record store holds of it."""
    held: Mapping[str, str] = field(default_factory=dict)
    """Its tools in quarantine, and why."""
    barred: str = ""
    """Why the server itself is in quarantine: it is not connected to, so that it gets no token."""
    is_compared: bool = False
    """Whether its tools were compared with their pins in this run."""
    flight: asyncio.Task[Record] | None = None
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once listings need not wait for it: its first discovery ended, its first attempt failed, or one waited."""

    def __post_init__(self) -> None:
        self.stored = self.record

    @property
    def status(self) -> str:
        """``never``, ``discovering``, ``success`` or ``failed``."""
        return "discovering" if self.flight is not None else self.record.status


def barred_words(shelf: Shelf) -> str:
    """What is wrong with a server that is in quarantine, and what to do."""
    name = shelf.config.name
    return (
        f"Server {name!r} is in quarantine and is sent nothing: {shelf.barred}. "
        f"Look at its entry in the platform's list, then accept it with `toolcrib approve {name}`."
    )
