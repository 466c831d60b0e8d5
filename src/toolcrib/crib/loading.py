"""From files, environment and flags to the configuration that holds here."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from toolcrib.config.environment import chosen_config, environment_layer
from toolcrib.config.merge import merge
from toolcrib.config.model import DEFAULT, Config, Layer
from toolcrib.config.parse import flags_layer, parse
from toolcrib.config.rules import default_rules, only_rules
from toolcrib.core.errors import ConfigError
from toolcrib.stores.files import read_text
from toolcrib.stores.paths import Environment, find_project, lock_path, user_config_path


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration, and the files it came from."""

    config: Config
    project: Path | None = None
    user: Path | None = None
    lock: Path | None = None
    """``None`` keeps discovery records in memory."""
    is_chosen: bool = False
    """Whether the project's file was named, so that of the user's only the rules count."""

    @property
    def files(self) -> list[Path]:
        """The files that exist, weakest first."""
        named = dict.fromkeys(path for path in (self.user, self.project) if path is not None)
        return [path for path in named if path.is_file()]

    @property
    def server_files(self) -> list[Path]:
        """Those of them whose servers count."""
        return [path for path in self.files if not self.is_chosen or path == self.project]


@dataclass(frozen=True, slots=True)
class ConfigFiles:
    """Which files a configuration is read from, whether they exist or not."""

    user: Path
    project: Path | None
    is_chosen: bool
    """Whether the project's file was named on the command line: then of the user's only the rules count."""

    @property
    def lock(self) -> Path:
        """What belongs to the stronger of them."""
        return lock_path(self.project or self.user)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files themselves, weakest first."""
        return tuple(dict.fromkeys(path for path in (self.user, self.project) if path is not None))


def config_files(chosen: str | Path | None, around: Environment) -> ConfigFiles:
    """The one place that knows which files count."""
    named = chosen or chosen_config(around.env)
    project = (around.cwd / Path(named).expanduser()).absolute() if named else find_project(around.cwd)
    return ConfigFiles(user_config_path(around.env), project, bool(chosen))


def load(
    chosen: str | Path | None = None,
    surroundings: Environment | None = None,
    flags: Mapping[str, object] | None = None,
) -> Loaded:
    """Find, read and merge the configuration: user's file, project's file, environment, flags."""
    around = surroundings or Environment()
    files = config_files(chosen, around)
    if files.project is not None and not files.project.exists():
        named = str(chosen or chosen_config(around.env))
        raise ConfigError(f"There is no configuration file {named!r}.", hint="Check the path given to --config.")
    layers = _layers(files)
    known = {name for layer in layers if not layer.is_only_rules for name in layer.servers}
    config = merge(_FROM_FILES, *layers, environment_layer(around.env, known), flags_layer(flags or {}))
    return Loaded(config, files.project, files.user, files.lock, files.is_chosen)


def _layers(files: ConfigFiles) -> list[Layer]:
    found = {path: _parse_file(path) for path in files.paths if path.exists()}
    if files.is_chosen and files.user in found and files.user != files.project:
        found[files.user] = _rules_of(found[files.user])
    return list(found.values())


def user_rules(around: Environment) -> Layer:
    """The rules of the user's file, for servers that come from elsewhere; none without such a file."""
    path = user_config_path(around.env)
    return _rules_of(_parse_file(path)) if path.exists() else Layer("")


def _rules_of(layer: Layer) -> Layer:
    return only_rules(layer, default_rules() | dict(_FROM_FILES.settings))


_ON = ("audit.enabled", "kb.enabled")
_FROM_FILES = Layer("default", dict.fromkeys(_ON, True), origins=dict.fromkeys(_ON, DEFAULT))
"""What holds for a configuration of files only: a program that passes its own asks for these if it wants them."""


def _parse_file(path: Path) -> Layer:
    return parse(read_text(path) or "", str(path))
