"""How each client connects: text to copy, with and without a token."""

import asyncio
import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
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
from toolcrib.schema.text import printable
from toolcrib.server.answers import HttpAnswer, HttpProblem
from toolcrib.server.router import RouteSpec
from toolcrib.server.visit import PageRequest
from toolcrib.server.web.render import Pages, go_on, note_server
from toolcrib.server.web.server_form_page import may_run, need_right
from toolcrib.server.web.servers_page import shown_value
from toolcrib.server.web.sign_in_page import shown_path
from toolcrib.stores.paths import state_directory

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


def connect_routes(pages: Pages) -> list[RouteSpec]:
    """The one page."""

    async def show(visit: PageRequest) -> HttpAnswer:
        visit.need_known()
        return pages.render(visit, "connect.html", **_values(pages, _choice(pages, visit)))

    return [RouteSpec("GET", "/connect", show)]


def _choice(pages: Pages, visit: PageRequest) -> Choice:
    client, wish = visit.query.get("client", FIRST), visit.query.get("token", "")
    with_token = pages.premises.needs_token if wish not in ("yes", "no") else wish == "yes"
    is_http = visit.query.get("how", "stdio" if client == "claude-desktop" else "http") != "stdio"
    return Choice(client if client in CONNECTORS else OTHER, is_http, with_token)


def _values(pages: Pages, choice: Choice) -> dict[str, Any]:
    launch = _launch(pages, choice)
    token_file = shown_path(pages, state_directory(pages.premises.project.around.env) / "token")
    return {
        "choice": choice,
        "clients": [(key, connector.label) for key, connector in CONNECTORS.items()] + [(OTHER, "Other")],
        "command": _command(choice, launch),
        "snippet": _instruction(pages, choice, launch),
        "url": pages.premises.url,
        "needs_token": pages.premises.needs_token,
        "token_file": token_file,
        "export": f"export TOOLCRIB_TOKEN=$(cat {token_file})",
    }


def _launch(pages: Pages, choice: Choice) -> Launch:
    if choice.is_http:
        return Launch(url=pages.premises.url, with_token=choice.with_token)
    project = pages.premises.project.loaded.project
    return Launch(command=("toolcrib", "stdio", *(("--config", str(project)) if project else ())))


def _instruction(pages: Pages, choice: Choice, launch: Launch) -> Instruction:
    if choice.client == OTHER:
        return Instruction(OTHER, "Other", "", _plain(launch))
    around = machine(pages.premises.project.around)
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

    async def show(visit: PageRequest) -> HttpAnswer:
        visit.need_operator()
        return _page(pages, visit, await _look(pages))

    async def take(visit: PageRequest) -> HttpAnswer:
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


def runs_command(candidate: ImportCandidate) -> bool:
    """Whether taking it over would have a command run here."""
    return candidate.server is not None and candidate.server.url is None


def fingerprint(candidate: ImportCandidate) -> str:
    """Changes when what would be written does."""
    return f"{candidate.state}-{digest(candidate.server)[:24] if candidate.server else ''}"


async def _look(pages: Pages) -> ImportPlan:
    project = pages.premises.project
    target = import_target(project.around, project.chosen)
    return await asyncio.to_thread(find_imports, project.around, ImportRequest(target))


async def _take(pages: Pages, visit: PageRequest, found: ImportPlan, chosen: list[ImportCandidate]) -> None:
    project = pages.premises.project
    target = import_target(project.around, project.chosen)
    for one in chosen:
        await note_server(pages, visit, "imported", one.name)
    done = await asyncio.to_thread(take_over, found, [one.name for one in chosen], target, project.around)
    if len(done) != len(chosen):
        raise HttpProblem(409, "HTTP_CONFLICT", "Something changed in these files meanwhile.")
    await project.reload()
    project.crib.servers.wake()


def _page(pages: Pages, visit: PageRequest, found: ImportPlan, problem: str = "") -> HttpAnswer:
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


def _shown(candidate: ImportCandidate, may_run_commands: bool) -> dict[str, Any]:
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
