"""What the answers look like, as types: the description is made of them, and the tests hold every answer to it."""

from typing import Any, Literal

import msgspec

PolicyWord = Literal["allow", "ask", "deny", "disable"]
LevelWord = Literal["read_only", "write", "admin", "system"]
Health = Literal["healthy", "degraded", "unhealthy"]


class CamelCase(msgspec.Struct, rename="camel"):
    """An object whose names are written in camelCase."""


class ServerView(CamelCase):
    """One configured server."""

    name: str
    state: Literal["ok", "stale", "failed", "asking", "never", "held", "disabled"]
    """``stale``: an old listing, the last discovery failed; ``never``: nobody has asked it yet."""
    runs: str | None
    """What is started or reached, without secrets; only for operators."""
    origin: str | None
    """Where it is configured; only for operators."""
    tools: int
    tokens: int
    """Roughly what its definitions cost a model's context."""
    discovery_status: Literal["never", "discovering", "success", "failed"] | None
    last_discovered: str | None
    error: str | None
    """Why the last discovery failed: what happened, its last words, and what to try."""
    problems: list[str]
    held: list[str]
    """Its tools in quarantine."""
    era: str | None


class ServerList(CamelCase):
    """The servers a caller may know of."""

    servers: list[ServerView]


class ServerHealth(CamelCase):
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


class ServerDetail(ServerView):
    """One server with all that is known of it."""

    tool_names: list[str]
    health: ServerHealth | None
    config: dict[str, Any] | None
    """What is configured, by the keys of toolcrib.toml, secrets masked; only for operators."""


class Discovery(CamelCase):
    """What came of asking a server for its tools."""

    status: Literal["never", "discovering", "success", "failed"]
    tools: int
    error: str | None


class ServerOutcome(CamelCase):
    """A server after a change, and what came of asking it, if it was asked."""

    server: ServerDetail
    discovery: Discovery | None


class ServerLog(CamelCase):
    """The end of what a server wrote to stderr, without its secrets."""

    server: str
    lines: list[str]


class ToolEntry(CamelCase):
    """One tool."""

    name: str
    description: str
    kind: Literal["native", "mcp"]
    server: str | None
    original_name: str
    policy: PolicyWord
    level: LevelWord
    held: str | None
    """Why it is in quarantine."""
    discovery_status: str
    last_discovered: str | None
    tokens: int


class FoundTool(ToolEntry, kw_only=True):
    """One tool of a list, with how well it answers `query` if there was one."""

    score: float | None = None
    """From 0 to 1."""
    signature: str | None = None
    """One line to call it from."""


class MissingServer(CamelCase):
    """A server whose tools are not in the list because nobody knows them yet, or any more."""

    server: str
    status: Literal["failed", "discovering", "never", "success"]
    reason: str


class ToolList(CamelCase):
    """One page of the tools: by name, or the best answers to `query`; and which servers it lacks the tools of."""

    tools: list[FoundTool]
    total: int
    next_cursor: str | None
    missing: list[MissingServer]


class DefinitionList(CamelCase):
    """The tools as a provider wants them."""

    format: str
    definitions: list[dict[str, Any]]
    names: dict[str, str]
    """The names in the definitions, and the tools' own."""
    left_out: dict[str, str]
    """Tools the provider would refuse, and why."""


class Story(CamelCase):
    """Why a tool is here, held, denied or stale."""

    name: str
    verdict: str
    reasons: list[str]
    todo: str
    facts: dict[str, Any]


class Tally(CamelCase):
    """What was run, and how it went."""

    executed: int
    failed: int
    timed_out: int
    refused: int
    total_seconds: float
    slowest_seconds: float
    last_error: str
    health: Health


class PinState(CamelCase):
    """What was accepted of a tool, and whether it still is that."""

    state: Literal["accepted", "held", "none"]
    hash: str | None
    accepted: str | None


class ToolDetail(ToolEntry):
    """One tool with its whole definition."""

    title: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    annotations: dict[str, Any]
    version: str
    category: str
    capabilities: list[str]
    pin: PinState
    why: Story | None
    """Only for operators."""
    tally: Tally | None
    """Only for operators."""


class CallError(CamelCase):
    """Why a call failed."""

    code: str
    message: str
    retryable: bool
    details: dict[str, Any]


class CallResult(CamelCase):
    """What came of a call that ran."""

    success: bool
    data: Any
    """The useful part: structured content if there is any, otherwise the text."""
    content: list[dict[str, Any]]
    duration_ms: float
    execution_id: str
    structured_content: Any = None
    error: CallError | None = None


class PolicyEntry(CamelCase):
    """What holds for one tool, and why."""

    name: str
    server: str
    level: LevelWord
    policy: PolicyWord
    held: str
    why: str


class Policies(CamelCase):
    """What may be called."""

    default: PolicyWord
    patterns: dict[str, PolicyWord]
    tools: list[PolicyEntry]


class PolicyView(CamelCase):
    """What is written for a pattern, and what holds for the tools it stands for."""

    pattern: str
    policy: PolicyWord | None
    """What the patterns of the configuration say; ``null`` where it stands in the table of its server."""
    tools: list[PolicyEntry]


class PinChange(CamelCase):
    """A tool in quarantine: what was accepted, and what it is now."""

    name: str
    reason: str
    accepted: str | None
    old: dict[str, Any] | None
    new: dict[str, Any]
    diff: list[str]
    seen: str
    """Send it with the approval: it says what was looked at."""


class PinList(CamelCase):
    """What is in quarantine."""

    pins: list[PinChange]


class Approved(CamelCase):
    """The tools that are accepted now."""

    approved: list[str]
