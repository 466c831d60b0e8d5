"""Who is measured, and how each is started and reached."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from bench import environments
from bench.environments import HERE

Argv = list[str]

BEFORE = "BENCH_BEFORE"  # the `toolcrib` program of another build


class Role(Enum):
    OURS = "ours"
    PEER = "peer"  # a product that does the same work
    FLOOR = "floor"  # the least that work can cost in Python
    NO_GATEWAY = "no gateway"


class Speaks(Enum):
    MCP = "mcp"
    SSE = "sse"
    REST = "rest"
    WORKER = "worker"  # a library that times itself
    DIRECT = "direct"  # the load generator, straight to a server


@dataclass(frozen=True)
class Place:
    """Where one start of a contender happens."""

    home: Path
    port: int
    first_url: str  # of the first server; empty when it is a stdio server

    @property
    def config(self) -> str:
        return str(self.home / "mcp.json")


Command = Callable[[Place], Argv]
Way = tuple[str, str]  # how it is reached, and how it reaches the servers
EVERY_WAY: tuple[Way, ...] = (("http", "stdio"), ("http", "http"), ("stdio", "stdio"), ("stdio", "http"))


@dataclass(frozen=True)
class Contender:
    name: str
    role: Role
    tool: str = "{server}_{tool}"  # how it names a server's tool
    speaks: Speaks = Speaks.MCP
    http: Command | None = None  # serves HTTP on the place's port
    stdio: Command | None = None
    path: str = "/mcp"
    ways: tuple[Way, ...] = EVERY_WAY
    merges: bool = True  # one list of all servers' tools
    on_request: bool = False  # only with --all-peers or --only
    forgets: bool = False  # starts in a fresh directory each time
    pins: str = ""  # its file in envs/

    def command(self, front: str) -> Command | None:
        return self.http if front == "http" and self.speaks is not Speaks.WORKER else self.stdio

    def can(self, front: str, back: str) -> bool:
        is_reached = self.speaks is Speaks.DIRECT or self.command(front) is not None
        return is_reached and (front, back) in self.ways

    def tool_name(self, server: str, tool: str = "echo") -> str:
        return self.tool.format(server=server, tool=tool)


def _program(environment: str, name: str) -> str:
    return str(environments.ready(environment) / "bin" / name)


def _with_port(command: Command) -> Command:
    return lambda place: [*command(place), "--port", str(place.port)]


def _raw(place: Place) -> Argv:
    return [_program("driver", "python"), str(HERE / "floor" / "raw_gateway.py"), place.config]


def _toolcrib(place: Place) -> Argv:
    return [str(environments.toolcrib_program()), "serve", "--config", place.config, "--host", "127.0.0.1"]


def _before(place: Place) -> Argv:
    """Another build of toolcrib, to see what a change costs."""
    return [os.environ[BEFORE], *_toolcrib(place)[1:]]


def _toolcrib_stdio(place: Place) -> Argv:
    return [str(environments.toolcrib_program()), "stdio", "--alone", "--config", place.config]


def _fastmcp(style: str) -> Command:
    launcher = str(HERE / "launchers" / "fastmcp_proxy.py")
    return lambda place: [_program("fastmcp", "python"), launcher, style, place.config]


def _mcp_proxy(place: Place) -> Argv:
    return [_program("mcp_proxy", "mcp-proxy"), "--log-level", "ERROR", "--named-server-config", place.config]


def _mcp_proxy_stdio(place: Place) -> Argv:
    return [
        _program("mcp_proxy", "mcp-proxy"),
        "--log-level",
        "ERROR",
        "--transport",
        "streamablehttp",
        place.first_url,
    ]


def _mcpo(place: Place) -> Argv:
    return [_program("mcpo", "mcpo"), "--config", place.config, "--host", "127.0.0.1", "--log-level", "ERROR"]


def _mcp_hub(place: Place) -> Argv:
    return [str(environments.ready_node() / "node_modules" / ".bin" / "mcp-hub"), "--config", place.config]


def _sdk_client(place: Place) -> Argv:
    return [_program("sdk", "python"), str(HERE / "workers" / "sdk_client.py"), place.config]


TOOLCRIB = Contender("toolcrib", Role.OURS, "{server}__{tool}", http=_with_port(_toolcrib), stdio=_toolcrib_stdio)
FASTMCP = Contender(
    "fastmcp", Role.PEER, http=_with_port(_fastmcp("shared")), stdio=_fastmcp("shared"), pins="fastmcp.txt"
)
FASTMCP_MOUNT = replace(FASTMCP, name="fastmcp-mount", http=_with_port(_fastmcp("mount")), stdio=_fastmcp("mount"))
MCP_PROXY = Contender(
    "mcp-proxy",
    Role.PEER,
    "{tool}",
    http=_with_port(_mcp_proxy),
    stdio=_mcp_proxy_stdio,
    path="/servers/s0/mcp",
    ways=(("http", "stdio"), ("stdio", "http")),
    merges=False,
    pins="mcp_proxy.txt",
)
MCPO = Contender(
    "mcpo",
    Role.PEER,
    "{server}/{tool}",
    Speaks.REST,
    http=_with_port(_mcpo),
    path="/",
    on_request=True,
    pins="mcpo.txt",
)
MCP_HUB = Contender(
    "mcp-hub",
    Role.PEER,
    "{server}__{tool}",
    Speaks.SSE,
    http=_with_port(_mcp_hub),
    on_request=True,
    pins="package.json",
)

CONTENDERS = (
    Contender("direct", Role.NO_GATEWAY, "{tool}", Speaks.DIRECT, merges=False),
    Contender("sdk-client", Role.NO_GATEWAY, "{server}/{tool}", Speaks.WORKER, stdio=_sdk_client, pins="sdk.txt"),
    Contender("rawgw", Role.FLOOR, http=_with_port(_raw), stdio=_raw),
    TOOLCRIB,
    replace(TOOLCRIB, name="toolcrib-cold", forgets=True),
    *([replace(TOOLCRIB, name="before", http=_with_port(_before), stdio=None)] if os.environ.get(BEFORE) else []),
    FASTMCP,
    FASTMCP_MOUNT,
    MCP_PROXY,
    MCPO,
    MCP_HUB,
)
FASTMCP_FORMS = (FASTMCP.name, FASTMCP_MOUNT.name)
PEERS = tuple(contender.name for contender in CONTENDERS if contender.role is Role.PEER)
