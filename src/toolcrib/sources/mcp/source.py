"""An MCP server as a source of tools."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from msgspec import UNSET, Raw

from toolcrib.core import links
from toolcrib.core.access import Caller
from toolcrib.core.errors import ConnectionLost, InvalidArguments, RemoteError, ToolcribError
from toolcrib.core.kinds import EraChoice, Share, TaskAction
from toolcrib.core.long_work import with_tasks
from toolcrib.core.offers import RequestKind, Tool
from toolcrib.core.requests import BackChannel, ErrorInfo, Request, Result, traceparent_of
from toolcrib.core.source import MAIN_LANE, HandedLinks, Lane, Listing, SourceStatus
from toolcrib.isolate.helpers import Helpers
from toolcrib.sources.mcp.lanes import Lanes
from toolcrib.sources.mcp.link import Link, ServerRequest
from toolcrib.sources.mcp.listing import OfferLister
from toolcrib.sources.mcp.mirror import ClientMirror
from toolcrib.sources.mcp.negotiate import ClientIdentity
from toolcrib.sources.mcp.questions import answer_rounds, asks_in_vain
from toolcrib.sources.mcp.supervise import SILENCES_MAX, Supervisor
from toolcrib.sources.mcp.tasks import ServerTasks
from toolcrib.sources.mcp.tidy import ResultTidier
from toolcrib.wire import eras, http, messages, strict
from toolcrib.wire.jsonrpc import RequestId, encode
from toolcrib.wire.results import LARGE_BYTES, ResultHead, read_head

FAILED = "TOOL_EXECUTION_FAILED"
METHODS: Mapping[RequestKind, str] = {
    RequestKind.CALL: "tools/call",
    RequestKind.READ: "resources/read",
    RequestKind.GET: "prompts/get",
    RequestKind.COMPLETE: "completion/complete",
    RequestKind.TASK: "tasks",
    RequestKind.BROWSE: "resources/directory/read",
}


class McpSource:
    """One server: its tools, and calls to them over the connection that all share, or a lane of the caller's own."""

    def __init__(
        self,
        name: str,
        supervisor: Supervisor,
        offer: ClientIdentity,
        *,
        is_http: bool,
        helpers: Helpers | None = None,
        handed: HandedLinks | None = None,
    ) -> None:
        self.name = name
        self.supervisor = supervisor
        """The main lane: discovery goes by it, and every call where all callers share the server."""
        self._all_lanes: Lanes | None = None
        self._lanes: Lanes | None = None
        """Where calls go while not all callers share the server."""
        self._told_asking: Callable[[], None] = _nothing
        self._told_update: Callable[[Lane, str], None] = _ignore_update
        self._offer = offer
        self._is_http = is_http
        self._results = ResultTidier(name, helpers)
        self._handed = handed or HandedLinks()
        self._asking = offer.asking
        self._has_turned = False
        """Whether the server was found to need the older of its two eras."""
        self._encoded_meta: dict[bool, tuple[str, bytes]] = {}
        self._tasks = ServerTasks(name, self._ask_about_task, offer.asking)
        self._mirrored: dict[str, http.ParamHeaders] = {}
        self.mirror = ClientMirror(name, offer, supervisor) if offer.is_transparent else None
        """What passes between the server and its clients as it is; ``None``: nothing does."""

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have ``listener`` called when the server says its tools changed."""
        self.supervisor.tools_changed = listener

    def on_update(self, listener: Callable[[Lane, str], None]) -> None:
        """Have ``listener`` called with the URI of a watched resource that changed, and the lane it changed in."""
        self._told_update = listener
        self.supervisor.updated = partial(listener, MAIN_LANE)

    async def watch(self, uris: frozenset[str], lane: Lane = MAIN_LANE) -> None:
        """Be told when one of these resources changes in a lane, and of no other."""
        if self._all_lanes is None or lane == MAIN_LANE:
            await self.supervisor.watch(uris)
        else:
            await self._all_lanes.watch(lane, uris)

    def lane_of(self, caller: Caller) -> Lane:
        """The lane that requests of a caller go by."""
        return MAIN_LANE if self._lanes is None else self._lanes.lane_of(caller)

    def end_session(self, session: str) -> None:
        """Close what only this session of a client used."""
        if self._all_lanes is not None:
            self._all_lanes.end_session(session)
        if self.mirror is not None:
            self.mirror.leave(session)

    def roots_changed(self, caller: Caller) -> None:
        """Tell the server, where the caller's calls go."""
        if self._all_lanes is not None:
            self._all_lanes.roots_changed(self.supervisor, self.lane_of(caller))

    def on_asking(self, listener: Callable[[], None]) -> None:
        """Have ``listener`` called when the server asks something, and nobody can tell whom."""
        self._told_asking = listener

    def split_into(self, lanes: Lanes) -> None:
        """Use these lanes wherever not all callers share the server; what is known of it decides that."""
        lanes.prepare, self._all_lanes = self._prepare, lanes
        if self.mirror is not None:
            self.mirror.use(lanes)
        self.supervisor.asked_blindly = self._asked_blindly
        self._settle_sharing(lanes)

    def _asked_blindly(self) -> None:
        """The server asks while several callers share it: from now on they do not, unless that is configured."""
        if self._all_lanes is not None and not self._all_lanes.asks:
            self._note_asking(self._all_lanes)
            self._told_asking()

    def _note_asking(self, lanes: Lanes) -> None:
        lanes.note_asking()
        self._settle_sharing(lanes)

    def _settle_sharing(self, lanes: Lanes) -> None:
        """Let calls go where they should by what is known now; those under way go on where they are."""
        self._lanes = None if lanes.sharing.share is Share.ALL else lanes

    def _prepare(self, lane: Lane, supervisor: Supervisor) -> None:
        """What a new lane knows and tells. Changed lists are everybody's: they are asked for over the main lane."""
        main = self.supervisor
        supervisor.remembered, supervisor.is_of_one = main.remembered, True
        supervisor.tools_changed = main.tell_changed
        supervisor.updated = lambda uri: self._told_update(lane, uri)
        if self.mirror is not None:
            self.mirror.prepare(lane, supervisor)

    def on_installing(self, listener: Callable[[bool], None]) -> None:
        """Have ``listener`` called when its command begins to fetch what it runs, and when that is over."""
        self.supervisor.installing = listener

    def on_trouble(self, listener: Callable[[], None]) -> None:
        """Have ``listener`` called after each failed attempt to connect."""
        self.supervisor.attempt_failed = listener

    def adopt(self, listing: Listing) -> None:
        """Take over an earlier discovery: the era, and which arguments are mirrored into headers."""
        self.supervisor.remembered = listing.era
        self._tasks.adopt(listing)
        if listing.asks and self._all_lanes is not None:
            self._note_asking(self._all_lanes)
        if self._is_http and eras.is_modern(listing.era):
            for tool in listing.tools:
                self._mirror(tool)

    def forgive(self) -> None:
        """Try again at the next need."""
        self.supervisor.forgive()
        if self._all_lanes is not None:
            self._all_lanes.forgive()

    def status(self) -> SourceStatus:
        """How the server is doing, with all its lanes."""
        main = self.supervisor.status()
        return main if self._all_lanes is None else self._all_lanes.status(main)

    def log_lines(self, count: int) -> Sequence[str]:
        """The last lines the server wrote to stderr, those of lanes with whose they are."""
        main = [self.supervisor.hide_secrets(line) for line in list(self.supervisor.remains().stderr)[-count:]]
        return main if self._all_lanes is None else [*main, *self._all_lanes.log_lines(count)][-count:]

    async def list_offers(self) -> Listing:
        """All pages of all kinds, cleaned."""
        if self.mirror is not None:
            self.mirror.note_asked()
        link = await self.supervisor.link()

        async def ask(method: str, cursor: str | None) -> Raw:
            version = self.supervisor.remembered
            params = messages.list_params(cursor, self._meta(self._offer.capabilities, version))
            question = ServerRequest(link.new_id(), method, params, version=version)
            return await self._put(self.supervisor, link, question, None, 1)

        try:
            listing = await OfferLister(self.name, ask, self._accept).ask(self.supervisor.agreed)
        except ConnectionLost as lost:
            raise self.supervisor.explain_loss(link, lost, "listing its tools") from None
        self._tasks.adopt(listing)
        problems = tuple(map(self.supervisor.hide_secrets, listing.problems))
        return replace(listing, problems=problems, asks=self._all_lanes is not None and self._all_lanes.asks)

    def _accept(self, tool: Tool) -> None:
        """Note which arguments a tool wants mirrored; raises ``ValueError`` for one that says so in a wrong way."""
        if self._is_http and eras.is_modern(self.supervisor.remembered):
            self._mirror(tool)

    def _meta(self, capabilities: Mapping[str, Any], version: str) -> dict[str, Any] | None:
        """What a request of the stateless era must carry, nothing before it."""
        if not eras.is_modern(version):
            return None
        return messages.modern_meta(self._offer.info, capabilities)

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
        """Ask for it over the connection that all share, or in the caller's lane."""
        if call.kind is RequestKind.TASK:
            return await self._answer_task(call)
        lane = self.supervisor if self._lanes is None else self._enter_lane(self._lanes, call)
        link = lane.use()
        if link is None:
            link = await self._wait_for_link(lane, call)
        if call.channel.log_level and not eras.is_modern(lane.remembered):
            await lane.want_log(link, call.channel.log_level)
        more = self._asking.open_state(call) if call.more else call.more
        try:
            raw: Raw | bytes = await self._ask(lane, link, call, more)
        except RemoteError as error:
            return self._refused(lane, call, error)
        if len(raw) > LARGE_BYTES:
            await asyncio.sleep(0)  # taking so much in was enough for one turn of the loop
        shown = links.translate_read(raw, self._handing_out(call)) if call.kind is RequestKind.READ else None
        if shown is not None:
            return Result(raw=shown)
        head = read_head(raw)
        if head.result_type == "input_required":
            raw, head = await self._asked_back(lane, link, call, Raw(raw), head)
        if call.kind is not RequestKind.CALL or head.content is UNSET:
            return await self._other_result(lane, call, raw, head)
        encoded = bytes(raw)
        if not strict.is_plain(len(encoded), head):
            encoded = await self._tidy_call(call, encoded, head)
        result = Result(raw=encoded, result_type=head.result_type or "")
        return self._failed(lane, result) if head.is_error else result

    async def _other_result(self, lane: Supervisor, call: Request, raw: Raw | bytes, head: ResultHead) -> Result:
        """What came of a request that is no call; or of a call, and is no content: it may be a task."""
        if call.kind is not RequestKind.CALL:
            is_open = head.result_type == "input_required"
            tidied = await self._results.tidy_other(bytes(raw), self._handing_out(call))
            return Result(raw=tidied, result_type="input_required" if is_open else "")
        task = self._tasks.created(call, head, Raw(raw))
        if task is not None and self._tasks.is_handed_on(call):
            return Result(raw=b"{}", result_type="task", task=task)
        if task is not None:
            raw, head = await self._tasks.settle(call, task)
        elif self.mirror is not None and head.result_type:  # an extension's, which its client knows how to read
            shown = await self._results.tidy_other(bytes(raw), self._handing_out(call))
            return Result(raw=shown, result_type=head.result_type)
        return await self._as_result(lane, call, bytes(raw), head)

    async def _answer_task(self, call: Request) -> Result:
        """What a client wants to know of, or to do about, work that was handed on to it."""
        task, raw = await self._tasks.act(call)
        if not raw:
            return Result(raw=b"{}", result_type="", task=task)
        result = await self._as_result(self.supervisor, call, bytes(raw), read_head(raw))
        result.task = task
        return result

    async def _as_result(self, lane: Supervisor, call: Request, encoded: bytes, head: ResultHead) -> Result:
        """What a tool gave in the end."""
        result = Result(raw=await self._tidy_call(call, encoded, head), result_type=head.result_type or "")
        return self._failed(lane, result) if head.is_error else result

    async def _tidy_call(self, call: Request, encoded: bytes, head: ResultHead) -> bytes:
        """What a tool gave, as every client can read it, with the URIs that clients know."""
        encoded = await self._results.tidy(encoded, head)
        return links.translate_result(encoded, self._handing_out(call)) if links.has_links(encoded) else encoded

    def _refused(self, lane: Supervisor, call: Request, error: RemoteError) -> Result:
        """What comes of a server's error: questions, if it is one that sends somebody to an address; else it is
        raised."""
        self._heed(lane, error.message)
        return Result(raw=self._asking.as_questions(call, error), result_type="input_required")

    def _heed(self, lane: Supervisor, words: str) -> None:
        """If a server that speaks both eras failed because it asks in the way of the older one, speak that to it."""
        can_turn = self._offer.era is EraChoice.AUTO and not self._has_turned
        if not can_turn or not eras.is_modern(lane.remembered) or not asks_in_vain(words):
            return
        self._has_turned = True
        self.supervisor.turn_to_handshake()
        if self._all_lanes is not None:
            self._all_lanes.turn_to_handshake()
        self.supervisor.tell_changed()  # it may list other tools, and the lock shall have its era
        raise ConnectionLost(
            "It asks its client in the way of the handshake era, and was spoken to in the stateless one;"
            " from now on it is spoken to in the handshake era."
        )

    async def _asked_back(
        self, lane: Supervisor, link: Link, call: Request, raw: Raw, head: ResultHead
    ) -> tuple[Raw, ResultHead]:
        """Questions for a client that takes them as a result, else the result that comes of answering them here."""
        if self._asking.may_hand_over(call, raw):
            return self._asking.seal_state(call, raw), head
        return await answer_rounds(self._asking.around(call), raw, lambda more: self._ask(lane, link, call, more))

    def _handing_out(self, call: Request) -> links.Translate:
        return partial(self._handed.hand_out, call.caller.id, self.name)

    def _enter_lane(self, lanes: Lanes, call: Request) -> Supervisor:
        call.context.is_in_lane = True
        return lanes.of(call.caller)

    async def _wait_for_link(self, lane: Supervisor, call: Request) -> Link:
        """The link once there is one; a call whose time is over before that says what it waited for.

        All who waited get it in the same moment: their limits hold for that moment, too.
        """
        context = call.context
        while True:
            context.waits_for = f"got no answer: server {self.name!r} did not come back"
            link = await lane.link()
            context.waits_for = ""
            if context.renew is None:
                return link
            await context.renew(call)
            if link.is_open:
                return link

    def _failed(self, lane: Supervisor, result: Result) -> Result:
        """A failure in the server's own words."""
        self._heed(lane, result.text)
        result.error = ErrorInfo(FAILED, result.text or "The tool failed without saying why.")
        return result

    async def _put(
        self,
        lane: Supervisor,
        link: Link,
        question: ServerRequest,
        call: Request | None = None,
        patience: int = SILENCES_MAX,
    ) -> Raw:
        """Ask the server; what it refuses is told without secrets, and a question given up is noted."""
        asked_at = lane.now()
        try:
            raw = await link.ask(question)
        except asyncio.CancelledError:
            lane.note_silence(link, asked_at, patience)
            raise
        except ToolcribError as error:
            if call is not None and isinstance(error, RemoteError):
                lane.comeback.has_answered = True
            lane.clean(error)
            raise
        else:
            if call is not None:
                lane.comeback.has_answered = True
            return raw
        finally:
            if call is not None and question.sent:
                call.context.sent = True

    def _ask(self, lane: Supervisor, link: Link, call: Request, more: Mapping[str, Any]) -> Awaitable[Raw]:
        """Ask for the call; ``more`` goes with it."""
        mirror, version = self._mirror_in(lane), lane.remembered
        request_id = link.new_id() if mirror is None else link.claim_id(call.context.asked_as)
        token = None if mirror is None else mirror.token(call)
        if more or call.target in self._tasks.known:
            more = self._tasks.wish(call, more)
        if call.kind is not RequestKind.CALL:
            method, params = METHODS[call.kind], self._other_params(call, request_id, more, lane)
            named = call.target if call.kind in (RequestKind.READ, RequestKind.GET) else ""
            channel = self._asking.around(call)
            question = ServerRequest(request_id, method, params, named, (), channel, version, call.caller, token)
            return self._put(lane, link, question, call)
        params, channel, name = self._params(call, request_id, more, lane), self._asking.around(call), call.target
        question = ServerRequest(request_id, "tools/call", params, name, (), channel, version, call.caller, token)
        declared = self._mirrored.get(call.target)
        if declared:
            question.headers = http.param_headers(declared, call.arguments)
        question.traceparent = self._trace_of(call).get("traceparent", "")
        return self._put(lane, link, question, call)

    async def _ask_about_task(self, call: Request, action: TaskAction, said: Mapping[str, Any]) -> Raw:
        """Ask about work that was begun before, in the same lane, on whatever connection there is now."""
        lane = self.supervisor if self._lanes is None else self._enter_lane(self._lanes, call)
        link = lane.use() or await self._wait_for_link(lane, call)
        meta = self._meta(self._declared(call.channel), lane.remembered)
        params = encode({**said, "_meta": meta} if meta else said)
        method, name, channel = f"tasks/{action}", said["taskId"], self._asking.around(call)
        question = ServerRequest(link.new_id(), method, params, name, (), channel, lane.remembered, call.caller)
        return await self._put(lane, link, question, call)

    def _declared(self, channel: BackChannel) -> Mapping[str, Any]:
        """What a server of the stateless era is told that can be done for a call."""
        return self._tasks.declare(channel, self._asking.all_of(channel.capabilities))

    def _other_params(self, call: Request, request_id: RequestId, more: Mapping[str, Any], lane: Supervisor) -> bytes:
        """What is asked to read a resource, get a prompt or complete an argument."""
        meta = self._meta_of(call, request_id, lane)
        params: dict[str, Any] = {**more} if meta is None else {**more, "_meta": meta}
        match call.kind:
            case RequestKind.READ | RequestKind.BROWSE:
                params |= {**call.arguments, "uri": call.target}
            case RequestKind.GET:
                params |= {"name": call.target} | ({"arguments": call.arguments} if call.arguments else {})
            case _:
                params |= call.arguments | {"ref": completion_ref(call)}
        return encode(params)

    def _params(self, call: Request, request_id: RequestId, more: Mapping[str, Any], lane: Supervisor) -> bytes:
        """What is asked; the usual case is put together from parts that are encoded once."""
        channel, version = call.channel, lane.remembered
        try:
            is_plain = not (more or call.meta or channel.wants_progress or channel.log_level or self.mirror)
            if is_plain and not self._has_own_part(channel, version):
                plain = messages.with_traceparent(self._plain_meta(version, channel), traceparent_of(call))
                return messages.plain_call_params(call.target, call.encode_arguments(), plain)
            meta = self._meta_of(call, request_id, lane)
            return messages.call_params(call.target, call.encode_arguments(), more, meta)
        except (TypeError, ValueError, RecursionError, OverflowError) as error:
            raise InvalidArguments(f"The arguments of {call.target!r} cannot be written as JSON: {error}.") from None

    def _has_own_part(self, channel: BackChannel, version: str) -> bool:
        """Whether a server of the stateless era is to be told what this very client can do."""
        return bool(channel.capabilities) and eras.is_modern(version)

    def _meta_of(self, call: Request, request_id: RequestId, lane: Supervisor) -> dict[str, Any] | None:
        """The ``_meta`` of a request: what its caller said, and what toolcrib says for it; ``None`` for none."""
        channel, version, mirror = call.channel, lane.remembered, self._mirror_in(lane)
        if mirror is not None:
            meta = mirror.meta(call.meta, lane, channel.capabilities)
        else:
            said = call.meta if self.mirror is None else messages.relayed_meta({"_meta": call.meta})
            meta = {**said, **self._trace_of(call), **(self._meta(self._declared(channel), version) or {})}
        if channel.wants_progress and (mirror is None or mirror.token(call) is None):
            meta["progressToken"] = request_id
        if channel.log_level and eras.is_modern(version):
            meta[eras.META_LOG_LEVEL] = channel.log_level
        is_said = mirror is not None and call.meta is not messages.NO_PARAMS
        return meta if meta or is_said else None

    def _trace_of(self, call: Request) -> dict[str, str]:
        """What a server is told of the trace of a call; a transparent one is told what the client said, and no more."""
        traceparent = "" if self.mirror is not None else traceparent_of(call)
        return {"traceparent": traceparent} if traceparent else {}

    def _mirror_in(self, lane: Supervisor) -> ClientMirror | None:
        """What is shown as it is in a lane; nothing in the one that all callers share."""
        return None if lane is self.supervisor else self.mirror

    def _plain_meta(self, version: str, channel: BackChannel) -> bytes:
        """The encoded ``_meta`` of a request that has nothing of its own to say."""
        is_polled = self._tasks.polls and not channel.takes_input_required
        known = self._encoded_meta.get(is_polled)
        if known is None or known[0] != version:
            meta = self._meta(with_tasks(self._asking.own) if is_polled else self._asking.own, version)
            known = self._encoded_meta[is_polled] = version, b"" if meta is None else encode(meta)
        return known[1]

    async def close(self) -> None:
        """Stop the server, with all its lanes."""
        await self._tasks.close()
        try:
            await asyncio.gather(self.supervisor.close(), *(each.close() for each in (self._all_lanes,) if each))
        finally:
            await self._results.close()


def _nothing() -> None:
    """The default listener: does nothing."""


def _ignore_update(lane: Lane, uri: str) -> None:
    """Where nobody wants to hear that a resource changed."""


def completion_ref(call: Request) -> dict[str, Any]:
    """What is to be completed, by the server's own name for it."""
    said = call.arguments.get("ref")
    is_template = isinstance(said, Mapping) and said.get("type") == "ref/resource"
    return {"type": "ref/resource", "uri": call.target} if is_template else {"type": "ref/prompt", "name": call.target}
