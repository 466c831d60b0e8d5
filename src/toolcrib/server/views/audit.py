"""The audit log: its entries, and whether it is as it was written; times as people write them."""

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec

from toolcrib.core.view import View
from toolcrib.stores.audit.reading import Stored
from toolcrib.stores.audit.verify import Finding

_AGO = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(s|m|h|d)", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class AuditItem(View, omit_defaults=True):
    """One entry of the audit log; what was not written is left out."""

    seq: int
    time: str
    event: str
    hash: str
    tool: str = ""
    server: str = ""
    caller: str = ""
    caller_kind: str = ""
    execution_id: str = ""
    trace_id: str = ""
    level: str = ""
    decision: str = ""
    outcome: str = ""
    duration_ms: float | None = None
    details: dict[str, Any] = msgspec.field(default_factory=dict)


class AuditPage(View):
    """Entries, the newest first."""

    entries: list[AuditItem]
    next_before: int | None
    """``before`` of the next page; ``null`` at the end."""


class AuditFault(View):
    """The first entry that is not as it was written."""

    seq: int
    kind: str
    message: str


class AuditVerdict(View):
    """Whether the log is as it was written."""

    status: Literal["clean", "changed"]
    entries: int
    head: str
    fault: AuditFault | None
    unfinished: list[AuditItem]


def audit_item(entry: Stored) -> AuditItem:
    """What can be seen of an entry."""
    return AuditItem(**msgspec.structs.asdict(entry) | {"time": iso(entry.time)})


def audit_verdict(finding: Finding) -> AuditVerdict:
    """What a walk along the chain found."""
    fault = finding.fault
    return AuditVerdict(
        status="clean" if fault is None else "changed",
        entries=finding.entries,
        head=str(finding.head),
        fault=None if fault is None else AuditFault(fault.seq, fault.kind, fault.words),
        unfinished=[audit_item(entry) for entry in finding.unfinished],
    )


def moment_us(text: str) -> int:
    """Microseconds since 1970, from ``1h`` ago or an ISO date; without a zone it is local time."""
    if found := _AGO.fullmatch(text.strip()):
        ago = timedelta(**{_UNITS[found[2]]: float(found[1])})
        return max(0, int((time.time() - ago.total_seconds()) * 1_000_000))
    try:
        moment = datetime.fromisoformat(text.strip()).astimezone(UTC)
    except OverflowError:
        raise ValueError("a time no calendar has") from None
    return (moment - _EPOCH) // timedelta(microseconds=1)


def iso(time_us: int) -> str:
    """A stored time as ISO 8601, in UTC; one no calendar has as the number it is."""
    try:
        return (_EPOCH + timedelta(microseconds=time_us)).isoformat(timespec="microseconds").replace("+00:00", "Z")
    except OverflowError:
        return str(time_us)
