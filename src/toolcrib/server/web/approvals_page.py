"""Approvals: questions that wait for a person, answers that are kept, and tools that are not what was accepted."""

from typing import Any

from toolcrib.calls.approvals import ApprovalReply
from toolcrib.core.access import may_approve
from toolcrib.core.audit import AuditEntry
from toolcrib.core.events import APPROVAL, CATALOG, MISSED, News
from toolcrib.schema.text import printable
from toolcrib.server.answers import HttpAnswer, HttpProblem, not_found
from toolcrib.server.rest.approvals import answer_question
from toolcrib.server.router import RouteSpec
from toolcrib.server.views.calls import QuestionEntry, question_entry
from toolcrib.server.views.tools import change_of, held_routes
from toolcrib.server.visit import PageRequest
from toolcrib.server.web.render import Pages, go_on, stream_news
from toolcrib.server.web.schema_parts import as_json
from toolcrib.server.web.tool_result import shortened
from toolcrib.server.web.tool_rows import changes_between, tool_address

HELD_SHOWN = 20
KEPT_SHOWN = 100
REPLIES = {reply.value for reply in ApprovalReply}


def approvals_routes(pages: Pages) -> list[RouteSpec]:
    """The routes of the inbox."""

    async def show(visit: PageRequest) -> HttpAnswer:
        visit.need_known()
        return pages.render(visit, "approvals/inbox.html", **await _inbox(pages, visit))

    async def stream(visit: PageRequest) -> HttpAnswer | None:
        _need_approver(visit)
        inbox = pages.premises.crib.inbox

        def concerns(news: News) -> bool:
            is_question = news.topic == APPROVAL and may_approve(visit.caller, str(news.data.get("caller")))
            return is_question or news.topic == MISSED or (news.topic == CATALOG and visit.is_operator())

        await inbox.look(visit.caller)
        topics = frozenset({APPROVAL, CATALOG})
        return await stream_news(pages, visit, topics, concerns, lambda: inbox.attend(visit.caller))

    async def answer(visit: PageRequest) -> HttpAnswer:
        _need_approver(visit)
        given = visit.form().get("answer", "")
        if given not in REPLIES:
            raise HttpProblem(422, "TOOL_INVALID_INPUT", f"An answer is one of {', '.join(sorted(REPLIES))}.")
        reply = ApprovalReply(given)
        await answer_question(pages.premises.crib.inbox, visit, visit.params["id"], reply)
        return go_on("/approvals", "refused" if reply is ApprovalReply.NO else "allowed")

    async def forget(visit: PageRequest) -> HttpAnswer:
        visit.need_operator()
        fields, by = visit.form(), visit.caller
        tool, caller = fields.get("tool", ""), fields.get("caller", "")
        if not await pages.premises.project.forget_answer(tool, caller):
            raise not_found("kept answer for", tool, "Somebody may have taken it back already.")
        entry = AuditEntry("approval", tool, "", by.id, by.kind, decision="forgotten", details={"callers": [caller]})
        await pages.premises.crib.audit.commit(entry)
        return go_on("/approvals", "forgotten", tool)

    return [
        RouteSpec("GET", "/approvals", show),
        RouteSpec("GET", "/approvals/stream", stream),
        RouteSpec("POST", "/approvals/forget", forget),
        RouteSpec("POST", "/approvals/{id}", answer),
    ]


def _need_approver(visit: PageRequest) -> None:
    visit.need_known()
    if not may_approve(visit.caller):
        raise HttpProblem(403, "HTTP_FORBIDDEN", "This token may not answer questions.")


async def _inbox(pages: Pages, visit: PageRequest) -> dict[str, Any]:
    crib, is_operator, is_approver = pages.premises.crib, visit.is_operator(), may_approve(visit.caller)
    waiting = await crib.inbox.look(visit.caller) if is_approver else []
    held = held_routes(crib) if is_operator else []
    kept = await pages.premises.project.answers() if is_operator else []
    changes = [change_of(crib, route) for route in held[:HELD_SHOWN]]
    return {
        "is_approver": is_approver,
        "questions": [_question(question_entry(entry)) for entry in waiting],
        "kept": [(entry, tool_address(entry.tool)) for entry in kept[:KEPT_SHOWN]],
        "kept_total": len(kept),
        "held": [(change, tool_address(change.name), changes_between(change.old, change.new)) for change in changes],
        "held_total": len(held),
    }


def _question(entry: QuestionEntry) -> tuple[QuestionEntry, str, str]:
    """A question and its tool's page; what the arguments hide is made visible, because a person decides by them."""
    return entry, tool_address(entry.tool), shortened(printable(as_json(entry.arguments)))
