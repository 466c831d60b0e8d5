"""One request: what is asked of an offer, its way back to whoever asked, and the result."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import msgspec
from msgspec import UNSET

from toolcrib.core.access import LOCAL_USER, Caller
from toolcrib.core.errors import NotImplementedHere, ToolcribError, is_retryable
from toolcrib.core.long_work import TaskState
from toolcrib.core.offers import RequestKind, Tool


class BackChannel(Protocol):
    """What a running call may say to, or ask of, whoever made it."""

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What the client can be asked for, in MCP's words (``elicitation``, ``sampling``, ``roots``)."""

    @property
    def takes_input_required(self) -> bool:
        """Whether an ``input_required`` result can be handed over as it is."""

    @property
    def wants_progress(self) -> bool:
        """Whether the client asked to be told of progress."""

    @property
    def log_level(self) -> str:
        """The least severe log message that the client asked for; empty if it asked for none."""

    def notify(self, method: str, params: bytes) -> None:
        """Pass a notification (progress, log message) on; never waits."""

    async def ask(self, method: str, params: bytes) -> bytes:
        """Ask the client something in the middle of the call; the raw result."""


class SilentChannel:
    """Nobody is listening: notifications are dropped, questions refused."""

    capabilities: Mapping[str, Any] = {}
    takes_input_required = False
    wants_progress = False
    log_level = ""

    def notify(self, method: str, params: bytes) -> None:
        """Drop it."""

    async def ask(self, method: str, params: bytes) -> bytes:  # noqa: ARG002
        """Refuse: there is no client behind this call."""
        raise NotImplementedHere(f"The caller cannot answer {method!r} while a tool runs.")


SILENT = SilentChannel()

PROGRESS = "notifications/progress"


