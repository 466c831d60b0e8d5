"""The sections of the configuration, as frozen values; a field whose annotation has a key can be written in a file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from toolcrib.config import values as readers
from toolcrib.config.keys import (
    ISOLATION,
    ISOLATION_OR_AUTO,
    LEVEL,
    LOWEST_LEVEL,
    OFF,
    PINS,
    POLICY,
    Key,
    Secrecy,
    as_first_said,
    common,
    each,
    prefer,
    rarer,
    within,
)
from toolcrib.core.kinds import AUTO, IsolationChoice, IsolationLevel, PinMode, Policy
from toolcrib.core.offers import SecurityLevel


@dataclass(frozen=True, slots=True)
class PlaceRules:
    """What one place (a file, say) says of tools."""

    where: str
    policy: Policy | None = None
    policies: Mapping[str, Policy] = field(default_factory=dict)
    levels: Mapping[str, SecurityLevel] = field(default_factory=dict)
    server_policies: Mapping[str, Policy] = field(default_factory=dict)
    server_levels: Mapping[str, SecurityLevel] = field(default_factory=dict)
    tool_policies: Mapping[tuple[str, str], Policy] = field(default_factory=dict)
    """By the names of the server and of the tool there."""
    tool_levels: Mapping[tuple[str, str], SecurityLevel] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SecurityConfig:
    """Which tools are how dangerous, and what is done about it. Patterns stand for exposed names."""

    policy: Annotated[Policy, Key(readers.one_of(*Policy), POLICY)] = Policy.ALLOW
    policies: Annotated[
        Mapping[str, Policy],
        Key(readers.map_of(readers.one_of(*Policy), "a table of patterns and policies"), **each(POLICY)),
    ] = field(default_factory=dict)
    """Pattern → policy; of several that fit, the most careful one counts."""
    levels: Annotated[
        Mapping[str, SecurityLevel], Key(readers.map_of(readers.level, "a table of patterns and levels"), **each(LEVEL))
    ] = field(default_factory=dict)
    """Pattern → level; of several that fit, the highest one counts."""
    pins: Annotated[PinMode, Key(readers.one_of(*PinMode), PINS)] = PinMode.FIRST
    ask_timeout_s: Annotated[float, Key(readers.timeout_s, min)] = 120.0
    """How long a person has to answer."""
    places: tuple[PlaceRules, ...] = ()
    """What each place says where there are several: an exact name beats a pattern only within one place, and of what
    the places come to the strictest counts."""


LIMIT_KEYS: Mapping[str, Key] = {
    "limits.caller_rate": Key(readers.rate, rarer, field="caller_rate", section="limits"),
    "limits.parallel": Key(readers.count, min, field="parallel", section="limits"),
    "limits.queue": Key(readers.count_or_none, min, field="queue", section="limits"),
}
"""For ``CommonLimits``, which is a value of ``core`` and knows no files."""


AuthMode = Literal["auto", "required", "none"]
AUTH_MODES: tuple[AuthMode, ...] = ("auto", "required", "none")
OAuthMode = Literal["off", "builtin"]
OAUTH_MODES: tuple[OAuthMode, ...] = ("off", "builtin")
ASYMMETRIC = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")


@dataclass(frozen=True, slots=True)
class AccessConfig:
    """What callers without a token may reach: everything, unless this says less."""

    level: Annotated[SecurityLevel, Key(readers.level, LOWEST_LEVEL)] = SecurityLevel.SYSTEM
    servers: Annotated[tuple[str, ...], Key(readers.texts("server names"), within)] = ("*",)
    tools: Annotated[tuple[str, ...], Key(readers.texts("tool names"), within)] = ("*",)


@dataclass(frozen=True, slots=True)
class AuthConfig:
    """The issuer whose JWTs are accepted; none without an ``issuer``."""

    issuer: Annotated[str, Key(readers.some_text, as_first_said)] = ""
    audience: Annotated[str, Key(readers.some_text, as_first_said)] = ""
    jwks: Annotated[str, Key(readers.key_source, as_first_said)] = ""
    """Where its public keys are: an address, or a file."""
    algorithms: Annotated[tuple[str, ...], Key(readers.some_of(ASYMMETRIC), common)] = ("RS256", "ES256", "EdDSA")
    max_age_s: Annotated[float, Key(readers.timeout_s, min)] = 86400.0
    """The longest lifetime a token may have."""
    leeway_s: Annotated[float, Key(readers.duration_s, min)] = 30.0


@dataclass(frozen=True, slots=True)
class IsolationConfig:
    """How far servers are kept from the rest unless they say otherwise, and what is the least for whom."""

    level: Annotated[IsolationChoice, Key(readers.one_of(*IsolationLevel, AUTO), ISOLATION_OR_AUTO)] = (
        IsolationLevel.LIMITS
    )
    minimum: Annotated[
        Mapping[SecurityLevel, IsolationLevel],
        Key(readers.one_of_each(tuple(SecurityLevel), tuple(IsolationLevel)), **each(ISOLATION)),
    ] = field(default_factory=dict)
    """Security level → the least isolation its tools may run at; what is missing may run at any."""


ExposeMode = Literal["all", "search", "auto"]
EXPOSE_MODES: tuple[ExposeMode, ...] = ("all", "search", "auto")


@dataclass(frozen=True, slots=True)
class ExposeConfig:
    """How much of the catalogue MCP clients are shown up front."""

    mode: Annotated[ExposeMode, prefer(readers.one_of(*EXPOSE_MODES))] = "all"
    """``search``: the pinned tools, and three that find, describe and call the rest; ``auto``: beyond ``budget``."""
    budget: Annotated[int, prefer(readers.count)] = 10_000
    """Tokens, as far as they can be told without a model."""
    pinned: Annotated[tuple[str, ...], prefer(readers.texts("tool names"))] = ()
    """Patterns of tools that are shown in any case."""
    clients: Annotated[
        Mapping[str, ExposeMode],
        prefer(readers.map_of(readers.one_of(*EXPOSE_MODES), "a table of client names and modes")),
    ] = field(default_factory=dict)
    """Pattern of a client's own name → the mode for it."""
    resources: Annotated[bool | Literal["auto"], prefer(readers.flag_or_auto)] = False
    """Whether two tools list and read resources, for models whose client knows of tools alone; ``auto``: while there
    is something to read."""


