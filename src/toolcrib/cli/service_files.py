"""toolcrib as a service of its user: what systemd and launchd are told, as text, and what starts and ends it."""

import plistlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from toolcrib.core.errors import ConfigError

Kind = Literal["systemd", "launchd"]
LINE_BREAKS = re.compile(r"[\x00-\x1f\x7f]")


class Service(NamedTuple):
    """A toolcrib that is to run whenever its user is there."""

    name: str
    directory: Path
    argv: Sequence[str]
    env: Mapping[str, str]
    """What it needs of the environment that installs it; nothing secret, for the file shows it."""
    secrets: Path
    """A file of variables only its owner reads, if it is there; systemd alone reads it."""
    log: Path


class ServiceManager(NamedTuple):
    """How one service manager is told."""

    program: str
    place: Path
    """Where the file is."""
    text: str
    start: Sequence[Sequence[str]]
    """The commands that have it run now and after each login."""
    stop: Sequence[Sequence[str]]
    """Those that end that; the file is removed in between the first and the rest."""
    look: Sequence[str]
    """Succeeds while it runs."""
    hint: str
    """What else there is to know."""


def manager_of(kind: Kind, service: Service, env: Mapping[str, str], uid: int) -> ServiceManager:
    """How the service manager is told of a service."""
    for value in (service.name, str(service.directory), *service.argv, *service.env.values()):
        if LINE_BREAKS.search(value):
            raise ConfigError(f"{value!r} cannot stand in a service file.", hint="Control characters are not possible.")
    home = Path(env.get("HOME") or Path.home())
    return _systemd(service, home, env) if kind == "systemd" else _launchd(service, home, uid)


def _systemd(service: Service, home: Path, env: Mapping[str, str]) -> ServiceManager:
    config = Path(env.get("XDG_CONFIG_HOME") or home / ".config")
    unit = f"{service.name}.service"
    told = "systemctl", "--user"
    return ServiceManager(
        program="systemctl",
        place=config / "systemd" / "user" / unit,
        text=systemd_unit(service),
        start=((*told, "daemon-reload"), (*told, "enable", "--now", unit)),
        stop=((*told, "disable", "--now", unit), (*told, "daemon-reload")),
        look=(*told, "is-active", "--quiet", unit),
        hint="To have it run while you are not logged in: loginctl enable-linger",
    )


def systemd_unit(service: Service) -> str:
    """The unit of a user's service."""
    environment = "".join(f"Environment={_quoted(f'{name}={value}')}\n" for name, value in service.env.items())
    return f"""\
[Unit]
Description=toolcrib for {_escaped(str(service.directory))}

[Service]
Type=exec
WorkingDirectory={_escaped(str(service.directory))}
{environment}# Variables that the configuration refers to, such as tokens, one NAME=VALUE a line:
EnvironmentFile=-{_escaped(str(service.secrets))}
ExecStart={" ".join(_quoted(word.replace("$", "$$")) for word in service.argv)}
Restart=on-failure
RestartSec=2
# toolcrib ends its servers itself, in good order.
KillMode=mixed
TimeoutStopSec=90

[Install]
WantedBy=default.target
"""


def _escaped(text: str) -> str:
    """A value as systemd reads it to its end."""
    return text.replace("%", "%%")


def _quoted(word: str) -> str:
    """One word of a list as systemd reads it."""
    escaped = _escaped(word).replace("\\", "\\\\").replace('"', '\\"')
    return escaped if re.fullmatch(r"[\w@%+=:,./-]+", escaped) else f'"{escaped}"'


def _launchd(service: Service, home: Path, uid: int) -> ServiceManager:
    label, domain = f"dev.toolcrib.{service.name}", f"gui/{uid}"
    place = home / "Library" / "LaunchAgents" / f"{label}.plist"
    return ServiceManager(
        program="launchctl",
        place=place,
        text=launchd_plist(service, label),
        start=(("launchctl", "bootstrap", domain, str(place)),),
        stop=(("launchctl", "bootout", f"{domain}/{label}"),),
        look=("launchctl", "print", f"{domain}/{label}"),
        hint="It runs while you are logged in.",
    )


def launchd_plist(service: Service, label: str) -> str:
    """The property list of a user's agent."""
    told = {
        "Label": label,
        "ProgramArguments": list(service.argv),
        "WorkingDirectory": str(service.directory),
        "EnvironmentVariables": dict(service.env),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "StandardOutPath": str(service.log),
        "StandardErrorPath": str(service.log),
        "ProcessType": "Background",
    }
    return plistlib.dumps(told, sort_keys=False).decode()
