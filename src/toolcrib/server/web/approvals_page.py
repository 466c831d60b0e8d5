"""Approvals: questions that wait for a person, answers that are kept, and tools that are not what was accepted."""

from typing import Any

from toolcrib.calls.approvals import ApprovalReply
from toolcrib.core.access import may_approve
from toolcrib.core.events import APPROVAL, CATALOG, MISSED, News
from toolcrib.core.offers import verb_for
from toolcrib.schema.text import printable
from toolcrib.server.answers import HttpAnswer, not_found, unfit
from toolcrib.server.rest.approvals import answer_question
from toolcrib.server.views.calls import QuestionEntry
from toolcrib.server.visit import PageRequest
from toolcrib.server.web.render import PageRoutes, Pages, go_on, stream_news
from toolcrib.server.web.schema_parts import as_json
from toolcrib.server.web.tool_result import shortened
from toolcrib.server.web.tool_rows import changes_between, offer_address

ROUTES = PageRoutes()
HELD_SHOWN = 20
KEPT_SHOWN = 100
FIELD = "field-"
"""Before the names of a server's own fields, which may be any."""
REPLIES = {reply.value for reply in ApprovalReply}


@ROUTES.get("/approvals")
async def _show(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_known()
    return pages.render(visit, "approvals/inbox.html", **await _inbox(visit))


async def _inbox(visit: PageRequest) -> dict[str, Any]:
    view, is_approver = visit.view, may_approve(visit.caller)
    held = view.held() if view.is_operator else []
    kept = await view.project.answers() if view.is_operator else []
    changes = [view.change(route) for route in held[:HELD_SHOWN]]
    return {
        "is_approver": is_approver,
        "questions": [_question(entry) for entry in await view.questions()] if is_approver else [],
        "kept": [(entry, offer_address(entry.tool)) for entry in kept[:KEPT_SHOWN]],
        "kept_total": len(kept),
        "held": [(change, offer_address(change.name), changes_between(change.old, change.new)) for change in changes],
        "held_total": len(held),
    }


def _question(entry: QuestionEntry) -> tuple[QuestionEntry, str, str, str]:
    """A question and its tool's page; what the arguments hide is made visible, because a person decides by them."""
    shown = shortened(printable(as_json(entry.arguments)))
    return entry, offer_address(entry.tool), shown, verb_for(entry.tool)


@ROUTES.get("/approvals/stream")
async def _stream(_: Pages, visit: PageRequest) -> HttpAnswer | None:
    visit.need_approver()
    view = visit.view

    def concerns(news: News) -> bool:
        is_question = news.topic == APPROVAL and may_approve(visit.caller, str(news.data.get("caller")))
        return is_question or news.topic == MISSED or (news.topic == CATALOG and view.is_operator)

    await view.questions()
    return await stream_news(visit, frozenset({APPROVAL, CATALOG}), concerns, view.attend)


@ROUTES.post("/approvals/{id}")
async def _answer(_: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_approver()
    fields = visit.form()
    given = fields.get("answer", "")
    if given not in REPLIES:
        raise unfit(f"An answer is one of {', '.join(sorted(REPLIES))}.")
    reply = ApprovalReply(given)
    filled = {name.removeprefix(FIELD): value for name, value in fields.items() if name.startswith(FIELD)}
    await answer_question(visit, reply, filled)
    return go_on("/approvals", "refused" if reply is ApprovalReply.NO else "allowed")


@ROUTES.post("/approvals/forget")
async def _forget(_: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    fields = visit.form()
    tool = fields.get("tool", "")
    if not await visit.view.forget_answer(tool, fields.get("caller", "")):
        raise not_found("kept answer for", tool, "Somebody may have taken it back already.")
    return go_on("/approvals", "forgotten", tool)
