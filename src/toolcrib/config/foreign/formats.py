"""The files of other programs, one reader for each family."""

import base64
import binascii
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from toolcrib.config.foreign.entry import translate
from toolcrib.config.foreign.references import ForeignDialect, ForeignServer, to_variable
from toolcrib.config.jsonc import read_jsonc
from toolcrib.config.manifest import ManifestEntry, read_entries
from toolcrib.config.positions import KeyPath, PlacedValues, value_at
from toolcrib.core.errors import ConfigError


def read_map(written: PlacedValues, path: KeyPath, dialect: ForeignDialect) -> Iterator[ForeignServer]:
    """The servers of the table at a path; nothing where there is none. A list of named entries counts as a table."""
    table = value_at(written.root, path)
    if isinstance(table, list):
        table = {str(item.get("name", f"server {index}")): item for index, item in enumerate(table) if _is_map(item)}
    if not _is_map(table):
        return
    for name, entry in table.items():
        yield translate(str(name), entry, dialect, line=written.line((*path, str(name))))


def read_mcp_servers(written: PlacedValues, dialect: ForeignDialect) -> Iterator[ForeignServer]:
    """``mcpServers``, as most programs write it."""
    yield from read_map(written, ("mcpServers",), dialect)


def read_gemini(written: PlacedValues, dialect: ForeignDialect) -> Iterator[ForeignServer]:
    """``mcpServers``; ``mcp.excluded`` and ``mcp.allowed`` switch whole servers off."""
    excluded, allowed = value_at(written.root, ("mcp", "excluded")), value_at(written.root, ("mcp", "allowed"))
    for found in read_mcp_servers(written, dialect):
        off = (isinstance(excluded, list) and found.name in excluded) or (
            isinstance(allowed, list) and bool(allowed) and found.name not in allowed
        )
        server = replace(found.server, enabled=False) if found.server and off else found.server
        yield replace(found, server=server)


def read_codex(written: PlacedValues, dialect: ForeignDialect) -> Iterator[ForeignServer]:
    """``[mcp_servers.NAME]`` of ``config.toml``."""
    yield from read_map(written, ("mcp_servers",), dialect)


def read_zed(written: PlacedValues, dialect: ForeignDialect) -> Iterator[ForeignServer]:
    """``context_servers``; those without a command or address belong to an extension."""
    for found in read_map(written, ("context_servers",), dialect):
        if "settings" in (value_at(written.root, ("context_servers", found.name)) or {}) and found.server is None:
            yield ForeignServer(found.name, left_out="it is part of a Zed extension, which only Zed can start")
        else:
            yield found


def _is_map(value: object) -> bool:
    return isinstance(value, Mapping)


def read_claude_code(written: PlacedValues, dialect: ForeignDialect) -> Iterator[ForeignServer]:
    """The user's servers, then each project's, with the project as their scope."""
    yield from read_mcp_servers(written, dialect)
    projects = value_at(written.root, ("projects",))
    for folder in projects if isinstance(projects, Mapping) else ():
        inside = replace(dialect, folder=str(folder))
        for found in read_map(written, ("projects", str(folder), "mcpServers"), inside):
            yield _switched(replace(found, scope=str(folder)), projects[folder])


def _switched(found: ForeignServer, project: object) -> ForeignServer:
    disabled = project.get("disabledMcpServers") if isinstance(project, Mapping) else None
    if found.server is None or not isinstance(disabled, list) or found.name not in disabled:
        return found
    return replace(found, server=replace(found.server, enabled=False))


_SERVERS = ("stdio", "sse", "streamable_http")


def read_goose(written: PlacedValues, dialect: ForeignDialect) -> Iterator[ForeignServer]:
    """Each extension that is an MCP server."""
    extensions = value_at(written.root, ("extensions",))
    for key, entry in extensions.items() if isinstance(extensions, Mapping) else ():
        if not isinstance(entry, Mapping):
            continue
        inner = entry.get("config")
        whole = {**entry, **(inner if isinstance(inner, Mapping) else {})}
        name = str(whole.get("name") or key)
        if whole.get("type") in _SERVERS:
            yield translate(name, whole, dialect)
        else:
            yield ForeignServer(name, left_out="it is part of Goose, not an MCP server")


LINK_MAX = 100_000
_SCHEMES = ("cursor://", "https://cursor.com/")


def is_link(word: str) -> bool:
    """Whether a word is an install link rather than a file."""
    return word.startswith(_SCHEMES)


