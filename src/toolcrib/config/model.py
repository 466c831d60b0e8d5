"""The configuration as frozen values, and the layers it is made from.

References such as ``${TOKEN}`` stay references here; ``references`` resolves them when a server is started.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, cast

import msgspec

from toolcrib.config import values as readers
from toolcrib.config.keys import (
    AUTH,
    ISOLATION_OR_AUTO,
    LEVEL,
    LOWEST_LEVEL,
    OAUTH,
    OFF,
    ON,
    POLICY,
    SHARE,
    Key,
    Secrecy,
    as_first_said,
    common,
    keys_of,
    prefer,
    rarer,
    union,
)
from toolcrib.config.oauth import OAuthConfig, read_oauth
from toolcrib.config.sections import (
    AUTH_MODES,
    OAUTH_MODES,
    SHOW_ALL,
    AccessConfig,
    AuthConfig,
    AuthMode,
    ExposeConfig,
    ExposeMode,
    IsolationConfig,
    KbConfig,
    ModelConfig,
    NetworkConfig,
    OAuthMode,
    PlatformConfig,
    ProfileConfig,
    RedisConfig,
    SecurityConfig,
    StoreConfig,
    WorkspaceConfig,
)
from toolcrib.core.kinds import (
    AUTO,
    EraChoice,
    IsolationChoice,
    IsolationLevel,
    PinMode,
    Policy,
    Share,
    SignInMode,
    Transport,
)
from toolcrib.core.limits import CommonLimits, Rate
from toolcrib.core.offers import SecurityLevel

BUILT_IN_PARAMETERS: Mapping[str, Mapping[str, str]] = {
    "control_zwave_device": {"device_name": "deviceName", "command": "action"},
}
"""Tool → the parameters that models write → the server's own names, where the user's configuration says nothing."""
_ADMIN, _SYSTEM = SecurityLevel.ADMIN, SecurityLevel.SYSTEM
RELAYABLE = ("elicitation", "sampling", "roots")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from: a file and line, a variable, a flag, or toolcrib's own default."""

    where: str
    line: int | None = None

    def __str__(self) -> str:
        return f"{self.where}:{self.line}" if self.line else self.where


DEFAULT = Origin("default")


@dataclass(frozen=True, slots=True)
class Overruled:
    """A value that does not count because another place is stricter."""

    value: Any
    origin: Origin


