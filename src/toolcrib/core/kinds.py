"""The kinds of things that decisions hang on, as enums; a value is the word that stands in files, logs and on the wire.

Whoever decides by a kind does so with ``match`` and ``assert_never``, or with a table made for every member: then a new
member makes the type checker, or the start, name each place that must know of it.
"""

from enum import StrEnum
from typing import Final, Literal


class Policy(StrEnum):
    """What is done about calls of a tool, mildest first."""

    ALLOW = "allow"
    ASK = "ask"
    """A person is asked before each call."""
    DENY = "deny"
    DISABLE = "disable"
    """Forbids as ``deny`` does, and does not even show the tool."""


class PinMode(StrEnum):
    """What becomes of a tool whose definition is not the accepted one."""

    FIRST = "first"
    """A tool is accepted as it was first seen; one that changes is held."""
    STRICT = "strict"
    """New tools wait for a person, too."""
    OFF = "off"


class HoldReason(StrEnum):
    """Why a tool, or a whole server, is in quarantine."""

    CHANGED = "its definition changed since it was accepted"
    MOVED = "the command or address of its server changed since it was accepted"
    NEW = "it is new and has not been accepted yet"
    TOO_MANY = "it is new, and its server has shown so many tools that no more are accepted unasked"


class DiscoveryStatus(StrEnum):
    """What came of asking a server for its tools."""

    NEVER = "never"
    """Nobody has asked it yet."""
    DISCOVERING = "discovering"
    SUCCESS = "success"
    FAILED = "failed"


class LinkState(StrEnum):
    """How the connection to a server is doing."""

    IDLE = "idle"
    """Not needed yet, or closed after a while without calls."""
    CONNECTING = "connecting"
    CONNECTED = "connected"
    FAILING = "failing"


class ServerState(StrEnum):
    """How a configured server stands, in one word for people."""

    OK = "ok"
    STALE = "stale"
    """Its last discovery failed; its tools are those of an earlier one."""
    FAILED = "failed"
    ASKING = "asking"
    NEVER = "never"
    """Nobody has asked for its tools yet."""
    HELD = "held"
    """In quarantine."""
    DISABLED = "disabled"


class Health(StrEnum):
    """How well a server, or all of it, does its work."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"


class IsolationLevel(StrEnum):
    """How far a program is kept from the rest; each level includes those before it."""

    NONE = "none"
    LIMITS = "limits"
    CONFINED = "confined"
    ISOLATED = "isolated"

    @property
    def rank(self) -> int:
        """How far, from 0; what counts when levels are compared."""
        return _ISOLATION_RANKS[self]


_ISOLATION_RANKS = {level: rank for rank, level in enumerate(IsolationLevel)}
AUTO: Final = "auto"
"""The highest level that is proven here, at least ``limits``."""
IsolationChoice = IsolationLevel | Literal["auto"]