def read_link(link: str, dialect: ForeignDialect) -> Iterator[ForeignServer]:
    """The one server of a link."""
    asked = parse_qs(urlsplit(link[:LINK_MAX]).query)
    name, config = asked.get("name", [""])[0], asked.get("config", [""])[0]
    if not name or not config:
        raise ConfigError("This link names no server to install.", hint="It must have name=… and config=….")
    try:
        text = base64.b64decode(config.replace(" ", "+").replace("-", "+").replace("_", "/") + "==").decode()
    except (binascii.Error, UnicodeDecodeError):
        raise ConfigError("The config of this link is not Base64.", hint="Copy the whole link.") from None
    entry = read_jsonc(text, "link").root
    if isinstance(entry, dict) and len(entry) == 1 and isinstance(entry.get(name), dict):
        entry = entry[name]
    yield translate(name, entry, dialect)


_GATEWAY = "${MCP_PLATFORM_ENDPOINT:-https://agent365.svc.cloud.microsoft}"


def read_manifest(written: PlacedValues, dialect: ForeignDialect) -> Iterator[ForeignServer]:
    """Each server; one without an address is reached through the gateway."""
    for entry in read_entries(written.root):
        yield translate(entry.name, _entry(entry), dialect)


def _entry(entry: ManifestEntry) -> dict[str, Any]:
    shown = {
        "type": "http",
        "url": entry.url or f"{_GATEWAY}/agents/servers/{quote(entry.name, safe='')}",
        "headers": dict(entry.headers) or None,
        "description": entry.description or None,
    }
    return shown | {key: value for key, value in (("audience", entry.audience), ("scope", entry.scope)) if value}


def read_open_webui(written: PlacedValues, dialect: ForeignDialect) -> Iterator[ForeignServer]:
    """Each connection; one to an OpenAPI server is left out."""
    for item in written.root if isinstance(written.root, list) else ():
        if isinstance(item, Mapping) and item.get("url"):
            yield _connection(item, dialect)


def _connection(item: Mapping[str, Any], dialect: ForeignDialect) -> ForeignServer:
    told = item.get("info")
    about: Mapping[str, Any] = told if isinstance(told, Mapping) else {}
    name = str(about.get("id") or about.get("name") or item["url"])
    if item.get("type", "openapi") != "mcp":
        return ForeignServer(name, left_out="it is an OpenAPI server, not an MCP server")
    return translate(name, _open_webui_entry(item, about, name), dialect)


def _open_webui_entry(item: Mapping[str, Any], about: Mapping[str, Any], name: str) -> dict[str, Any]:
    settings, headers = item.get("config"), item.get("headers")
    entry: dict[str, Any] = {
        "type": "http",
        "url": item["url"],
        "headers": dict(headers) if isinstance(headers, Mapping) else {},
        "description": about.get("description"),
        "enabled": settings.get("enable", True) if isinstance(settings, Mapping) else True,
    }
    if item.get("auth_type") == "bearer" and item.get("key"):
        entry["headers"]["Authorization"] = f"Bearer {item['key']}"
    elif item.get("auth_type") not in (None, "", "none", "bearer"):
        entry[f"auth_type {item['auth_type']} ({to_variable(name)})"] = True
    return entry


def read_opencode(written: PlacedValues, dialect: ForeignDialect) -> Iterator[ForeignServer]:
    """The servers; ``command`` is a list, ``environment`` their env."""
    path: KeyPath = ("mcp", "servers")
    newer = value_at(written.root, path)
    is_table = isinstance(newer, Mapping) and not {"command", "url"} & newer.keys()
    yield from read_map(written, path if is_table else ("mcp",), dialect)


_PLACES: tuple[KeyPath, ...] = ((), ("mcp",))


def read_vscode(written: PlacedValues, dialect: ForeignDialect) -> Iterator[ForeignServer]:
    """The servers; what VS Code would ask for becomes a variable to set."""
    for place in _PLACES:
        asked = _inputs(value_at(written.root, (*place, "inputs")))
        yield from read_map(written, (*place, "servers"), replace(dialect, inputs=asked))
    yield from read_map(written, ("mcpServers",), dialect)
    yield from read_map(written, ("mcp.servers",), dialect)


def _inputs(listed: object) -> dict[str, Mapping[str, Any]]:
    items = listed if isinstance(listed, list) else []
    return {str(item["id"]): item for item in items if isinstance(item, Mapping) and "id" in item}
