"""Goose: ``extensions`` of ``config.yaml``; those that are part of Goose itself are left out."""

from collections.abc import Iterator, Mapping

from toolcrib.config.foreign.entry import translate
from toolcrib.config.foreign.found import Dialect, ForeignServer
from toolcrib.config.foreign.maps import at
from toolcrib.config.written import Written

_SERVERS = ("stdio", "sse", "streamable_http")


def read_goose(written: Written, dialect: Dialect) -> Iterator[ForeignServer]:
    """Each extension that is an MCP server."""
    extensions = at(written.root, ("extensions",))
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
