"""What ``doctor`` looks at in the audit log; nothing is written by looking."""

import asyncio

from toolcrib.config.model import Config
from toolcrib.core.errors import ToolcribError
from toolcrib.doors.cli.checks import Check
from toolcrib.onlookers import audit_place
from toolcrib.stores.audit_log import AuditPlace, NoAuditLog
from toolcrib.surroundings import Surroundings

SUBJECT = "audit log"


async def check_audit(config: Config, surroundings: Surroundings) -> list[Check]:
    """Where it is, and whether it can be written and read."""
    if not config.audit.enabled:
        return []
    try:
        return [Check("ok", SUBJECT, await asyncio.to_thread(_look, audit_place(config, surroundings)))]
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
