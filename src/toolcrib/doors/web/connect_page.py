"""How each client connects: text to copy, with and without a token."""

import json
import shlex
from dataclasses import dataclass
from typing import Any

from toolcrib.config.foreign.connectors import CONNECTORS, Instruction, Launch, instructions
from toolcrib.doors.http.answers import Answer
from toolcrib.doors.http.router import RouteSpec
from toolcrib.doors.http.visit import Visit
from toolcrib.doors.web.render import Pages
from toolcrib.doors.web.sign_in_page import shown_path
from toolcrib.importing import machine
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

    async def show(visit: Visit) -> Answer:
        visit.need_known()
        return pages.render(visit, "connect.html", **_values(pages, _choice(pages, visit)))

    return [RouteSpec("GET", "/connect", show)]


def _choice(pages: Pages, visit: Visit) -> Choice:
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
