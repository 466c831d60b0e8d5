"""Routes: a method and a path → an async function of a visit; and how a visit begins."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.core.access import Caller
from toolcrib.core.errors import ToolcribError
from toolcrib.core.events import Emit, Event
from toolcrib.core.tasks import TaskScope
from toolcrib.server.answers import HttpAnswer, HttpProblem, problem_of
from toolcrib.server.identity.sign_in import (
    CSRF_FIELD,
    CSRF_HEADER,
    SAFE,
    SignIns,
    check_word,
    refuse_strangers,
)
from toolcrib.server.visit import (
    FILES,
    FORM,
    PageRequest,
    ServedProject,
    content_type,
    read_fields,
    read_files,
    read_segments,
)
from toolcrib.transports.http.server import Exchange, HttpRequest

Respond = Callable[[PageRequest], Awaitable[HttpAnswer | None]]
"""``None``: the route answers through the exchange itself, as a stream does."""
Enter = Callable[[HttpRequest, Exchange], PageRequest]
"""Finds out who comes; raises a ``HttpProblem`` for whoever may not."""
Show = Callable[[PageRequest | None, HttpProblem], HttpAnswer]


@dataclass(frozen=True, slots=True)
class RouteSpec:
    """One route, with what its description says of it."""

    method: str
    path: str
    """``/servers/{name}``: a part in braces stands for any one part; ``{name...}`` for all the rest."""
    respond: Respond
    about: Any = None


_FAILED = HttpProblem(500, "TOOL_INTERNAL", "toolcrib failed while answering; its log has the details.")


class Router:
    """Finds the route of a request and runs it as a task that ends when the client goes away."""

    def __init__(
        self,
        routes: Iterable[RouteSpec],
        enter: Enter,
        emit: Emit,
        show: Show | None = None,
        served: ServedProject | None = None,
    ) -> None:
        """``served`` is what the routes ask; without it they ask nothing of the kind."""
        self.routes = tuple(routes)
        self._enter, self._emit, self._served = enter, emit, served
        self._show = show or (lambda _, problem: problem.to_answer())
        self._tree: dict[str, Any] = {}
        for route in self.routes:
            self._plant(route)
        self._tasks = TaskScope(lambda name, error: emit(Event(f"{name}.failed", "error", {"error": repr(error)})))

    def _plant(self, route: RouteSpec) -> None:
        node = self._tree
        for part in route.path.split("/")[1:]:
            is_rest, is_name = part.endswith("...}"), part.startswith("{")
            key = "{...}" if is_rest else "{}" if is_name else part
            node = node.setdefault(key, {})
            if is_name:
                node.setdefault("", part.strip("{}").removesuffix("..."))
        node.setdefault("/methods", {})[route.method] = route

    def handle(self, request: HttpRequest, exchange: Exchange) -> None:
        """Take one HTTP request."""
        task = self._tasks.spawn(self._answer(request, exchange), "http.request")
        exchange.on_disconnect(task.cancel)

    async def _answer(self, request: HttpRequest, exchange: Exchange) -> None:
        visit: PageRequest | None = None
        try:
            route, params = self.find(request.method.decode("latin-1"), request.path)
            visit = self._enter(request, exchange)
            if self._served is not None:
                visit.served = self._served
            visit.params, visit.query = params, read_fields(request.query)
            answer = await route.respond(visit)
        except HttpProblem as problem:
            answer = self._show(visit, problem)
        except ToolcribError as error:
            answer = self._show(visit, problem_of(error))
        except asyncio.CancelledError:
            raise
        except Exception as error:  # the edge of a door: nothing of it reaches the client
            self._emit(Event("http.internal", "error", {"path": request.path.decode("latin-1"), "error": repr(error)}))
            answer = self._show(visit, _FAILED)
        if answer is not None and not exchange.streaming:
            answer.send(exchange)

    def find(self, method: str, path: bytes) -> tuple[RouteSpec, Mapping[str, str]]:
        """The route of a path, and its named parts."""
        segments = read_segments(path)
        params: dict[str, str] = {}
        node = _descend(self._tree, segments, params)
        methods = node.get("/methods") if node is not None else None
        if methods is None:
            raise HttpProblem(404, "HTTP_NOT_FOUND", f"There is nothing at {path.decode('latin-1')!r}.")
        route = methods.get("GET" if method == "HEAD" else method)
        if route is None:
            raise _wrong_method(methods)
        return route, params

    async def close(self) -> None:
        """End what is still being answered."""
        await self._tasks.close()


def _wrong_method(methods: Iterable[str]) -> HttpProblem:
    taken = sorted({*methods, "HEAD"} if "GET" in methods else methods)
    problem = HttpProblem(405, "HTTP_METHOD_NOT_ALLOWED", f"This address takes {', '.join(taken)}.")
    problem.headers = ((b"allow", ", ".join(taken).encode()),)
    return problem


def _descend(node: dict[str, Any], segments: list[str], params: dict[str, str]) -> dict[str, Any] | None:
    """Exact parts come before named ones."""
    for position, segment in enumerate(segments):
        if segment and segment in node and segment not in ("{}", "{...}", "/methods"):
            node = node[segment]
        elif segment == "" and "" in node and isinstance(node[""], dict):
            node = node[""]
        elif segment and "{}" in node:
            node = node["{}"]
            params[node[""]] = segment
        elif "{...}" in node:
            node = node["{...}"]
            params[node[""]] = "/".join(segments[position:])
            return node
        else:
            return None
    return node


Identify = Callable[[bytes], object | None]


@dataclass(frozen=True, slots=True)
class Entering:
    """The way in to the REST door (with ``usual``) and to the page (without)."""

    sign_ins: SignIns
    identify: Identify
    """From a token to a caller, also where none is needed."""
    usual: Caller | None = None
    """Whoever comes without a token; ``None`` where everybody needs one."""

    def __call__(self, request: HttpRequest, exchange: Exchange) -> PageRequest:
        """The visit; a ``HttpProblem`` for whoever may not come in."""
        refuse_strangers(request)
        caller = request.identity if isinstance(request.identity, Caller) else self._by_token(request)
        if caller is not None:
            return PageRequest(request, exchange, caller, is_known=True)
        signed_in = self.sign_ins.of(request, is_seen=True)
        if signed_in is not None:
            if request.method not in SAFE:
                check_word(request, signed_in, _word(request))
            return PageRequest(request, exchange, signed_in.caller, is_known=True, signed_in=signed_in)
        if self.usual is None:
            raise HttpProblem(401, "HTTP_UNAUTHORIZED", "A token is needed here: send `Authorization: Bearer <token>`.")
        return PageRequest(request, exchange, self.usual, is_known=False)

    def _by_token(self, request: HttpRequest) -> Caller | None:
        """Who sends a token the guard did not look at, because here nobody needs one."""
        presented = request.header(b"authorization")
        if presented is None:
            return None
        scheme, _, token = presented.partition(b" ")
        caller = self.identify(token.strip()) if scheme.lower() == b"bearer" else None
        if not isinstance(caller, Caller):
            raise HttpProblem(401, "HTTP_UNAUTHORIZED", "This token is not valid.")
        return caller


def _word(request: HttpRequest) -> str:
    header = request.header(CSRF_HEADER)
    if header is not None:
        return header.decode("latin-1")
    if content_type(request) == FILES:
        return read_files(request)[0].get(CSRF_FIELD, "")
    return read_fields(request.body).get(CSRF_FIELD, "") if content_type(request) == FORM else ""


STRANGER = Caller("stranger", "agent")


@dataclass(frozen=True, slots=True)
class Threshold:
    """Lets everybody reach the open addresses, as nobody in particular."""

    entering: Entering
    is_open: Callable[[bytes], bool]

    def __call__(self, request: HttpRequest, exchange: Exchange) -> PageRequest:
        """The visit; the ``HttpProblem`` of whoever must sign in first says where they wanted to go."""
        if self.is_open(request.path):
            refuse_strangers(request)
            return PageRequest(request, exchange, STRANGER, is_known=False)
        try:
            return self.entering(request, exchange)
        except HttpProblem as problem:
            if problem.status != 401:
                raise
            wanted, is_fragment = wanted_place(request), request.header(b"hx-request") is not None
            raise HttpProblem(401, problem.code, problem.detail, wanted=wanted, is_fragment=is_fragment) from None


def wanted_place(request: HttpRequest) -> str:
    """Where to go on after signing in; a form that was sent is not sent again."""
    if request.method not in SAFE:
        return "/"
    return (request.path + (b"?" + request.query if request.query else b"")).decode("latin-1")


def is_own_origin(request: HttpRequest) -> bool:
    """Whether a form was sent by a page of this very address; a program that names no origin is no browser."""
    host = request.header(b"host") or b""
    return request.header(b"origin") in (None, b"http://" + host, b"https://" + host)
