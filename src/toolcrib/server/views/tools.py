"""Tools: why one is here or not, what changed in it, and what may be done with it."""

import difflib
import re
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from toolcrib.catalog.catalog import Route
from toolcrib.catalog.explain import Explanation, ToolVerdict
from toolcrib.catalog.pins import fingerprint
from toolcrib.core.errors import PermissionDenied, ToolcribError, UnknownTool
from toolcrib.core.tool import to_mcp
from toolcrib.crib.crib import Crib
from toolcrib.stores.audit.reading import Stored
from toolcrib.stores.audit.verify import Finding

SEEN_LENGTH = 12


def missing_tool(crib: Crib, name: str) -> ToolcribError:
    """Why a tool cannot be shown, with the reason that ``why`` would give."""
    story = crib.explain(name)
    unknown = UnknownTool(name, known=list(crib.catalog.routes))
    if story.verdict is not ToolVerdict.MISSING:
        unknown.hint = " ".join([*story.reasons, story.todo]).strip()
    if story.verdict is ToolVerdict.FAILED:
        unknown.code = "TOOL_UNAVAILABLE"
    return unknown


def explained(story: Explanation) -> dict[str, Any]:
    """Why a name is what it is."""
    facts = dict(story.facts)
    reasons = list(story.reasons)
    return {"name": story.name, "verdict": story.verdict, "reasons": reasons, "todo": story.todo, "facts": facts}


def policy_entries(crib: Crib) -> list[dict[str, str]]:
    """What holds for each tool, and why."""
    return [
        {
            "name": entry["name"],
            "server": entry["server"] or "",
            "level": entry["level"],
            "policy": entry["policy"],
            "held": entry["held"] or "",
            "why": entry["held"] or str(crib.explain(entry["name"]).facts["policyReason"]),
        }
        for entry in crib.entries()
    ]


def held_routes(crib: Crib, names: Sequence[str] = ()) -> list[Route]:
    """The tools in quarantine: all, or those of these names or servers."""
    held = [route for route in crib.catalog.routes.values() if route.held]
    return [route for route in held if not names or route.name in names or route.server in names]


def change_of(crib: Crib, route: Route) -> dict[str, Any]:
    """What was accepted of a tool in quarantine, what it is now, and the word that says one has seen that."""
    pin = crib.shelves[route.server].record.pins.get(route.original_name)
    now = definition_now(crib, route)
    before = None if pin is None else pin.definition if pin.definition is not None else now
    return {
        "name": route.name,
        "reason": route.held,
        "accepted": pin.at if pin else None,
        "old": before,
        "new": now,
        "seen": fingerprint(now)[:SEEN_LENGTH],
    }


def definition_now(crib: Crib, route: Route) -> Any:
    """A tool as its server shows it now."""
    tools = crib.shelves[route.server].record.tools
    return next((tool for tool in tools if tool.get("name") == route.original_name), to_mcp(route.tool))


def check_seen(crib: Crib, route: Route, seen: str) -> None:
    """Refuse to accept what changed again after the person looked at it."""
    if not fingerprint(definition_now(crib, route)).startswith(seen):
        raise PermissionDenied(
            f"{route.name} changed again since you looked at it.", hint=f"Look once more: toolcrib diff {route.name}"
        )


def diff_lines(old: Any, new: Any) -> Iterator[str]:
    """What changed between two definitions, line by line."""
    before, after = (_text(value).splitlines() if value else [] for value in (old, new))
    found = difflib.unified_diff(before, after, lineterm="", n=2)
    yield from (line for line in found if not line.startswith(("---", "+++")))


def _text(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value, order="sorted"), indent=2).decode()


_AGO = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(s|m|h|d)", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment_us(text: str) -> int:
    """Microseconds since 1970, from ``1h`` ago or an ISO date; without a zone it is local time."""
    if found := _AGO.fullmatch(text.strip()):
        ago = timedelta(**{_UNITS[found[2]]: float(found[1])})
        return max(0, int((time.time() - ago.total_seconds()) * 1_000_000))
    try:
        moment = datetime.fromisoformat(text.strip()).astimezone(UTC)
    except OverflowError:
        raise ValueError("a time no calendar has") from None
    return (moment - _EPOCH) // timedelta(microseconds=1)


def iso(time_us: int) -> str:
    """A stored time as ISO 8601, in UTC; one no calendar has as the number it is."""
    try:
        return (_EPOCH + timedelta(microseconds=time_us)).isoformat(timespec="microseconds").replace("+00:00", "Z")
    except OverflowError:
        return str(time_us)


def as_document(entry: Stored) -> dict[str, Any]:
    """An entry for programs: number and time first, only what was written."""
    fields = msgspec.to_builtins(entry)
    return {"seq": entry.seq, "time": iso(entry.time)} | {
        name: value for name, value in fields.items() if name not in ("seq", "time")
    }


def verdict(finding: Finding) -> dict[str, Any]:
    """What a walk along the chain found."""
    fault = finding.fault
    return {
        "status": "clean" if fault is None else "changed",
        "entries": finding.entries,
        "head": str(finding.head),
        "fault": fault and {"seq": fault.seq, "kind": fault.kind, "message": fault.words},
        "unfinished": [as_document(entry) for entry in finding.unfinished],
    }
