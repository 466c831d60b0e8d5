"""Claude Code: ``~/.claude.json`` with the user's servers and those of single projects, ``.mcp.json`` of a project."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from toolcrib.config.foreign.found import Dialect, ForeignServer
from toolcrib.config.foreign.maps import at, read_map, read_mcp_servers
from toolcrib.config.written import Written


def read_claude_code(written: Written, dialect: Dialect) -> Iterator[ForeignServer]:
    """The user's servers, then each project's, with the project as their scope."""
    yield from read_mcp_servers(written, dialect)
    projects = at(written.root, ("projects",))
    for folder in projects if isinstance(projects, Mapping) else ():
        inside = replace(dialect, folder=str(folder))
        for found in read_map(written, ("projects", str(folder), "mcpServers"), inside):
            yield _switched(replace(found, scope=str(folder)), projects[folder])


def _switched(found: ForeignServer, project: object) -> ForeignServer:
    disabled = project.get("disabledMcpServers") if isinstance(project, Mapping) else None
    if found.server is None or not isinstance(disabled, list) or found.name not in disabled:
        return found
    return replace(found, server=replace(found.server, enabled=False))
