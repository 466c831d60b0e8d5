"""One request to a route: who makes it, what it asks for, and what it may do."""

from collections.abc import Callable, Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

from toolcrib.core import framing
from toolcrib.core.access import Caller, may_approve, may_operate
from toolcrib.core.events import News, Stay
from toolcrib.core.offers import SecurityLevel
from toolcrib.crib.bulletin import Bulletin
from toolcrib.project.project import Project
from toolcrib.project.sessions import AgentSessions
from toolcrib.server.answers import HttpAnswer, HttpProblem, forbidden, unfit, with_pauses
from toolcrib.server.identity.oauth import BuiltinAuthorizationServer
from toolcrib.server.identity.sign_in import SignedIn, SignIns
from toolcrib.server.views.caller import CallerView
from toolcrib.stores.access_tokens import TokenBook
from toolcrib.transports.http.server import Exchange, HttpRequest

MOST_FIELDS = 1_000
NOT_CONFIRMED = "HTTP_NOT_CONFIRMED"
FORM = b"application/x-www-form-urlencoded"
FILES = b"multipart/form-data"
MOST_FILES = 50
EVENT_STREAM = b"text/event-stream"
STILL_HERE = b": still here\n\n"

T = TypeVar("T")


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
    oauth: BuiltinAuthorizationServer | None = None
    """Gives tokens to clients that people let in; ``None`` where it is switched off."""
    stays: Callable[[], list[Stay]] = list
    """The MCP clients that are here."""
    on_end: Callable[[bool], None] | None = None
    """Ends the process that serves, or (true) has it begin anew; nothing where it is not ours alone."""
    pause_s: float = 15.0
    """After so long without news a line is sent all the same: whoever is in between keeps the connection open, and it
    is looked whether the client may still hear of them."""


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file that came with a form."""

    name: str
    content: bytes


@dataclass(slots=True)
class PageRequest:
    """What a route is given."""

    request: HttpRequest
    exchange: Exchange
    caller: Caller
    is_known: bool
    """Whether the caller came with a token or is signed in; others may only list and call tools."""
    signed_in: SignedIn | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    """The parts of the path that have a name."""
    query: Mapping[str, str] = field(default_factory=dict)
    served: ServedProject = field(init=False)
    """What is asked; set where the routes are for a project."""

    @property
    def view(self) -> CallerView:
        """The project as this caller sees it: what every route asks for tools, calls and servers."""
        said = self.request.header(b"traceparent") or b""
        return CallerView(self.served.project, self.caller, self.is_operator(), said.decode("latin-1"))

    def need_known(self) -> None:
        """Stop whoever came without a token: an agent on this machine could be behind it."""
        if not self.is_known:
            raise HttpProblem(401, "HTTP_UNAUTHORIZED", "A token is needed here: send `Authorization: Bearer <token>`.")

    def need_operator(self, level: SecurityLevel = SecurityLevel.ADMIN) -> None:
        """Stop whoever may not look after this server; ``level`` says how far the deed reaches."""
        self.need_known()
        if not self.is_operator(level):
            raise forbidden(f"This needs a token for everything, up to level {level}.")
        if level is SecurityLevel.SYSTEM:
            self.need_confirmed()

    def need_granted(self, capability: str) -> None:
        """Stop whoever was not granted this and does not look after this server."""
        self.need_known()
        if capability not in (self.caller.grants.capabilities or ()):
            self.need_operator()

    def need_approver(self) -> None:
        """Stop whoever may not answer questions."""
        self.need_known()
        if not may_approve(self.caller):
            raise forbidden("This token may not answer questions.")

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
        if content_type(self.request) != b"application/json":
            raise HttpProblem(415, "HTTP_NOT_JSON", "Send the body with content-type application/json.")
        if framing.is_bulky(self.request.body):
            raise HttpProblem(413, "HTTP_BODY_TOO_LARGE", framing.TOO_MANY_VALUES)
        try:
            with framing.without_collecting():
                return msgspec.json.decode(self.request.body, type=kind)
        except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise unfit(f"The body does not fit: {error}.") from None
        except RecursionError:
            raise unfit("The body is nested too deeply.") from None

    def form(self) -> dict[str, str]:
        """The fields of a form; of one that was sent twice, the last."""
        if content_type(self.request) != FORM:
            raise HttpProblem(415, "HTTP_NOT_A_FORM", "Send a form.")
        return read_fields(self.request.body)

    def files(self) -> tuple[dict[str, str], list[UploadedFile]]:
        """The fields of a form that carries files, and the files in it that have a name."""
        if content_type(self.request) != FILES:
            raise HttpProblem(415, "HTTP_NOT_A_FORM", "Send a form with files.")
        fields, files = read_files(self.request)
        return fields, files

    def number(self, name: str, default: int, most: int) -> int:
        """A whole number from the query, from 0 to ``most``."""
        given = self.query.get(name)
        if given is None:
            return default
        if not (given.isascii() and given.isdigit() and len(given) <= 9):
            raise unfit(f"`{name}` must be a whole number from 0 to {most}.")
        return min(int(given), most)

    def choice(self, name: str, known: Collection[str]) -> str | None:
        """One of these words from the query, if it has any."""
        given = self.query.get(name)
        if given is not None and given not in known:
            raise unfit(f"`{name}` must be one of {', '.join(known)}.")
        return given

    def word(self, name: str, longest: int = 200) -> str:
        """A text from the query, cut where it is too long."""
        return self.query.get(name, "").strip()[:longest]


Tell = Callable[[News | None], bytes | None]
"""What a client is sent of a piece of news, or of a pause between two; ``None`` ends the stream."""


async def stream_news(
    visit: PageRequest,
    topics: frozenset[str] | None,
    tell: Tell,
    *,
    headers: tuple[tuple[bytes, bytes], ...],
    hello: bytes,
    after: int | None = None,
) -> HttpAnswer | None:
    """Tell a client of news as server-sent events, until it goes away (its task is cancelled then) or they end."""
    bulletin, exchange = visit.served.bulletin, visit.exchange
    if bulletin is None:
        raise HttpProblem(503, "TOOL_UNAVAILABLE", "No news are gathered here.")
    headers = (*headers, (b"x-accel-buffering", b"no"))
    if visit.request.method == b"HEAD":
        return HttpAnswer(200, b"", EVENT_STREAM, headers)
    exchange.start_stream(200, EVENT_STREAM, headers)
    exchange.write(hello)
    try:
        async with aclosing(with_pauses(bulletin.read(topics, after), visit.served.pause_s)) as told:
            async for news in told:
                said = tell(news)
                if said is None:
                    return None
                exchange.write(said)
                await exchange.drain()
    finally:
        if exchange.streaming:
            exchange.end()
    return None


def read_files(request: HttpRequest) -> tuple[dict[str, str], list[UploadedFile]]:
    """What a form with files consists of: its fields, and the files that have a name."""
    from email import message_from_bytes, policy  # late: few ever send files, and it takes long to load

    head = b"content-type: " + (request.header(b"content-type") or b"") + b"\r\n\r\n"
    message = message_from_bytes(head + request.body, policy=policy.HTTP)
    fields: dict[str, str] = {}
    files: list[UploadedFile] = []
    for part in message.iter_parts() if message.is_multipart() else ():
        name, file = str(part.get_param("name", "", "content-disposition")), part.get_filename()
        content = part.get_payload(decode=True)
        body = content if isinstance(content, bytes) else b""
        if file:
            files.append(UploadedFile(file[:300], body))
        elif file is None and name:
            fields[name] = body.decode(errors="replace")
    return fields, files[:MOST_FILES]


def content_type(request: HttpRequest) -> bytes:
    """What a body is said to be, without its parameters."""
    return (request.header(b"content-type") or b"").partition(b";")[0].strip().lower()


def read_fields(encoded: bytes) -> dict[str, str]:
    """The fields of a query or form."""
    try:
        pairs = parse_qsl(
            encoded.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict", strict_parsing=False
        )
    except ValueError:  # UnicodeDecodeError is one, too
        raise unfit("The fields are not UTF-8, or too many.") from None
    return dict(pairs)


def read_segments(path: bytes) -> list[str]:
    """The parts of a path, decoded one by one, so that an encoded slash stays inside its part."""
    try:
        return [unquote_to_bytes(part).decode() for part in path.split(b"/")[1:]]
    except UnicodeDecodeError:
        raise HttpProblem(404, "HTTP_NOT_FOUND", "There is nothing at this address.") from None
