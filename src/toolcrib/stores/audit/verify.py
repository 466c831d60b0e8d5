"""Walking the chain: is every entry there, in its place, and as it was written?"""

from dataclasses import dataclass, field

from toolcrib.core.audit import CALL, CALL_BEGUN
from toolcrib.stores.audit.log import GENESIS, AuditLog, Head, Stored, link, stored

_EVENT = '"event":"call'


@dataclass(frozen=True, slots=True)
class Fault:
    """The first entry that is not right, and what is wrong with it."""

    seq: int
    kind: str
    """``edited``, ``missing``, ``out of order``, ``tail cut``, ``head changed``, ``not the noted head``."""
    words: str


@dataclass(slots=True)
class Finding:
    """What a walk along the chain found."""

    entries: int = 0
    head: Head = field(default_factory=Head)
    """The last entry that is still right."""
    fault: Fault | None = None
    unfinished: list[Stored] = field(default_factory=list)
    """Calls that began and whose end was not recorded."""


def verify(log: AuditLog, noted: Head | None = None) -> Finding:
    """Walk the whole chain up to the first fault; ``noted`` is a head somebody wrote down before."""
    finding = Finding()
    open_calls: dict[str, Stored] = {}
    with log.snapshot():
        finding.fault = _walk(log, finding, open_calls, noted) or _check_end(log, finding.head, noted)
    finding.unfinished = list(open_calls.values())
    return finding


def _walk(log: AuditLog, finding: Finding, open_calls: dict[str, Stored], noted: Head | None) -> Fault | None:
    previous = GENESIS
    for seq, (number, digest, body) in enumerate(log.checked(), 1):
        if number != seq:
            return _missing(seq, number - 1)
        if link(previous, seq, body.encode()) != digest:
            return _misfit(log, seq, previous)
        if noted is not None and noted.seq == seq and noted.hash != digest:
            return Fault(seq, "not the noted head", f"record {seq} is not the one whose hash was noted")
        previous = digest
        finding.entries, finding.head = seq, Head(seq, digest)
        if _EVENT in body:
            _follow(open_calls, stored(number, digest, body))
    return None


def _follow(open_calls: dict[str, Stored], entry: Stored) -> None:
    if entry.event == CALL_BEGUN:
        open_calls[entry.execution_id] = entry
    elif entry.event == CALL:
        open_calls.pop(entry.execution_id, None)


def _missing(first: int, last: int) -> Fault:
    words = f"record {first} is missing" if first == last else f"records {first} to {last} are missing"
    return Fault(first, "missing", words)


def _misfit(log: AuditLog, seq: int, previous: bytes) -> Fault:
    """Whether what belongs here stands elsewhere in the log; otherwise it was changed."""
    for number, digest, body in log.checked(seq):
        if link(previous, seq, body.encode()) == digest:
            return Fault(seq, "out of order", f"record {seq} is out of order: what belongs there stands at {number}")
    return Fault(seq, "edited", f"record {seq} was edited")


def _check_end(log: AuditLog, last: Head, noted: Head | None) -> Fault | None:
    head = log.head()
    if head is None:
        return Fault(last.seq, "head changed", "the head of the log is missing")
    if head.seq > last.seq:
        return _tail_cut(last.seq + 1, head.seq, "the head")
    if head != last:
        return Fault(last.seq, "head changed", f"the head says {head.seq}, but the log ends with {last.seq}")
    if noted is not None and noted.seq > last.seq:
        return _tail_cut(last.seq + 1, noted.seq, "the noted head")
    return None


def _tail_cut(first: int, last: int, witness: str) -> Fault:
    gone = f"record {first} is" if first == last else f"records {first} to {last} are"
    return Fault(first, "tail cut", f"the tail was cut: {gone} missing, {witness} knows of {last}")
