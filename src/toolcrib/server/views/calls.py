"""Calls: those under way, questions that wait for a person, answers that are kept, and what the audit log has."""

import asyncio
import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec

from toolcrib.calls.approvals import ApprovalReply
from toolcrib.calls.forms import QuestionForm
from toolcrib.calls.inbox import Waiting
from toolcrib.calls.live import CallEntry
from toolcrib.core.view import KeptAnswer, View
from toolcrib.stores.audit.log import Stored
from toolcrib.stores.audit.verify import Finding

_AGO = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(s|m|h|d)", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class CallList(View):
    """Calls, the newest first."""

    calls: list[CallEntry]


class Cancelled(View):
    """The call is being ended."""

    id: str
    cancelled: bool = True


class QuestionEntry(View):
    """A call that waits for a person."""

    id: str
    tool: str
    server: str
    level: str
    caller: str
    arguments: dict[str, Any]
    asked_at: str
    seconds_left: float
    form: QuestionForm | None = None
    """What its server wants to know while it runs; ``null``: whether it may run at all."""


class QuestionList(View):
    """What waits for an answer."""

    questions: list[QuestionEntry]


class Answered(View):
    """The answer that counts."""

    id: str
    answer: ApprovalReply


class KeptAnswers(View):
    """The answers that are kept."""

    answers: list[KeptAnswer]


class ApprovalList(View):
    """What waits for an answer (``null`` where no toolcrib is serving), and the answers that are kept."""

    questions: list[QuestionEntry] | None
    answers: list[KeptAnswer]


def question_entry(entry: Waiting) -> QuestionEntry:
    """What can be seen of a question."""
    question = entry.question
    waited_s = asyncio.get_running_loop().time() - entry.asked_at
    return QuestionEntry(
        id=question.id,
        tool=question.tool,
        server=question.server,
        level=question.level,
        caller=question.caller,
        arguments=dict(question.arguments),
        asked_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - waited_s)),
        seconds_left=round(max(0.0, question.timeout_s - waited_s), 1),
        form=question.form,
    )


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
