"""Calls: those under way and the last that ended, questions that wait for a person, and answers that are kept."""

import asyncio
import time
from typing import Any

from toolcrib.calls.approvals import ApprovalReply
from toolcrib.calls.inbox import Waiting
from toolcrib.calls.live import CallEntry
from toolcrib.core.view import KeptAnswer, View


class CallList(View):
    """Calls, the newest first."""

    calls: list[CallEntry]


class Cancelled(View):
    """The call is being ended."""

    id: str
    cancelled: bool = True


class QuestionEntry(View):
    """A call that waits for a person."""

    id: str
    tool: str
    server: str
    level: str
    caller: str
    arguments: dict[str, Any]
    asked_at: str
    seconds_left: float


class QuestionList(View):
    """What waits for an answer."""

    questions: list[QuestionEntry]


class Answered(View):
    """The answer that counts."""

    id: str
    answer: ApprovalReply


class KeptAnswers(View):
    """The answers that are kept."""

    answers: list[KeptAnswer]


class ApprovalList(View):
    """What waits for an answer (``null`` where no toolcrib is serving), and the answers that are kept."""

    questions: list[QuestionEntry] | None
    answers: list[KeptAnswer]


def question_entry(entry: Waiting) -> QuestionEntry:
    """What can be seen of a question."""
    question = entry.question
    waited_s = asyncio.get_running_loop().time() - entry.asked_at
    return QuestionEntry(
        id=question.id,
        tool=question.tool,
        server=question.server,
        level=question.level,
        caller=question.caller,
        arguments=dict(question.arguments),
        asked_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - waited_s)),
        seconds_left=round(max(0.0, question.timeout_s - waited_s), 1),
    )
