"""How each client connects: text to copy, with and without a token."""

import asyncio
import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolcrib.config.foreign.connectors import CONNECTORS, Instruction, Launch, instructions
from toolcrib.config.foreign.plan import ACTED_ON, ImportCandidate, digest
from toolcrib.project.importing import (
    ImportPlan,
    ImportRequest,
    find_imports,
    import_target,
    label_of,
    machine,
    shown_server,
    take_over,
)
from toolcrib.project.project import Project
from toolcrib.schema.text import printable
from toolcrib.server.answers import HttpAnswer, conflict
from toolcrib.server.rest.servers import note_server
from toolcrib.server.visit import PageRequest
from toolcrib.server.web.render import PageRoutes, Pages, go_on
from toolcrib.server.web.server_form_page import may_run, need_right
from toolcrib.server.web.servers_page import shown_value

ROUTES = PageRoutes()
OTHER = "other"
FIRST = "claude-code"


@dataclass(frozen=True, slots=True)
class Choice:
    """What a visitor wants to see."""

    client: str
    is_http: bool
    with_token: bool

    def href(self, **changes: Any) -> str:
        """The address of this choice, with changes."""
        wanted = {"client": self.client, "is_http": self.is_http, "with_token": self.with_token} | changes
        how, token = ("http" if wanted["is_http"] else "stdio"), ("yes" if wanted["with_token"] else "no")
        return f"/connect?client={wanted['client']}&how={how}&token={token}"


