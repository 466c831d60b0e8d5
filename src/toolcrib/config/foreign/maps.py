"""Files with a table of servers, as most programs have them: ``mcpServers`` and its cousins."""

from collections.abc import Iterator, Mapping
from typing import Any

from toolcrib.config.foreign.entry import translate
from toolcrib.config.foreign.found import Dialect, ForeignServer
from toolcrib.config.written import KeyPath, Written


def read_map(written: Written, path: KeyPath, dialect: Dialect) -> Iterator[ForeignServer]:
    """The servers of the table at a path; nothing where there is none. A list of named entries counts as a table."""
    table = at(written.root, path)
    if isinstance(table, list):
        table = {str(item.get("name", f"server {index}")): item for index, item in enumerate(table) if _is_map(item)}
    if not _is_map(table):
        return
    for name, entry in table.items():
        yield translate(str(name), entry, dialect, line=written.line((*path, str(name))))


def at(root: object, path: KeyPath) -> Any:
    """What stands at a path; ``None`` where nothing does."""
    for key in path:
        root = root.get(key) if isinstance(root, Mapping) else None
    return root


def read_mcp_servers(written: Written, dialect: Dialect) -> Iterator[ForeignServer]:
    """``mcpServers``, as most programs write it."""
    yield from read_map(written, ("mcpServers",), dialect)


def read_gemini(written: Written, dialect: Dialect) -> Iterator[ForeignServer]:
    """``mcpServers``; ``mcp.excluded`` and ``mcp.allowed`` switch whole servers off."""
    from dataclasses import replace

    excluded, allowed = at(written.root, ("mcp", "excluded")), at(written.root, ("mcp", "allowed"))
    for found in read_mcp_servers(written, dialect):
        off = (isinstance(excluded, list) and found.name in excluded) or (
            isinstance(allowed, list) and bool(allowed) and found.name not in allowed
        )
        server = replace(found.server, enabled=False) if found.server and off else found.server
        yield replace(found, server=server)


def read_codex(written: Written, dialect: Dialect) -> Iterator[ForeignServer]:
    """``[mcp_servers.NAME]`` of ``config.toml``."""
    yield from read_map(written, ("mcp_servers",), dialect)


def read_zed(written: Written, dialect: Dialect) -> Iterator[ForeignServer]:
    """``context_servers``; those without a command or address belong to an extension."""
    for found in read_map(written, ("context_servers",), dialect):
        if "settings" in (at(written.root, ("context_servers", found.name)) or {}) and found.server is None:
            yield ForeignServer(found.name, left_out="it is part of a Zed extension, which only Zed can start")
        else:
            yield found


def _is_map(value: object) -> bool:
    return isinstance(value, Mapping)