SHOW_ALL = ExposeConfig()


@dataclass(frozen=True, slots=True)
class ProfileTool:
    """What a profile changes of one tool."""

    name: Annotated[str, prefer(readers.tool_name)] = ""
    """Empty: its own."""
    description: Annotated[str, prefer(readers.some_text)] = ""
    fixed: Annotated[Mapping[str, Any], prefer(readers.json_table)] = field(default_factory=dict)
    """Parameters that toolcrib fills in; nobody else can."""
    hidden: Annotated[tuple[str, ...], prefer(readers.texts("parameters"))] = ()
    """Parameters that are not shown, and cannot be given."""


@dataclass(frozen=True, slots=True)
class ProfileConfig:
    """A named part of the catalogue, dressed for a purpose; a tool must fit ``servers`` and ``tools``."""

    servers: Annotated[tuple[str, ...], prefer(readers.texts("server names"))] = ("*",)
    tools: Annotated[tuple[str, ...], prefer(readers.texts("tool names"))] = ("*",)
    resources: Annotated[tuple[str, ...] | None, prefer(readers.texts("resource names or URIs"))] = None
    """Patterns of resources and templates; ``None``: the patterns of ``tools``."""
    prompts: Annotated[tuple[str, ...] | None, prefer(readers.texts("prompt names"))] = None
    """Patterns of prompts; ``None``: the patterns of ``tools``."""
    without: Annotated[tuple[str, ...], prefer(readers.texts("tool names"))] = ()
    """Patterns of what is left out, whatever its kind."""
    expose: Annotated[ExposeMode | None, prefer(readers.one_of(*EXPOSE_MODES))] = None
    budget: Annotated[int | None, prefer(readers.count)] = None
    pinned: Annotated[tuple[str, ...], prefer(readers.texts("tool names"))] = ()
    change: Mapping[str, ProfileTool] = field(default_factory=dict)
    """By the name in the whole catalogue."""
    is_plain: bool = False
    """Whether tools go by the names their servers gave them; for a part that is one server's."""


