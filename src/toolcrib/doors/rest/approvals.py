"""The approvals inbox over REST: questions that wait, and answers to them.

``GET /api/v1/approvals?wait=30`` lists what waits, or waits for something to arrive. ``POST /api/v1/approvals/ID``
with ``{"answer": "once"}`` answers. Both need a token: whoever asked can never be the one who answers.
"""

import asyncio
import math
import time
from typing import Any, Literal

import msgspec

from toolcrib.calls.approvals import Reply
from toolcrib.calls.inbox import Inbox, Waiting
from toolcrib.core.access import may_approve
from toolcrib.doors.http.answers import Answer, Problem, json_answer
from toolcrib.doors.http.router import RouteSpec
from toolcrib.doors.http.visit import Visit

PATH = "/api/v1/approvals"
LONGEST_WAIT_S = 60.0


class ReplyBody(msgspec.Struct, forbid_unknown_fields=True):
    """An answer to one question."""

    answer: Literal["once", "session", "always", "no"]


def approval_routes(inbox: Inbox) -> list[RouteSpec]:
    """The routes of the inbox."""

    async def look(visit: Visit) -> Answer:
        _need_approver(visit)
        return json_answer({"questions": [shown(entry) for entry in await inbox.look(visit.caller, _wait_s(visit))]})

    async def answer(visit: Visit) -> Answer:
        _need_approver(visit)
        reply = answer_question(inbox, visit, visit.params["id"], visit.json(ReplyBody).answer)
        return json_answer({"id": visit.params["id"], "answer": reply})

    return [RouteSpec("GET", PATH, look), RouteSpec("POST", f"{PATH}/{{id}}", answer)]


def answer_question(inbox: Inbox, visit: Visit, question_id: str, given: str) -> Reply:
    """Answer for the person who visits, as far as that person may."""
    found = inbox.find(question_id)
    if found is None:
        raise Problem(404, "RESOURCE_NOT_FOUND", "No such question waits for an answer (any more).")
    if not may_approve(visit.caller, found.question.caller):
        raise Problem(403, "HTTP_FORBIDDEN", "Whoever asked cannot answer: use another token.")
    reply = Reply(given)
    if not inbox.answer(question_id, reply, visit.caller):
        raise Problem(409, "HTTP_CONFLICT", "Somebody else answered first.")
    return reply


def _need_approver(visit: Visit) -> None:
    visit.need_known()
    if not may_approve(visit.caller):
        raise Problem(403, "HTTP_FORBIDDEN", "This token may not answer questions.")


def _wait_s(visit: Visit) -> float:
    try:
        wait_s = float(visit.query.get("wait", "0"))
    except ValueError:
        wait_s = math.nan
    if not wait_s >= 0:
        raise Problem(422, "TOOL_INVALID_INPUT", "`wait` must be a number of seconds.")
    return min(LONGEST_WAIT_S, wait_s)


def shown(entry: Waiting) -> dict[str, Any]:
    """A question as plain data."""
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
