"""Links and clients that do what a test says, an audit log in memory, a clock that is told."""

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import Raw

from toolcrib.core.audit import AuditEntry, AuditStatus
from toolcrib.core.errors import AuditUnavailable, ConnectionLost, NotImplementedHere, RemoteError
from toolcrib.core.requests import BackChannel
from toolcrib.sources.mcp.link import ExitTrace, Link, LinkEvents, ServerRequest
from toolcrib.wire import eras
from toolcrib.wire.jsonrpc import METHOD_NOT_FOUND, RequestId


class MemoryAudit:
    """Keeps the entries in lists; while ``problem`` is set, nothing can be committed."""

    def __init__(self, problem: str = "") -> None:
        self.problem = problem
        self.noted: list[AuditEntry] = []
        self.committed: list[AuditEntry] = []
        self.closed = False

    def note(self, entry: AuditEntry) -> None:
        """Keep it."""
        self.noted.append(entry)

    async def commit(self, entry: AuditEntry) -> None:
        """Keep it, or say why not."""
        if self.problem:
            raise AuditUnavailable(f"The audit log cannot be written: {self.problem}.")
        self.committed.append(entry)

    def status(self) -> AuditStatus:
        """On, and as well as it was told to be."""
        written = len(self.noted) + len(self.committed)
        return AuditStatus(enabled=True, opened=True, written=written, problem=self.problem)

    async def close(self) -> None:
        """Remember that it was closed."""
        self.closed = True


class RecordingChannel:
    """A ``BackChannel``; it can be asked exactly those methods that it was given answers for."""

    def __init__(
        self,
        answers: Mapping[str, Any] | None = None,
        *,
        capabilities: Mapping[str, Any] | None = None,
        takes_input_required: bool = False,
        wants_progress: bool = False,
        log_level: str = "",
    ) -> None:
        self.answers = dict(answers or {})
        self.capabilities: Mapping[str, Any] = capabilities or {}
        self.takes_input_required = takes_input_required
        self.wants_progress = wants_progress
        self.log_level = log_level
        self.told: list[tuple[str, Any]] = []
        self.asked: list[tuple[str, Any]] = []

    def notify(self, method: str, params: bytes) -> None:
        """Note the notification, decoded."""
        self.told.append((method, msgspec.json.decode(params)))

    async def ask(self, method: str, params: bytes) -> bytes:
        """Note the question, decoded; give the answer, or raise it if it is an exception."""
        self.asked.append((method, msgspec.json.decode(params)))
        if method not in self.answers:
            raise NotImplementedHere(f"The client has no answer to {method!r}.")
        answer = self.answers[method]
        if isinstance(answer, Exception):
            raise answer
        return msgspec.json.encode(answer)


if TYPE_CHECKING:
    _is_a_channel: Callable[..., BackChannel] = RecordingChannel


