"""toolcrib as an entry in a client's own file: where the file is, and how that client writes such an entry."""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolcrib.config.foreign.clients import CLIENTS
from toolcrib.config.foreign.locations import Computer, app_folder, config_folder
from toolcrib.config.jsonc import BOM, insert_member, remove_member
from toolcrib.config.parse import read_toml
from toolcrib.config.positions import KeyPath, dotted, toml_headers
from toolcrib.core.errors import ConfigError


def insert_table(text: str, path: KeyPath, values: Mapping[str, Any], where: str) -> str:
    """The file with one more table at its end."""
    import tomlkit

    read_toml(text.removeprefix(BOM), where)
    newline = "\r\n" if "\r\n" in text else "\n"
    block = f"[{dotted(path)}]\n{tomlkit.dumps(values)}".replace("\n", newline)
    lead = text if not text or text.endswith("\n") else text + newline
    return _checked(lead + (newline if lead.strip(BOM + "\r\n ") else "") + block, where)


def remove_table(text: str, path: KeyPath, where: str) -> str:
    """The file without a table and the tables below it, and without the empty line above them."""
    mark = BOM if text.startswith(BOM) else ""
    body = text.removeprefix(BOM)
    read_toml(body, where)
    lines = re.split(r"(?<=\n)", body)
    headers = toml_headers(body)
    ends = [*(line - 1 for _, line in headers), len(lines)][1:]
    for (found, line), end in reversed(list(zip(headers, ends, strict=True))):
        if found[: len(path)] == path:
            start = line - 1
            while start and not lines[start - 1].strip():
                start -= 1
            kept = _comments_below(lines[line:end])
            lines[start:end] = ["\n", *kept] if kept else []
    return mark + _checked("".join(lines), where)


def _comments_below(lines: list[str]) -> list[str]:
    """What stands at the end of a section as comment belongs to the next one."""
    kept: list[str] = []
    for line in reversed(lines):
        if line.strip() and not line.lstrip().startswith("#"):
            break
        kept.insert(0, line)
    return kept if any(line.strip() for line in kept) else []


def _checked(text: str, where: str) -> str:
    try:
        tomllib.loads(text.removeprefix(BOM))
    except tomllib.TOMLDecodeError:
        raise ConfigError(
            "This file is written in a way that cannot be edited.", where=where, hint="Edit it by hand."
        ) from None
    return text


NAME = "toolcrib"
TOKEN_VARIABLE = "TOOLCRIB_TOKEN"  # noqa: S105 - the name of a variable


@dataclass(frozen=True, slots=True)
class Launch:
    """How a client gets to toolcrib: a command it starts, or an address it reaches."""

    command: tuple[str, ...] = ()
    url: str = ""
    with_token: bool = False


@dataclass(frozen=True, slots=True)
class Connector:
    """How one client is told of a server."""

    client: str
    servers: KeyPath = ("mcpServers",)
    project: str = ""
    """Its file in a project; empty if it has none."""
    started: Mapping[str, Any] | None = None
    """What its entries of programs have besides a command and its arguments."""
    reached: Mapping[str, Any] | None = None
    """What its entries of addresses have besides the address; ``None`` if it takes programs only."""
    url_key: str = "url"
    reference: str = ""
    """How it writes a reference to a variable; empty if it has no way to."""

    @property
    def label(self) -> str:
        """What people call it."""
        return CLIENTS[self.client].label

    @property
    def is_toml(self) -> bool:
        """Whether its file is TOML."""
        return self.client == "codex"


CONNECTORS: Mapping[str, Connector] = {
    connector.client: connector
    for connector in (
        Connector("claude-code", project=".mcp.json", started={"type": "stdio"}, reached={"type": "http"},
                  reference="${%s}"),
        Connector("claude-desktop"),
        Connector("cursor", project=".cursor/mcp.json", reached={}, reference="${env:%s}"),
        Connector("vscode", ("servers",), ".vscode/mcp.json", {"type": "stdio"}, {"type": "http"},
                  reference="${env:%s}"),
        Connector("codex", ("mcp_servers",), ".codex/config.toml", reached={}, reference="%s"),
        Connector("gemini", project=".gemini/settings.json", reached={"type": "http"}, reference="$%s"),
        Connector("windsurf", reached={}, url_key="serverUrl", reference="${env:%s}"),
        Connector("zed", ("context_servers",), ".zed/settings.json", {"env": {}}, {}),
        Connector("opencode", ("mcp",), "opencode.json", {"type": "local", "enabled": True},
                  {"type": "remote", "enabled": True}, reference="{env:%s}"),
        Connector("copilot", project="", started={"type": "local", "tools": ["*"]},
                  reached={"type": "http", "tools": ["*"]}, reference="${%s}"),
    )
}  # fmt: skip


