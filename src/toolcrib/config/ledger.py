"""Where the lock is kept, as everybody sees it who reads or changes it: a file, or a database that replicas share."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from toolcrib.config.lock import Lock, Record

Change = Callable[[Record | None], Record | None]


class Ledger(Protocol):
    """Discovery records with their pins, and what people answered once and for all."""

    async def lock(self) -> Lock:
        """All of it; what cannot be read is an error, for with it every pin would be forgotten."""

    async def read(self) -> Mapping[str, Record]:
        """The records of all servers."""

    async def update(self, server: str, change: Change) -> None:
        """Change one record in one step, or remove it with ``None``; what others write meanwhile is not lost."""

    async def find(self, tool: str, caller: str) -> bool | None:
        """Whether the tool was allowed to the caller for ever, denied for ever, or neither."""

    async def write(self, tool: str, caller: str, allow: bool, by: str) -> None:
        """Keep an answer; returns when it will survive a power cut."""

    async def forget(self, tool: str, callers: Sequence[str] | None = None) -> list[str]:
        """Take answers back, those for all callers if none is named; whose there were."""

    async def stamp(self) -> object:
        """What is different after every change."""


def kept_answers(lock: Lock) -> list[dict[str, str]]:
    """The answers as plain data, by tool and caller."""
    return [
        {"tool": tool, "caller": caller, "answer": "allow" if kept.allow else "deny", "at": kept.at, "by": kept.by}
        for tool, by_caller in sorted(lock.approvals.items())
        for caller, kept in sorted(by_caller.items())
    ]
