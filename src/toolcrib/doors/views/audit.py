"""Entries of the audit log as plain data, and the times people write."""

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from toolcrib.stores.audit_reading import Stored
from toolcrib.stores.audit_verify import Finding

_AGO = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(s|m|h|d)", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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


def as_document(entry: Stored) -> dict[str, Any]:
    """An entry for programs: number and time first, only what was written."""
    fields = msgspec.to_builtins(entry)
    return {"seq": entry.seq, "time": iso(entry.time)} | {
        name: value for name, value in fields.items() if name not in ("seq", "time")
    }


def verdict(finding: Finding) -> dict[str, Any]:
    """What a walk along the chain found."""
    fault = finding.fault
    return {
        "status": "clean" if fault is None else "changed",
        "entries": finding.entries,
        "head": str(finding.head),
        "fault": fault and {"seq": fault.seq, "kind": fault.kind, "message": fault.words},
        "unfinished": [as_document(entry) for entry in finding.unfinished],
    }
