"""A past for a toolcrib that was never used."""

import asyncio
import time
from pathlib import Path

from tests.cli.program import Program

from toolcrib.core.audit import AuditEntry
from toolcrib.stores.audit.file import AuditFile
from toolcrib.stores.audit.writer import QueuedAudit

DAY_NS = 86_400 * 10**9


def log_calls(program: Program, *calls: tuple[int, str]) -> None:
    """Write down calls that are so many days old, the oldest first."""

    async def write() -> None:
        moments = iter([time.time_ns() - age * DAY_NS for age, _ in calls])
        place = AuditFile(program.home / "state" / "toolcrib" / "audit.db")
        log = QueuedAudit(place, lambda: next(moments))
        for _, tool in calls:
            await log.commit(AuditEntry("call", tool=tool, decision="allowed", outcome="success"))
        await log.close()

    Path(program.home / "state" / "toolcrib").mkdir(parents=True, exist_ok=True)
    asyncio.run(write())
