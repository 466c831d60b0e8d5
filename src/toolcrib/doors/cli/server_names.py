"""The names of a server: what clients and browsers call it, and which of these it answers for."""

import secrets
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress

from toolcrib.config.model import Config
from toolcrib.core.errors import ConfigError
from toolcrib.doors.cli.doorways import asks_itself
from toolcrib.doors.cli.invoke import Options
from toolcrib.doors.cli.probes import OPEN_PATHS
from toolcrib.doors.cli.tokens import is_loopback, kept_token
from toolcrib.doors.http.page_address import OwnNames, PageAddress, PublicAddress, host_of
from toolcrib.doors.http.run_proof import PATH as PROOF_PATH
from toolcrib.doors.mcp.addresses import PATH as MCP_PATH
from toolcrib.stores.paths import state_directory
from toolcrib.transports.http_guard import LOOPBACK_HOSTS, LOOPBACK_ORIGINS, Identify
from toolcrib.transports.http_server import GuardPolicy, HttpServer

PAGE_KEY = "page-key"
_WILDCARDS = ("0.0.0.0", "::", "")  # noqa: S104 - recognised, not bound


def page_address(config: Config, server: HttpServer, env: Mapping[str, str]) -> PageAddress:
    """Where people find the page: where the configuration says, otherwise under names of its own on this machine."""
    if config.public_url:
        return PublicAddress(config.public_url)
    try:
        key = kept_token(state_directory(env) / PAGE_KEY).value
    except ConfigError:  # nothing can be kept here, so the names are others after the next start
        key = secrets.token_hex(32)
    return OwnNames(key, server.port, server.answer_for)


def guard_policy(config: Config, identify: Identify | None, options: Options) -> GuardPolicy:
    """Which hosts and origins are answered, and who needs a token."""
    public = {host_of(config.public_url)} if config.public_url else set()
    hosts = {*options.allow_host, *public, *(() if is_loopback(config.host) else own_names(config.host))}
    origins = {origin.rstrip("/") for origin in (*options.allow_origin, config.public_url) if origin}
    return GuardPolicy(
        allowed_hosts=LOOPBACK_HOSTS | {_any_port(name) for name in hosts},
        allowed_origins=LOOPBACK_ORIGINS | origins,
        identify=identify,
        open_paths=OPEN_PATHS | {PROOF_PATH},
        asks_itself=asks_itself,
    )


def _any_port(name: str) -> str:
    """A host as the guard writes it; one given with a port counts with that port only."""
    if name.startswith("["):
        return name if name.rpartition("]")[2] else f"{name}:*"
    if name.count(":") > 1:
        return f"[{name}]:*"
    return name if ":" in name else f"{name}:*"


def own_names(host: str) -> list[str]:
    """The names by which clients reach an address that is not loopback."""
    if host not in _WILDCARDS:
        return [host]
    return list(dict.fromkeys(_names_of_this_machine()))


def _names_of_this_machine() -> Iterator[str]:
    """Nothing is sent: connecting a datagram socket only asks which address would be used."""
    for family, anywhere in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((anywhere, 9))
            yield probe.getsockname()[0]
    yield socket.gethostname()


def mcp_url(server: HttpServer) -> str:
    """Where clients find MCP."""
    if server.host in _WILDCARDS:
        name = own_names(server.host)[0]
        return f"http://{f'[{name}]' if ':' in name else name}:{server.port}{MCP_PATH}"
    return f"http://{server.address}{MCP_PATH}"
