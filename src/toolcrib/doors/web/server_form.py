"""The form of a server: from fields to a configuration and back; secrets leave it masked and come back untouched."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from toolcrib.config.masks import MASK, shown_args, shown_entry, shown_url
from toolcrib.config.model import ServerConfig
from toolcrib.config.security import ISOLATIONS, POLICIES, Policy
from toolcrib.core.errors import ConfigError
from toolcrib.core.names import check_server_name

MOST_PAIRS = 60
EMPTY_ROWS = 2


@dataclass(frozen=True, slots=True)
class Pair:
    """One variable or header as the form shows it."""

    name: str = ""
    shown: str = ""
    is_kept: bool = False
    """Whether there is a value that is not shown; an empty field leaves it as it is."""


def command_line(server: ServerConfig) -> str:
    """The command as one line, without its secrets."""
    return shlex.join([server.command or "", *shown_args(server.args)]) if server.command else ""


def pairs_of(values: Mapping[str, str]) -> list[Pair]:
    """Variables or headers, and a little room for more."""
    shown = [(name, shown_entry(name, value)) for name, value in values.items()]
    known = [Pair(name, "" if MASK in text else text, MASK in text) for name, text in shown]
    return known + [Pair()] * EMPTY_ROWS


def read_new(fields: Mapping[str, str]) -> ServerConfig:
    """The server a form describes; what cannot be used is an error that says so."""
    server = ServerConfig(check_server_name(fields.get("name", "").strip()))
    return read_changed(fields, server, is_command=fields.get("kind") == "command")


def read_changed(fields: Mapping[str, str], before: ServerConfig, *, is_command: bool) -> ServerConfig:
    """The server with what a form says of it."""
    server = replace(before, description=fields.get("description", "").strip(), policy=_policy(fields))
    server = replace(server, call_timeout_s=_seconds(fields, before))
    if is_command:
        command, *args = _command(fields.get("command", ""), before)
        env = _pairs(fields, "env", before.env)
        cwd = fields.get("cwd", "").strip() or None
        isolation = _isolation(fields)
        return replace(server, command=command, args=tuple(args), env=env, cwd=cwd, isolation=isolation)
    headers = _pairs(fields, "header", before.headers)
    return replace(server, url=_url(fields.get("url", "").strip(), before), headers=headers)


def _command(text: str, before: ServerConfig) -> list[str]:
    if before.command and text == command_line(before):
        return [before.command, *before.args]
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"The command cannot be read: {error}.", hint="Close every quote.") from None
    if not words:
        raise ConfigError("A server needs a command.", hint="For example: uvx mcp-server-time")
    _refuse_mask(text)
    return words


def _url(text: str, before: ServerConfig) -> str:
    if before.url and text == shown_url(before.url):
        return before.url
    if not text.startswith(("http://", "https://", "${")):
        raise ConfigError("The address must begin with http:// or https://.")
    _refuse_mask(text)
    return text


def _refuse_mask(text: str) -> None:
    if MASK in text:
        raise ConfigError(
            f"{MASK} stands for a secret that is not shown.", hint="Leave the whole line as it was, or write the value."
        )


def _pairs(fields: Mapping[str, str], kind: str, before: Mapping[str, str]) -> dict[str, str]:
    return {name: _value(name, value, before) for name, value in _rows(fields, kind) if name}


def _rows(fields: Mapping[str, str], kind: str) -> Iterator[tuple[str, str]]:
    for number in range(MOST_PAIRS):
        name = fields.get(f"{kind}_name_{number}")
        if name is not None:
            yield name.strip(), fields.get(f"{kind}_value_{number}", "").strip()


def _value(name: str, value: str, before: Mapping[str, str]) -> str:
    """What was entered; nothing leaves a value as it was, and a new variable is taken from toolcrib's own."""
    if value:
        return value
    return before.get(name, f"${{{name}}}")


def _policy(fields: Mapping[str, str]) -> Policy | None:
    chosen = fields.get("policy", "")
    return next((policy for policy in POLICIES if policy == chosen), None)


def _isolation(fields: Mapping[str, str]) -> str:
    chosen = fields.get("isolation", "")
    return chosen if chosen in (*ISOLATIONS, "auto") else ""


def _seconds(fields: Mapping[str, str], before: ServerConfig) -> float:
    given = fields.get("timeout", "").strip()
    if not given:
        return before.call_timeout_s
    try:
        seconds = float(given)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= 86_400:
        raise ConfigError(f"{given!r} is not a number of seconds.", hint="Write a number from 1 to 86400.")
    return seconds
