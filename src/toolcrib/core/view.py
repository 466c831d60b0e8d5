"""What can be seen of something is a typed value, made once: REST encodes it, OpenAPI is derived from it, ``--json``
prints it, and the page reads it."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from toolcrib.core.kinds import Health, ServerState, StepKind


class View(msgspec.Struct, rename="camel"):
    """A value whose names are written in camelCase."""


class DiscoveryStep(View):
    """One question on the way to who lets people in to a server, for those who want to know where it went wrong."""

    what: str
    url: str
    outcome: str
    is_good: bool


class NextStep(View):
    """What is done next about a server: by toolcrib if it is to ``wait``, else by a person."""

    kind: StepKind
    words: str
    command: str
    """What to type for it; empty where no command does it."""


class Standing(View):
    """How a server stands: the same in `up`, `ls`, `why`, `doctor`, REST and on the page."""

    state: ServerState
    cause: str | None
    """Why, in one line; only for operators."""
    next: NextStep | None
    """Nothing where everything is in order; only for operators."""
    since: str | None
    """When it came to stand so, if that is known."""
    attempt: int
    """Which attempt is under way, or was the last one; zero if none was needed."""
    retry_at: str | None
    """When it is tried again by itself."""


class ServerAttempt(View):
    """One attempt to ask a server for its tools, and what came of it."""

    at: str
    cause: str
    """Why it failed, in one line; empty if it did not."""
    tools: int = 0
    """How many tools it listed."""


class ServerHealth(View):
    """How one server is doing."""

    health: Health
    state: str
    discovery: str
    tools: int
    stale: bool
    last_discovery: str
    error: str
    era: str
    restarts: int
    stdout_noise: int
    breaker: str
    retry_after_seconds: float
    """How long its breaker still keeps calls away."""
    isolation: str
    share: str = "all"
    """Who shares one process or session of it: `all`, `user` or `session`."""
    lanes: int = 0
    """How many of its processes or sessions not all callers share."""


class ToolCounts(View):
    """How many tools there are."""

    native: int
    mcp: int


class CribHealth(View, omit_defaults=True):
    """How toolcrib and the servers a caller may know of are doing."""

    status: Health
    """`degraded` while anything in `away` is, or a tool's own health check fails."""
    away: dict[str, str]
    """What cannot be used as it should (`store`, `coordination`, `audit`, `server NAME`), and why."""
    parts: dict[str, str]
    """What toolcrib needs besides its servers: `ok`, or the problem."""
    tools: ToolCounts
    failing: dict[str, str]
    """The tools of which most of the last calls failed, or whose own health check says so, and why."""
    servers: dict[str, ServerHealth]
    calls: dict[str, float] | None
    """Only for operators."""
    audit: dict[str, Any] | None
    """Only for operators."""
    fleet: dict[str, Any] | None = None
    """Which replica this is, and how what it shares is doing; only where there are any, and for operators."""


class Tally(View):
    """What was run, and how it went."""

    executed: int
    failed: int
    timed_out: int
    refused: int
    total_seconds: float
    slowest_seconds: float
    cpu_seconds: float
    """Of native functions in threads and workers."""
    peak_memory_bytes: int
    """Of native functions in workers."""
    result_bytes: int
    last_error: str
    health: Health


class KeptAnswer(View):
    """What a person answered once and for all."""

    tool: str
    caller: str
    answer: Annotated[str, Meta(extra_json_schema={"enum": ["allow", "deny"]})]
    at: str
    by: str
