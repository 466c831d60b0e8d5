"""Decisions taken on the page, for the audit log."""

import msgspec

from toolcrib.core.audit import AuditEntry
from toolcrib.doors.http.visit import Visit
from toolcrib.doors.web.render import Pages


async def write_down(pages: Pages, visit: Visit, entry: AuditEntry) -> None:
    """Write down what this visitor decides, before it is done: what cannot be recorded does not happen."""
    entry = msgspec.structs.replace(entry, caller=visit.caller.id, caller_kind=visit.caller.kind)
    await pages.premises.crib.audit.commit(entry)


async def note_server(pages: Pages, visit: Visit, decision: str, name: str) -> None:
    """Write down who changed which server."""
    await write_down(pages, visit, AuditEntry("server", server=name, decision=decision))
