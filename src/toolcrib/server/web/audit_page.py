"""The audit log: what was done, the newest first; one entry with its place in the chain; whether all of it holds."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from toolcrib.core.access import AUDIT
from toolcrib.core.audit import CALL, CALL_BEGUN
from toolcrib.schema.text import printable
from toolcrib.server.answers import HttpAnswer, not_found
from toolcrib.server.rest.audit import ask_log
from toolcrib.server.views.calls import audit_item, iso, moment_us
from toolcrib.server.visit import PageRequest
from toolcrib.server.web.charts import ChartColumn
from toolcrib.server.web.render import PageRoutes, Pages, go_on
from toolcrib.server.web.schema_parts import as_json
from toolcrib.server.web.static_files import GUARDING, NO_STORE
from toolcrib.server.web.tool_rows import place_with
from toolcrib.stores.audit.log import (
    AuditLog,
    AuditQuery,
    Linked,
    NoAuditLog,
    Stored,
    around,
    ask,
    browse,
    following,
    per_hour,
)
from toolcrib.stores.audit.verify import Finding, verify

ROUTES = PageRoutes()
PAGE = 50
BATCH = 500
HOURS = 24
NAMES = ("tool", "caller", "outcome", "kind", "since", "until", "call")
KINDS = ("call", "call.begun", "approval", "pin", "policy", "token", "start", "kb", "visit", "audit.gap", "audit.cut")
_GLOB = frozenset("*?[")


@ROUTES.get("/audit")
async def _list(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_granted(AUDIT)
    return pages.render(visit, "audit/list.html", **await _listed(pages, visit))


@ROUTES.get("/audit/{seq}")
async def _show(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_granted(AUDIT)
    given = visit.params["seq"]
    seq = int(given) if given.isascii() and given.isdigit() and len(given) < 16 else 0
    found = await ask_log(visit, lambda log: around(log, seq))
    if not any(linked.entry.seq == seq for linked in found):
        raise not_found("entry", given, "Look for it in the list.")
    return pages.render(visit, "audit/show.html", **_shown(found, seq))


@ROUTES.post("/audit/verify")
async def _verify(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_granted(AUDIT)
    began = time.perf_counter()
    finding: Finding = await ask_log(visit, verify)
    took_s = time.perf_counter() - began
    rows = list(map(audit_item, finding.unfinished))
    return pages.render(visit, "audit/verify.html", finding=finding, took_s=took_s, rows=rows)


@ROUTES.post("/audit/values")
async def _keep_values(_: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    wanted = visit.form().get("values") == "on"
    await visit.view.keep_values(wanted)
    holds = visit.served.project.config.audit.values is wanted
    return go_on("/audit", ("values_on" if wanted else "values_off") if holds else "values_overruled")


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """What an address asks for."""

    values: Mapping[str, str]
    browse: AuditQuery
    problem: str = ""

    def address(self, before: int | None = None) -> str:
        """Where this is shown, from the start or from an entry on."""
        found = {name: value for name, value in self.values.items() if value}
        return place_with("/audit", found | ({"before": str(before)} if before is not None else {}))


def asked_of(pages: Pages, visit: PageRequest) -> AuditFilter:
    """From an address; a time that is none is said, and left out."""
    values = {name: visit.word(name) for name in NAMES}
    problems: list[str] = []

    def moment(name: str) -> int | None:
        try:
            return moment_us(values[name]) if values[name] else None
        except ValueError:
            problems.append(f"{values[name]!r} is no time. Write 30m, 1h, 2d, or 2026-01-31T12:00.")
            return None

    wanted = AuditQuery(
        tool=_pattern(values["tool"]),
        caller=_pattern(next(iter(pages.callers.ids_of(values["caller"])), values["caller"])),
        outcome=values["outcome"] or None,
        event=values["kind"] or None,
        execution=values["call"] or None,
        since_us=moment("since"),
        until_us=moment("until"),
        before=visit.number("before", 0, 999_999_999) if "before" in visit.query else None,
    )
    return AuditFilter(values, wanted, " ".join(problems))


def _pattern(text: str) -> str | None:
    """A pattern, or a part of a name."""
    return None if not text else text if _GLOB & set(text) else f"*{text}*"


async def _listed(pages: Pages, visit: PageRequest) -> dict[str, Any]:
    asked, project = asked_of(pages, visit), visit.served.project
    shared = {"asked": asked.values, "problem": asked.problem, "kinds": KINDS, "is_on": project.config.audit.enabled}
    shared |= {"keeps_values": project.config.audit.values}
    is_whole = bool(asked.browse.event or asked.browse.execution)
    try:
        found, hours = await asyncio.to_thread(ask, project.audit_log, partial(_first_page, wanted=asked.browse))
    except NoAuditLog:
        return shared | {"rows": [], "after": "", "first": "", "chart": None, "is_empty": True, "is_filtered": False}
    return shared | {
        "rows": list(map(audit_item, found[:PAGE] if is_whole else _without_begun(found[:PAGE]))),
        "after": asked.address(found[PAGE - 1].seq) if len(found) > PAGE else "",
        "first": asked.address() if asked.browse.before is not None else "",
        "chart": _chart(hours),
        "is_empty": False,
        "is_filtered": any(asked.values.values()),
    }


def _first_page(log: AuditLog, wanted: AuditQuery) -> tuple[list[Stored], dict[int, tuple[int, int]]]:
    return browse(log, wanted, PAGE + 1), per_hour(log, wanted)


def _without_begun(entries: list[Stored]) -> list[Stored]:
    """Beginnings are left out where the end of the call is shown."""
    ended = {entry.execution_id for entry in entries if entry.event == CALL}
    return [entry for entry in entries if entry.event != CALL_BEGUN or entry.execution_id not in ended]


def _chart(hours: Mapping[int, tuple[int, int]]) -> dict[str, Any] | None:
    """Calls by the hour, up to the last one that had any."""
    if not hours:
        return None
    last = max(hours)
    shown = range(last - HOURS + 1, last + 1)
    counts = [hours.get(hour, (0, 0)) for hour in shown]
    return {
        "columns": [ChartColumn(_hour(hour), *pair) for hour, pair in zip(shown, counts, strict=True)],
        "total": sum(map(sum, counts)),
        "failed": sum(bad for _, bad in counts),
        "begin": _hour(shown[0]),
        "end": _hour(last + 1),
    }


def _hour(number: int) -> str:
    return f"{iso(number * 3_600_000_000)[:16].replace('T', ' ')} UTC"


def _shown(found: list[Linked], seq: int) -> dict[str, Any]:
    linked = next(linked for linked in found if linked.entry.seq == seq)
    row = audit_item(linked.entry)
    return {
        "row": row,
        "document": printable(as_json(msgspec.to_builtins(row))),
        "details": [(printable(str(key)), printable(_told(value))) for key, value in row.details.items()],
        "chain": found,
        "is_whole": linked.is_whole,
    }


def _told(value: Any) -> str:
    if isinstance(value, Mapping) and all(isinstance(inner, str | int | float) for inner in value.values()):
        return "\n".join(f"{key}: {inner}" for key, inner in value.items()) or "none"
    return value if isinstance(value, str) else as_json(value)


@ROUTES.get("/audit/export")
async def _export(_: Pages, visit: PageRequest) -> None:
    """The whole log as JSON lines, a piece at a time; whoever reads slowly is waited for."""
    visit.need_granted(AUDIT)
    exchange = visit.exchange
    entries = await ask_log(visit, partial(following, after=0, count=BATCH))
    named = (b"content-disposition", b'attachment; filename="toolcrib-audit.jsonl"')
    exchange.start_stream(200, b"application/jsonl", (NO_STORE, named, *GUARDING))
    try:
        while entries:
            lines = [msgspec.json.encode(audit_item(entry)) + b"\n" for entry in entries]
            exchange.write(b"".join(lines))
            await exchange.drain()
            entries = await ask_log(visit, partial(following, after=entries[-1].seq, count=BATCH))
    finally:
        if exchange.streaming:
            exchange.end()
