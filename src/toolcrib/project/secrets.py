"""Who refers to the secrets that toolcrib keeps: the servers and settings of every project of this user."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from toolcrib.config.model import Config, ServerConfig
from toolcrib.config.references import variables_in
from toolcrib.config.secrets import with_references
from toolcrib.core.errors import ConfigError
from toolcrib.core.view import View
from toolcrib.crib.loading import Loaded, load
from toolcrib.stores.paths import Environment, state_directory
from toolcrib.stores.projects import ProjectFile
from toolcrib.stores.secrets import SecretStore

SECTIONS = ("network", "model", "kb", "platform", "store", "redis")


class SecretView(View):
    """A secret that is kept, without its value."""

    name: str
    place: str
    """Where its value is: the file, or the system's keyring."""
    needed_by: list[str]
    """The servers and sections that refer to it; those of another project with its directory."""


def secret_views(around: Environment, chosen: str | None = None) -> list[SecretView]:
    """All secrets that are kept, with who refers to them."""
    places = SecretStore(around.env).places()
    needed = who_refers(around, chosen)
    return [SecretView(name, place, needed.get(name, [])) for name, place in places.items()]


def who_refers(around: Environment, chosen: str | None = None) -> dict[str, list[str]]:
    """Variable → who refers to it: here, and in the projects toolcrib was run in."""
    found: dict[str, list[str]] = {}
    for where, loaded in _configurations(around, chosen):
        for who, part in _parts(loaded.config):
            for name in sorted(variables_in(part)):
                found.setdefault(name, []).append(f"{who} ({where})" if where else who)
    return {name: list(dict.fromkeys(who)) for name, who in found.items()}


def _configurations(around: Environment, chosen: str | None) -> Iterator[tuple[str, Loaded]]:
    """The configuration that counts here, then those of other projects; one that cannot be read refers to nothing."""
    with suppress(ConfigError):
        yield "", load(chosen, around)
    with suppress(ConfigError):
        for project in ProjectFile(state_directory(around.env)).read():
            directory = Path(project.directory)
            if directory != around.cwd and directory.is_dir():
                with suppress(ConfigError):
                    yield project.directory, load(project.chosen or None, replace(around, cwd=directory))


def _parts(config: Config) -> Iterator[tuple[str, object]]:
    yield from config.servers.items()
    yield from ((f"[{name}]", getattr(config, name)) for name in SECTIONS)


def put_away(server: ServerConfig, around: Environment) -> tuple[ServerConfig, list[str]]:
    """The server with references in the place of its secrets, which are kept from now on; their names."""
    store, taken = SecretStore(around.env), dict[str, str]()

    def name_for(wanted: str, value: str) -> str:
        name = next(
            name for name in names_from(wanted) if is_free(name, value, around.env, taken.get(name) or store.get(name))
        )
        taken[name] = value
        return name

    referring = with_references(server, name_for)
    store.put(taken, replacing=())
    return referring, list(taken)


def names_from(wanted: str) -> Iterator[str]:
    """A name, and what comes instead of it where it means something else."""
    yield wanted
    yield from (f"{wanted}_{number}" for number in range(2, 1000))


def is_free(name: str, value: str, env: Mapping[str, str], kept: str | None) -> bool:
    """Whether a reference of this name would stand for this value, and for nothing else somebody means by it."""
    return env.get(name, "") in ("", value) and kept in (None, value)
