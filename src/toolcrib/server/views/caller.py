"""A project as one caller sees it: the one object that a request to REST or the page asks for tools, calls and servers.

The MCP doors ask a profile of the Crib; here it is the whole of it, with what only those see who look after it.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from toolcrib.calls.approvals import ApprovalReply
from toolcrib.calls.inbox import Content, Waiting
from toolcrib.calls.live import LiveCall
from toolcrib.calls.metrics import Metrics, ToolMetrics
from toolcrib.catalog.catalog import Catalog, Route
from toolcrib.catalog.entries import away_parts, known_to, missing_servers, overall_health
from toolcrib.catalog.explain import Explanation
from toolcrib.catalog.pins import NO_TRUST, FieldTrust
from toolcrib.catalog.records import ServerShelf
from toolcrib.catalog.search import RankedTool
from toolcrib.config.edit import set_audit_values
from toolcrib.config.lock import Record
from toolcrib.core.access import Caller, decide, matches, may_approve
from toolcrib.core.audit import AuditEntry, AuditStatus
from toolcrib.core.coordination import CoordinationStatus
from toolcrib.core.errors import NotImplementedHere
from toolcrib.core.names import is_own, name_of_uri
from toolcrib.core.offers import OfferKind, RequestKind, SecurityLevel, offer_key
from toolcrib.core.requests import SILENT, CallProgress, ProgressChannel, Request, Result
from toolcrib.core.source import Missing
from toolcrib.core.view import CribHealth, ServerHealth, ToolCounts
from toolcrib.crib.accounts import ServerSignIns
from toolcrib.crib.crib import Crib
from toolcrib.project.project import Project
from toolcrib.server.views.calls import QuestionEntry, question_entry
from toolcrib.server.views.offers import OfferDetail, offer_detail
from toolcrib.server.views.servers import ServerDetail, ServerView, log_lines, server_view, shown_config
from toolcrib.server.views.tools import (
    ListedTool,
    PinChange,
    PolicyEntry,
    ToolDetail,
    change_of,
    check_seen,
    found_tool,
    held_routes,
    listed_tool,
    policy_entries,
    tool_detail,
)


@dataclass(frozen=True, slots=True)
class RanCall:
    """A call that was made, what came of it, and how long that took."""

    call: Request
    result: Result
    duration_s: float


@dataclass(frozen=True, slots=True)
class CallerView:
    """What a caller may know of a project and do in it."""

    project: Project
    caller: Caller
    is_operator: bool
    """Whether the caller looks after it, and so sees all of it."""
    traceparent: str = ""
    """The trace its calls belong to, as the request's header names it."""

    @property
    def _crib(self) -> Crib:
        return self.project.crib

    # Tools

    def tools(self) -> list[Route]:
        """What the caller is shown: operators everything, others what they may use."""
        return list(self.catalog.routes.values()) if self.is_operator else self.usable()

    def usable(self) -> list[Route]:
        """What the caller may use."""
        return self.catalog.visible_to(self.caller.grants)

    def offers(self, kind: OfferKind) -> list[Route]:
        """What the caller is shown of another kind."""
        if not self.is_operator:
            return self.catalog.visible_to(self.caller.grants, kind)
        return [route for route in self.catalog.others.values() if route.offer.kind is kind]

    def resource_name(self, uri: str) -> str:
        """What toolcrib calls the resource that clients know by this URI."""
        return self._crib.resource_name(uri)

    @property
    def catalog(self) -> Catalog:
        """All tools; reading it starts nothing."""
        return self._crib.catalog

    def tool(self, name: str) -> Route | None:
        """The tool of that name, if the caller is shown it."""
        route = self._crib.lookup(name)
        if route is None or self.is_operator or decide(self.caller.grants, route.reach).is_listed:
            return route
        return None

    def named(self, name: str) -> Route | None:
        """The offer of any kind that a name, a key or a URI stands for, if the caller is shown it."""
        route = self.catalog.named(name)
        if route is None or self.is_operator or decide(self.caller.grants, route.reach).is_listed:
            return route
        return None

    def offer(self, name: str, *kinds: OfferKind) -> Route | None:
        """The same among offers of these kinds alone: a prompt may have a tool's name."""
        keys = [offer_key(kind, one) for one in dict.fromkeys((name, name_of_uri(name))) for kind in kinds]
        return next((route for key in keys if (route := self.named(key)) is not None), None)

    async def find_others(self, query: str, limit: int, among: Sequence[Route]) -> list[RankedTool]:
        """The best of these resources, templates and prompts for a purpose."""
        return await self._crib.find_others(query, limit, among=among)

    def offer_detail(self, route: Route) -> OfferDetail:
        """Everything of one resource, template or prompt that the caller may know."""
        return offer_detail(self._crib, route, for_operator=self.is_operator)

    def missing(self) -> tuple[Missing, ...]:
        """The servers whose tools are in no list because nobody knows them, as far as the caller may hear of them."""
        return known_to(missing_servers(self._crib.shelves), self.caller.grants)

    async def find(self, query: str, limit: int, among: Sequence[Route]) -> list[RankedTool]:
        """The best of these tools for a purpose."""
        return await self._crib.find(query, limit, among=among)

    def listed(self, found: Route | RankedTool) -> ListedTool:
        """One tool of a list, or one answer to a query."""
        return listed_tool(self._crib, found) if isinstance(found, Route) else found_tool(self._crib, found)

    def detail(self, route: Route) -> ToolDetail:
        """Everything of one tool that the caller may know."""
        return tool_detail(self._crib, route, for_operator=self.is_operator)

    def explain(self, name: str) -> Explanation | None:
        """Why a tool is here or is not; only for operators."""
        return self._crib.explain(name) if self.is_operator else None

    def tally(self, name: str) -> ToolMetrics | None:
        """How calls of a tool went, if there were any."""
        return self.metrics.tools.get(name)

    async def offered_servers(self) -> set[str]:
        """The servers of whose tools the caller may use any; the empty name stands for native tools."""
        routes = (await self._crib.current()).visible_to(self.caller.grants)
        found = [route for route in routes if not route.tool.reads_results]
        return {route.server for route in found if route.server or not is_own(route.name)}

    # What may be called

    def policies(self) -> list[PolicyEntry]:
        """What holds for each tool, and why."""
        return policy_entries(self._crib)

    async def set_policy(self, policy: str, *patterns: str) -> None:
        """Say what may be called; that is written down first."""
        for pattern in patterns:
            await self.note(AuditEntry("policy", pattern, decision=policy))
        await self.project.set_policy(policy, *patterns)

    def held(self) -> list[Route]:
        """The tools in quarantine."""
        return held_routes(self._crib)

    def change(self, route: Route) -> PinChange:
        """What was accepted of a tool in quarantine, and what it is now."""
        return change_of(self._crib, route)

    def check_seen(self, route: Route, seen: str) -> None:
        """``PermissionDenied`` if a tool in quarantine changed again after somebody looked at it."""
        check_seen(self._crib, route, seen)

    async def accept(self, name: str, check: Callable[[], None], trust: FieldTrust = NO_TRUST) -> list[str]:
        """Take an offer or a server out of quarantine; ``check`` raises if it is not what was looked at."""
        check()
        if trust != NO_TRUST:
            await self._crib.servers.trust(name, trust, by=self.caller, still=check)
            return [name]
        return await self._crib.servers.approve(name, by=self.caller, still=check)

    # Calls

    async def run(
        self,
        name: str,
        arguments: Mapping[str, Any],
        timeout_s: float | None = None,
        hear: Callable[[str, CallProgress], None] | None = None,
    ) -> RanCall:
        """Call a tool as the caller; failure is a result. ``hear`` is told how far the call of an id is."""
        return await self.ask(RequestKind.CALL, name, arguments, timeout_s, hear)

    async def validate(self, name: str, arguments: Mapping[str, Any]) -> Result:
        """Whether a tool would take these arguments, without running it."""
        return await self._crib.validate(name, arguments, caller=self.caller)

    async def look(self, name: str, arguments: Mapping[str, Any]) -> Result:
        """Have a tool that only reads tell what the page shows: that is no call of anybody's, but written down."""
        call = self._crib.request(name, dict(arguments), self.caller)
        route = self._crib.lookup(name)
        call.context.is_visit = route is not None and route.tool.security_level is SecurityLevel.READ_ONLY
        return await self._crib.run(call)

    async def ask(
        self,
        kind: RequestKind,
        name: str,
        arguments: Mapping[str, Any],
        timeout_s: float | None = None,
        hear: Callable[[str, CallProgress], None] | None = None,
    ) -> RanCall:
        """Ask for whatever is offered as the caller; failure is a result."""
        crib, began = self._crib, time.perf_counter()
        meta = {"traceparent": self.traceparent} if self.traceparent else {}
        channel = SILENT if hear is None else ProgressChannel(SILENT, lambda progress: hear(call.id, progress))
        call = crib.request(name, dict(arguments), self.caller, channel, timeout_s, meta, kind=kind)
        return RanCall(call, await crib.run(call), time.perf_counter() - began)

    async def encode(self, ran: RanCall) -> bytes:
        """What came of a call, as JSON."""
        return await self._crib.show(ran.result, ran.call, ran.duration_s * 1000)

    @property
    def is_watching(self) -> bool:
        """Whether there is a live view of calls here."""
        return self._crib.live is not None

    def calls(self, limit: int, tool: str | None = None) -> list[LiveCall]:
        """The last calls, the newest first: operators see everybody's, others their own."""
        live = self._crib.live
        found = [] if live is None else live.recent(limit) if tool is None else live.of_tool(tool, limit)
        return list(filter(self._may_see, found))

    def call(self, call_id: str) -> LiveCall | None:
        """One of them, while it is remembered."""
        live = self._crib.live
        found = live.find(call_id) if live is not None else None
        return found if found is not None and self._may_see(found) else None

    def cancel(self, call: LiveCall) -> bool:
        """End a call; false if it has ended."""
        return self._crib.live is not None and self._crib.live.cancel(call.id)

    def seconds(self, call: LiveCall) -> float:
        """How long a call took, or has taken so far."""
        now = self._crib.live.wall() if self._crib.live is not None else call.began_at
        return max(0.0, (now if call.ended_at is None else call.ended_at) - call.began_at)

    def _may_see(self, call: LiveCall) -> bool:
        return self.is_operator or call.caller == self.caller.id

    # Questions for people

    async def questions(self, wait_s: float = 0.0) -> list[QuestionEntry]:
        """What waits for an answer that the caller may give."""
        return [question_entry(entry) for entry in await self._crib.inbox.look(self.caller, wait_s)]

    def question(self, question_id: str) -> Waiting | None:
        """A question that still waits, whoever may answer it."""
        return self._crib.inbox.find(question_id)

    def waiting(self) -> int:
        """How many questions wait that the caller may answer."""
        return len(self._crib.inbox.open_to(self.caller)) if may_approve(self.caller) else 0

    def attend(self) -> None:
        """Have questions come to the inbox, because the caller looks at it."""
        self._crib.inbox.attend(self.caller)

    async def answer(self, question_id: str, reply: ApprovalReply, content: Content = None) -> bool:
        """Answer for the caller; false if somebody else was quicker."""
        return await self._crib.inbox.answer_anywhere(question_id, reply, self.caller, content)

    async def forget_answer(self, tool: str, caller: str) -> bool:
        """Have a person asked again who answered once and for all; whether there was an answer."""
        if not await self.project.forget_answer(tool, caller):
            return False
        await self.note(AuditEntry("approval", tool, decision="forgotten", details={"callers": [caller]}))
        return True

    @property
    def has_terminal(self) -> bool:
        """Whether somebody can be asked at the terminal in which toolcrib runs."""
        return self._crib.desk.has_terminal

    async def confirm_program(self, deed: str, program: Mapping[str, Any]) -> bool:
        """Whether the person at that terminal lets the caller configure a program."""
        return await self._crib.desk.confirm_program(self.caller, deed, program)

    # Servers

    def sign_ins(self) -> ServerSignIns:
        """How people sign in at servers."""
        found = self._crib.sign_ins
        if found is None:
            raise NotImplementedHere("Nobody can sign in at servers here.")
        return found

    def server_names(self) -> list[str]:
        """The servers the caller may know of."""
        return sorted(filter(self._may_know, {*self._crib.shelves, *self._crib.disabled}))

    def servers(self) -> list[ServerView]:
        """What the caller may know of each, by name."""
        return [view for name in self.server_names() if (view := self.server(name)) is not None]

    def server(self, name: str) -> ServerView | None:
        """One of them, if it is configured."""
        view = server_view(self._crib, name) if self._may_know(name) else None
        return None if view is None else self._shown(view)

    def has_server(self, name: str) -> bool:
        """Whether the caller may know of a server that is configured, or was found elsewhere."""
        return (name in self.project.config.servers or name in self._crib.shelves) and self._may_know(name)

    def is_enabled(self, name: str) -> bool:
        """Whether a server is switched on."""
        return name in self._crib.shelves

    def server_detail(self, name: str) -> ServerDetail | None:
        """A server with all that the caller may know of it."""
        view, crib = self.server(name), self._crib
        if view is None:
            return None
        routes, shelf = crib.catalog.of_server(name) if self.is_operator else self.usable(), crib.shelves.get(name)
        config = shelf.config if shelf else crib.disabled.get(name)
        health = crib.servers.health().get(name)
        return ServerDetail(
            **structs.asdict(view),
            tool_names=[route.name for route in routes if route.server == name],
            attempts=list(reversed(shelf.attempts)) if shelf and self.is_operator else [],
            health=health and self._shown_health(health),
            config=shown_config(config) if self.is_operator and config is not None else None,
        )

    def log(self, name: str, lines: int) -> list[str]:
        """What a server last wrote to stderr; nothing of one that is switched off."""
        return log_lines(self._crib, name, lines) if self.is_enabled(name) else []

    def shelf(self, name: str) -> ServerShelf | None:
        """What is known of a server that is switched on."""
        return self._crib.shelves.get(name)

    async def restart(self, name: str) -> Record:
        """Stop a server and start it anew."""
        return await self._crib.servers.restart(name)

    def wake(self) -> None:
        """Ask new servers for their tools, beside everything else."""
        self._crib.servers.wake()

    def _may_know(self, server: str) -> bool:
        grants = self.caller.grants
        return self.is_operator or (grants.level is not None and matches(server, grants.servers))

    def _shown(self, view: ServerView) -> ServerView:
        """What went wrong quotes what a server wrote and where it is; that is for operators, as its log is."""
        if self.is_operator:
            return view
        hidden = {"runs": None, "origin": None, "error": None, "cause": None, "next": None}
        return structs.replace(view, **hidden, problems=[], held=[], lanes=[])

    def _shown_health(self, health: ServerHealth) -> ServerHealth:
        return health if self.is_operator else structs.replace(health, error="")

    # The whole

    async def check_health(self) -> CribHealth:
        """How everything is doing: the caller's own servers and tools; the rest is for operators. Tools that bring a
        health check are asked."""
        whole = await self._crib.check_health()
        if self.is_operator:
            return whole
        servers = {name: self._shown_health(one) for name, one in whole.servers.items() if self._may_know(name)}
        routes, away = self.usable(), away_parts(self._crib.parts(), servers)
        native = sum(1 for route in routes if not route.server)
        counts = ToolCounts(native, len(routes) - native)
        failing = {route.name: "" for route in routes if route.name in whole.failing}  # why is for operators
        status = overall_health(servers, away)
        return CribHealth(status, away, whole.parts, counts, failing, servers, calls=None, audit=None)

    @property
    def metrics(self) -> Metrics:
        """The tallies of all calls."""
        return self._crib.metrics

    def parts(self) -> dict[str, str]:
        """What is needed besides servers, and why each cannot be used."""
        return self._crib.parts()

    def audit_status(self) -> AuditStatus:
        """How the audit log is doing."""
        return self._crib.audit.status()

    def coordination(self) -> CoordinationStatus | None:
        """How what replicas agree on is doing, where there are any."""
        return None if self._crib.coordination is None else self._crib.coordination.status()

    async def keep_values(self, is_on: bool) -> None:
        """Say whether arguments and results themselves are written down from the next start on."""
        await self.note(AuditEntry("policy", "audit.values", decision="on" if is_on else "off"))
        path = self.project.policy_file
        await self.project.edit(path, lambda text: set_audit_values(text, is_on, str(path)))

    async def note(self, entry: AuditEntry) -> None:
        """Write down what the caller decides, before it is done: what cannot be recorded does not happen."""
        await self._crib.audit.commit(structs.replace(entry, caller=self.caller.id, caller_kind=self.caller.kind))
