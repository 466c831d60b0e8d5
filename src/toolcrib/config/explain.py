"""Where each setting came from, for ``toolcrib config show --origin``; secrets are masked."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from toolcrib.config.keys import Key, Secrecy
from toolcrib.config.model import DEFAULT, Config, ServerConfig
from toolcrib.config.positions import KeyPath, dotted
from toolcrib.config.rules import PER_KEY, is_stricter_policy, policy_said
from toolcrib.config.secrets import masked
from toolcrib.config.sections import ProfileConfig
from toolcrib.config.tables import (
    EMBEDDER_KEYS,
    PROFILE_KEYS,
    PROFILE_TOOL_KEYS,
    SERVER_KEYS,
    SETTINGS,
    TOOL_KEYS,
    setting_of,
)
from toolcrib.config.values import as_written
from toolcrib.core.view import View


class Explained(View):
    """One setting as it counts, secrets masked."""

    setting: str
    """Its name in the file."""
    value: Any
    origin: str
    """A file and line, the environment, a flag, or ``default``."""
    overrules: list[str] = msgspec.field(default_factory=list)
    """Milder values of a rule that do not count, each with its place."""
    overruled_by: str | None = None
    """The stricter rule of another place because of which it does not count."""


def explain(config: Config) -> tuple[Explained, ...]:
    """Every setting of the configuration: the general ones first, then the servers by name, then the profiles."""
    settings = (*_general(config), *(pair for server in config.servers.values() for pair in _server(server)))
    profiles = (pair for name, profile in config.profiles.items() for pair in _profile(("profiles", name), profile))
    every = (*settings, *profiles)
    return tuple(_explained(config, name, value) for name, value in every)


def _explained(config: Config, name: str, value: Any) -> Explained:
    milder = [f"{_text(lost.value)} ({lost.origin})" for lost in config.overruled.get(name, ())]
    return Explained(name, value, str(config.origins.get(name, DEFAULT)), milder, _stricter_than(config, name, value))


def _stricter_than(config: Config, name: str, value: Any) -> str | None:
    """What another place says of all that a pattern or name of ``security.policies`` stands for, if it is stricter."""
    pattern = next((key for key in config.security.policies if dotted((*_POLICIES, key)) == name), None)
    if pattern is None:
        return None
    said = [(policy_said(place, pattern, *_parts(pattern)), place.where) for place in config.security.places]
    stricter = [f"{found[0]} ({where})" for found, where in said if found and is_stricter_policy(found[0], value)]
    return stricter[-1] if stricter else None


_POLICIES = ("security", "policies")


def _parts(name: str) -> tuple[str, str]:
    server, _, tool = name.partition("__")
    return server, tool


def _general(config: Config) -> Iterator[tuple[str, Any]]:
    for name, key in SETTINGS.items():
        value = setting_of(config, name)
        if name == "kb.embedders":
            yield name, sorted(value)
            for embedder, wanted in value.items():
                yield from _written(("kb", "embedders", embedder), wanted, EMBEDDER_KEYS, ("", 0))
        elif name in PER_KEY:
            yield name, as_written(value)
            yield from ((dotted((*name.split("."), pattern)), said) for pattern, said in value.items())
        else:
            yield name, as_written(masked(key.mask, value))


def _server(server: ServerConfig) -> Iterator[tuple[str, Any]]:
    path = ("servers", server.name)
    yield from _written(path, server, SERVER_KEYS, (None, (), ""))
    for name, tool in server.tools.items():
        yield from _written((*path, "tools", name), tool, TOOL_KEYS, (None, {}))


def _profile(path: KeyPath, profile: ProfileConfig) -> Iterator[tuple[str, Any]]:
    yield from _written(path, profile, PROFILE_KEYS, (None, ()))
    for name, change in profile.change.items():
        yield from _written((*path, "change", name), change, PROFILE_TOOL_KEYS, ("", (), {}))


def _written(
    path: KeyPath, holder: object, keys: Mapping[str, Key], unsaid: Collection[Any]
) -> Iterator[tuple[str, Any]]:
    """The keys of a table that say something; of those whose entries may be secret, each entry by itself."""
    for name, key in keys.items():
        value = getattr(holder, key.field, None)
        shown: Any = None if value is None else as_written(masked(key.mask, value))
        if key.mask is Secrecy.ENTRIES:
            yield from ((dotted((*path, name, part)), text) for part, text in shown.items())
        elif value not in unsaid:
            yield dotted((*path, name)), shown


def _text(value: Any) -> str:
    plain = as_written(value)
    return ", ".join(map(str, plain)) if isinstance(plain, list) else str(plain)
