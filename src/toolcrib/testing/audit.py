"""An audit log in memory, which can be broken on command."""

from toolcrib.core.audit import AuditEntry, AuditStatus
from toolcrib.core.errors import AuditUnavailable


class MemoryAudit:
    """Keeps the entries in lists; while ``problem`` is set, nothing can be committed."""

    def __init__(self, problem: str = "") -> None:
        self.problem = problem
        self.noted: list[AuditEntry] = []
        self.committed: list[AuditEntry] = []
        self.closed = False

    def note(self, entry: AuditEntry) -> None:
        """Keep it."""
        self.noted.append(entry)

    async def commit(self, entry: AuditEntry) -> None:
        """Keep it, or say why not."""
        if self.problem:
            raise AuditUnavailable(f"The audit log cannot be written: {self.problem}.")
        self.committed.append(entry)

    def status(self) -> AuditStatus:
        """On, and as well as it was told to be."""
        written = len(self.noted) + len(self.committed)
        return AuditStatus(enabled=True, opened=True, written=written, problem=self.problem)

    async def close(self) -> None:
        """Remember that it was closed."""
        self.closed = True
