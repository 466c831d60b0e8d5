"""From files, environment and flags to the configuration that holds here."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from toolcrib.config.environment import chosen_config, environment_layer
from toolcrib.config.merge import merge
from toolcrib.config.model import DEFAULT, Config, Layer
from toolcrib.config.parse import flags_layer, parse
from toolcrib.core.errors import ConfigError
from toolcrib.stores.files import read_text
from toolcrib.stores.paths import find_project, lock_path, user_config_path
from toolcrib.surroundings import Surroundings


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration, and the files it came from."""

    config: Config
    project: Path | None = None
    user: Path | None = None
    lock: Path | None = None
    """``None`` keeps discovery records in memory."""

    @property
    def files(self) -> list[Path]:
        """The files that exist, weakest first."""
        return [path for path in (self.user, self.project) if path is not None and path.is_file()]


def load(
    chosen: str | Path | None = None,
    surroundings: Surroundings | None = None,
    flags: Mapping[str, object] | None = None,
) -> Loaded:
    """Find, read and merge the configuration: user's file, project's file, environment, flags."""
    around = surroundings or Surroundings()
    user = user_config_path(around.env)
    project = _project_file(chosen or chosen_config(around.env), around)
    paths = [project] if chosen and project else [path for path in (user, project) if path is not None]
    layers = [_parse_file(path) for path in paths if path.is_file()]
    known = {name for layer in layers for name in layer.servers}
    config = merge(_FROM_FILES, *layers, environment_layer(around.env, known), flags_layer(flags or {}))
    lock = lock_path(project or user)
    return Loaded(config, project, None if chosen else user, lock)


_ON = ("audit.enabled", "kb.enabled")
_FROM_FILES = Layer("default", dict.fromkeys(_ON, True), origins=dict.fromkeys(_ON, DEFAULT))
"""What holds for a configuration of files only: a program that passes its own asks for these if it wants them."""


def _project_file(chosen: str | Path | None, around: Surroundings) -> Path | None:
    if chosen is None:
        return find_project(around.cwd)
    path = (around.cwd / Path(chosen).expanduser()).absolute()
    if not path.is_file():
        raise ConfigError(f"There is no configuration file {str(chosen)!r}.", hint="Check the path given to --config.")
    return path


def _parse_file(path: Path) -> Layer:
    return parse(read_text(path) or "", str(path))