WORKSPACE_TOOLS = (
    "bash", "file_read", "file_write", "file_edit", "file_list", "file_find", "ripgrep_search", "url_fetch", "delegate",
    "task_create", "task_list", "task_complete", "task_update", "task_add_note", "task_view",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class WorkspaceConfig:
    """The tools that work in one directory."""

    enabled: Annotated[bool, prefer(readers.flag)] = False
    root: Annotated[str, prefer(readers.some_text)] = "."
    """Seen from the project's own directory."""
    tools: Annotated[tuple[str, ...], prefer(readers.some_of(WORKSPACE_TOOLS))] = ()
    """Which of them; all if none is named, ``bash`` only if it is switched on."""
    bash: Annotated[bool, Key(readers.flag, OFF)] = False
    isolation: Annotated[IsolationLevel, Key(readers.one_of(*IsolationLevel), ISOLATION)] = IsolationLevel.CONFINED
    """The least that commands run at; with less, none is run."""
    network: Annotated[bool, Key(readers.flag, OFF)] = False
    """Whether commands have one."""
    loopback: Annotated[tuple[int, ...], Key(readers.ports, common)] = ()
    """Ports of this machine that they may then connect to."""
    read: Annotated[tuple[str, ...], prefer(readers.texts("paths"))] = ()
    """What commands may read besides the workspace and the system's own programs."""
    timeout_s: Annotated[float, prefer(readers.timeout_s)] = 120.0
    """The longest a command may take."""
    output: Annotated[int, prefer(readers.result_limit)] = 64 * 1024
    """How much of a command's output is kept, in bytes: its beginning and its end."""
    fetch_size: Annotated[int, prefer(readers.size)] = 5_000_000
    fetch_timeout_s: Annotated[float, prefer(readers.timeout_s)] = 30.0

    @property
    def offered(self) -> tuple[str, ...]:
        """The names of the tools that are there."""
        wanted = self.tools or WORKSPACE_TOOLS
        return tuple(name for name in WORKSPACE_TOOLS if name in wanted and (name != "bash" or self.bash))


BUILT_IN_EMBEDDERS = ("bundled", "none")
MODEL_PROVIDERS = ("openai", "openai-responses", "anthropic", "ollama")
EMBEDDER_KINDS = ("bundled", "onnx", "openai", "ollama")


@dataclass(frozen=True, slots=True)
class EmbedderConfig:
    """One way to make vectors of documents; references stay references here."""

    kind: Annotated[str, prefer(readers.one_of(*EMBEDDER_KINDS))]
    model: Annotated[str, prefer(readers.some_text)] = ""
    url: Annotated[str, prefer(readers.address, mask=Secrecy.ADDRESS)] = ""
    """Empty: the provider's own address."""
    path: Annotated[str, prefer(readers.some_text)] = ""
    """The folder of an ONNX model."""
    api_key: Annotated[str, prefer(readers.reference, is_secret=True)] = field(default="", repr=False)
    dimensions: Annotated[int, prefer(readers.count)] = 0
    """Zero: as long as the model makes them."""
    query_prefix: Annotated[str, prefer(readers.text)] = ""
    document_prefix: Annotated[str, prefer(readers.text)] = ""
    batch: Annotated[int, prefer(readers.count)] = 0
    """How many texts are given at once; zero leaves it to the kind."""
    timeout_s: Annotated[float, prefer(readers.timeout_s)] = 30.0


@dataclass(frozen=True, slots=True)
class KbConfig:
    """The knowledge base: where it is, how it is searched, and who writes its answers."""

    enabled: Annotated[bool, prefer(readers.flag)] = False
    """Whether there are the ``kb_*`` tools; what comes from files has them unless it says no."""
    path: Annotated[str, prefer(readers.some_text)] = ""
    """Empty: ``kb.db`` in the user's state directory."""
    docs: Annotated[bool, prefer(readers.flag)] = True
    """Whether toolcrib's own documentation is a collection of its own."""
    add_from: Annotated[tuple[str, ...], Key(readers.texts("folders"), common)] = ()
    """Folders that ``kb_add`` may read, whoever calls it; what is typed at ``toolcrib kb add`` needs none."""
    embedder: Annotated[str, prefer(readers.some_text)] = "bundled"
    """For new collections: what is built in, or a name out of ``embedders``."""
    embedders: Annotated[
        Mapping[str, EmbedderConfig], prefer(readers.map_of(readers.table, "a table of embedders"))
    ] = field(default_factory=dict)
    provider: Annotated[str, prefer(readers.one_of(*MODEL_PROVIDERS))] = "openai"
    model: Annotated[str, prefer(readers.some_text)] = ""
    """Empty: answers are made of the best sentences, without a model."""
    url: Annotated[str, prefer(readers.address, mask=Secrecy.ADDRESS)] = ""
    """Empty: the provider's own address."""
    key: Annotated[str, prefer(readers.some_text, is_secret=True, mask=Secrecy.KEY)] = field(default="", repr=False)
    timeout_s: Annotated[float, prefer(readers.timeout_s)] = 60.0
    expose: Annotated[str, prefer(readers.one_of("auto", "always", "never"))] = "auto"
    """Whether the ``kb_*`` tools are listed; they can be called in any case. ``auto``: once something was put into it,
    or where ``enabled`` is written."""


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The model of ``toolcrib chat`` and of agents that are delegated to."""

    provider: Annotated[str, prefer(readers.one_of(*MODEL_PROVIDERS))] = "openai"
    model: Annotated[str, prefer(readers.some_text)] = ""
    """Empty: there is none."""
    url: Annotated[str, prefer(readers.address, mask=Secrecy.ADDRESS)] = ""
    """Empty: the provider's own address."""
    key: Annotated[str, prefer(readers.some_text, is_secret=True, mask=Secrecy.KEY)] = field(default="", repr=False)
    """Empty: the provider's usual environment variable."""
    timeout_s: Annotated[float, prefer(readers.timeout_s)] = 120.0
    """How long it may be silent."""
    max_tokens: Annotated[int, prefer(readers.count)] = 4096
    """Of one answer."""
    sampling: Annotated[Policy, Key(readers.one_of(Policy.ALLOW, Policy.ASK, Policy.DENY), POLICY)] = Policy.ASK
    """Whether servers may ask it where the client has no model for them."""


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """The way out, where it is not as the environment says."""

    proxy: Annotated[str, prefer(readers.engine_url("http", "https"), is_secret=True, mask=Secrecy.ADDRESS)] = field(
        default="", repr=False
    )
    """Empty: ``HTTPS_PROXY`` and its kin."""
    no_proxy: Annotated[tuple[str, ...], prefer(readers.texts("hosts"))] = ()
    loopback: Annotated[bool, prefer(readers.flag)] = False
    """Whether what is on this machine is reached through the proxy, too."""
    ca_file: Annotated[str, prefer(readers.some_text)] = ""
    """Empty: ``SSL_CERT_FILE``, else the system's own."""


TOKEN_CHECKS = ("jwt", "none")
GATEWAY_VERSIONS = ("auto", "v1", "v2")


@dataclass(frozen=True, slots=True)
class PlatformConfig:
    """A tooling platform whose servers are used beside those that are written down; none without an ``app_id``."""

    app_id: Annotated[str, prefer(readers.some_text)] = ""
    endpoint: Annotated[str, prefer(readers.address)] = ""
    """Empty: ``MCP_PLATFORM_ENDPOINT``, else the platform's own address."""
    token: Annotated[str, prefer(readers.reference, is_secret=True)] = field(default="", repr=False)
    """A reference, like all tokens here."""
    tokens: Annotated[
        Mapping[str, str],
        prefer(readers.map_of(readers.reference, "a table of servers and references"), is_secret=True),
    ] = field(default_factory=dict, repr=False)
    """Server → the token that is for it alone."""
    development: Annotated[bool | None, prefer(readers.flag)] = None
    """Whether servers come from the manifest; ``None`` leaves it to the environment."""
    manifest: Annotated[str, prefer(readers.some_text)] = ""
    """Empty: the one that is found."""
    servers: Annotated[tuple[str, ...], prefer(readers.texts("server names"))] = ("*",)
    """Which of the platform's servers are used."""
    token_check: Annotated[str, prefer(readers.one_of(*TOKEN_CHECKS))] = "jwt"  # noqa: S105 - which check, not a secret
    version: Annotated[str, prefer(readers.one_of(*GATEWAY_VERSIONS))] = "auto"
    orchestrator: Annotated[str, prefer(readers.text)] = ""
    ttl_s: Annotated[float, prefer(readers.timeout_s)] = 300.0
    timeout_s: Annotated[float, prefer(readers.timeout_s)] = 30.0

    @property
    def is_on(self) -> bool:
        """Whether there is a platform to ask."""
        return bool(self.app_id or self.development or self.manifest)


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """Where audit, approvals, pins, discovery records, tokens, tasks and sessions are kept."""

    url: Annotated[str, prefer(readers.engine_url("postgresql", "postgres"), is_secret=True, mask=Secrecy.ADDRESS)] = (
        field(default="", repr=False)
    )
    """``postgresql://…``, or a reference to a variable that holds it; empty: in files of this machine."""
    name: Annotated[str, prefer(readers.tool_name)] = "main"
    """Replicas with the same name share everything; one database may hold several."""
    pool: Annotated[int, prefer(readers.count)] = 8
    """The most connections of one process."""
    timeout_s: Annotated[float, prefer(readers.timeout_s)] = 5.0
    """How long a statement waits for a connection before the store counts as away."""


@dataclass(frozen=True, slots=True)
class RedisConfig:
    """Where replicas agree on limits, discoveries and news."""

    url: Annotated[str, prefer(readers.engine_url("redis", "rediss", "unix"), is_secret=True, mask=Secrecy.ADDRESS)] = (
        field(default="", repr=False)
    )
    """``redis://…``, ``rediss://…`` or ``unix://…``, or a reference; empty: there is none."""
    timeout_s: Annotated[float, prefer(readers.timeout_s)] = 2.0
    """How long an answer may take before Redis counts as away."""
