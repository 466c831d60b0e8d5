"""The kinds of things that decisions hang on, as enums; a value is the word that stands in files, logs and on the wire.

Whoever decides by a kind does so with ``match`` and ``assert_never``, or with a table made for every member: then a new
member makes the type checker, or the start, name each place that must know of it.
"""

from enum import StrEnum
from typing import Final, Literal, assert_never


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


class Transport(StrEnum):
    """How messages reach a server."""

    STDIO = "stdio"
    HTTP = "http"
    """Streamable HTTP, since 2025-03-26."""
    SSE = "sse"
    """HTTP+SSE, of 2024-11-05: answers come on one standing stream."""


class EraChoice(StrEnum):
    """In which era a server is spoken to."""

    AUTO = "auto"
    """The stateless one where the server speaks it, until it turns out to need the other."""
    HANDSHAKE = "handshake"
    STATELESS = "stateless"


class Share(StrEnum):
    """Who shares one process of a server, or one session with it; widest first."""

    ALL = "all"
    USER = "user"
    """The sessions of one caller; each caller has a process or session of its own."""
    SESSION = "session"
    """Nobody: each session of a client has its own."""


class SignInMode(StrEnum):
    """Whose account at a server calls are made with."""

    SHARED = "shared"
    """One that its owner signed in to, for all callers."""
    PER_USER = "per_user"
    """Each caller's own; who has none is asked to sign in, and never gets another's."""
    CLIENT_CREDENTIALS = "client_credentials"
    """That of toolcrib itself, by a secret or a key; nobody signs in."""
    TOKEN_EXCHANGE = "token_exchange"  # noqa: S105 - the name of a kind
    """One that a token from elsewhere is exchanged for."""
    IDENTITY_ASSERTION = "identity_assertion"
    """One that an identity provider vouches for."""
    HEADER = "header"
    """None: the server gets the headers that are configured."""

    @property
    def is_for_people(self) -> bool:
        """Whether a person signs in."""
        return self in (SignInMode.SHARED, SignInMode.PER_USER)


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
    INSTALLING = "installing"
    """Its command fetches what it runs, or waits for its turn to do so."""
    CONNECTING = "connecting"
    CONNECTED = "connected"
    FAILING = "failing"


class ServerState(StrEnum):
    """How a configured server stands, in one word for people."""

    OK = "ok"
    STALE = "stale"
    """Its last discovery failed; its tools are those of an earlier one."""
    FAILED = "failed"
    SIGN_IN = "sign_in"
    """It wants somebody to sign in."""
    INSTALLING = "installing"
    """Its command fetches what it runs, or waits for its turn to do so."""
    STARTING = "starting"
    """It is started or connected to, and has not answered yet."""
    ASKING = "asking"
    """It is connected and being asked for its tools."""
    NEVER = "never"
    """Nobody has asked for its tools yet."""
    HELD = "held"
    """In quarantine."""
    DISABLED = "disabled"

    @property
    def is_underway(self) -> bool:
        """Whether it ends by itself."""
        return self in (ServerState.INSTALLING, ServerState.STARTING, ServerState.ASKING)


class FailureKind(StrEnum):
    """Why a server is not there, as far as that decides what is done next."""

    PASSING = "passing"
    """It may come up the next time; it is tried again by itself."""
    COMMAND = "command"
    """Its command is not found, or may not be run."""
    PACKAGE = "package"
    """The package that its command fetches is not known."""
    CACHE = "cache"
    """What its command fetched earlier is damaged."""
    CREDENTIAL = "credential"
    """It was given no key, or a wrong one."""
    SIGN_IN = "sign_in"
    CONFIGURATION = "configuration"

    @property
    def is_lasting(self) -> bool:
        """Whether trying again is of no use before something changes."""
        return self is not FailureKind.PASSING


class StepKind(StrEnum):
    """What kind of step is next for a server that is not in order."""

    WAIT = "wait"
    """Nothing: toolcrib goes on by itself."""
    RETRY = "retry"
    """Have it asked, now."""
    SIGN_IN = "sign_in"
    EDIT = "edit"
    """Change its configuration, or what it needs around it."""
    INSTALL = "install"
    """Install the program that its command names."""
    REPAIR = "repair"
    """Have what is damaged of it fetched anew, then try again."""
    ACCEPT = "accept"
    """Look at what is in quarantine, and accept it."""
    ENABLE = "enable"
    LOOK = "look"
    """Read more about it."""


class Health(StrEnum):
    """How well a server, or all of it, does its work."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"


class Ruling(StrEnum):
    """What the rules, or a person, said of a call, as the audit log has it."""

    ALLOWED = "allowed"
    HIDDEN = "hidden"
    HELD = "held"
    DENIED = "denied"
    UNKNOWN = "unknown"
    """There is no such tool."""
    ASKED = "asked"
    """A stateless client carries the question; its answer is another call."""
    APPROVED_ONCE = "approved once"
    APPROVED_FOR_SESSION = "approved for this session"
    APPROVED_ALWAYS = "approved always"
    DECLINED = "declined"
    NOBODY_TO_ASK = "refused: nobody to ask"
    NO_ANSWER = "refused: no answer"
    CHANGED_MEANWHILE = "refused: changed meanwhile"
    NOT_ISOLATED = "refused: not isolated"

    def by(self, way: str) -> str:
        """The same with the way the answer came."""
        return f"{self} by {way}"

    @property
    def is_refusal(self) -> bool:
        """Whether the call went no further."""
        match self:
            case Ruling.ALLOWED | Ruling.ASKED | Ruling.APPROVED_ONCE | Ruling.APPROVED_FOR_SESSION:
                return False
            case Ruling.APPROVED_ALWAYS:
                return False
            case Ruling.HIDDEN | Ruling.HELD | Ruling.DENIED | Ruling.UNKNOWN | Ruling.DECLINED:
                return True
            case Ruling.NOBODY_TO_ASK | Ruling.NO_ANSWER | Ruling.CHANGED_MEANWHILE | Ruling.NOT_ISOLATED:
                return True
            case _:
                assert_never(self)


class TaskStatus(StrEnum):
    """How far the work on a call is that is answered later."""

    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    """It goes on when the client has answered what it asks."""
    COMPLETED = "completed"
    """There is a result, if only that the tool failed."""
    FAILED = "failed"
    """It ended with an error of the protocol instead of a result."""
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Whether nothing changes any more."""
        match self:
            case TaskStatus.WORKING | TaskStatus.INPUT_REQUIRED:
                return False
            case TaskStatus.COMPLETED | TaskStatus.FAILED | TaskStatus.CANCELLED:
                return True
            case _:
                assert_never(self)


class TaskAction(StrEnum):
    """What is asked of such work; the last part of MCP's method for it."""

    GET = "get"
    RESULT = "result"
    """Wait for the result; only the handshake era has it."""
    UPDATE = "update"
    """Answer what it asks; only the stateless era has it."""
    CANCEL = "cancel"


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