@ROUTES.get("/connect")
async def _show(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_known()
    choice = _choice(visit)
    launch = _launch(visit, choice)
    return pages.render(
        visit,
        "connect.html",
        choice=choice,
        clients=[(key, connector.label) for key, connector in CONNECTORS.items()] + [(OTHER, "Other")],
        command=_command(choice, launch),
        snippet=_instruction(pages, choice, launch),
        url=visit.served.url,
        needs_token=visit.served.needs_token,
        can_sign_in=visit.served.oauth is not None,
        token_file=pages.token_file,
        export=f"export TOOLCRIB_TOKEN=$(cat {pages.token_file})",
    )


def _choice(visit: PageRequest) -> Choice:
    client, wish = visit.query.get("client", FIRST), visit.query.get("token", "")
    with_token = visit.served.needs_token if wish not in ("yes", "no") else wish == "yes"
    is_http = visit.query.get("how", "stdio" if client == "claude-desktop" else "http") != "stdio"
    return Choice(client if client in CONNECTORS else OTHER, is_http, with_token)


def _launch(visit: PageRequest, choice: Choice) -> Launch:
    if choice.is_http:
        return Launch(url=visit.served.url, with_token=choice.with_token)
    project = visit.served.project.loaded.project
    return Launch(command=("toolcrib", "stdio", *(("--config", str(project)) if project else ())))


def _instruction(pages: Pages, choice: Choice, launch: Launch) -> Instruction:
    if choice.client == OTHER:
        return Instruction(OTHER, "Other", "", _plain(launch))
    around = machine(pages.served.project.around)
    found = next(one for one in instructions(launch, around) if one.client == choice.client)
    home = str(around.home)
    path = f"~{found.path.removeprefix(home)}" if found.path.startswith(f"{home}/") else found.path
    note = NOTES.get(found.client, found.note) if not found.snippet else ""
    return Instruction(found.client, found.label, path, found.snippet, note)


NOTES = {
    "claude-desktop": "Claude Desktop takes only programs to start in its file. Let it start toolcrib itself.",
    "zed": "Zed cannot take a token from a variable. Let it start toolcrib itself, which needs no token.",
}


def _plain(launch: Launch) -> str:
    if not launch.url:
        command, *args = launch.command
        return json.dumps({"mcpServers": {"toolcrib": {"command": command, "args": args}}}, indent=2)
    entry: dict[str, Any] = {"type": "http", "url": launch.url}
    if launch.with_token:
        entry["headers"] = {"Authorization": "Bearer ${TOOLCRIB_TOKEN}"}
    return json.dumps({"mcpServers": {"toolcrib": entry}}, indent=2)


def _command(choice: Choice, launch: Launch) -> str:
    """The command of clients that have one."""
    if choice.client == "claude-code":
        if not launch.url:
            return f"claude mcp add toolcrib -- {shlex.join(launch.command)}"
        header = ' --header "Authorization: Bearer $TOOLCRIB_TOKEN"' if launch.with_token else ""
        return f"claude mcp add --transport http toolcrib {launch.url}{header}"
    if choice.client == "vscode" and launch.url:
        headers = {"headers": {"Authorization": "Bearer ${env:TOOLCRIB_TOKEN}"}} if launch.with_token else {}
        entry = {"name": "toolcrib", "type": "http", "url": launch.url} | headers
        return f"code --add-mcp {shlex.quote(json.dumps(entry))}"
    return "" if choice.client == OTHER or launch.url else f"toolcrib connect {choice.client}"


ORDER = ("new", "changed", "removed", "edited", "used", "left out", "same")
CAN = (*ACTED_ON, "used")
WORDS = {
    "new": ("new", "good"),
    "changed": ("changed there", "warn"),
    "removed": ("removed there", "bad"),
    "same": ("already here", "quiet"),
    "edited": ("yours stays", "info"),
    "used": ("in use", "quiet"),
    "left out": ("left out", "quiet"),
}
MOST = 200
CHOSEN = "take:"


@ROUTES.get("/servers/import")
async def _show_imports(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    return _page(pages, visit, await _look(visit.served.project))


@ROUTES.post("/servers/import")
async def _import(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    fields, found = visit.form(), await _look(visit.served.project)
    chosen = [one for one in found.in_state(*CAN) if f"{CHOSEN}{one.name}" in fields]
    if not chosen:
        return _page(pages, visit, found, "Choose at least one server.")
    if any(fields[f"{CHOSEN}{one.name}"] != fingerprint(one) for one in chosen):
        return _page(pages, visit, found, "Something changed in these files meanwhile. Look again, then choose.")
    for one in chosen:
        if one.server is not None:
            await need_right(visit, one.found or one.server, one.before)
    await _take(visit, found, chosen)
    return go_on("/servers", "imported")


def runs_command(candidate: ImportCandidate) -> bool:
    """Whether taking it over would have a command run here."""
    return candidate.server is not None and candidate.server.url is None


def fingerprint(candidate: ImportCandidate) -> str:
    """Changes when what would be written does."""
    server = candidate.found or candidate.server
    return f"{candidate.state}-{digest(server)[:24] if server else ''}"


def _target(project: Project) -> Path:
    return import_target(project.around, project.chosen)


async def _look(project: Project) -> ImportPlan:
    return await asyncio.to_thread(find_imports, project.around, ImportRequest(_target(project)))


async def _take(visit: PageRequest, found: ImportPlan, chosen: list[ImportCandidate]) -> None:
    project = visit.served.project
    for one in chosen:
        await note_server(visit, "imported", one.name)
    names = [one.name for one in chosen]
    done = await asyncio.to_thread(take_over, found, names, _target(project), project.around)
    if not {one.name for one in done}.issuperset(names):
        raise conflict("Something changed in these files meanwhile.")
    await project.reload()
    visit.view.wake()


def _page(pages: Pages, visit: PageRequest, found: ImportPlan, problem: str = "") -> HttpAnswer:
    ordered = sorted(found.candidates, key=lambda one: (ORDER.index(one.state), one.name))
    may = may_run(visit)
    values: dict[str, Any] = {
        "candidates": [_shown(one, may) for one in ordered[:MOST]],
        "total": len(ordered),
        "takeable": sum(one.state in CAN and (may or not runs_command(one)) for one in ordered),
        "needs_commands": not may and any(one.state in ACTED_ON and runs_command(one) for one in ordered),
        "problems": [printable(text) for text in found.problems],
        "files": found.files,
        "target": _target(visit.served.project),
        "along": [one.name for one in found.along],
        "problem": problem,
    }
    return pages.render(visit, "servers/import.html", status=422 if problem else 200, **values)


def _shown(candidate: ImportCandidate, may_run_commands: bool) -> dict[str, Any]:
    word, tone = WORDS[candidate.state]
    return {
        "name": candidate.name,
        "field": f"{CHOSEN}{candidate.name}",
        "fingerprint": fingerprint(candidate),
        "word": word,
        "tone": tone,
        "is_new": candidate.state == "new",
        "can": candidate.state in CAN and (may_run_commands or not runs_command(candidate)),
        "labels": ", ".join(dict.fromkeys(label_of(origin.client) for origin in candidate.origins)),
        "paths": [origin.path for origin in candidate.origins],
        "lines": list(_lines(candidate)),
        "notes": [printable(text) for text in candidate.notes],
        "reason": printable(candidate.reason),
    }


def _lines(candidate: ImportCandidate) -> Iterator[tuple[str, str]]:
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
