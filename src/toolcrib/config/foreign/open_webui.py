"""Open WebUI: the list of ``TOOL_SERVER_CONNECTIONS``; only those of type ``mcp`` are MCP servers."""

from collections.abc import Iterator, Mapping
from typing import Any

from toolcrib.config.foreign.entry import translate
from toolcrib.config.foreign.found import Dialect, ForeignServer
from toolcrib.config.foreign.references import to_variable
from toolcrib.config.written import Written


def read_open_webui(written: Written, dialect: Dialect) -> Iterator[ForeignServer]:
    """Each connection; one to an OpenAPI server is left out."""
    for item in written.root if isinstance(written.root, list) else ():
        if isinstance(item, Mapping) and item.get("url"):
            yield _connection(item, dialect)


def _connection(item: Mapping[str, Any], dialect: Dialect) -> ForeignServer:
    told = item.get("info")
    about: Mapping[str, Any] = told if isinstance(told, Mapping) else {}
    name = str(about.get("id") or about.get("name") or item["url"])
    if item.get("type", "openapi") != "mcp":
        return ForeignServer(name, left_out="it is an OpenAPI server, not an MCP server")
    return translate(name, _entry(item, about, name), dialect)


def _entry(item: Mapping[str, Any], about: Mapping[str, Any], name: str) -> dict[str, Any]:
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
