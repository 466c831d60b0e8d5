"""Where toolcrib runs, and where configuration lives: one file per user, one per project, the lock beside it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from toolcrib.config.model import Config
from toolcrib.config.references import Variables, resolve
from toolcrib.core.network import PROXY_LOOPBACK
from toolcrib.core.places import LOCK_NAME, own_directory, project_candidates, state_directory, user_config_path
from toolcrib.stores.secrets import SecretStore

__all__ = [
    "NEW_FILE",
    "Environment",
    "find_project",
    "for_network",
    "lock_path",
    "results_path",
    "state_directory",
    "user_config_path",
    "witness_directory",
]

NEW_FILE = "# The MCP servers of toolcrib; `toolcrib config show --origin` shows what is read from where.\n"
"""How a toolcrib.toml begins that a command creates."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Where toolcrib runs; given as a value so that nothing reads it behind anybody's back."""

    cwd: Path = field(default_factory=Path.cwd)
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    elsewhere: bool = False
    """Whether ``cwd`` is not where this process is, so that servers must be told to start there."""

    @property
    def variables(self) -> Variables:
        """What references in configuration stand for here. Whoever resolves often keeps it: it remembers what it read.

        For nothing else: what toolcrib itself goes by, and what children inherit, is ``env``, which holds no secrets
        that are kept.
        """
        return Variables(self.env, SecretStore(self.env).get)


def for_network(around: Environment, config: Config) -> Environment:
    """The environment with what ``[network]`` says in place of the variables of that meaning, so that everything which
    goes out, and every server that is started, knows of one way only."""
    network, said = config.network, dict[str, str]()
    if network.proxy:
        proxy = resolve(network.proxy, around.variables, field="network.proxy")
        said |= dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), proxy)
    if network.no_proxy:
        said |= dict.fromkeys(("no_proxy", "NO_PROXY"), ",".join(network.no_proxy))
    if network.loopback:
        said[PROXY_LOOPBACK] = "1"
    if network.ca_file:
        written = config.origins.get("network.ca_file")
        base = around.cwd if written is None else around.cwd / Path(written.where).parent
        path = Path(resolve(network.ca_file, around.variables, field="network.ca_file")).expanduser()
        said["SSL_CERT_FILE"] = str(base / path)
    return replace(around, env={**around.env, **said}) if said else around


def results_path(env: Mapping[str, str]) -> Path:
    """Where large results are put aside."""
    return own_directory(env, "XDG_CACHE_HOME", ".cache") / "results"


def upload_directory(env: Mapping[str, str]) -> Path:
    """Where documents are kept that somebody uploaded on the page."""
    return state_directory(env) / "uploads"


def witness_directory(env: Mapping[str, str]) -> Path:
    """Where is kept what the state directory must not be able to forget: that tokens are asked for, how far the
    audit log went. Another directory, so that whoever removes that one opens no door and hides no trace."""
    state = state_directory(env)
    return state.with_name(f"{state.name}-witness")


def find_project(start: Path) -> Path | None:
    """The project's file: the closest toolcrib.toml here or above, otherwise another program's file here.

    A pipe or a device is found too, so that whoever reads it says what is wrong instead of going on without.
    """
    return next((path for path in project_candidates(start.absolute()) if path.exists() and not path.is_dir()), None)


def lock_path(config: Path) -> Path:
    """The lock that belongs to a configuration file."""
    return config.with_name(LOCK_NAME)
