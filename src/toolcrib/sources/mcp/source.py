"""An MCP server as a source of tools."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Raw

from toolcrib.core.errors import (
    DefinitionError,
    InvalidArguments,
    InvalidName,
    ProtocolError,
    RemoteError,
    ToolcribError,
)
from toolcrib.core.offers import Tool, from_mcp
from toolcrib.core.requests import ErrorInfo, Request, Result
from toolcrib.core.source import Listing, SourceStatus
from toolcrib.isolate.helpers import Helpers, TookTooLong
from toolcrib.schema.sanitise import sanitise_tool
from toolcrib.sources.mcp.link import Link, ServerRequest, answer_rounds
from toolcrib.sources.mcp.negotiate import ClientIdentity
from toolcrib.sources.mcp.supervise import SILENCES_MAX, Supervisor
from toolcrib.wire import eras, http, messages, strict
from toolcrib.wire.jsonrpc import decode, encode
from toolcrib.wire.results import LARGE_BYTES, ResultHead, read_head

TOOLS_MAX = 2000
PAGES_MAX = 100
BREATH = 100
"""So many definitions are read before the event loop gets its turn."""
FAILED = "TOOL_EXECUTION_FAILED"


class _Page(msgspec.Struct):
    tools: list[Raw] | None = None
    next_cursor: str | None = msgspec.field(default=None, name="nextCursor")
    ttl_ms: float | None = msgspec.field(default=None, name="ttlMs")


_page = msgspec.json.Decoder(_Page)


@dataclass(slots=True)
class _Collected:
    """What the pages of one listing add up to."""

    tools: dict[str, Tool]
    problems: list[str]
    ttl_s: float | None = None
    entries: int = 0
    """How many were looked at, good or bad."""


class McpSource:
    """One server: its tools, and calls to them over one shared connection."""

    def __init__(
        self, name: str, supervisor: Supervisor, offer: ClientIdentity, *, is_http: bool, helpers: Helpers | None = None
    ) -> None:
        self.name = name
        self.supervisor = supervisor
        self._offer = offer
        self._is_http = is_http
        self._helpers = helpers or Helpers()
        self._has_own_helpers = helpers is None
        self._encoded_meta = "", b""
        self._mirrored: dict[str, http.ParamHeaders] = {}

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have ``listener`` called when the server says its tools changed."""
        self.supervisor.tools_changed = listener

    def on_trouble(self, listener: Callable[[], None]) -> None:
        """Have ``listener`` called after each failed attempt to connect."""
        self.supervisor.attempt_failed = listener

    def adopt(self, listing: Listing) -> None:
        """Take over an earlier discovery: the era, and which arguments are mirrored into headers."""
        self.supervisor.remembered = listing.era
        if self._is_http and eras.is_modern(listing.era):
            for tool in listing.tools:
                self._mirror(tool)

    def forgive(self) -> None:
        """Try again at the next need."""
        self.supervisor.forgive()

    def status(self) -> SourceStatus:
        """How the server is doing."""
        return self.supervisor.status()

    def log_lines(self, count: int) -> Sequence[str]:
        """The last lines the server wrote to stderr."""
        return [self.supervisor.hide_secrets(line) for line in list(self.supervisor.remains().stderr)[-count:]]

    async def list_offers(self) -> Listing:
        """All pages, cleaned; one bad tool costs only itself."""
        link = await self.supervisor.link()
        collected = _Collected({}, [])
        cursor: str | None = None
        seen: set[str] = set()
        while True:
            page = await self._fetch_page(link, cursor)
            is_whole = await self._collect(page, collected)
            cursor = page.next_cursor or ""
            if is_whole and not cursor:
                break
            if not is_whole or cursor in seen or len(seen) == PAGES_MAX - 1:
                collected.problems.append("the list was cut: the server repeats its pages or has too many tools")
                break
            seen.add(cursor)
        tools = sorted(collected.tools.values(), key=lambda tool: tool.name)
        problems = tuple(map(self.supervisor.hide_secrets, collected.problems))
        return Listing(tuple(tools), collected.ttl_s, problems, self.supervisor.remembered)

    async def _fetch_page(self, link: Link, cursor: str | None) -> _Page:
        params = messages.list_params(cursor, self._meta({}))
        question = ServerRequest(link.new_id(), "tools/list", params, version=self.supervisor.remembered)
        raw = await self._put(link, question, None, 1)
        try:
            return _page.decode(raw)
        except msgspec.DecodeError as error:
            raise ProtocolError(f"Server {self.name!r} answered tools/list with something else: {error}") from None

    def _meta(self, capabilities: Mapping[str, Any]) -> dict[str, Any] | None:
        """What a request of the stateless era must carry, nothing before it."""
        if not eras.is_modern(self.supervisor.remembered):
            return None
        return messages.modern_meta(self._offer.info, capabilities)

    async def _collect(self, page: _Page, collected: _Collected) -> bool:
        """Add a page's tools, a few at a time; whether there was room for all."""
        if page.ttl_ms is not None:
            collected.ttl_s = max(0.0, page.ttl_ms / 1000)
        for shown in page.tools or []:
            if collected.entries == TOOLS_MAX:
                return False
            collected.entries += 1
            if collected.entries % BREATH == 0:
                await asyncio.sleep(0)
            self._add(shown, collected)
        return True

    def _add(self, shown: Raw, collected: _Collected) -> None:
        try:
            tool = self._read_tool(decode(shown), collected.problems)
        except (DefinitionError, InvalidName, ValueError, RecursionError) as error:
            collected.problems.append(f"left out: {error}")
            return
        if tool.name in collected.tools:
            collected.problems.append(f"left out: {tool.name!r} is listed twice")
        else:
            collected.tools[tool.name] = tool

    def _read_tool(self, shown: Any, problems: list[str]) -> Tool:
        if not isinstance(shown, Mapping):
            raise InvalidName("an entry of the tool list is no object")
        clean, notes = sanitise_tool(shown)
        tool = from_mcp(clean)
        problems.extend(f"{tool.name!r}: {note}" for note in notes)
        if self._is_http and eras.is_modern(self.supervisor.remembered):
            self._mirror(tool)
        return tool

    def _mirror(self, tool: Tool) -> None:
        try:
            declared = http.declared_headers(tool.input_schema)
        except ValueError as error:
            raise ValueError(f"{tool.name!r}: {error}") from None
        if declared:
            self._mirrored[tool.name] = declared
        else:
            self._mirrored.pop(tool.name, None)

    async def answer(self, call: Request) -> Result:
        """Run one tool over the shared connection."""
        link = self.supervisor.use()
        if link is None:
            link = await self._wait_for_link(call)
        raw = await self._ask(link, call, call.more)
        if len(raw) > LARGE_BYTES:
            await asyncio.sleep(0)  # taking so much in was enough for one turn of the loop
        head = read_head(raw)
        if head.result_type == "input_required" and not call.channel.takes_input_required:
            raw, head = await answer_rounds(call, raw, lambda more: self._ask(link, call, more))
        encoded, result_type = bytes(raw), head.result_type or ""
        if not strict.is_plain(len(encoded), head):
            encoded = await self._tidy(encoded, head) if len(encoded) > LARGE_BYTES else _tidy(encoded, head)
        result = Result(raw=encoded, result_type=result_type)
        return self._failed(result) if head.is_error else result

    async def _tidy(self, encoded: bytes, head: ResultHead) -> bytes:
        """A large result as every client can read it; each look at so many bytes is a turn of the loop of its own."""
        for is_suspicious in strict.suspicions(encoded, head):
            if is_suspicious:
                break
            await asyncio.sleep(0)
        else:
            return encoded
        try:
            return strict.tidied(encoded, await self._helpers.run(strict.TIDY, (encoded,), self.name))
        except strict.Unreadable as flaw:
            raise _unreadable(flaw) from None
        except TookTooLong:
            raise _unreadable("it takes too long to look into") from None

    async def _wait_for_link(self, call: Request) -> Link:
        """The link once there is one; a call whose time is over before that says what it waited for.

        All who waited get it in the same moment: their limits hold for that moment, too.
        """
        context = call.context
        while True:
            context.waits_for = f"got no answer: server {self.name!r} did not come back"
            link = await self.supervisor.link()
            context.waits_for = ""
            if context.renew is None:
                return link
            await context.renew(call)
            if link.is_open:
                return link

    def _failed(self, result: Result) -> Result:
        """A failure in the server's own words."""
        result.error = ErrorInfo(FAILED, result.text or "The tool failed without saying why.")
        return result

    async def _put(
        self, link: Link, question: ServerRequest, call: Request | None = None, patience: int = SILENCES_MAX
    ) -> Raw:
        """Ask the server; what it refuses is told without secrets, and a question given up is noted."""
        asked_at = self.supervisor.now()
        try:
            raw = await link.ask(question)
        except asyncio.CancelledError:
            self.supervisor.note_silence(link, asked_at, patience)
            raise
        except ToolcribError as error:
            if call is not None and isinstance(error, RemoteError):
                self.supervisor.comeback.has_answered = True
            self.supervisor.clean(error)
            raise
        else:
            if call is not None:
                self.supervisor.comeback.has_answered = True
            return raw
        finally:
            if call is not None and question.sent:
                call.context.sent = True

    def _ask(self, link: Link, call: Request, more: Mapping[str, Any]) -> Awaitable[Raw]:
        """Ask for the call; ``more`` goes with it."""
        request_id = link.new_id()
        version = self.supervisor.remembered
        question = ServerRequest(
            request_id, "tools/call", self._params(call, request_id, more), call.target, (), call.channel, version
        )
        declared = self._mirrored.get(call.target)
        if declared:
            question.headers = http.param_headers(declared, call.arguments)
        return self._put(link, question, call)

    def _params(self, call: Request, request_id: int, more: Mapping[str, Any]) -> bytes:
        """What is asked; the usual case is put together from parts that are encoded once."""
        capabilities, wants_progress = call.channel.capabilities, call.channel.wants_progress
        try:
            if not (more or call.meta or capabilities or wants_progress):
                return messages.plain_call_params(call.target, call.encode_arguments(), self._plain_meta())
            meta: dict[str, Any] = {**call.meta, **(self._meta(capabilities) or {})}
            if wants_progress:
                meta["progressToken"] = request_id
            return messages.call_params(call.target, call.encode_arguments(), more, meta)
        except (TypeError, ValueError, RecursionError, OverflowError) as error:
            raise InvalidArguments(f"The arguments of {call.target!r} cannot be written as JSON: {error}.") from None

    def _plain_meta(self) -> bytes:
        """The encoded ``_meta`` of a request that has nothing of its own to say."""
        version = self.supervisor.remembered
        if self._encoded_meta[0] != version:
            meta = self._meta({})
            self._encoded_meta = version, b"" if meta is None else encode(meta)
        return self._encoded_meta[1]

    async def close(self) -> None:
        """Stop the server."""
        await self.supervisor.close()
        if self._has_own_helpers:
            await self._helpers.close()


def _tidy(encoded: bytes, head: ResultHead) -> bytes:
    try:
        return strict.tidy(encoded, head)
    except strict.Unreadable as flaw:
        raise _unreadable(flaw) from None


def _unreadable(flaw: object) -> ProtocolError:
    return ProtocolError(f"The server's answer cannot be read by every client: {flaw}.")
