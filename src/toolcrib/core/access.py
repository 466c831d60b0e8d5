"""Who calls, what they may reach, and the one rule that decides it: the same for what is listed and what is called."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, assert_never

from toolcrib.core.kinds import HoldReason, Policy
from toolcrib.core.names import fits_pattern
from toolcrib.core.offers import OfferKind, SecurityLevel, offer_key

NATIVE = "native"
"""What the native tools of this process are called where a server is named."""

APPROVE = "approve"
"""The capability to answer questions of other callers."""
AUDIT = "audit"
"""The capability to read the audit log."""
METRICS = "metrics"
"""The capability to read the tallies: they name tools and servers."""
LOCAL_ID = "local"
OWNER_ID = "owner"
"""The id of a caller with the owner's token."""

_WILDCARD = re.compile(r"[*?[]")
CallerKind = Literal["local", "token", "agent", "person"]


@dataclass(frozen=True, slots=True)
class Grants:
    """What a caller may reach; without a level, nothing. Names are patterns, ``*`` stands for anything."""

    level: SecurityLevel | None = None
    servers: tuple[str, ...] = ("*",)
    tools: tuple[str, ...] = ("*",)
    capabilities: frozenset[str] | None = None
    """``None``: tools may need whatever they need."""


EVERYTHING = Grants(SecurityLevel.SYSTEM)
NOTHING = Grants()


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a call: a person on this machine, the holder of a token, or an agent."""

    id: str
    kind: CallerKind = "local"
    grants: Grants = NOTHING
    session: str = ""
    """The connection or MCP session of the call; what was allowed "for this session" ends with it."""
    audience: str = ""
    """The one address that the caller's token is for; empty: every address here."""

    @property
    def is_here(self) -> bool:
        """Whether it is the user of this machine, an agent started here, or the owner: they may know its paths."""
        return self.kind == "local" or self.id in (LOCAL_ID, OWNER_ID)


LOCAL_USER = Caller(LOCAL_ID, grants=EVERYTHING)


@dataclass(frozen=True, slots=True)
class Reach:
    """What a caller must be granted to use an offer."""

    name: str
    """The exposed name, which patterns go by: whatever the kind, a rule for ``github__*`` holds."""
    server: str = NATIVE
    level: SecurityLevel = SecurityLevel.WRITE
    capabilities: frozenset[str] = frozenset()
    policy: Policy = Policy.ALLOW
    """By the configuration; a tool that it disables is not in the catalogue."""
    held: HoldReason | None = None
    """Why the tool is in quarantine; ``None`` if it is not."""
    reads_results: bool = False
    """Whether it only reads what its caller was given before."""
    kind: OfferKind = OfferKind.TOOL

    @property
    def key(self) -> str:
        """What people's answers go by: a prompt that was allowed for good is not the tool of the same name."""
        return offer_key(self.kind, self.name)


class Decision(StrEnum):
    """Whether a caller sees a tool and may call it."""

    HIDDEN = "hidden"
    """Not granted: the caller shall not even learn that there is such a tool."""
    HELD = "held"
    """In quarantine, for everybody."""
    DENIED = "denied"
    """Refused by the configuration, to everybody."""
    ASK = "ask"
    ALLOWED = "allowed"

    @property
    def is_listed(self) -> bool:
        """Whether the tool is shown to the caller."""
        return self in (Decision.ASK, Decision.ALLOWED)


def decided_by(policy: Policy) -> Decision:
    """What a policy alone comes to; the one place that knows what each kind does about calls."""
    match policy:
        case Policy.ALLOW:
            return Decision.ALLOWED
        case Policy.ASK:
            return Decision.ASK
        case Policy.DENY | Policy.DISABLE:
            return Decision.DENIED
        case _:
            assert_never(policy)


_BY_POLICY = {policy: decided_by(policy) for policy in Policy}


def decide(grants: Grants, reach: Reach) -> Decision:
    """Whether a caller with these grants sees a tool, and may call it."""
    if not is_granted(grants, reach):
        return Decision.HIDDEN
    if reach.held:
        return Decision.HELD
    return _BY_POLICY.get(reach.policy, Decision.DENIED)


def is_granted(grants: Grants, reach: Reach) -> bool:
    """Whether level, server, name and capabilities are all within the grants."""
    if grants.level is not None and reach.reads_results:
        return True  # who got a result may read the rest of it; the store looks at whose it is
    return (
        grants.level is not None
        and reach.level.rank <= grants.level.rank
        and matches(reach.server, grants.servers)
        and matches(reach.name, grants.tools)
        and (grants.capabilities is None or reach.capabilities <= grants.capabilities)
    )


def may_know(grants: Grants, name: str) -> bool:
    """Whether a tool that nobody has seen yet could be within the grants, by its name alone; a name without a prefix
    does not say whose it is."""
    server, separator, _ = name.partition("__")
    is_near = not separator or matches(server, grants.servers)
    return grants.level is not None and is_near and matches(name, grants.tools)


def may_know_server(grants: Grants, server: str) -> bool:
    """Whether a tool of this server could be within the grants, before anybody knows which tools it has."""
    is_near = any(_may_begin(pattern, f"{server}__") for pattern in grants.tools)
    return grants.level is not None and matches(server, grants.servers) and is_near


def _may_begin(pattern: str, start: str) -> bool:
    """Whether a name that begins so could fit the pattern."""
    fixed, *rest = _WILDCARD.split(pattern, maxsplit=1)
    return fixed.startswith(start) or (bool(rest) and start.startswith(fixed))


def may_approve(caller: Caller, asked_by: str | None = None) -> bool:
    """Whether a caller may answer for a call that ``asked_by`` wants to make; nobody answers for themselves."""
    grants = caller.grants
    trusted = grants == EVERYTHING or APPROVE in (grants.capabilities or ())
    return trusted and caller.kind != "agent" and caller.id != asked_by


def may_operate(caller: Caller, level: SecurityLevel) -> bool:
    """Whether a caller may administer this toolcrib: all servers and tools are granted, up to a level."""
    grants = caller.grants
    is_whole = grants.servers == ("*",) and grants.tools == ("*",) and grants.capabilities is None
    return is_whole and grants.level is not None and grants.level.rank >= level.rank and caller.kind != "agent"


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether any of the patterns stands for the name."""
    return any(pattern == "*" or fits_pattern(name, pattern) for pattern in patterns)
