"""Where each setting came from, for ``toolcrib config show --origin``; secrets are masked."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from toolcrib.config.merge import section_of
from toolcrib.config.model import DEFAULT, Config, ServerConfig, ToolConfig
from toolcrib.config.positions import dotted
from toolcrib.config.rules import PER_KEY, is_stricter_policy, policy_said
from toolcrib.config.secrets import shown_args, shown_entry, shown_url
from toolcrib.config.sections import EmbedderConfig, ProfileConfig
from toolcrib.config.tables import EMBEDDER_KEYS, PROFILE_KEYS, PROFILE_TOOL_KEYS, SERVER_KEYS, SETTINGS, TOOL_KEYS
from toolcrib.core.limits import Rate
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
        table = section_of(name)
        value = getattr(getattr(config, table) if table else config, key.field)
        if name == "kb.embedders":
            yield name, sorted(value)
            yield from _embedders(value)
        elif name in PER_KEY:
            yield name, _plain(value)
            yield from ((dotted((*name.split("."), pattern)), said) for pattern, said in value.items())
        else:
            yield name, shown_entry("key", value) if key.field == "key" and value else _masked(key.field, value)


def _embedders(embedders: Mapping[str, EmbedderConfig]) -> Iterator[tuple[str, Any]]:
    for name, embedder in embedders.items():
        for word, key in EMBEDDER_KEYS.items():
            if (value := getattr(embedder, key.field)) not in ("", 0):
                yield dotted(("kb", "embedders", name, word)), _masked(key.field, value)


def _server(server: ServerConfig) -> Iterator[tuple[str, Any]]:
    path = ("servers", server.name)
    for name, key in SERVER_KEYS.items():
        value: Any = getattr(server, key.field, None)
        if key.field in {"env", "headers"}:
            yield from ((dotted((*path, name, part)), shown_entry(part, text)) for part, text in value.items())
        elif value not in (None, (), ""):
            yield dotted((*path, name)), _masked(key.field, value)
    for tool_name, tool in server.tools.items():
        yield from _tool((*path, "tools", tool_name), tool)


def _tool(path: tuple[str, ...], tool: ToolConfig) -> Iterator[tuple[str, Any]]:
    for name, key in TOOL_KEYS.items():
        value = getattr(tool, key.field)
        if value not in (None, {}):
            yield dotted((*path, name)), _plain(value)


def _profile(path: tuple[str, ...], profile: ProfileConfig) -> Iterator[tuple[str, Any]]:
    for name, key in PROFILE_KEYS.items():
        value = getattr(profile, key.field)
        if value not in (None, ()):
            yield dotted((*path, name)), _plain(value)
    for tool, change in profile.change.items():
        for name, key in PROFILE_TOOL_KEYS.items():
            value = getattr(change, key.field)
            if value not in ("", (), {}):
                yield dotted((*path, "change", tool, name)), _plain(value)


def _masked(field: str, value: Any) -> Any:
    if field == "args":
        return shown_args(value)
    return shown_url(value) if field in ("url", "proxy") else _plain(value)


def _text(value: Any) -> str:
    plain = _plain(value)
    return ", ".join(map(str, plain)) if isinstance(plain, list) else str(plain)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Rate):
        return str(value)
    return dict(value) if isinstance(value, Mapping) else value
