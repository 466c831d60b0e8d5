"""What the answers look like for those who look on: questions, the audit log, calls, and how everything is doing."""

from typing import Any, Literal

import msgspec

from toolcrib.server.rest.shapes import CamelCase, Health, LevelWord, ServerHealth, Tally


class QuestionEntry(CamelCase):
    """A call that waits for a person."""

    id: str
    tool: str
    server: str
    level: LevelWord
    caller: str
    arguments: dict[str, Any]
    asked_at: str
    seconds_left: float


class QuestionList(CamelCase):
    """What waits for an answer."""

    questions: list[QuestionEntry]


class Answered(CamelCase):
    """The answer that counts."""

    id: str
    answer: Literal["once", "session", "always", "no"]


class KeptAnswer(CamelCase):
    """What a person answered once and for all."""

    tool: str
    caller: str
    answer: Literal["allow", "deny"]
    at: str
    by: str


class KeptAnswers(CamelCase):
    """The answers that are kept."""

    answers: list[KeptAnswer]


class AuditItem(CamelCase):
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


class AuditPage(CamelCase):
    """Entries, the newest first."""

    entries: list[AuditItem]
    next_before: int | None
    """``before`` of the next page; ``null`` at the end."""


class AuditFault(CamelCase):
    """The first entry that is not as it was written."""

    seq: int
    kind: str
    message: str


class AuditVerdict(CamelCase):
    """Whether the log is as it was written."""

    status: Literal["clean", "changed"]
    entries: int
    head: str
    fault: AuditFault | None
    unfinished: list[AuditItem]


class CallStep(CamelCase):
    """What a call did, or waited for."""

    name: str
    start_ms: float
    end_ms: float | None


class CallEntry(CamelCase):
    """One call, running or finished; of its arguments only names and kinds."""

    id: str
    tool: str
    server: str
    level: str
    caller: str
    caller_kind: str
    session: str
    trace_id: str
    began_at: float
    ended_at: float | None
    duration_ms: float | None
    outcome: str
    """Empty while it runs, then ``success`` or the code of what went wrong."""
    message: str
    arguments: dict[str, str]
    steps: list[CallStep]


class CallList(CamelCase):
    """Calls, the newest first."""

    calls: list[CallEntry]


class Cancelled(CamelCase):
    """The call is being ended."""

    id: str
    cancelled: bool


class ToolCounts(CamelCase):
    """How many tools there are."""

    native: int
    mcp: int


class HealthView(CamelCase):
    """How toolcrib and the servers a caller may know of are doing."""

    status: Health
    """`degraded` while anything in `away` is."""
    away: dict[str, str]
    """What cannot be used as it should (`store`, `coordination`, `audit`, `server NAME`), and why."""
    parts: dict[str, str]
    """What toolcrib needs besides its servers: `ok`, or the problem."""
    tools: ToolCounts
    servers: dict[str, ServerHealth]
    calls: dict[str, float] | None
    """Only for operators."""
    audit: dict[str, Any] | None
    """Only for operators."""
    fleet: dict[str, Any] | None = None
    """Which replica this is, and how what it shares is doing; only where there are any, and for operators."""


class MetricsView(CamelCase):
    """The tallies of all tools that were called."""

    totals: dict[str, float]
    in_flight: int
    unknown: dict[str, int]
    tools: dict[str, Tally]
    uptime_seconds: float


class VersionView(CamelCase):
    """Which toolcrib this is."""

    name: str
    version: str


class SignInLink(CamelCase):
    """An address that signs the owner in to the page, once."""

    url: str
    expires_in_seconds: int


class CostTotal(CamelCase):
    """All tools together."""

    tools: int
    tokens: int


class ServerCost(CamelCase):
    """The tools of one server; `native` and `toolcrib` stand for those of this process."""

    name: str
    tools: int
    tokens: int
    calls: int | None
    unused: int | None


class ToolCost(CamelCase):
    """One tool."""

    name: str
    server: str
    tokens: int
    calls: int | None
    last_used: str | None


class ProfileCost(CamelCase):
    """The tools that one profile shows."""

    name: str
    tools: int
    tokens: int


class UsageView(CamelCase):
    """What was called, as far as the audit log goes back."""

    days: int
    since: str
    covered_days: float
    used: int
    unused: list[str]
    unused_tokens: int


class ConfusablePair(CamelCase):
    """Two tools that are easily taken for one another; at a score of 1 nothing tells them apart."""

    tools: list[str]
    score: float
    why: str


class ProfileProposal(CamelCase):
    """A profile of what was used, with what it would save."""

    name: str
    tools: list[str]
    tokens: int
    saved: int
    toml: str


class CostReport(CamelCase):
    """What the tools cost, the dearest first."""

    total: CostTotal
    servers: list[ServerCost]
    tools: list[ToolCost]
    profiles: list[ProfileCost]
    usage: UsageView | None
    confusable: list[ConfusablePair]
    proposal: ProfileProposal | None
