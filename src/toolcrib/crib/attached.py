"""A program's own sources, in the places of servers."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import msgspec

from toolcrib.config.model import ServerConfig
from toolcrib.core import links
from toolcrib.core.access import EVERYTHING, Caller
from toolcrib.core.errors import ConfigError, NotImplementedHere, ToolcribError
from toolcrib.core.kinds import LinkState, PinMode
from toolcrib.core.names import check_server_name, is_tool_name
from toolcrib.core.offers import Offer, OfferKind, RequestKind, Tool
from toolcrib.core.requests import BackChannel, Request, Result
from toolcrib.core.source import MAIN_LANE, HandedLinks, Lane, Listing, Source, SourceStatus
from toolcrib.sources.native.functions import to_result
from toolcrib.sources.native.source import to_failure

SOURCE_METHODS = ("list_offers", "answer", "on_change", "close")


class AttachedSource:
    """A program's own source in the place of a server's; whatever it raises becomes an error with a code."""

    def __init__(self, source: Source) -> None:
        self.name, self._source = check_source(source), source
        self.handed = HandedLinks()
        """Where the resources are noted that its results speak of."""
        self._status = SourceStatus(LinkState.IDLE)

    @property
    def config(self) -> ServerConfig:
        """What stands for it where servers are configured; only a source that is ``pinned`` has its tools pinned."""
        pins: PinMode | None = None if getattr(self._source, "pinned", False) else PinMode.OFF
        return ServerConfig(self.name, is_own=True, pins=pins, origin="the program")

    async def list_offers(self) -> Listing:
        """The tools, without those that cannot be offered."""
        try:
            listing = _need_listing(await self._source.list_offers())
        except Exception as error:  # the edge of a source: its own fault costs only itself
            failure = error if isinstance(error, ToolcribError) else to_failure(self.name, error)
            self._status = SourceStatus(LinkState.FAILING, error=str(failure))
            raise failure from error
        self._status = SourceStatus(LinkState.CONNECTED)
        fit = tuple(tool for tool in listing.tools if is_tool_name(tool.name))
        if len(fit) == len(listing.tools):
            return listing
        unfit = [tool.name for tool in listing.tools if not is_tool_name(tool.name)]
        problems = [f"{name!r:.80} is left out: it is not a tool's name." for name in unfit]
        return replace(listing, tools=fit, problems=(*listing.problems, *problems))

    async def answer(self, call: Request) -> Result:
        """Run one; what is no ``Result`` is made one, as with native functions."""
        call.context.sent = True
        try:
            return self._with_public_links(call, to_result(await self._source.answer(call)))
        except ToolcribError:
            raise
        except Exception as error:  # the edge of a source: its own fault costs only itself
            raise to_failure(call.name, error) from error

    def _with_public_links(self, call: Request, result: Result) -> Result:
        """The result with the URIs that clients know; one that speaks of no resource stays what it is."""
        is_call = call.kind is RequestKind.CALL or call.kind is RequestKind.TASK
        if result.error is not None or (is_call and not any(has_link(block) for block in result.content)):
            return result
        raw = msgspec.json.encode(result.mcp) if result.raw is None else result.raw
        to = partial(self.handed.hand_out, call.caller.id, self.name)
        return Result(raw=links.translate_result(raw, to, is_call=is_call), value=result.value, task=result.task)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have ``listener`` called on the event loop, wherever the source says that its tools changed."""
        loop = asyncio.get_running_loop()

        def tell() -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody listens any more
                loop.call_soon_threadsafe(listener)

        self._source.on_change(tell)

    def on_update(self, listener: Callable[[Lane, str], None]) -> None:
        """Have ``listener`` called on the event loop for each watched resource that changed, if the source can tell."""
        loop, tell = asyncio.get_running_loop(), getattr(self._source, "on_update", None)
        if callable(tell):
            tell(lambda uri: loop.call_soon_threadsafe(listener, MAIN_LANE, uri))

    async def watch(self, uris: frozenset[str], lane: Lane = MAIN_LANE) -> None:  # noqa: ARG002
        """Have the source tell of these; one that cannot says so."""
        watch = getattr(self._source, "watch", None)
        if not callable(watch):
            raise NotImplementedHere(f"The source {self.name!r} cannot tell when a resource changes.")
        await watch(uris)

    def lane_of(self, caller: Caller) -> Lane:  # noqa: ARG002
        """All callers share it."""
        return MAIN_LANE

    def end_session(self, session: str) -> None:
        """Tell the source, if it wants to know; a Crib inside this one does."""
        end = getattr(self._source, "end_session", None)
        if callable(end):
            end(session)

    def roots_changed(self, caller: Caller) -> None:
        """Nothing: it asks for them when it needs them."""

    def on_asking(self, listener: Callable[[], None]) -> None:
        """Nothing: it knows whose call it asks in."""

    def adopt(self, listing: Listing) -> None:
        """Nothing: it is asked."""

    def on_installing(self, listener: Callable[[bool], None]) -> None:
        """Nothing: it runs in this process."""

    def on_trouble(self, listener: Callable[[], None]) -> None:
        """Nothing: it has no connection that toolcrib knows of."""

    def forgive(self) -> None:
        """Nothing: it is asked whenever that is due."""

    def status(self) -> SourceStatus:
        """How the last listing went."""
        return self._status

    def log_lines(self, count: int) -> Sequence[str]:  # noqa: ARG002
        """None: it writes where the program writes."""
        return ()

    async def close(self) -> None:
        """Close the source."""
        await self._source.close()


