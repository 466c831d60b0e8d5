"""opencode: ``mcp`` of ``opencode.json``, in newer versions ``mcp.servers``."""

from collections.abc import Iterator, Mapping

from toolcrib.config.foreign.found import Dialect, ForeignServer
from toolcrib.config.foreign.maps import at, read_map
from toolcrib.config.written import KeyPath, Written


def read_opencode(written: Written, dialect: Dialect) -> Iterator[ForeignServer]:
    """The servers; ``command`` is a list, ``environment`` their env."""
    path: KeyPath = ("mcp", "servers")
    newer = at(written.root, path)
    is_table = isinstance(newer, Mapping) and not {"command", "url"} & newer.keys()
    yield from read_map(written, path if is_table else ("mcp",), dialect)