class CallProgress(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a running call says it is."""

    progress: float
    total: float | None = None
    """``None`` while it does not know."""
    message: str = ""


OnProgress = Callable[[CallProgress], None]
_read_progress = msgspec.json.Decoder(CallProgress).decode


class ProgressChannel:
    """Another channel, whose progress somebody in this process wants to hear of."""

    wants_progress = True

    def __init__(self, channel: BackChannel, listener: OnProgress) -> None:
        self._channel, self._listener = channel, listener
        self.capabilities, self.takes_input_required = channel.capabilities, channel.takes_input_required
        self.log_level = channel.log_level

    def notify(self, method: str, params: bytes) -> None:
        """Tell the listener of progress, and pass everything on; what a server got wrong is no progress."""
        if method == PROGRESS:
            with suppress(msgspec.DecodeError):
                self._listener(_read_progress(params))
            if not self._channel.wants_progress:
                return
        self._channel.notify(method, params)

    async def ask(self, method: str, params: bytes) -> bytes:
        """Ask whoever is behind the other channel."""
        return await self._channel.ask(method, params)


class Timeline(Protocol):
    """Where a call notes what takes its time."""

    def reach_tool(self) -> None:
        """It comes to its source; what is left is the tool's own time."""

    def begin(self, step: str) -> None:
        """It waits for something."""

    def end(self, step: str) -> None:
        """It waits no longer."""


class RequestContext(msgspec.Struct):
    """What is learned of one request on its way; every layer may read it, and each field says who sets it."""

    decision: str = ""
    """What the rules said of it, for the audit log; set by ``permit``, ``shelter`` and whoever asked a person."""
    trace_id: str = ""
    """The trace it belongs to, by the caller's ``traceparent`` or a new one: the same in the log, the audit log, what
    REST answers, and what its server is told; set by ``observe``."""
    facts: dict[str, Any] = {}
    """What the audit log shall know of it: sizes, the shape of its arguments, repairs; set by ``observe``."""
    task: Any = None
    """The task that runs it, for whoever may have to cancel it; set by ``observe`` where people look on."""
    live: Timeline | None = None
    """Where people see it running, if anybody may look; set by ``observe``."""
    is_late: bool = False
    """Whether it is cancelled because its time is over, and was not called off; set by ``deadline``."""
    waits_for: str = ""
    """How an error begins that says its time was over while it waited; set, and emptied again, by whoever waits: a
    server's places, its limits, ``replay``, an MCP source without a connection."""
    asking: int = 0
    """How many of its server's questions wait for an answer; set by its source, as is the next."""
    asked_s: float = 0.0
    """How long it waited for answers: that does not count towards its deadline."""
    security_level: str = ""
    """How far the tool reaches; set by ``observe``."""
    time_limit_s: float | None = None
    """How long it may take: what its caller says, or else its tool, or else the configuration; set by ``deadline``."""
    rate_left: "Callable[[Request], int] | None" = None
    """Tells how many more calls its limits allow now; set by ``limit`` if it has any."""
    runs_on: bool = False
    """Whether its function was given up and still runs, as a thread cannot be ended; set by its source, as is the
    next."""
    cpu_s: float = 0.0
    """Processor time that its function took, as far as that can be told."""
    memory_bytes: int = 0
    """The most memory that its own process took, where it had one."""
    elapsed_s: float = 0.0
    """How long it took, once it is over; set by ``observe``."""
    waited_s: float = 0.0
    """How long it waited for a place and for room in its limits; added to by the limits."""
    admitted_at: float = 0.0
    """When its limits let it in, by their clock; set by ``limit`` or ``fleet_limit`` if it has any."""
    renew: "Callable[[Request], Awaitable[None]] | None" = None
    """Has its limits let it in again if that was too long ago, and waits for that; set by ``limit`` or
    ``fleet_limit``, ``None`` if it has none."""
    repairs: tuple[str, ...] = ()
    """What was put right in its arguments, in words; set by ``arguments``."""
    is_in_lane: bool = False
    """Whether it went to a process or session that not all callers share; set by the source."""
    progressed_at: float = 0.0
    """When it last told how far it is, by the event loop's clock; set by its source, zero before."""
    is_long: Callable[[], None] | None = None
    """To be called by its source when the server says that the answer comes later; set by whoever can have the caller
    ask for the result later."""
    may_last_until: float = 0.0
    """By the event loop's clock: how long it may go on where only the usual limit would end it; set by whoever has its
    caller ask for the result later."""
    is_visit: bool = False
    """Whether the page asks in order to show something, and nobody to have something done: that is written down, but
    counts as no call; set by the page."""
    asked_as: int | str | None = None
    """The id that its client gave it, to be kept on the way to a transparent server; set by the door."""
    sent: bool = False
    """Whether it may have reached the tool; set by the source, taken back by ``replay`` before it tries again."""
    withheld: frozenset[str] = frozenset()
    """Parameters that the caller may not give, not even by a slip that would be repaired; set by a profile's view."""
    tooling: "Tooling | None" = None
    """Where whoever acts for this call finds tools; ``None``: in the whole catalogue. Set by a profile's view."""
    for_model: bool = False
    """Whether what is read goes to a model, for which it may be too much; set by the tool that reads resources."""
    encoded: bytes = b""
    """The arguments as JSON; set by ``Request.encode_arguments``, as is the next."""
    encoded_of: Mapping[str, Any] | None = None
    """Which arguments ``encoded`` is of: a layer may have replaced them since."""


class Request(msgspec.Struct, frozen=True):
    """A request for one offer: to run a tool, to read a resource, to get a prompt, to complete an argument.

    Never changed: a layer that wants another (repaired arguments) passes on a new one, and what layers learn is in the
    context, which they share.
    """

    name: str
    """The exposed name the caller used."""
    target: str
    """The source's own name for it; empty until the name was looked up."""
    arguments: dict[str, Any]
    id: str = ""
    caller: Caller = LOCAL_USER
    channel: BackChannel = SILENT
    timeout_s: float | None = None
    meta: Mapping[str, Any] = {}
    """The request's ``_meta`` object, minus what the protocol reserves."""
    more: Mapping[str, Any] = {}
    """Further request fields that toolcrib does not interpret (``inputResponses``, ``requestState``)."""
    kind: RequestKind = RequestKind.CALL
    context: RequestContext = msgspec.field(default_factory=RequestContext)

    @property
    def security_level(self) -> str:
        """How far the tool that runs reaches: the level that counts here, whatever its author said."""
        return self.context.security_level

    @property
    def time_limit_s(self) -> float | None:
        """How long it may take in all; ``None`` where there is no limit."""
        return self.context.time_limit_s

    @property
    def rate_limit_remaining(self) -> int | None:
        """How many more calls are allowed right now, by the narrowest rate of the caller, the tool and its server;
        ``None`` where there is none, or where replicas count together."""
        ask = self.context.rate_left
        return None if ask is None else ask(self)

    def encode_arguments(self) -> bytes:
        """The arguments as JSON, encoded once for all who need them; raises what the encoder raises."""
        context = self.context
        if context.encoded_of is not self.arguments:
            context.encoded, context.encoded_of = _encode(self.arguments), self.arguments
        return context.encoded


_encode = msgspec.json.Encoder().encode


def told_of(call: Request) -> dict[str, Any]:
    """What every event about a call says of it."""
    told = {"tool": call.name, "id": call.id}
    return told | {"trace_id": call.context.trace_id} if call.context.trace_id else told


def traceparent_of(call: Request) -> str:
    """What a call's trace is passed on as (W3C Trace Context): its caller's own word where that named the trace."""
    trace_id, said = call.context.trace_id, call.meta.get("traceparent")
    if type(said) is str and said[3:35] == trace_id:
        return said
    return f"00-{trace_id}-{trace_id[16:]}-01" if trace_id else ""


class StandIn(Protocol):
    """Who answers a server's questions where the client cannot."""

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What it can be asked for, in MCP's words."""

    @property
    def standing(self) -> Mapping[str, Mapping[str, Any]]:
        """What it answers to a method whoever calls, and if nobody does."""

    async def answer(self, call: Request, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """The result of a question that was asked within ``call``."""


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """Why a call failed, with a stable code."""

    code: str
    message: str
    retryable: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, error: ToolcribError) -> Self:
        """The error as a value."""
        return cls(error.code, str(error), is_retryable(error.code), error.details)


class Result(msgspec.Struct, eq=False):
    """What came of a call: MCP content, structured data or an error.

    A result that nobody had to look into still holds the bytes it came in; they are decoded on first use.
    """

    _decoded: dict[str, Any] | None = None
    raw: bytes | None = None
    error: ErrorInfo | None = None
    value: Any = UNSET
    """What a function of this process returned, as it is; ``UNSET`` where the result came over a wire."""
    result_type: str | None = None
    """The ``resultType`` in ``raw`` as its source read it, empty if there is none; ``None``: nobody has looked."""
    task: TaskState | None = None
    """How the work on it stands, where it is answered later; ``raw`` is its result once there is one."""
    request: "Request | None" = None
    """What it is the result of; set by the Crib."""

    @classmethod
    def failed(cls, error: ToolcribError) -> Self:
        """A failure of toolcrib's own making, worded for a model."""
        info = ErrorInfo.of(error)
        return cls({"content": [{"type": "text", "text": info.message}], "isError": True}, error=info)

    def of(self, request: "Request") -> "Result":
        """This result as that of a request; a copy, where it is another one's already."""
        if self.request is not None and self.request is not request:
            return msgspec.structs.replace(self, request=request)
        self.request = request
        return self

    @property
    def execution_time_ms(self) -> float:
        """How long it took, from the moment it was known whose call it is."""
        return 0.0 if self.request is None else round(self.request.context.elapsed_s * 1000, 3)

    @property
    def metadata(self) -> dict[str, Any]:
        """What else is known of how it came about: the ids it has in the logs, how long it waited, what was put
        right in its arguments."""
        if self.request is None:
            return {}
        context = self.request.context
        known = {"execution_id": self.request.id, "trace_id": context.trace_id, "caller": self.request.caller.id}
        waited = {"waited_ms": round(context.waited_s * 1000, 3)} if context.waited_s else {}
        return known | waited | ({"repairs": list(context.repairs)} if context.repairs else {})

    @property
    def success(self) -> bool:
        """Whether the tool did what it was asked."""
        return self.error is None

    @property
    def asks_back(self) -> bool:
        """Whether it is a question to the client, to be answered by calling again."""
        kind = self.mcp.get("resultType") if self.result_type is None else self.result_type
        return kind == "input_required"

    @property
    def mcp(self) -> dict[str, Any]:
        """The whole result in MCP's shape."""
        if self._decoded is None:
            self._decoded = _decode(self.raw or b"{}")
        return self._decoded

    @property
    def content(self) -> Sequence[Mapping[str, Any]]:
        """MCP content blocks; what a careless server put between them is left out."""
        content = self.mcp.get("content")
        return [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []

    @property
    def structured(self) -> Any:
        """MCP structured content, if the tool gave any."""
        return self.mcp.get("structuredContent")

    @property
    def data(self) -> Any:
        """The useful part: what a native function returned; else structured content if there is any, else the text."""
        return self.json_data if self.value is UNSET else self.value

    @property
    def json_data(self) -> Any:
        """The same as JSON can carry it."""
        if self.structured is not None:
            return self.structured
        if self.value is None:
            return None
        return _decode_text(self.content) if self.has_json_text else self.text

    @property
    def has_json_text(self) -> bool:
        """Whether its text is the JSON of a number or list that a native function returned."""
        return isinstance(self.value, int | float | list | tuple | set | frozenset)

    @property
    def text(self) -> str:
        """All text blocks, joined by newlines."""
        return "\n".join(str(block.get("text", "")) for block in self.content if block.get("type") == "text")

    def __repr__(self) -> str:
        return f"Result(success={self.success}, {self.error.code if self.error else self.text[:60]!r})"


def _decode_text(content: Sequence[Mapping[str, Any]]) -> Any:
    """What the first text says in JSON; what repairs were made may stand behind it."""
    text = str(content[0].get("text", "")) if content else ""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def _decode(raw: bytes) -> dict[str, Any]:
    """The result; one that no Python value can hold (a number beyond all bounds) is shown as the text it is."""
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {"content": [{"type": "text", "text": raw.decode(errors="replace")}]}


@dataclass(frozen=True, slots=True)
class Budget:
    """The most a sub-agent may use."""

    turns: int = 20
    """Answers of its model."""
    calls: int = 50
    """Calls of tools."""
    tokens: int = 200_000
    """What goes into its model and comes out, all together."""
    seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class SubAgentTask:
    """What a sub-agent is sent to do."""

    task: str
    context: str = ""
    """What it has to know, and cannot find out."""
    budget: Budget = Budget()


@dataclass(frozen=True, slots=True)
class Spent:
    """What a sub-agent used."""

    turns: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class SubAgentReport:
    """What a sub-agent brings back."""

    answer: str
    is_complete: bool = True
    """Whether it came to an end by itself, not because its budget did."""
    spent: Spent = Spent()
    model: str = ""


@dataclass(frozen=True, slots=True)
class UsedTool:
    """One call that a sub-agent made."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    success: bool = True
    result: str = ""
    """The beginning of what came of it."""
    duration_ms: int = 0


class SubAgentTools(Protocol):
    """The tools of one sub-agent; a call beyond its budget fails like any other."""

    @property
    def tools(self) -> Sequence[Tool]:
        """What it may use, by exposed names."""

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Result:
        """Use one; failure is a result."""


class SubAgents(Protocol):
    """Whoever can send a sub-agent on an errand."""

    async def run(self, errand: SubAgentTask, use: SubAgentTools) -> SubAgentReport:
        """Carry out the errand within its budget of turns and tokens; calls and time are watched over outside."""


class Tooling(Protocol):
    """The tools of everybody; a Crib is one."""

    async def tools(self, *, caller: Caller) -> list[Any]:
        """What a caller may use."""

    async def call(
        self, name: str, arguments: Mapping[str, Any] | None, *, caller: Caller, channel: BackChannel
    ) -> Result:
        """Use one of them, as that caller."""