@dataclass(frozen=True, slots=True)
class ToolConfig:
    """What the user wants of one tool; ``None`` leaves it to the tool and to toolcrib."""

    enabled: Annotated[bool, Key(readers.flag, OFF)] = True
    parameters: Annotated[Mapping[str, str], prefer(readers.text_map)] = field(default_factory=dict)
    """The model's name for a parameter → the server's own name."""
    timeout_s: Annotated[float | None, prefer(readers.timeout_s)] = None
    replayable: Annotated[bool | None, Key(readers.flag, OFF)] = None
    policy: Annotated[Policy | None, Key(readers.one_of(*Policy), POLICY)] = None
    level: Annotated[SecurityLevel | None, Key(readers.level, LEVEL)] = None
    capabilities: Annotated[tuple[str, ...], Key(readers.texts("words"), union)] = ()
    """What a caller must have been granted to use it."""
    rate: Annotated[Rate | None, Key(readers.rate, rarer)] = None
    result_limit: Annotated[int | None, prefer(readers.result_limit)] = None
    """Results of more bytes than this are kept; zero is no limit."""


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """One MCP server: a ``command`` to start, or a ``url`` to reach, never both."""

    name: str
    command: Annotated[str | None, prefer(readers.some_text, http_level=_SYSTEM)] = None
    args: Annotated[
        tuple[str, ...],
        prefer(readers.strings, goes_with="command", mask=Secrecy.ARGS, http_level=_SYSTEM),
    ] = ()
    env: Annotated[
        Mapping[str, str],
        prefer(readers.text_map, goes_with="command", is_secret=True, mask=Secrecy.ENTRIES, http_level=_SYSTEM),
    ] = field(default_factory=dict)
    cwd: Annotated[str | None, prefer(readers.some_text, goes_with="command", http_level=_SYSTEM)] = None
    url: Annotated[str | None, prefer(readers.address, mask=Secrecy.ADDRESS, http_level=_SYSTEM)] = None
    transport: Annotated[
        Transport | None, prefer(readers.transport, name="type", goes_with="url", http_level=_SYSTEM)
    ] = None
    """How a server behind a ``url`` is spoken to; ``None``: Streamable HTTP, or HTTP+SSE if it refuses that."""
    headers: Annotated[
        Mapping[str, str],
        prefer(readers.text_map, goes_with="url", is_secret=True, mask=Secrecy.ENTRIES, http_level=_SYSTEM),
    ] = field(default_factory=dict)
    oauth: Annotated[OAuthConfig | None, prefer(read_oauth, goes_with="url")] = None
    """How toolcrib signs in there; ``None``: as it turns out to be necessary, unless an Authorization header is set."""
    enabled: Annotated[bool, prefer(readers.flag, http_level=_ADMIN)] = True
    ttl_s: Annotated[float, prefer(readers.duration_s, is_live=True)] = 300.0
    discovery_timeout_s: Annotated[float, prefer(readers.timeout_s, http_level=_ADMIN)] = 30.0
    connect_timeout_s: Annotated[float, prefer(readers.timeout_s)] = 5.0
    call_timeout_s: Annotated[float, prefer(readers.timeout_s, is_live=True, http_level=_ADMIN)] = 30.0
    idle_timeout_s: Annotated[float, prefer(readers.duration_s, http_level=_ADMIN)] = 600.0
    """How long an unused server keeps running; zero is for ever."""
    description: Annotated[str, prefer(readers.text, is_live=True, http_level=_ADMIN)] = ""
    tools: Mapping[str, ToolConfig] = field(default_factory=dict)
    policy: Annotated[Policy | None, Key(readers.one_of(*Policy), POLICY, is_live=True, http_level=_ADMIN)] = None
    """For all its tools that have none of their own."""
    level: Annotated[SecurityLevel | None, Key(readers.level, LEVEL, is_live=True, http_level=_SYSTEM)] = None
    rate: Annotated[Rate | None, Key(readers.rate, rarer, is_live=True, http_level=_ADMIN)] = None
    """How often its tools may be called, all together."""
    parallel: Annotated[int | None, Key(readers.count, min, is_live=True, http_level=_ADMIN)] = None
    """How many calls may run on it at once; ``None`` for what holds for all servers."""
    relay: Annotated[tuple[str, ...], Key(readers.some_of(RELAYABLE), common, is_grant=True)] = RELAYABLE
    """What the server may ask of the client through toolcrib, or of toolcrib itself where the client cannot answer."""
    share: Annotated[Share | Literal["", "auto"], Key(readers.one_of(*Share, AUTO), SHARE, http_level=_ADMIN)] = ""
    """Who shares one process or session of it; empty or ``auto`` for what ``sharing`` says."""
    lanes: Annotated[int | None, Key(readers.count, min, http_level=_ADMIN)] = None
    """How many processes or sessions there may be at once where not all callers share one."""
    roots: Annotated[tuple[str, ...], prefer(readers.texts("paths"), http_level=_ADMIN)] = ()
    """The directories that the server is told of where the client has none to tell."""
    era: Annotated[EraChoice, prefer(readers.one_of(*EraChoice), http_level=_ADMIN)] = EraChoice.AUTO
    """In which era it is spoken to, if it speaks both."""
    transparent: Annotated[bool, Key(readers.flag, OFF, http_level=_ADMIN)] = False
    """Whether it and its clients see each other as they are, and nothing is checked or put right in between."""
    unlisted: Annotated[bool, Key(readers.flag, OFF, is_live=True, http_level=_SYSTEM)] = False
    """Whether what it does not list can be asked for all the same, where nobody else can be meant."""
    isolation: Annotated[
        IsolationChoice | Literal[""],
        Key(readers.one_of(*IsolationLevel, AUTO), ISOLATION_OR_AUTO, goes_with="command"),
    ] = ""
    """Empty for what ``[isolation]`` says."""
    read: Annotated[tuple[str, ...], Key(readers.texts("paths"), common, goes_with="command", is_grant=True)] = ()
    write: Annotated[tuple[str, ...], Key(readers.texts("paths"), common, goes_with="command", is_grant=True)] = ()
    network: Annotated[bool | None, Key(readers.flag, OFF, goes_with="command")] = None
    loopback: Annotated[tuple[int, ...], Key(readers.ports, common, goes_with="command", is_grant=True)] = ()
    """Ports of this machine that a confined server with a network may connect to."""
    memory_bytes: Annotated[int | None, Key(readers.memory_size, min, goes_with="command")] = None
    processes: Annotated[int | None, Key(readers.count, min, goes_with="command")] = None
    is_own: bool = False
    """Not a server at all: a source that the program itself passed in. It states the levels of its tools."""
    pins: PinMode | None = None
    """Whether its tools are pinned; ``None`` for what ``[security]`` says. Set for a program's own sources only."""
    entry: str = ""
    """Of a server that a platform lists: from what kind of list, and a hash of what the list says of it."""
    origin: str = field(default="", compare=False)
    line: int | None = field(default=None, compare=False)

    @property
    def sign_in_mode(self) -> SignInMode:
        """How it is signed in to; one with an Authorization header of its own is not."""
        if self.oauth is not None:
            return self.oauth.mode
        has_own = any(name.lower() == "authorization" for name in self.headers)
        return SignInMode.HEADER if has_own else SignInMode.SHARED