def has_link(block: Mapping[str, Any]) -> bool:
    """Whether a block of content speaks of a resource."""
    return block.get("type") in ("resource", "resource_link")


def _need_listing(listing: object) -> Listing:
    if not isinstance(listing, Listing):
        raise TypeError(f"list_offers gave {type(listing).__name__}, not a toolcrib.Listing")
    strange = [each for each in listing.tools if type(each) is not Tool]
    if strange:
        raise TypeError(f"list_offers gave {type(strange[0]).__name__}, not a toolcrib.Tool")
    return listing


def check_source(source: Source) -> str:
    """The name of a source that can be attached; says what is missing if it cannot."""
    missing = [name for name in SOURCE_METHODS if not callable(getattr(source, name, None))]
    if missing or isinstance(source, type) or not isinstance(getattr(source, "name", None), str):
        lack = (
            "it is a class; pass an object"
            if isinstance(source, type)
            else f"it has no {', '.join(missing or ['name'])}"
        )
        raise ConfigError(
            f"{source!r:.80} is not a source of tools: {lack}.",
            hint=f"A source has a name and the methods {', '.join(SOURCE_METHODS)}: see toolcrib.Source."
            " A Crib becomes one by crib.as_source(name).",
        )
    return check_server_name(source.name)


def attach_sources(
    sources: Sequence[Source], servers: Collection[str], handed: HandedLinks | None = None
) -> dict[str, AttachedSource]:
    """A program's own sources by name; a name that is taken is refused."""
    attached: dict[str, AttachedSource] = {}
    for source in map(AttachedSource, sources):
        holder = (
            "a configured server" if source.name in servers else "another source" if source.name in attached else ""
        )
        if holder:
            raise ConfigError(f"The source name {source.name!r} is taken by {holder}.", hint="Give it another name.")
        attached[source.name] = source
        source.handed = handed or source.handed
    return attached


OTHER_KINDS = tuple(kind for kind in OfferKind if kind is not OfferKind.TOOL)


class InnerCrib(Protocol):
    """What a Crib is to another one that it is a source of."""

    async def tools(self) -> list[Any]:
        """What it offers to be called."""

    async def offers(self, kind: OfferKind) -> list[Offer]:
        """What else it offers."""

    def request(  # noqa: PLR0913, PLR0917 - as it is there
        self,
        name: str,
        arguments: dict[str, Any],
        caller: Caller,
        channel: BackChannel,
        timeout_s: float | None,
        meta: Mapping[str, Any],
        more: Mapping[str, Any],
        kind: RequestKind,
    ) -> Request:
        """A request for ``run``."""

    async def run(self, call: Request) -> Result:
        """Carry it out."""

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have ``listener`` called when it offers something else."""

    def end_session(self, session: str) -> None:
        """A client's session is over."""


class CribSource:
    """A Crib inside another one: its own rules, layers and audit log hold as well. Whoever opened it closes it."""

    def __init__(self, name: str, crib: InnerCrib) -> None:
        self.name, self._crib = name, crib
        self._forget: list[Callable[[], None]] = []

    async def list_offers(self) -> Listing:
        """What the other Crib may use: all of its tools that are neither denied nor in quarantine."""
        tools = tuple(await self._crib.tools())
        others = [offer for kind in OTHER_KINDS for offer in await self._crib.offers(kind)]
        return Listing(tools, others=tuple(others))

    async def answer(self, call: Request) -> Result:
        """Run one; the other Crib has compared the caller's grants, which speak of its names, with the tool."""
        caller, outer = replace(call.caller, grants=EVERYTHING), call.context
        inner = self._crib.request(
            call.target, call.arguments, caller, call.channel, call.timeout_s, call.meta, call.more, call.kind
        )
        inner.context.withheld, inner.context.tooling = outer.withheld, outer.tooling
        inner.context.trace_id = outer.trace_id
        try:
            result = await self._crib.run(inner)
        finally:
            outer.sent = inner.context.sent
        if result.task is not None:
            result.task = msgspec.structs.replace(result.task, tool=call.name)
        return result

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have ``listener`` called when the catalogue changed."""
        self._forget.append(self._crib.on_change(listener))

    def end_session(self, session: str) -> None:
        """A client's session is over, for the other Crib, too."""
        self._crib.end_session(session)

    async def close(self) -> None:
        """Tell the other Crib no more."""
        while self._forget:
            self._forget.pop()()
