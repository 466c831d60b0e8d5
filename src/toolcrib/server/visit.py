"""One request to a route: who makes it, what it asks for, and what it may do."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

from toolcrib.core import framing
from toolcrib.core.access import Caller, may_operate
from toolcrib.core.tool import SecurityLevel
from toolcrib.crib.bulletin import Bulletin
from toolcrib.crib.crib import Crib
from toolcrib.project.project import Project
from toolcrib.project.sessions import AgentSessions
from toolcrib.server.answers import HttpProblem
from toolcrib.server.identity.sign_in import SignedIn, SignIns
from toolcrib.stores.access_tokens import TokenBook
from toolcrib.transports.http.server import Exchange, Request

MOST_FIELDS = 1_000
NOT_CONFIRMED = "HTTP_NOT_CONFIRMED"
FORM = b"application/x-www-form-urlencoded"

T = TypeVar("T")


@dataclass(slots=True)
class PageRequest:
    """What a route is given."""

    request: Request
    exchange: Exchange
    caller: Caller
    is_known: bool
    """Whether the caller came with a token or is signed in; others may only list and call tools."""
    signed_in: SignedIn | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    """The parts of the path that have a name."""
    query: Mapping[str, str] = field(default_factory=dict)

    def need_known(self) -> None:
        """Stop whoever came without a token: an agent on this machine could be behind it."""
        if not self.is_known:
            raise HttpProblem(401, "HTTP_UNAUTHORIZED", "A token is needed here: send `Authorization: Bearer <token>`.")

    def need_operator(self, level: SecurityLevel = SecurityLevel.ADMIN) -> None:
        """Stop whoever may not look after this server; ``level`` says how far the deed reaches."""
        self.need_known()
        if not self.is_operator(level):
            raise HttpProblem(403, "HTTP_FORBIDDEN", f"This needs a token for everything, up to level {level}.")
        if level is SecurityLevel.SYSTEM:
            self.need_confirmed()

    def need_confirmed(self) -> None:
        """Stop a browser whose person was not asked lately who they are; whoever sends a token says so each time."""
        if self.signed_in is not None and not self.signed_in.is_confirmed:
            raise HttpProblem(
                403, NOT_CONFIRMED, "Say once more that it is you: enter your token, or sign in with `toolcrib open`."
            )

    def is_operator(self, level: SecurityLevel = SecurityLevel.ADMIN) -> bool:
        """Whether the caller may look after this server."""
        return self.is_known and may_operate(self.caller, level)

    def json(self, kind: type[T]) -> T:
        """The body as a value of that type; what does not fit is said by field."""
        if (self.request.header(b"content-type") or b"").partition(b";")[0].strip().lower() != b"application/json":
            raise HttpProblem(415, "HTTP_NOT_JSON", "Send the body with content-type application/json.")
        if framing.is_bulky(self.request.body):
            raise HttpProblem(413, "HTTP_BODY_TOO_LARGE", framing.TOO_MANY_VALUES)
        try:
            with framing.without_collecting():
                return msgspec.json.decode(self.request.body, type=kind)
        except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise HttpProblem(422, "TOOL_INVALID_INPUT", f"The body does not fit: {error}.") from None
        except RecursionError:
            raise HttpProblem(422, "TOOL_INVALID_INPUT", "The body is nested too deeply.") from None

    def form(self) -> dict[str, str]:
        """The fields of a form; of one that was sent twice, the last."""
        if (self.request.header(b"content-type") or b"").partition(b";")[0].strip().lower() != FORM:
            raise HttpProblem(415, "HTTP_NOT_A_FORM", "Send a form.")
        return read_fields(self.request.body)

    def number(self, name: str, default: int, most: int) -> int:
        """A whole number from the query, from 0 to ``most``."""
        given = self.query.get(name)
        if given is None:
            return default
        if not (given.isascii() and given.isdigit() and len(given) <= 9):
            raise HttpProblem(422, "TOOL_INVALID_INPUT", f"`{name}` must be a whole number from 0 to {most}.")
        return min(int(given), most)


def read_fields(encoded: bytes) -> dict[str, str]:
    """The fields of a query or form."""
    try:
        pairs = parse_qsl(
            encoded.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict", strict_parsing=False
        )
    except ValueError:  # UnicodeDecodeError is one, too
        raise HttpProblem(422, "TOOL_INVALID_INPUT", "The fields are not UTF-8, or too many.") from None
    return dict(pairs)


def read_segments(path: bytes) -> list[str]:
    """The parts of a path, decoded one by one, so that an encoded slash stays inside its part."""
    try:
        return [unquote_to_bytes(part).decode() for part in path.split(b"/")[1:]]
    except UnicodeDecodeError:
        raise HttpProblem(404, "HTTP_NOT_FOUND", "There is nothing at this address.") from None


@dataclass(frozen=True, slots=True)
class ServedProject:
    """Given to every route when it is made."""

    project: Project
    sign_ins: SignIns
    url: str
    """Where MCP is served."""
    started_s: float
    """When, by ``core.clocks.elapsed``."""
    edit_commands: bool = False
    """Whether servers that run a command may be added and changed over HTTP."""
    needs_token: bool = False
    """Whether MCP clients have to send one."""
    tokens: TokenBook | None = None
    """Those that were given to others; without it, the file of this user."""
    bulletin: Bulletin | None = None
    """The news, for those who look on."""
    sessions: AgentSessions | None = None
    """Who works here and in other projects; without it there are no addresses for that."""

    @property
    def crib(self) -> Crib:
        """What is served."""
        return self.project.crib
