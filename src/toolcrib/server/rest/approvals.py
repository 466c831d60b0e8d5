"""The approvals inbox over REST: questions that wait, and answers to them.

``GET /api/v1/approvals?wait=30`` lists what waits, or waits for something to arrive. ``POST /api/v1/approvals/ID``
with ``{"answer": "once"}`` answers. Both need a token: whoever asked can never be the one who answers.
"""

import math
from typing import Annotated

import msgspec
from msgspec import Meta

from toolcrib.calls.approvals import ApprovalReply
from toolcrib.calls.inbox import Inbox
from toolcrib.core.access import may_approve
from toolcrib.core.audit import AuditEntry
from toolcrib.core.errors import PermissionDenied
from toolcrib.server.answers import HttpAnswer, HttpProblem, json_answer, not_found
from toolcrib.server.rest.about import About, Param
from toolcrib.server.router import RouteSpec
from toolcrib.server.views.calls import Answered, KeptAnswers, QuestionList, question_entry
from toolcrib.server.views.tools import Approved, PinList, change_of, check_seen, held_routes
from toolcrib.server.visit import PageRequest, ServedProject

PATH = "/api/v1/approvals"
LONGEST_WAIT_S = 60.0


class ReplyBody(msgspec.Struct, forbid_unknown_fields=True):
    """An answer to one question."""

    answer: ApprovalReply


def approval_routes(premises: ServedProject) -> list[RouteSpec]:
    """The routes of the inbox, and of the answers that are kept."""
    return [*_inbox_routes(premises.crib.inbox), *_answer_routes(premises)]


def _inbox_routes(inbox: Inbox) -> list[RouteSpec]:

    async def look(visit: PageRequest) -> HttpAnswer:
        _need_approver(visit)
        waiting = await inbox.look(visit.caller, _wait_s(visit))
        return json_answer(QuestionList([question_entry(entry) for entry in waiting]))

    async def answer(visit: PageRequest) -> HttpAnswer:
        _need_approver(visit)
        reply = visit.json(ReplyBody).answer
        await answer_question(inbox, visit, visit.params["id"], reply)
        return json_answer(Answered(visit.params["id"], reply))

    wait = Param("wait", f"seconds to wait for something to arrive, up to {LONGEST_WAIT_S:g}", _SECONDS)
    about = About(
        "Answer a question",
        "approvals",
        Answered,
        "Whoever asked cannot answer.",
        body=ReplyBody,
        example={"answer": "once"},
        problems=(403, 404, 409, 415, 422),
    )
    listed = About("List the questions that wait", "approvals", QuestionList, params=(wait,), problems=(403, 422))
    return [RouteSpec("GET", PATH, look, listed), RouteSpec("POST", f"{PATH}/{{id}}", answer, about)]


_SECONDS = {"type": "number", "minimum": 0, "default": 0}


def _answer_routes(premises: ServedProject) -> list[RouteSpec]:
    async def ls(visit: PageRequest) -> HttpAnswer:
        _need_approver(visit)
        return json_answer(KeptAnswers(await premises.project.answers()))

    async def forget(visit: PageRequest) -> HttpAnswer:
        visit.need_operator()
        tool, caller = visit.params["tool"], visit.params["caller"]
        if not await premises.project.forget_answer(tool, caller):
            raise not_found("kept answer for", tool, "GET /api/v1/approvals/answers lists them.")
        by, details = visit.caller, {"callers": [caller]}
        entry = AuditEntry("approval", tool, "", by.id, by.kind, decision="forgotten", details=details)
        await premises.crib.audit.commit(entry)
        return HttpAnswer(204)

    listed = About("List the answers that are kept", "approvals", KeptAnswers, problems=(403,))
    detail = "The person is asked again at the next call."
    forgotten = About("Forget a kept answer", "approvals", detail=detail, status=204, problems=(403, 404))
    return [
        RouteSpec("GET", f"{PATH}/answers", ls, listed),
        RouteSpec("DELETE", f"{PATH}/answers/{{tool}}/{{caller}}", forget, forgotten),
    ]


async def answer_question(inbox: Inbox, visit: PageRequest, question_id: str, reply: ApprovalReply) -> None:
    """Answer for the person who visits, as far as that person may."""
    found = inbox.find(question_id)
    if found is None:
        raise HttpProblem(404, "RESOURCE_NOT_FOUND", "No such question waits for an answer (any more).")
    if not may_approve(visit.caller, found.question.caller):
        raise HttpProblem(403, "HTTP_FORBIDDEN", "Whoever asked cannot answer: use another token.")
    if not await inbox.answer_anywhere(question_id, reply, visit.caller):
        raise HttpProblem(409, "HTTP_CONFLICT", "Somebody else answered first.")


def _need_approver(visit: PageRequest) -> None:
    visit.need_known()
    if not may_approve(visit.caller):
        raise HttpProblem(403, "HTTP_FORBIDDEN", "This token may not answer questions.")


def _wait_s(visit: PageRequest) -> float:
    try:
        wait_s = float(visit.query.get("wait", "0"))
    except ValueError:
        wait_s = math.nan
    if not wait_s >= 0:
        raise HttpProblem(422, "TOOL_INVALID_INPUT", "`wait` must be a number of seconds.")
    return min(LONGEST_WAIT_S, wait_s)


PINS_PATH = "/api/v1/pins"


class ApprovalBody(msgspec.Struct, forbid_unknown_fields=True):
    """What was looked at."""

    seen: Annotated[str, Meta(pattern="^[0-9a-f]{12,64}$")]
    """``seen`` of the tool, as ``GET /pins`` shows it."""


def pin_routes(premises: ServedProject) -> list[RouteSpec]:
    """The routes of the quarantine."""

    async def ls(visit: PageRequest) -> HttpAnswer:
        visit.need_operator()
        return json_answer(PinList([change_of(premises.crib, route) for route in held_routes(premises.crib)]))

    async def approve(visit: PageRequest) -> HttpAnswer:
        visit.need_operator()
        name, seen = visit.params["tool"], visit.json(ApprovalBody).seen
        route = next((route for route in held_routes(premises.crib) if route.name == name), None)
        if route is None:
            raise not_found("tool in quarantine", name, "GET /api/v1/pins lists them.")
        try:
            check_seen(premises.crib, route, seen)
            accepted = await premises.crib.servers.approve(
                name, by=visit.caller, still=lambda: check_seen(premises.crib, route, seen)
            )
        except PermissionDenied as error:
            raise HttpProblem(409, "HTTP_CONFLICT", str(error)) from None
        return json_answer(Approved(accepted))

    about = About(
        "Accept a tool as it is now",
        "pins",
        Approved,
        "`seen` says what was looked at: if the tool changed again since, nothing is accepted (409).",
        body=ApprovalBody,
        example={"seen": "9f86d081884c"},
        problems=(403, 404, 409, 415, 422),
    )
    return [
        RouteSpec("GET", PINS_PATH, ls, About("List what is in quarantine", "pins", PinList, problems=(403,))),
        RouteSpec("POST", f"{PINS_PATH}/{{tool}}/approve", approve, about),
    ]
