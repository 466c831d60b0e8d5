"""Servers and settings by environment alone.

``<NAME>_MCP_URL`` declares a server. The other variables count only for a server that is known, so ``OPENAI_API_KEY``
or a stranger's ``X_MCP_TIMEOUT`` means nothing here.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

from toolcrib.config.model import Layer, Origin, ServerEntry
from toolcrib.config.positions import PlacedValues
from toolcrib.config.tables import SERVER_KEYS, SETTINGS, mismatch_error
from toolcrib.config.values import Mismatch, Reader, address, flag
from toolcrib.core.errors import ConfigError, InvalidName
from toolcrib.core.names import check_server_name
from toolcrib.core.places import CONFIG_VARIABLE

_WHERE = "environment"
_DECLARES = re.compile(r"([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*)_MCP_URL")
_WORDS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
_SETTINGS = {"TOOLCRIB_HOST": "serve.host", "TOOLCRIB_PORT": "serve.port"}


def environment_layer(env: Mapping[str, str], known: Collection[str] = ()) -> Layer:
    """What the environment says; ``known`` are the servers of the files, which it may adjust."""
    declared, problems = _declared(env)
    entries = {name: _entry(name, env, declared) for name in sorted({*known, *declared})}
    variables = {variable: name for variable, name in _SETTINGS.items() if _is_ours(env.get(variable, ""))}
    return Layer(
        where=_WHERE,
        settings={name: _setting(variable, name, env[variable]) for variable, name in variables.items()},
        servers={name: entry for name, entry in entries.items() if entry.fields},
        origins={name: _origin(variable) for variable, name in variables.items()},
        problems=problems,
    )


def chosen_config(env: Mapping[str, str]) -> str | None:
    """The configuration file that ``TOOLCRIB_CONFIG`` names."""
    return env.get(CONFIG_VARIABLE) or None


def _declared(env: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Server name → url; and a note for each variable that looks like a declaration but cannot be one."""
    declared, problems = {}, []
    for variable in sorted(env):
        match = _DECLARES.fullmatch(variable)
        if match is None or match[1] == "TOOLCRIB" or not env[variable].strip():
            continue
        try:
            declared[check_server_name(match[1].lower())] = address(env[variable].strip())
        except (Mismatch, InvalidName):
            problems.append(f"{_WHERE}: {variable} does not declare a server and was ignored.")
    return declared, tuple(problems)


def _entry(name: str, env: Mapping[str, str], declared: Mapping[str, str]) -> ServerEntry:
    prefix = name.upper()
    fields: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    if name in declared:
        fields["url"], origins["url"] = declared[name], _origin(f"{prefix}_MCP_URL")
        if env.get(f"{prefix}_API_KEY"):
            fields["headers"] = {"Authorization": f"Bearer ${{{prefix}_API_KEY}}"}
            origins["headers.Authorization"] = _origin(f"{prefix}_API_KEY")
    for suffix, word in _ADJUSTMENTS.items():
        variable, key = f"{prefix}{suffix}", SERVER_KEYS[word]
        if written := env.get(variable, "").strip():
            read = _word if key.read is flag else key.read
            fields[key.field], origins[word] = _read(variable, written, read), _origin(variable)
    return ServerEntry(fields, _origin(f"{prefix}_MCP_URL"), origins, adjusts=True)


def _word(value: str) -> bool:
    try:
        return _WORDS[value.lower()]
    except KeyError:
        raise Mismatch("true or false", value) from None


_ADJUSTMENTS = {
    "_MCP_ENABLED": "enabled",
    "_MCP_TIMEOUT": "call_timeout",
    "_MCP_CONNECT_TIMEOUT": "connect_timeout",
    "_MCP_DISCOVERY_TIMEOUT": "discovery_timeout",
}


def is_server_variable(name: str, known: Collection[str]) -> bool:
    """Whether a variable declares a server, or adjusts one of these."""
    match = _DECLARES.fullmatch(name)
    if match is not None:
        return match[1] != "TOOLCRIB"
    return any(name == f"{server.upper()}{suffix}" for server in known for suffix in _ADJUSTMENTS)


def _is_ours(value: str) -> bool:
    """Kubernetes sets ``TOOLCRIB_PORT=tcp://…`` in every pod beside a service called toolcrib."""
    return bool(value.strip()) and not value.startswith("tcp://")


def _setting(variable: str, name: str, value: str) -> Any:
    stripped = value.strip()
    given: object = int(stripped) if name == "serve.port" and stripped.isdecimal() else stripped
    return _read(variable, given, SETTINGS[name].read)


def _read(variable: str, value: object, read: Reader) -> Any:
    try:
        return read(value)
    except Mismatch as mismatch:
        raise _error(variable, mismatch) from None


def _error(variable: str, mismatch: Mismatch) -> ConfigError:
    return mismatch_error(PlacedValues(_WHERE, None), (variable,), mismatch)


def _origin(variable: str) -> Origin:
    return Origin(f"{_WHERE} {variable}")
