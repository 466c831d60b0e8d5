"""The programs whose files are understood, and how to tell whose a file is."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath

from toolcrib.config.foreign.formats import (
    read_claude_code,
    read_codex,
    read_gemini,
    read_goose,
    read_manifest,
    read_map,
    read_mcp_servers,
    read_open_webui,
    read_opencode,
    read_vscode,
    read_zed,
)
from toolcrib.config.foreign.packages import is_bundle_manifest, is_registry_entry, read_bundle, read_registry
from toolcrib.config.foreign.references import GUESSED, SECONDS, ForeignDialect, ForeignServer
from toolcrib.config.manifest import has_manifest_names
from toolcrib.config.positions import PlacedValues, value_at
from toolcrib.core.errors import ConfigError

Reader = Callable[[PlacedValues, ForeignDialect], Iterator[ForeignServer]]


_USUAL = ForeignDialect()


@dataclass(frozen=True, slots=True)
class Client:
    """One program: its name on the command line and for people, and how its files are read."""

    id: str
    label: str
    read: Reader = read_mcp_servers
    dialect: ForeignDialect = _USUAL


_IN_SECONDS = ForeignDialect(timeout_unit_s=SECONDS)

CLIENTS: Mapping[str, Client] = {
    client.id: client
    for client in (
        Client("claude-desktop", "Claude Desktop"),
        Client("claude-code", "Claude Code", read_claude_code),
        Client("cursor", "Cursor"),
        Client("vscode", "VS Code", read_vscode),
        Client("windsurf", "Windsurf"),
        Client("zed", "Zed", read_zed, _IN_SECONDS),
        Client("codex", "Codex", read_codex, _IN_SECONDS),
        Client("gemini", "Gemini CLI", read_gemini, ForeignDialect(shell_references=True)),
        Client("goose", "Goose", read_goose, _IN_SECONDS),
        Client("librechat", "LibreChat"),
        Client("open-webui", "Open WebUI", read_open_webui),
        Client("copilot", "Copilot CLI"),
        Client("cline", "Cline", dialect=_IN_SECONDS),
        Client("roo", "Roo Code", dialect=_IN_SECONDS),
        Client("opencode", "opencode", read_opencode),
        Client("kiro", "Kiro"),
        Client("lmstudio", "LM Studio"),
        Client("manifest", "ToolingManifest", read_manifest),
        Client("mcpb", "MCPB bundle", read_bundle),
        Client("registry", "server.json", read_registry),
    )
}


def _is_settings(root: object) -> bool:
    servers = value_at(root, ("mcp", "servers"))
    entries = list(servers.values()) if isinstance(servers, Mapping) else []
    return bool(entries) and not any(isinstance(value_at(entry, ("command",)), list) for entry in entries)


def _is_bare_map(root: object) -> bool:
    if not isinstance(root, Mapping) or not root:
        return False
    return all(isinstance(item, Mapping) and {"command", "url"} & item.keys() for item in root.values())


_SHAPES: tuple[tuple[Callable[[object], bool], str], ...] = (
    (is_bundle_manifest, "mcpb"),
    (is_registry_entry, "registry"),
    (has_manifest_names, "manifest"),
    (lambda root: isinstance(root, list), "open-webui"),
    (lambda root: isinstance(value_at(root, ("mcp_servers",)), Mapping), "codex"),
    (lambda root: isinstance(value_at(root, ("context_servers",)), Mapping), "zed"),
    (lambda root: isinstance(value_at(root, ("extensions",)), Mapping), "goose"),
    (lambda root: isinstance(value_at(root, ("projects",)), Mapping), "claude-code"),
    (lambda root: isinstance(value_at(root, ("servers",)), Mapping), "vscode"),
    (_is_settings, "vscode"),
    (lambda root: isinstance(value_at(root, ("mcp",)), Mapping), "opencode"),
)


def _read_anything(written: PlacedValues, dialect: ForeignDialect) -> Iterator[ForeignServer]:
    """What the shape of a file says it is."""
    root = written.root
    found = next((name for fits, name in _SHAPES if fits(root)), None)
    if found is not None:
        own = CLIENTS[found].dialect
        yield from CLIENTS[found].read(written, replace(own, folder=dialect.folder, platform=dialect.platform))
    elif value_at(root, ("mcpServers",)) is not None:
        yield from read_mcp_servers(written, dialect)
    elif _is_bare_map(root):
        yield from read_map(written, (), dialect)
    else:
        raise ConfigError(
            "There are no MCP servers in this file.",
            where=written.where,
            hint='toolcrib looks for "mcpServers", "servers" and what other programs write.',
        )


UNKNOWN = Client("file", "file", _read_anything, ForeignDialect(GUESSED))

_BY_NAME = (
    ("claude_desktop_config.json", "claude-desktop"),
    (".claude.json", "claude-code"),
    (".mcp.json", "claude-code"),
    (".cursor/mcp.json", "cursor"),
    (".vscode/mcp.json", "vscode"),
    ("windsurf/mcp_config.json", "windsurf"),
    ("zed/settings.json", "zed"),
    (".zed/settings.json", "zed"),
    (".codex/config.toml", "codex"),
    (".gemini/settings.json", "gemini"),
    ("goose/config.yaml", "goose"),
    ("librechat.yaml", "librechat"),
    ("mcp-config.json", "copilot"),
    ("cline_mcp_settings.json", "cline"),
    ("mcp_settings.json", "roo"),
    (".roo/mcp.json", "roo"),
    ("opencode.json", "opencode"),
    ("opencode.jsonc", "opencode"),
    ("ToolingManifest.json", "manifest"),
)


def client_of(path: PurePath) -> Client:
    """Whose file this is by its name; ``UNKNOWN`` reads by what is in it."""
    shown = f"/{path.as_posix()}"
    return next((CLIENTS[client] for suffix, client in _BY_NAME if shown.endswith(f"/{suffix}")), UNKNOWN)


def read_servers(written: PlacedValues, client: Client, dialect: ForeignDialect | None = None) -> list[ForeignServer]:
    """The servers of a file; a file without any is no mistake."""
    return list(client.read(written, dialect or client.dialect))
