"""What is written down of calls and security decisions, and where it can be written to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One thing to be remembered, before it is timed, numbered and chained. Never holds an argument's value unless
    the configuration says so, and then redacted."""

    event: str
    """``call`` (how it ended), ``call.begun``, ``approval``, ``pin``, ``token``, ``policy``."""
    tool: str = ""
    caller: str = ""
    execution_id: str = ""
    trace_id: str = ""
    level: str = ""
    """The tool's security level."""
    decision: str = ""
    """What the rules said: ``allowed``, ``denied``, ``held``, ``approved once`` …"""
    outcome: str = ""
    """``success``, or the code of the error."""
    duration_ms: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    """Sizes, the shape of the arguments, who answered: small, plain data."""


class Audit(Protocol):
    """Where entries go."""

    def note(self, entry: AuditEntry) -> None:
        """Have it written soon, in order; never waits."""

    async def commit(self, entry: AuditEntry) -> None:
        """Have it written; returns when it will survive a power cut, raises ``AuditUnavailable`` if it cannot be."""


class NoAudit:
    """Writes nothing down."""

    def note(self, entry: AuditEntry) -> None:
        """Forget it."""

    async def commit(self, entry: AuditEntry) -> None:
        """Forget it."""