class ManualClock:
    """Called like ``time.perf_counter``; shows the same moment until it is advanced."""

    def __init__(self, now_s: float = 0.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        """The moment it shows."""
        return self.now_s

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds


Reply: TypeAlias = Mapping[str, Any] | bytes | BaseException
Script: TypeAlias = Reply | Callable[[Any, "FakeLink"], Reply]
"""What a method answers: a result, its bytes, an exception to raise, or a function of the params and the link."""

HANDSHAKE: Mapping[str, Script] = {
    "initialize": {
        "protocolVersion": eras.LATEST_HANDSHAKE,
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": "fake", "version": "1"},
    }
}
MODERN: Mapping[str, Script] = {
    "server/discover": {
        "resultType": "complete",
        "supportedVersions": list(eras.MODERN_VERSIONS),
        "capabilities": {"tools": {"listChanged": True}},
        "_meta": {eras.META_SERVER_INFO: {"name": "fake", "version": "1"}},
    }
}


class FakeServer:
    """Something to dial: makes a ``FakeLink`` for each connection and answers on all of them.

    Speaks the handshake era unless told otherwise; a method it has no answer for is not found.
    """

    def __init__(self, answers: Mapping[str, Script] | None = None, *, modern: bool = False) -> None:
        self.answers: dict[str, Script] = {**(MODERN if modern else HANDSHAKE), **(answers or {})}
        self.links: list[FakeLink] = []
        self.refusals: list[BaseException] = []
        """Raised by the next attempts to dial, one each."""
        self.dialled = 0
        self.remains = ExitTrace()
        """What its links leave behind."""

    async def dial(self, events: LinkEvents) -> "FakeLink":
        """A new connection, or the next refusal."""
        self.dialled += 1
        await asyncio.sleep(0)
        if self.refusals:
            raise self.refusals.pop(0)
        self.links.append(FakeLink(self, events))
        return self.links[-1]

    @property
    def link(self) -> "FakeLink":
        """The newest connection."""
        return self.links[-1]

    @property
    def asked(self) -> list[str]:
        """The methods asked so far, over all connections."""
        return [method for link in self.links for method, _ in link.asked]


class FakeLink:
    """One connection to a ``FakeServer``; notes what was asked and told, params decoded."""

    discover_patience_s = 5.0

    def __init__(self, server: FakeServer, events: LinkEvents) -> None:
        self.server, self.events = server, events
        self.questions: list[ServerRequest] = []
        self.asked: list[tuple[str, Any]] = []
        self.told: list[tuple[str, Any]] = []
        self.agreed = ""
        self.listening: Any = None
        self.is_open = True
        self.held: set[str] = set()
        """Methods that are not answered until ``release``."""
        self.reached = asyncio.Event()
        """Set when a held method was asked."""
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def is_busy(self) -> bool:
        """Whether a held question waits."""
        return bool(self._waiting)

    def new_id(self) -> int:
        """One more than the questions so far."""
        return len(self.questions) + 1

    def claim_id(self, wanted: RequestId | None) -> RequestId:
        """The id that is wanted."""
        return self.new_id() if wanted is None else wanted

    async def ask(self, question: ServerRequest) -> Raw:
        """The scripted answer; a held one when it is released."""
        if not self.is_open:
            raise ConnectionLost("The connection has ended.")
        params = msgspec.json.decode(question.params)
        self.questions.append(question)
        self.asked.append((question.method, params))
        question.sent = True
        if question.method in self.held:
            await self._hold()
        return self._answer(question.method, params)

    async def _hold(self) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self.reached.set()
        try:
            await future
        finally:
            self._waiting.remove(future)

    def _answer(self, method: str, params: Any) -> Raw:
        missing = RemoteError(METHOD_NOT_FOUND, f"Method not found: {method}")
        script = self.server.answers.get(method, missing)
        reply = script(params, self) if callable(script) else script
        if isinstance(reply, BaseException):
            if isinstance(reply, ConnectionLost):
                self.lose()
            raise reply
        encoded = reply if isinstance(reply, bytes) else msgspec.json.encode(reply)
        return Raw(self.events.redactor.clean(encoded))

    def release(self) -> None:
        """Answer what is held, and hold nothing more."""
        self.held = set()
        for future in self._waiting:
            future.set_result(None)

    def lose(self) -> None:
        """End the connection from the server's side."""
        self.is_open = False
        for future in self._waiting:
            future.set_exception(ConnectionLost("The server went away."))
        self.events.lost()

    def change(self) -> None:
        """Say that the tools changed."""
        self.events.tools_changed()

    def tell(self, method: str, params: bytes) -> None:
        """Note the notification."""
        self.told.append((method, msgspec.json.decode(params)))

    def agree(self, version: str) -> None:
        """Note the revision."""
        self.agreed = version

    def listen(self, params: bytes) -> None:
        """Note the subscription."""
        self.listening = msgspec.json.decode(params)

    def remains(self) -> ExitTrace:
        """What the server was set to leave behind."""
        return self.server.remains

    async def close(self) -> None:
        """End the connection from this side."""
        self.is_open = False


if TYPE_CHECKING:
    _is_a_link: Callable[..., Link] = FakeLink
