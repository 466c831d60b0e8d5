"""``ToolingManifest.json``: servers of a tooling gateway by name, as a list or as a table."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from toolcrib.config.foreign.entry import translate
from toolcrib.config.foreign.found import Dialect, ForeignServer
from toolcrib.config.foreign.maps import at
from toolcrib.config.written import Written

_GATEWAY = "${MCP_PLATFORM_ENDPOINT:-https://agent365.svc.cloud.microsoft}"
_NAMES = ("mcpServerName", "mcpServerUniqueName", "name")


def is_manifest(root: object) -> bool:
    """Whether entries are named by the manifest's own keys."""
    items = [entry for _, entry in _items(root)]
    return bool(items) and all(isinstance(item, Mapping) and set(_NAMES[:2]) & item.keys() for item in items)


def read_manifest(written: Written, dialect: Dialect) -> Iterator[ForeignServer]:
    """Each server; one without an address is reached through the gateway."""
    for key, item in _items(written.root):
        if isinstance(item, Mapping):
            name = next((str(item[part]) for part in _NAMES if item.get(part)), key)
            if name.strip():
                yield translate(name, _entry(name, item), dialect)


def _items(root: object) -> list[tuple[str, Any]]:
    listed = root if isinstance(root, list) else at(root, ("mcpServers",))
    if isinstance(listed, Mapping):
        return [(str(key), item) for key, item in listed.items()]
    return [("", item) for item in listed] if isinstance(listed, list) else []


def _entry(name: str, item: Mapping[str, Any]) -> dict[str, Any]:
    entry = {
        "type": "http",
        "url": item.get("url") or f"{_GATEWAY}/agents/servers/{quote(name, safe='')}",
        "headers": item.get("headers"),
        "description": item.get("description"),
    }
    scope = {key: item[key] for key in ("audience", "scope") if str(item.get(key) or "null").lower() not in _NOTHING}
    return entry | scope


_NOTHING = ("null", "default")
