"""VS Code: ``mcp.json`` with ``servers`` and ``inputs``; older versions keep both in ``settings.json``."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from toolcrib.config.foreign.found import Dialect, ForeignServer
from toolcrib.config.foreign.maps import at, read_map
from toolcrib.config.written import KeyPath, Written

_PLACES: tuple[KeyPath, ...] = ((), ("mcp",))


def read_vscode(written: Written, dialect: Dialect) -> Iterator[ForeignServer]:
    """The servers; what VS Code would ask for becomes a variable to set."""
    for place in _PLACES:
        asked = _inputs(at(written.root, (*place, "inputs")))
        yield from read_map(written, (*place, "servers"), replace(dialect, inputs=asked))
    yield from read_map(written, ("mcpServers",), dialect)
    yield from read_map(written, ("mcp.servers",), dialect)


def _inputs(listed: object) -> dict[str, Mapping[str, Any]]:
    items = listed if isinstance(listed, list) else []
    return {str(item["id"]): item for item in items if isinstance(item, Mapping) and "id" in item}
