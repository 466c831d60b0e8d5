"""The audit log over REST: what was done, the newest first, and whether the log is as it was written."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from toolcrib.core.access import AUDIT
from toolcrib.server.answers import HttpAnswer, HttpProblem, json_answer, unfit
from toolcrib.server.rest.about import About, Param, RestResource, count
from toolcrib.server.views.calls import AuditPage, AuditVerdict, audit_item, audit_verdict, moment_us
from toolcrib.server.visit import PageRequest
from toolcrib.stores.audit.log import AuditLog, AuditQuery, NoAuditLog, ask, latest

AUDIT_LOG = RestResource("audit", "What was done, and by whom.")
MOST = 1_000
USUAL = 100
LONGEST_PATTERN = 200
_PATTERN = {"type": "string", "maxLength": LONGEST_PATTERN}
T = TypeVar("T")


@AUDIT_LOG.route(
    "GET",
    "/audit",
    About(
        "Read the audit log",
        AuditPage,
        "The newest first.",
        params=(
            Param("tool", "a pattern; `*` stands for anything", _PATTERN),
            Param("caller", "a pattern", _PATTERN),
            Param("outcome", "a pattern: `success`, the code of an error, or `failed` for all errors", _PATTERN),
            Param("since", "`30m`, `1h`, `2d` ago, or an ISO date and time"),
            Param("until", "the same; what is newer is left out"),
            Param("limit", f"how many at most, up to {MOST}", count(USUAL)),
            Param("before", "`nextBefore` of the page before", count()),
        ),
        problems=(403, 404, 422, 503),
    ),
)
async def _list(visit: PageRequest) -> HttpAnswer:
    visit.need_granted(AUDIT)
    query, limit = _query(visit), max(1, visit.number("limit", USUAL, MOST))
    found = await ask_log(visit, lambda log: latest(log, query, limit))
    more = found[0].seq if len(found) == limit else None
    return json_answer(AuditPage([audit_item(entry) for entry in reversed(found)], more))


def _query(visit: PageRequest) -> AuditQuery:
    given = [visit.query.get(name) for name in ("tool", "caller", "outcome")]
    if any(len(pattern or "") > LONGEST_PATTERN for pattern in given):
        raise unfit(f"A pattern has at most {LONGEST_PATTERN} characters.")
    before = visit.number("before", 0, 999_999_999) if "before" in visit.query else None
    tool, caller, outcome = given
    since_us, until_us = _moment(visit, "since"), _moment(visit, "until")
    return AuditQuery(tool, caller, outcome, since_us, until_us=until_us, before=before)


def _moment(visit: PageRequest, name: str) -> int | None:
    text = visit.query.get(name)
    try:
        return None if text is None else moment_us(text)
    except ValueError:
        raise unfit(f"`{name}` is no time. Write 30m, 1h, 2d, or 2026-01-31T12:00Z.") from None


@AUDIT_LOG.route(
    "GET",
    "/audit/verify",
    About("Check that the log is as it was written", AuditVerdict, problems=(403, 404, 503)),
)
async def _verify(visit: PageRequest) -> HttpAnswer:
    visit.need_granted(AUDIT)
    return json_answer(audit_verdict(await _telling_why(visit, visit.served.project.audit_log.verify)))


async def ask_log(visit: PageRequest, question: Callable[[AuditLog], T]) -> T:
    """Ask the log something, beside the event loop."""
    return await _telling_why(visit, lambda: ask(visit.served.project.audit_log, question))


async def _telling_why(visit: PageRequest, work: Callable[[], T]) -> T:
    try:
        return await asyncio.to_thread(work)
    except NoAuditLog:
        why = "The first call makes it." if visit.served.project.config.audit.enabled else "It is switched off."
        raise HttpProblem(404, "RESOURCE_NOT_FOUND", f"There is no audit log. {why}") from None
