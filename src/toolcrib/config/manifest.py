"""Lists of tool servers as a ``ToolingManifest.json`` or a tooling gateway writes them, in every shape met so far."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

MANIFEST_NAME = "ToolingManifest.json"
LISTED_IN_MANIFEST = "manifest"
"""How the ``entry`` of a server begins that stands in a manifest: a file, to which others may write."""
ENTRIES_MAX = 1_000
_LISTS = ("mcpServers", "value", "servers")
_NAMES = ("mcpServerName", "mcpServerUniqueName", "name", "displayName")
_UNIQUE = ("mcpServerUniqueName", "mcpServerName", "name")
_URLS = ("url", "mcpServerUrl", "endpoint", "serverUrl")
_NOTHING = frozenset({"", "null", "none", "default"})
"""What is written for an audience or a scope that is not there."""


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One tool server of a list; what was not written is empty."""

    name: str
    unique_name: str
    url: str = ""
    """Where it is; empty if it is reached through the gateway, by its name."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    audience: str = ""
    scope: str = ""
    publisher: str = ""
    description: str = ""


def listed_items(root: object) -> list[tuple[str, Any]] | None:
    """The entries of a list, each with its key if it is a table; ``None`` if there is no list at all."""
    listed: object = root
    if isinstance(root, Mapping):
        listed = next((root[key] for key in _LISTS if isinstance(root.get(key), list | Mapping)), None)
    if isinstance(listed, Mapping):
        return [(str(key), item) for key, item in listed.items()]
    return [("", item) for item in listed] if isinstance(listed, list) else None


def read_entries(root: object) -> Iterator[ManifestEntry]:
    """Each entry that has a name; what is no entry is passed over."""
    for key, item in (listed_items(root) or [])[:ENTRIES_MAX]:
        if isinstance(item, Mapping) and (name := _first(item, _NAMES) or key.strip()):
            yield _entry(name, _first(item, _UNIQUE) or name, item)


def has_manifest_names(root: object) -> bool:
    """Whether entries are named by the manifest's own keys, and by nobody else's."""
    items = [entry for _, entry in listed_items(root) or []]
    return bool(items) and all(isinstance(item, Mapping) and set(_NAMES[:2]) & item.keys() for item in items)


def _entry(name: str, unique_name: str, item: Mapping[str, Any]) -> ManifestEntry:
    """Older gateways write the address where the unique name belongs."""
    given = item.get("headers")
    headers = given if isinstance(given, Mapping) else {}
    is_address = unique_name.startswith(("https://", "http://"))
    return ManifestEntry(
        name,
        name if is_address else unique_name,
        _first(item, _URLS) or (unique_name if is_address else ""),
        {str(key): value for key, value in headers.items() if isinstance(value, str)},
        _something(item, "audience"),
        _something(item, "scope"),
        _first(item, ("publisher",)),
        _first(item, ("description",)),
    )


def _first(item: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    found = (item.get(key) for key in keys)
    return next((value.strip() for value in found if isinstance(value, str) and value.strip()), "")


def _something(item: Mapping[str, Any], key: str) -> str:
    found = _first(item, (key,))
    return "" if found.lower() in _NOTHING else found
