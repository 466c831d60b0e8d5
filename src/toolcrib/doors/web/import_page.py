"""What other programs have configured: look, choose, take over. What was shown is what is taken, or nothing is."""

import asyncio
from collections.abc import Iterator
from typing import Any

from toolcrib.config.foreign.plan import ACTED_ON, Candidate, digest
from toolcrib.doors.http.answers import Answer, Problem
from toolcrib.doors.http.router import RouteSpec
from toolcrib.doors.http.visit import Visit
from toolcrib.doors.web.ledger import note_server
from toolcrib.doors.web.notices import go_on
from toolcrib.doors.web.render import Pages
from toolcrib.doors.web.server_form_page import may_run, need_right
from toolcrib.doors.web.servers_page import shown_value
from toolcrib.importing import Found, Wanted, find_imports, import_target, label_of, shown_server, take_over
from toolcrib.schema.text import printable

ORDER = ("new", "changed", "removed", "edited", "left out", "same")
WORDS = {
    "new": ("new", "good"),
    "changed": ("changed there", "warn"),
    "removed": ("removed there", "bad"),
    "same": ("already here", "quiet"),
    "edited": ("yours stays", "info"),
    "left out": ("left out", "quiet"),
}
MOST = 200
CHOSEN = "take:"


def import_routes(pages: Pages) -> list[RouteSpec]:
    """The page, and what it sends."""

    async def show(visit: Visit) -> Answer:
        visit.need_operator()
        return _page(pages, visit, await _look(pages))

    async def take(visit: Visit) -> Answer:
        visit.need_operator()
        fields, found = visit.form(), await _look(pages)
        chosen = [one for one in found.in_state(*ACTED_ON) if f"{CHOSEN}{one.name}" in fields]
        if not chosen:
            return _page(pages, visit, found, "Choose at least one server.")
        if any(fields[f"{CHOSEN}{one.name}"] != fingerprint(one) for one in chosen):
            return _page(pages, visit, found, "Something changed in these files meanwhile. Look again, then choose.")
        for one in chosen:
            if one.server is not None:
                need_right(pages, visit, one.server, one.before)
        await _take(pages, visit, found, chosen)
        return go_on("/servers", "imported")

    return [RouteSpec("GET", "/servers/import", show), RouteSpec("POST", "/servers/import", take)]


def runs_command(candidate: Candidate) -> bool:
    """Whether taking it over would have a command run here."""
    return candidate.server is not None and candidate.server.url is None


def fingerprint(candidate: Candidate) -> str:
    """Changes when what would be written does."""
    return f"{candidate.state}-{digest(candidate.server)[:24] if candidate.server else ''}"


async def _look(pages: Pages) -> Found:
    project = pages.premises.project
    target = import_target(project.around, project.chosen)
    return await asyncio.to_thread(find_imports, project.around, Wanted(target))


async def _take(pages: Pages, visit: Visit, found: Found, chosen: list[Candidate]) -> None:
    project = pages.premises.project
    target = import_target(project.around, project.chosen)
    for one in chosen:
        await note_server(pages, visit, "imported", one.name)
    done = await asyncio.to_thread(take_over, found, [one.name for one in chosen], target, project.around)
    if len(done) != len(chosen):
        raise Problem(409, "HTTP_CONFLICT", "Something changed in these files meanwhile.")
    await project.reload()
    project.crib.servers.wake()


def _page(pages: Pages, visit: Visit, found: Found, problem: str = "") -> Answer:
    ordered = sorted(found.candidates, key=lambda one: (ORDER.index(one.state), one.name))
    may = may_run(pages, visit)
    values: dict[str, Any] = {
        "candidates": [_shown(one, may) for one in ordered[:MOST]],
        "total": len(ordered),
        "takeable": sum(one.state in ACTED_ON and (may or not runs_command(one)) for one in ordered),
        "needs_commands": not may and any(one.state in ACTED_ON and runs_command(one) for one in ordered),
        "problems": [printable(text) for text in found.problems],
        "files": found.files,
        "target": import_target(pages.premises.project.around, pages.premises.project.chosen),
        "problem": problem,
    }
    return pages.render(visit, "servers/import.html", status=422 if problem else 200, **values)


def _shown(candidate: Candidate, may_run_commands: bool) -> dict[str, Any]:
    word, tone = WORDS[candidate.state]
    return {
        "name": candidate.name,
        "field": f"{CHOSEN}{candidate.name}",
        "fingerprint": fingerprint(candidate),
        "word": word,
        "tone": tone,
        "is_new": candidate.state == "new",
        "can": candidate.state in ACTED_ON and (may_run_commands or not runs_command(candidate)),
        "labels": ", ".join(dict.fromkeys(label_of(origin.client) for origin in candidate.origins)),
        "paths": [origin.path for origin in candidate.origins],
        "lines": list(_lines(candidate)),
        "notes": [printable(text) for text in candidate.notes],
        "reason": printable(candidate.reason),
    }


def _lines(candidate: Candidate) -> Iterator[tuple[str, str]]:
    """What would be written, with what it replaces; secrets are masked, and what hides in it is made visible."""
    old = _settings(shown_server(candidate.before)) if candidate.before else []
    new = _settings(shown_server(candidate.server)) if candidate.server else []
    yield from (("minus", line) for line in old if line not in new)
    yield from (("plus" if candidate.before else "", line) for line in new if line not in old)


def _settings(shown: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    for key, value in shown.items():
        if isinstance(value, dict):
            lines += [f"{key}.{name} = {text}" for name, text in value.items()]
        else:
            lines.append(f"{key} = {shown_value(value)}")
    return list(map(printable, lines))
