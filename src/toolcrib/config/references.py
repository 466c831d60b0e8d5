"""References to the environment: kept as written in the configuration, resolved when a server is started.

``${VAR}``, ``${env:VAR}`` and ``${VAR:-default}`` are references; ``$${VAR}`` is the text ``${VAR}``. As in a shell,
the default holds when the variable is missing or empty.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace

from toolcrib.config.model import Config, ServerConfig
from toolcrib.core.errors import ConfigError

_REFERENCE = re.compile(
    r"""(?P<escape>\$)?\$\{(?:
        (?P<unknown>(?:input|file|command):[^}]*)
        |(?:env:)?(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?
    )\}""",
    re.VERBOSE,
)


def resolve(value: str, env: Mapping[str, str], *, server: str = "", field: str = "") -> str:
    """``value`` with its references replaced; a missing variable is an error that names it and its place."""
    place = " of ".join(filter(None, (field, f"server {server!r}" if server else "")))
    return _REFERENCE.sub(lambda match: _replacement(match, env, place), value)


def resolve_server(server: ServerConfig, env: Mapping[str, str]) -> ServerConfig:
    """The server as it is started or dialled: no references left, ``~`` expanded in command, cwd and grants."""

    def read(value: str, field: str) -> str:
        return resolve(value, env, server=server.name, field=field)

    def find(value: str, field: str) -> str:
        return _expand_home(read(value, field), env, server.name)

    def locate(value: str | None, field: str) -> str | None:
        return None if value is None else find(value, field)

    return replace(
        server,
        command=locate(server.command, "command"),
        args=tuple(read(arg, f"args[{index}]") for index, arg in enumerate(server.args)),
        env={key: read(value, f"env.{key}") for key, value in server.env.items()},
        cwd=locate(server.cwd, "cwd"),
        read=tuple(find(path, f"read[{index}]") for index, path in enumerate(server.read)),
        write=tuple(find(path, f"write[{index}]") for index, path in enumerate(server.write)),
        url=None if server.url is None else read(server.url, "url"),
        headers={key: read(value, f"headers.{key}") for key, value in server.headers.items()},
    )


def resolve_leniently(value: str, env: Mapping[str, str]) -> str:
    """``value`` with those references replaced that can be; the others are left out."""
    return _REFERENCE.sub(lambda match: match.group()[1:] if match["escape"] else _found(match, env), value)


def referenced(value: str, env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The variables that ``value`` refers to, each with what it brings in."""
    for match in _REFERENCE.finditer(value):
        if match["name"] and not match["escape"] and (found := _lookup(match, env)):
            yield match["name"], found


def variables_of(config: Config) -> set[str]:
    """The names of all variables that a configuration refers to."""
    texts = _texts([*config.servers.values(), config.network, config.model, config.kb, config.platform])
    return {
        match["name"] for text in texts for match in _REFERENCE.finditer(text) if match["name"] and not match["escape"]
    }


def _texts(value: object) -> Iterator[str]:
    """All texts in a value, however deep."""
    if isinstance(value, str):
        yield value
    elif is_dataclass(value):
        for part in fields(value):
            yield from _texts(getattr(value, part.name))
    elif isinstance(value, Mapping):
        yield from _texts(list(value.values()))
    elif isinstance(value, list | tuple | frozenset | set):
        for part in value:
            yield from _texts(part)


def _replacement(match: re.Match[str], env: Mapping[str, str], place: str) -> str:
    if match["escape"]:
        return match.group()[1:]
    if match["unknown"]:
        hint = "toolcrib reads the environment only: set a variable and write ${NAME}."
        raise ConfigError(f"{match.group()} in {place or 'a value'} cannot be resolved.", hint=hint)
    found = _lookup(match, env)
    if found is None:
        hint = f"Set it, or write ${{{match['name']}:-default}}."
        raise ConfigError(f"The variable {match['name']} is not set; {place or 'a value'} needs it.", hint=hint)
    return found


def _lookup(match: re.Match[str], env: Mapping[str, str]) -> str | None:
    value, default = env.get(match["name"]), match["default"]
    return value if value or default is None else default


def _expand_home(value: str, env: Mapping[str, str], server: str) -> str:
    if value != "~" and not value.startswith("~/"):
        return value
    if not env.get("HOME"):
        raise ConfigError(f"HOME is not set; {value!r} of server {server!r} needs it.", hint="Write the whole path.")
    return env["HOME"] + value[1:]


def _found(match: re.Match[str], env: Mapping[str, str]) -> str:
    return (_lookup(match, env) if match["name"] else None) or ""
