"""What is written down of calls and security decisions, and where it can be written to."""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

CALL = "call"
BEGUN = ".begun"
"""What is added to the word for a request while it is not known how it ends."""
CALL_BEGUN = CALL + BEGUN
GAP = "audit.gap"
CUT = "audit.cut"
VISIT = "visit"
"""Somebody looked at something on the page that a tool has to tell."""


class AuditEntry(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One thing to be remembered, before it is timed, numbered and chained. Never holds an argument's value unless
    the configuration says so, and then redacted."""

    event: str
    """``call``, ``read``, ``get``, ``complete`` (how a request ended), each with ``.begun`` before, ``approval``,
    ``pin``, ``token``, ``policy``, ``server``, ``start``, ``kb`` (what `toolcrib kb work` added),
    ``visit`` (the page showed what a tool told it),
    ``audit.gap`` (some entries could not be written), ``audit.cut`` (the end of the log was gone)."""
    tool: str = ""
    server: str = ""
    caller: str = ""
    caller_kind: str = ""
    execution_id: str = ""
    trace_id: str = ""
    level: str = ""
    """The tool's security level."""
    decision: str = ""
    """What the rules said: ``allowed``, ``denied``, ``held``, ``unknown``, ``approved once`` …"""
    outcome: str = ""
    """``success``, or the code of the error."""
    duration_ms: float | None = None
    details: Mapping[str, Any] = {}
    """Sizes, the shape of the arguments, who answered: small, plain data."""


class AuditStatus(msgspec.Struct, frozen=True):
    """How the log is doing."""

    enabled: bool = False
    opened: bool = False
    """Whether something was written since the start, so that it is known to work."""
    written: int = 0
    """Entries that are safe on disk, of this process."""
    backlog: int = 0
    """Entries that wait to be written."""
    failures: int = 0
    """Attempts to write that failed."""
    lost: int = 0
    """Entries that had no room in the backlog any more."""
    problem: str = ""
    """Why it cannot be written right now; empty if it can."""
    place: str = ""
    """Where it is written, without passwords."""


class Audit(Protocol):
    """Where entries go."""

    def note(self, entry: AuditEntry) -> None:
        """Have it written soon, in order; never waits."""

    async def commit(self, entry: AuditEntry) -> None:
        """Have it written; returns when it will survive a power cut, raises ``AuditUnavailable`` if it cannot be."""

    def status(self) -> AuditStatus:
        """How it is doing; opens nothing."""

    async def close(self) -> None:
        """Write what waits, then stop."""


class NoAudit:
    """Writes nothing down."""

    def note(self, entry: AuditEntry) -> None:
        """Forget it."""

    async def commit(self, entry: AuditEntry) -> None:
        """Forget it."""

    def status(self) -> AuditStatus:
        """Switched off."""
        return AuditStatus()

    async def close(self) -> None:
        """There is nothing to write."""