@dataclass(frozen=True, slots=True)
class ConnectConfig:
    """How often a connection is tried, and how long to wait before each attempt."""

    attempts: Annotated[int, prefer(readers.count)] = 3
    delays_s: Annotated[tuple[float, ...], prefer(readers.list_of(readers.duration_s, "a list of durations"))] = (
        0.0,
        2.0,
        4.0,
    )

    def delay_before_s(self, attempt: int) -> float:
        """The wait before an attempt, counted from 1; the last delay holds for all further ones."""
        return self.delays_s[min(attempt, len(self.delays_s)) - 1] if self.delays_s else 0.0


@dataclass(frozen=True, slots=True)
class ResultsConfig:
    """From which size on a result is kept and shown as a preview, and how much is kept for how long."""

    limit: Annotated[int, prefer(readers.result_limit)] = 256 * 1024
    """Bytes; zero is no limit."""
    keep_s: Annotated[float, prefer(readers.timeout_s)] = 3600.0
    space: Annotated[int, prefer(readers.size)] = 256_000_000


@dataclass(frozen=True, slots=True)
class TasksConfig:
    """When a call becomes a task for a client that knows such, and how many there may be for how long."""

    after_s: Annotated[float, prefer(readers.duration_s)] = 3.0
    """A call that takes longer is answered later."""
    ttl_s: Annotated[float, prefer(readers.timeout_s)] = 3600.0
    """How long such a task can be asked about."""
    per_caller: Annotated[int, prefer(readers.count)] = 200


@dataclass(frozen=True, slots=True)
class AuditConfig:
    """Whether and where calls and security decisions are written down."""

    enabled: Annotated[bool, Key(readers.flag, ON)] = False
    """What comes from files is audited unless they say no."""
    path: Annotated[str, Key(readers.some_text, as_first_said)] = ""
    """Empty: ``audit.db`` in the user's state directory."""
    values: Annotated[bool, Key(readers.flag, OFF)] = False
    """Whether arguments and results themselves are written down, too, without the secrets that are known."""


@dataclass(frozen=True, slots=True)
class TelemetryConfig:
    """What is told to other programs that watch."""

    traces: Annotated[bool, prefer(readers.flag)] = False
    """Whether each call is an OpenTelemetry span."""


