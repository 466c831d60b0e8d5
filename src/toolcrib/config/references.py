"""References to variables and kept secrets: as written in the configuration, resolved when a server is started.

``${VAR}``, ``${env:VAR}`` and ``${VAR:-default}`` are references; ``$${VAR}`` is the text ``${VAR}``. As in a shell,
the default holds when the variable is missing or empty; before it counts what toolcrib keeps under that name.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Self

from toolcrib.config.model import Config, ServerConfig
from toolcrib.core.errors import ConfigError

_REFERENCE = re.compile(
    r"""(?P<escape>\$)?\$\{(?:
        (?P<unknown>(?:input|file|command):[^}]*)
        |(?:env:)?(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?
    )\}""",
    re.VERBOSE,
)


class Variables(Mapping[str, str]):
    """What references stand for: a variable of the environment; where it is missing or empty, a secret that is kept.

    A secret that cannot be read counts as missing, except to whoever asks ``strictly``: for them it is an error.
    """

    def __init__(self, env: Mapping[str, str], kept: Callable[[str], str | None], *, is_strict: bool = False) -> None:
        self._env, self._kept, self._is_strict = env, kept, is_strict

    @property
    def strictly(self) -> Self:
        """The same for whoever cannot go on without."""
        return type(self)(self._env, self._kept, is_strict=True)

    def secret(self, name: str) -> str | None:
        """What is kept under this name, whatever the environment says."""
        try:
            return self._kept(name)
        except ConfigError:
            if self._is_strict:
                raise
            return None

    def __getitem__(self, name: str) -> str:
        written = self._env.get(name)
        found = written or self.secret(name)
        if found is not None:
            return found
        if written is None:
            raise KeyError(name)
        return written

    def __iter__(self) -> Iterator[str]:
        return iter(self._env)

    def __len__(self) -> int:
        return len(self._env)


def resolve(value: str, env: Mapping[str, str], *, server: str = "", field: str = "") -> str:
    """``value`` with its references replaced; a missing variable is an error that names it and its place."""
    place = " of ".join(filter(None, (field, f"server {server!r}" if server else "")))
    env = env.strictly if isinstance(env, Variables) and "${" in value else env
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
    return variables_in([*config.servers.values(), config.network, config.model, config.kb, config.platform])


def variables_in(value: object) -> set[str]:
    """The names of all variables that a part of a configuration refers to."""
    found = (match for text in _texts(value) for match in _REFERENCE.finditer(text))
    return {match["name"] for match in found if match["name"] and not match["escape"]}


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
        hint = "Keep the value with `toolcrib secrets set NAME`, or set a variable; then write ${NAME}."
        raise ConfigError(f"{match.group()} in {place or 'a value'} cannot be resolved.", hint=hint)
    found = _lookup(match, env)
    if found is None:
        hint = f"Set it, keep it with `toolcrib secrets set {match['name']}`, or write ${{{match['name']}:-default}}."
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
