"""What ``doctor`` looks at in the audit log; nothing is written by looking."""

import asyncio

from toolcrib.config.model import Config
from toolcrib.core.errors import ToolcribError
from toolcrib.doors.cli.checks import Check
from toolcrib.onlookers import audit_place
from toolcrib.stores.audit_log import AuditPlace, NoAuditLog
from toolcrib.stores.audit_note import ACCEPT
from toolcrib.surroundings import Surroundings

SUBJECT = "audit log"


async def check_audit(config: Config, surroundings: Surroundings) -> list[Check]:
    """Where it is, whether it can be written and read, and whether its end is what was noted elsewhere."""
    if not config.audit.enabled:
        return []
    place = audit_place(config, surroundings)
    try:
        if problem := await asyncio.to_thread(place.problem):
            return [Check("fail", SUBJECT, f"{problem[0].upper()}{problem[1:]}.", ACCEPT)]
        return [Check("ok", SUBJECT, await asyncio.to_thread(_look, place))]
    except ToolcribError as error:
        return [Check("fail", SUBJECT, error.message, error.hint)]


def _look(place: AuditPlace) -> str:
    place.check()
    try:
        with place.reading() as log:
            head = log.head()
    except NoAuditLog:
        return f"{place} can be written; nothing is in it yet"
    return f"{place} can be written; {head.seq if head else 'unknown'} entries"
