"""``durable.py write|check DIR``: writes until it is killed, or says what is there afterwards.

``write`` prints ``audit N``, ``lock N`` and ``answer N`` once entry, record or approval N was acknowledged. ``check``
prints one JSON object.
"""

import asyncio
import json
import os
import sys
import threading
import time
from itertools import count
from pathlib import Path

from toolcrib.config.lock import Record, StandingAnswer, with_answer
from toolcrib.core.audit import AuditEntry
from toolcrib.core.kinds import DiscoveryStatus
from toolcrib.stores.audit.file import AuditFile
from toolcrib.stores.audit.log import in_order
from toolcrib.stores.audit.verify import verify
from toolcrib.stores.audit.writer import QueuedAudit
from toolcrib.stores.lockfile import LockFile

WRITERS = 8


def acknowledge(kind: str, number: int) -> None:
    os.write(1, b"%b %d\n" % (kind.encode(), number))


async def write_audit(log: QueuedAudit, numbers: "count[int]") -> None:
    while True:
        number = next(numbers)
        await log.commit(AuditEntry("call.begun", tool="work", execution_id=str(number)))
        acknowledge("audit", number)
        log.note(AuditEntry("call", tool="work", execution_id=str(number), outcome="success"))


def write_lock(path: Path, first: int) -> None:
    file = LockFile(path)
    for number in count(first):
        file.update("server", lambda _, number=number: Record("server", DiscoveryStatus.SUCCESS, error=str(number)))
        if file.problem:
            raise SystemExit(file.problem)
        acknowledge("lock", number)
        kept = StandingAnswer(allow=True, at=str(number), by="terminal")
        file.change(lambda lock, kept=kept: with_answer(lock, "files__write", "local", kept))
        acknowledge("answer", number)


async def write(home: Path, first: int) -> None:
    log = QueuedAudit(AuditFile(home / "audit.db"), time.time_ns)
    numbers = count(first)
    threading.Thread(target=write_lock, args=(home / "toolcrib.lock", first), daemon=True).start()
    await asyncio.gather(*(write_audit(log, numbers) for _ in range(WRITERS)))


async def check(home: Path) -> dict[str, object]:
    began = time.monotonic()
    log = QueuedAudit(AuditFile(home / "audit.db"), time.time_ns)
    await log.commit(AuditEntry("start"))
    lock = LockFile(home / "toolcrib.lock").read()
    locked, kept = lock.records.get("server"), lock.approvals.get("files__write", {}).get("local")
    reopened_s = time.monotonic() - began
    await log.close()
    with AuditFile(home / "audit.db").reading() as connection:
        finding = verify(connection)
        begun = {int(entry.execution_id) for entry in in_order(connection) if entry.event == "call.begun"}
    return {
        "reopened_s": reopened_s,
        "fault": finding.fault and finding.fault.words,
        "entries": finding.entries,
        "begun": sorted(begun),
        "lock": int(locked.error) if locked else 0,
        "answer": int(kept.at) if kept else 0,
    }


if __name__ == "__main__":
    command, home = sys.argv[1], Path(sys.argv[2])
    if command == "write":
        asyncio.run(write(home, int(sys.argv[3])))
    else:
        print(json.dumps(asyncio.run(check(home))))
