"""A server in memory: the test says what it lists, what it answers, and what goes wrong."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from toolcrib.core.access import Caller
from toolcrib.core.errors import ConnectionLost, UnknownTool
from toolcrib.core.kinds import LinkState, Share
from toolcrib.core.offers import Offer, OfferKind, RequestKind, Tool
from toolcrib.core.requests import Request, Result
from toolcrib.core.source import MAIN_LANE, Lane, Listing, ListPage, ServerSource, SourceStatus

Outcome: TypeAlias = Result | BaseException | str
Answer: TypeAlias = Outcome | Callable[[Request], Outcome | Awaitable[Outcome]]
"""What a tool does: a result, a text, an exception to raise, or a function of the call that gives one of these."""


class FakeSource:
    """A ``ServerSource`` that needs nothing outside the test.

    Its tools may be changed at any time; ``change`` also announces it. A tool without an answer says ``<name> ran``.
    """

    def __init__(self, name: str, tools: Sequence[Tool | str] = (), *, ttl_s: float | None = None) -> None:
        self.name = name
        self.tools = _definitions(tools)
        self.ttl_s = ttl_s
        self.era = ""
        self.problems: tuple[str, ...] = ()
        self.others: tuple[Offer, ...] = ()
        """Resources, templates and prompts."""
        self.features: tuple[str, ...] = ()
        self.pages: Mapping[OfferKind, tuple[ListPage, ...]] = {}
        """How it lists each kind, where that is not one page."""
        self.instructions = ""
        self.answers: dict[str, Answer] = {}
        self.trouble: BaseException | None = None
        """Raised instead of listing while it is set."""
        self.state = SourceStatus(LinkState.IDLE)
        self.installing: Callable[[bool], None] = lambda _: None
        self.lines: list[str] = []
        self.calls: list[Request] = []
        """Every call that arrived, as it arrived."""
        self.listed = 0
        self.forgiven = 0
        self.adopted: Listing | None = None
        self.closed = False
        self.listing = _Gate()
        self.calling = _Gate()
        self._losses: list[bool] = []
        self._on_change: list[Callable[[], None]] = []
        self._on_trouble: list[Callable[[], None]] = []
        self._on_update: Callable[[Lane, str], None] = print
        self.watched: frozenset[str] = frozenset()
        self.watched_in: dict[Lane, frozenset[str]] = {}
        self.share = Share.ALL
        self.ended: list[str] = []
        """The sessions that ended."""
        self.rooted: list[Caller] = []
        """Whose roots changed."""
        self.told_asking: Callable[[], None] = print

    async def list_offers(self) -> Listing:
        """The tools as they are set, once the gate is open."""
        self.listed += 1
        await self.listing.passed()
        if self.trouble is not None:
            raise self.trouble
        said = self.instructions, self.features
        return Listing(self.tools, self.ttl_s, self.problems, self.era, self.others, *said, pages=self.pages)

    async def answer(self, call: Request) -> Result:
        """The answer that was set, once the gate is open."""
        self.calls.append(call)
        if self._losses:
            call.context.sent = self._losses.pop(0)
            raise ConnectionLost(f"The connection to {self.name} ended.")
        call.context.sent = True
        await self.calling.passed()
        if call.kind is RequestKind.CALL and call.target not in {tool.name for tool in self.tools}:
            raise UnknownTool(call.target)
        return await _settle(self.answers.get(call.target, f"{call.target} ran"), call)

    def lose_connection(self, *, sent: bool = True, times: int = 1) -> None:
        """Lose the connection under the next calls, after they were sent or before."""
        self._losses += [sent] * times

    def change(self, *tools: Tool | str) -> None:
        """Offer these tools from now on, and say so."""
        self.tools = _definitions(tools)
        for listener in self._on_change:
            listener()

    def stumble(self) -> None:
        """Say that an attempt to connect has failed; further ones may follow."""
        for listener in self._on_trouble:
            listener()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have ``listener`` called by ``change``."""
        self._on_change.append(listener)

    def on_update(self, listener: Callable[[Lane, str], None]) -> None:
        """Have ``listener`` called by ``update``."""
        self._on_update = listener

    async def watch(self, uris: frozenset[str], lane: Lane = MAIN_LANE) -> None:
        """Note which resources are watched, in each lane and altogether."""
        self.watched_in[lane] = uris
        self.watched = frozenset(uri for watched in self.watched_in.values() for uri in watched)

    def update(self, uri: str, lane: Lane = MAIN_LANE) -> None:
        """Say that a resource changed."""
        self._on_update(lane, uri)

    def lane_of(self, caller: Caller) -> Lane:
        """The lane that ``share`` gives a caller."""
        session = caller.session if self.share is Share.SESSION else ""
        return MAIN_LANE if self.share is Share.ALL else Lane(caller.id, session)

    def end_session(self, session: str) -> None:
        """Note it."""
        self.ended.append(session)

    def roots_changed(self, caller: Caller) -> None:
        """Note it."""
        self.rooted.append(caller)

    def on_asking(self, listener: Callable[[], None]) -> None:
        """Keep ``listener``, for the test to call."""
        self.told_asking = listener

    def on_installing(self, listener: Callable[[bool], None]) -> None:
        """Have ``listener`` kept as ``installing``, for a test to call."""
        self.installing = listener

    def on_trouble(self, listener: Callable[[], None]) -> None:
        """Have ``listener`` called by ``stumble``."""
        self._on_trouble.append(listener)

    def adopt(self, listing: Listing) -> None:
        """Note what an earlier discovery found."""
        self.adopted = listing

    def forgive(self) -> None:
        """Count it."""
        self.forgiven += 1

    def status(self) -> SourceStatus:
        """The state that was set."""
        return self.state

    def log_lines(self, count: int) -> Sequence[str]:
        """The last of the lines that were set."""
        return self.lines[-count:]

    async def close(self) -> None:
        """Note it."""
        self.closed = True


class _Gate:
    """A place where work waits while the gate is held; tells when the first has arrived."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self.reached = asyncio.Event()

    def hold(self) -> None:
        """Let nobody through from now on."""
        self._open.clear()
        self.reached.clear()

    def release(self) -> None:
        """Let everybody through."""
        self._open.set()

    async def passed(self) -> None:
        """Wait until the gate is open."""
        self.reached.set()
        await self._open.wait()


def _definitions(tools: Sequence[Tool | str]) -> tuple[Tool, ...]:
    return tuple(Tool(tool) if isinstance(tool, str) else tool for tool in tools)


async def _settle(answer: Answer, call: Request) -> Result:
    outcome = answer(call) if callable(answer) else answer
    if inspect.isawaitable(outcome):
        outcome = await outcome
    if isinstance(outcome, BaseException):
        raise outcome
    if isinstance(outcome, str):
        return Result({"content": [{"type": "text", "text": outcome}]})
    return outcome


if TYPE_CHECKING:
    _is_a_source: Callable[..., ServerSource] = FakeSource
