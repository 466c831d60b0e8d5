"""What the account of tokens looks like."""

from toolcrib.doors.rest.shapes import Shape


class CostTotal(Shape):
    """All tools together."""

    tools: int
    tokens: int


class ServerCost(Shape):
    """The tools of one server; `native` and `toolcrib` stand for those of this process."""

    name: str
    tools: int
    tokens: int
    calls: int | None
    unused: int | None


class ToolCost(Shape):
    """One tool."""

    name: str
    server: str
    tokens: int
    calls: int | None
    last_used: str | None


class ProfileCost(Shape):
    """The tools that one profile shows."""

    name: str
    tools: int
    tokens: int


class UsageView(Shape):
    """What was called, as far as the audit log goes back."""

    days: int
    since: str
    covered_days: float
    used: int
    unused: list[str]
    unused_tokens: int


class ConfusablePair(Shape):
    """Two tools that are easily taken for one another; at a score of 1 nothing tells them apart."""

    tools: list[str]
    score: float
    why: str


class ProfileProposal(Shape):
    """A profile of what was used, with what it would save."""

    name: str
    tools: list[str]
    tokens: int
    saved: int
    toml: str


class CostReport(Shape):
    """What the tools cost, the dearest first."""

    total: CostTotal
    servers: list[ServerCost]
    tools: list[ToolCost]
    profiles: list[ProfileCost]
    usage: UsageView | None
    confusable: list[ConfusablePair]
    proposal: ProfileProposal | None