@dataclass(frozen=True, slots=True)
class Config:
    """Everything the user wrote, merged: servers by name, in the order of their names."""

    servers: Mapping[str, ServerConfig] = field(default_factory=dict)
    profiles: Mapping[str, ProfileConfig] = field(default_factory=dict)
    connect: ConnectConfig = ConnectConfig()
    call_timeout_s: Annotated[float, prefer(readers.timeout_s, name="calls.timeout")] = 30.0
    call_timeout_total_s: Annotated[float, prefer(readers.timeout_s, name="calls.timeout_total")] = 3600.0
    """For calls that tell how far they are: the other limit counts anew each time, this one does not."""
    call_log: Annotated[Literal["debug", "info"], prefer(readers.one_of("debug", "info"), name="calls.log")] = "debug"
    """The level at which calls that went well are told."""
    slow_call_s: Annotated[float, prefer(readers.duration_s, name="calls.slow")] = 1.0
    list_grace_s: Annotated[float, prefer(readers.duration_s, name="catalog.grace")] = 5.0
    """How long a listing waits for servers that are still being discovered."""
    capacity: Annotated[int, prefer(readers.count, name="catalog.capacity")] = 10_000
    """How many tools there may be over all."""
    catalog_memory: Annotated[int, prefer(readers.size, name="catalog.memory")] = 0
    """How many bytes their definitions may take; zero is no limit."""
    security: SecurityConfig = field(default_factory=SecurityConfig)
    limits: CommonLimits = field(default_factory=CommonLimits)
    results: ResultsConfig = ResultsConfig()
    tasks: TasksConfig = TasksConfig()
    host: Annotated[str, prefer(readers.some_text, name="serve.host")] = "127.0.0.1"
    port: Annotated[int, prefer(readers.port, name="serve.port")] = 7337
    public_url: Annotated[str, prefer(readers.page_address, name="serve.public_url")] = ""
    """Where people find the page, if it is not only on this machine."""
    auth_mode: Annotated[AuthMode, Key(readers.one_of(*AUTH_MODES), AUTH, name="serve.auth")] = "auto"
    oauth: Annotated[OAuthMode, Key(readers.one_of(*OAUTH_MODES), OAUTH, name="serve.oauth")] = "off"
    """``builtin``: clients get their tokens here, from people who let them in on the page."""
    oauth_level: Annotated[SecurityLevel, Key(readers.level, LOWEST_LEVEL, name="serve.oauth_level")] = (
        SecurityLevel.WRITE
    )
    """The furthest that clients which come by OAuth may ask to reach."""
    edit_commands: Annotated[bool, Key(readers.flag, OFF, name="serve.edit_commands")] = False
    """Whether servers that run a command may be added and changed over HTTP."""
    replica: Annotated[str, prefer(readers.tool_name, name="serve.replica")] = ""
    """What this process is called among others that serve the same; empty: by its machine and number."""
    drain_s: Annotated[float | None, prefer(readers.duration_s, name="serve.drain")] = None
    """How long requests are still answered after SIGTERM; ``None``: not at all, or a while where there are replicas."""
    linger_s: Annotated[float, prefer(readers.duration_s, name="serve.linger")] = 600.0
    """How long a toolcrib that was started for clients over stdio stays when the last of them has left."""
    access: AccessConfig = field(default_factory=AccessConfig)
    auth: AuthConfig = field(default_factory=AuthConfig)
    audit: AuditConfig = AuditConfig()
    telemetry: TelemetryConfig = TelemetryConfig()
    isolation: IsolationConfig = field(default_factory=IsolationConfig)
    expose: ExposeConfig = SHOW_ALL
    kb: KbConfig = field(default_factory=KbConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    workspace: WorkspaceConfig = field(default_factory=WorkspaceConfig)
    platform: PlatformConfig = field(default_factory=PlatformConfig)
    store: StoreConfig = field(default_factory=StoreConfig)
    redis: RedisConfig = field(default_factory=RedisConfig)
    native: Annotated[tuple[str, ...], prefer(readers.list_of(readers.import_path, "a list of import paths"))] = ()
    """Import paths ``module`` or ``module:function`` whose ``@tool`` functions are loaded."""
    origins: Mapping[str, Origin] = field(default_factory=dict, compare=False)
    """Setting, as written in toolcrib.toml → where it was written; what is missing is a default."""
    overruled: Mapping[str, tuple[Overruled, ...]] = field(default_factory=dict, compare=False)
    """Rule, as written in toolcrib.toml → the milder values of it that do not count."""
    problems: tuple[str, ...] = field(default=(), compare=False)
    """What was read but could not be used, for ``toolcrib doctor`` and the health page."""


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """One server as one place wrote it: only the fields that were written."""

    fields: Mapping[str, Any]
    origin: Origin
    origins: Mapping[str, Origin] = field(default_factory=dict)
    adjusts: bool = False
    """Laid over the entry below, field by field, instead of replacing it."""


@dataclass(frozen=True, slots=True)
class Layer:
    """What one place (a file, the environment, the flags) says, before the places are merged."""

    where: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    servers: Mapping[str, ServerEntry] = field(default_factory=dict)
    origins: Mapping[str, Origin] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    profiles: Mapping[str, ProfileConfig] = field(default_factory=dict)
    is_only_rules: bool = False
    """Whether its servers do not count, only what it allows of servers of those names."""


_LIVE = ("tools", "origin", "line", *(key.field for key in keys_of(ServerConfig).values() if key.is_live))


def is_same_connection(old: ServerConfig, new: ServerConfig) -> bool:
    """Whether a change concerns only how tools are shown and limited, not what is run, reached or asked for."""
    return replace(old, **{name: getattr(new, name) for name in _LIVE}) == new


def identity_hash(server: ServerConfig) -> str:
    """What a server is, as SHA-256: its command or its address, without what it is given; of one that a platform
    lists, all that the list says of it."""
    return _hash_of(server, "command", "args", "cwd", "url", *(("entry",) if server.entry else ()))


def config_hash(server: ServerConfig) -> str:
    """What a discovery depends on, as SHA-256; references count as written, so no secret goes in."""
    plain = ServerConfig("")  # a server hides tools from clients that cannot be asked, or that speak another era
    told = [name for name in ("relay", "era", "transport", "oauth") if getattr(server, name) != getattr(plain, name)]
    return _hash_of(server, "command", "args", "env", "cwd", "url", "headers", *told)


def _hash_of(server: ServerConfig, *names: str) -> str:
    identity = {name: getattr(server, name) for name in names}
    return hashlib.sha256(msgspec.json.encode(identity, order="sorted")).hexdigest()


def is_bare(config: Config) -> bool:
    """Whether no tools are configured at all, so that the built-in ones stand in."""
    is_empty = not config.servers and not config.native
    return is_empty and not config.workspace.enabled and not config.platform.is_on


def has_result_limit(config: Config) -> bool:
    """Whether any result can be too large."""
    tools = (tool for server in config.servers.values() for tool in server.tools.values())
    return bool(config.results.limit) or any(tool.result_limit for tool in tools)


def without_result_limits(config: Config) -> Config:
    """The configuration of a program that takes results of any size."""
    servers = {name: replace(server, tools=_without_limits(server)) for name, server in config.servers.items()}
    return replace(config, servers=servers, results=replace(config.results, limit=0))


def _without_limits(server: ServerConfig) -> Mapping[str, ToolConfig]:
    return {name: replace(tool, result_limit=None) for name, tool in server.tools.items()}


def exposed_by(config: Config, mode: str) -> Config:
    """The configuration as if a flag had said how tools are shown."""
    if not mode:
        return config
    origins = {**config.origins, "expose.mode": Origin("flag")}
    return replace(config, expose=replace(config.expose, mode=cast("ExposeMode", mode)), origins=origins)
