"""toolcrib's servers as other programs write theirs: ``mcpServers``, VS Code's ``servers``, Codex's TOML."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from toolcrib.config.edit import mcp_entry
from toolcrib.config.keys import Secrecy
from toolcrib.config.model import ServerConfig
from toolcrib.config.secrets import masked
from toolcrib.config.tables import SERVER_KEYS

FORMATS = ("mcpServers", "vscode", "codex")
_REFERENCE = re.compile(r"\$\{(?:env:)?([A-Za-z_]\w*)(:-[^}]*)?\}")
_BEARER = re.compile(r"Bearer \$\{(?:env:)?([A-Za-z_]\w*)\}")
_CALL_TIMEOUT_S = ServerConfig("").call_timeout_s


def export(servers: Iterable[ServerConfig], wanted: str, *, with_secrets: bool = False) -> str:
    """The servers in one of the ``FORMATS``; references stay references, secrets are masked unless they are wanted."""
    chosen = [server if with_secrets else _masked(server) for server in servers]
    if wanted == "codex":
        import tomlkit

        return tomlkit.dumps({"mcp_servers": {server.name: _codex(server) for server in chosen}})
    key, entry = ("servers", _vscode) if wanted == "vscode" else ("mcpServers", mcp_entry)
    return json.dumps({key: {server.name: entry(server) for server in chosen}}, indent=2, ensure_ascii=False) + "\n"


def is_masked(server: ServerConfig) -> bool:
    """Whether an export without secrets leaves something of this server out."""
    return _masked(server) != server


def lost_settings(server: ServerConfig) -> list[str]:
    """What other programs have no word for."""
    names = ("tools", "policy", "level", "rate", "parallel", "share", "lanes", "isolation", "relay")
    plain = ServerConfig(server.name)
    return [name for name in names if getattr(server, name) != getattr(plain, name)]


def _masked(server: ServerConfig) -> ServerConfig:
    said = [(key.field, key.mask, getattr(server, key.field, None)) for key in SERVER_KEYS.values()]
    shown = {field: masked(mask, value) for field, mask, value in said if value and mask is not Secrecy.NONE}
    return replace(server, **shown | {"args": tuple(shown.get("args", ()))})


def _vscode(server: ServerConfig) -> dict[str, Any]:
    """VS Code writes ``${env:X}``; it knows no defaults, no timeout and no switch."""
    kept = ("type", "url", "command", "args", "env", "cwd", "headers")
    entry = {key: value for key, value in mcp_entry(server).items() if key in kept}
    return {"type": "stdio", **_mapped(entry)}


def _mapped(value: Any) -> Any:
    if isinstance(value, str):
        return _REFERENCE.sub(lambda match: f"${{env:{match[1]}}}", value)
    if isinstance(value, Mapping):
        return {key: _mapped(item) for key, item in value.items()}
    return [_mapped(item) for item in value] if isinstance(value, list) else value


def _codex(server: ServerConfig) -> dict[str, Any]:
    """Codex takes variables by name, not by reference."""
    passed = [name for name, value in server.env.items() if value in (f"${{{name}}}", f"${{env:{name}}}")]
    bearer = _BEARER.fullmatch(server.headers.get("Authorization", ""))
    by_variable = {key: match[1] for key, value in server.headers.items() if (match := _REFERENCE.fullmatch(value))}
    taken = {*by_variable, *(("Authorization",) if bearer else ())}
    entry = {
        "command": server.command,
        "args": list(server.args),
        "url": server.url,
        "cwd": server.cwd,
        "bearer_token_env_var": bearer[1] if bearer else None,
        "http_headers": {key: value for key, value in server.headers.items() if key not in taken},
        "env_http_headers": by_variable,
        "env_vars": passed,
        "tool_timeout_sec": server.call_timeout_s if server.call_timeout_s != _CALL_TIMEOUT_S else None,
        "enabled": None if server.enabled else False,
        "env": {name: value for name, value in server.env.items() if name not in passed},
    }
    return {key: value for key, value in entry.items() if value or value is False}