def entry_for(connector: Connector, launch: Launch) -> dict[str, Any]:
    """The entry in the client's own words; a launch it cannot express is an error that says what it can."""
    if launch.url:
        return _reached(connector, launch)
    command, *args = launch.command
    if connector.client == "opencode":
        return {**(connector.started or {}), "command": [command, *args]}
    return {**(connector.started or {}), "command": command, "args": args}


def _reached(connector: Connector, launch: Launch) -> dict[str, Any]:
    hint = f"Leave --http away: `toolcrib connect {connector.client}` has it start toolcrib itself."
    if connector.reached is None:
        raise ConfigError(f"{connector.label} takes only programs to start in its file, no addresses.", hint=hint)
    entry = {**connector.reached, connector.url_key: launch.url}
    if not launch.with_token:
        return entry
    if not connector.reference:
        raise ConfigError(f"{connector.label} cannot take a token from a variable.", hint=hint)
    if connector.is_toml:
        return {**entry, "bearer_token_env_var": TOKEN_VARIABLE}
    return {**entry, "headers": {"Authorization": f"Bearer {connector.reference % TOKEN_VARIABLE}"}}


def file_of_client(connector: Connector, machine: Computer, *, in_project: bool = False) -> Path:
    """The file the entry goes into."""
    if not in_project:
        return _user_file(connector.client, machine)
    if not connector.project:
        raise ConfigError(f"{connector.label} has no file of its own in a project.", hint="Leave --project away.")
    return machine.cwd / connector.project


def _user_file(client: str, machine: Computer) -> Path:
    home, env = machine.home, machine.env
    zed = {"win32": app_folder(machine, "Zed"), "darwin": home / ".config" / "zed"}
    return {
        "claude-code": home / ".claude.json",
        "claude-desktop": app_folder(machine, "Claude") / "claude_desktop_config.json",
        "cursor": home / ".cursor" / "mcp.json",
        "vscode": app_folder(machine, "Code") / "User" / "mcp.json",
        "codex": Path(env.get("CODEX_HOME") or home / ".codex") / "config.toml",
        "gemini": home / ".gemini" / "settings.json",
        "windsurf": home / ".codeium" / "windsurf" / "mcp_config.json",
        "zed": zed.get(machine.platform, config_folder(machine) / "zed") / "settings.json",
        "opencode": config_folder(machine) / "opencode" / "opencode.json",
        "copilot": Path(env.get("COPILOT_HOME") or home / ".copilot") / "mcp-config.json",
    }[client]


def insert_entry(text: str, connector: Connector, entry: Mapping[str, Any], where: str) -> str:
    """The client's file with toolcrib in it."""
    path = (*connector.servers, NAME)
    return insert_table(text, path, entry, where) if connector.is_toml else insert_member(text, path, entry, where)


def remove_entry(text: str, connector: Connector, where: str, name: str = NAME) -> str:
    """The client's file without toolcrib, or another server."""
    path = (*connector.servers, name)
    return remove_table(text, path, where) if connector.is_toml else remove_member(text, path, where)


@dataclass(frozen=True, slots=True)
class Instruction:
    """What to write where, for somebody who does it by hand."""

    client: str
    label: str
    path: str
    snippet: str
    note: str = ""


def instructions(launch: Launch, machine: Computer) -> list[Instruction]:
    """For each client the snippet and the file it belongs into; a client that cannot says why."""
    return [_instruction(connector, launch, machine) for connector in CONNECTORS.values()]


def _instruction(connector: Connector, launch: Launch, machine: Computer) -> Instruction:
    path = str(file_of_client(connector, machine))
    try:
        entry = entry_for(connector, launch)
    except ConfigError as error:
        return Instruction(connector.client, connector.label, path, "", str(error))
    snippet = insert_entry("", connector, entry, path) if connector.is_toml else _snippet(connector, entry)
    return Instruction(connector.client, connector.label, path, snippet)


def _snippet(connector: Connector, entry: Mapping[str, Any]) -> str:
    nested: Any = {NAME: dict(entry)}
    for key in reversed(connector.servers):
        nested = {key: nested}
    return json.dumps(nested, indent=2) + "\n"
