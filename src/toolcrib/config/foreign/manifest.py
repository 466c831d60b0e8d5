"""``ToolingManifest.json``: servers of a tooling gateway by name, as a list or as a table."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from toolcrib.config.foreign.entry import translate
from toolcrib.config.foreign.found import Dialect, ForeignServer
from toolcrib.config.manifest import ManifestEntry, has_manifest_names, read_entries
from toolcrib.config.written import Written

_GATEWAY = "${MCP_PLATFORM_ENDPOINT:-https://agent365.svc.cloud.microsoft}"


def is_manifest(root: object) -> bool:
    """Whether entries are named by the manifest's own keys."""
    return has_manifest_names(root)


def read_manifest(written: Written, dialect: Dialect) -> Iterator[ForeignServer]:
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
