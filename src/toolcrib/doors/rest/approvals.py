"""The approvals inbox over REST: questions that wait, and answers to them.

``GET /api/v1/approvals?wait=30`` lists what waits, or waits for something to arrive. ``POST /api/v1/approvals/ID``
with ``{"answer": "once"}`` answers. Both need a token: whoever asked can never be the one who answers.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Literal
from urllib.parse import parse_qs

import msgspec

from toolcrib.calls.approvals import Reply
from toolcrib.calls.inbox import Inbox, Waiting
from toolcrib.core.access import Caller, may_approve
from toolcrib.core.tasks import TaskScope
from toolcrib.doors.rest.problems import Problem, answer_problem
from toolcrib.transports.http_server import Exchange, Request

PATH = "/api/v1/approvals"
LONGEST_WAIT_S = 60.0

CallerOf = Callable[[Request], Caller | None]


class _Answer(msgspec.Struct, forbid_unknown_fields=True):
    answer: Literal["once", "session", "always", "no"]


_answer = msgspec.json.Decoder(_Answer)


class ApprovalsDoor:
    """The handler of everything below the path."""

    def __init__(self, inbox: Inbox, caller_of: CallerOf, tasks: TaskScope) -> None:
        self._inbox, self._caller_of, self._tasks = inbox, caller_of, tasks

    def handle(self, request: Request, exchange: Exchange) -> None:
        """Take one HTTP request."""
        try:
            self._dispatch(request, exchange)
        except Problem as problem:
            answer_problem(exchange, problem)

    def _dispatch(self, request: Request, exchange: Exchange) -> None:
        caller = self._known(request)
        question_id = request.path.decode("latin-1").removeprefix(PATH).strip("/")
        if question_id and request.method == b"POST":
            self._answer(caller, question_id, request, exchange)
        elif not question_id and request.method in (b"GET", b"HEAD"):
            task = self._tasks.spawn(self._list(caller, _wait_s(request), exchange), "approvals")
            exchange.on_disconnect(task.cancel)
        else:
            raise Problem(405, "HTTP_METHOD_NOT_ALLOWED", "GET lists the questions, POST to one of them answers it.")

    def _known(self, request: Request) -> Caller:
        caller = self._caller_of(request)
        if caller is None:
            raise Problem(401, "HTTP_UNAUTHORIZED", "A token is needed here: send `Authorization: Bearer <token>`.")
        if not may_approve(caller):
            raise Problem(403, "HTTP_FORBIDDEN", "This token may not answer questions.")
        return caller

    async def _list(self, caller: Caller, wait_s: float, exchange: Exchange) -> None:
        shown = [_shown(entry) for entry in await self._inbox.look(caller, wait_s)]
        exchange.answer(200, msgspec.json.encode({"questions": shown}))

    def _answer(self, caller: Caller, question_id: str, request: Request, exchange: Exchange) -> None:
        found = self._inbox.find(question_id)
        if found is None:
            raise Problem(404, "RESOURCE_NOT_FOUND", "No such question waits for an answer (any more).")
        if not may_approve(caller, found.question.caller):
            raise Problem(403, "HTTP_FORBIDDEN", "Whoever asked cannot answer: use another token.")
        reply = _read_answer(request)
        if not self._inbox.answer(question_id, reply, caller):
            raise Problem(409, "HTTP_CONFLICT", "Somebody else answered first.")
        exchange.answer(200, msgspec.json.encode({"id": question_id, "answer": reply}))


def _read_answer(request: Request) -> Reply:
    if (request.header(b"content-type") or b"").partition(b";")[0].strip().lower() != b"application/json":
        raise Problem(415, "HTTP_NOT_JSON", "Send the answer with content-type application/json.")
    try:
        return Reply(_answer.decode(request.body).answer)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        detail = 'Send {"answer": "once"}; it can be once, session, always or no.'
        raise Problem(422, "TOOL_INVALID_INPUT", detail) from None


def _wait_s(request: Request) -> float:
    given = parse_qs(request.query.decode("latin-1")).get("wait", ["0"])[0]
    try:
        return min(LONGEST_WAIT_S, max(0.0, float(given)))
    except ValueError:
        raise Problem(422, "TOOL_INVALID_INPUT", "`wait` must be a number of seconds.") from None


def _shown(entry: Waiting) -> dict[str, Any]:
    question = entry.question
    waited_s = asyncio.get_running_loop().time() - entry.asked_at
    return {
        "id": question.id,
        "tool": question.tool,
        "server": question.server,
        "level": question.level,
        "caller": question.caller,
        "arguments": question.arguments,
        "askedAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - waited_s)),
        "secondsLeft": round(max(0.0, question.timeout_s - waited_s), 1),
    }
