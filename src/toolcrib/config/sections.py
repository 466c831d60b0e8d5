"""The sections of the configuration, as frozen values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from toolcrib.core.kinds import IsolationChoice, IsolationLevel, PinMode, Policy
from toolcrib.core.tool import SecurityLevel


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

    policy: Policy = Policy.ALLOW
    policies: Mapping[str, Policy] = field(default_factory=dict)
    """Pattern → policy; of several that fit, the most careful one counts."""
    levels: Mapping[str, SecurityLevel] = field(default_factory=dict)
    """Pattern → level; of several that fit, the highest one counts."""
    pins: PinMode = PinMode.FIRST
    ask_timeout_s: float = 120.0
    """How long a person has to answer."""
    places: tuple[PlaceRules, ...] = ()
    """What each place says where there are several: an exact name beats a pattern only within one place, and of what
    the places come to the strictest counts."""


AuthMode = Literal["auto", "required", "none"]
AUTH_MODES: tuple[AuthMode, ...] = ("auto", "required", "none")
ASYMMETRIC = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")


@dataclass(frozen=True, slots=True)
class AccessConfig:
    """What callers without a token may reach: everything, unless this says less."""

    level: SecurityLevel = SecurityLevel.SYSTEM
    servers: tuple[str, ...] = ("*",)
    tools: tuple[str, ...] = ("*",)


@dataclass(frozen=True, slots=True)
class AuthConfig:
    """The issuer whose JWTs are accepted; none without an ``issuer``."""

    issuer: str = ""
    audience: str = ""
    jwks: str = ""
    """Where its public keys are: an address, or a file."""
    algorithms: tuple[str, ...] = ("RS256", "ES256", "EdDSA")
    max_age_s: float = 86400.0
    """The longest lifetime a token may have."""
    leeway_s: float = 30.0


@dataclass(frozen=True, slots=True)
class IsolationConfig:
    """How far servers are kept from the rest unless they say otherwise, and what is the least for whom."""

    level: IsolationChoice = IsolationLevel.LIMITS
    minimum: Mapping[SecurityLevel, IsolationLevel] = field(default_factory=dict)
    """Security level → the least isolation its tools may run at; what is missing may run at any."""


ExposeMode = Literal["all", "search", "auto"]
EXPOSE_MODES: tuple[ExposeMode, ...] = ("all", "search", "auto")


@dataclass(frozen=True, slots=True)
class ExposeConfig:
    """How much of the catalogue MCP clients are shown up front."""

    mode: ExposeMode = "all"
    """``search``: the pinned tools, and three that find, describe and call the rest; ``auto``: beyond ``budget``."""
    budget: int = 10_000
    """Tokens, as far as they can be told without a model."""
    pinned: tuple[str, ...] = ()
    """Patterns of tools that are shown in any case."""
    clients: Mapping[str, ExposeMode] = field(default_factory=dict)
    """Pattern of a client's own name → the mode for it."""


SHOW_ALL = ExposeConfig()


@dataclass(frozen=True, slots=True)
class ProfileTool:
    """What a profile changes of one tool."""

    name: str = ""
    """Empty: its own."""
    description: str = ""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Parameters that toolcrib fills in; nobody else can."""
    hidden: tuple[str, ...] = ()
    """Parameters that are not shown, and cannot be given."""


@dataclass(frozen=True, slots=True)
class ProfileConfig:
    """A named part of the catalogue, dressed for a purpose; a tool must fit ``servers`` and ``tools``."""

    servers: tuple[str, ...] = ("*",)
    tools: tuple[str, ...] = ("*",)
    without: tuple[str, ...] = ()
    """Patterns of tools that are left out."""
    expose: ExposeMode | None = None
    budget: int | None = None
    pinned: tuple[str, ...] = ()
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

    enabled: bool = False
    root: str = "."
    """Seen from the project's own directory."""
    tools: tuple[str, ...] = ()
    """Which of them; all if none is named, ``bash`` only if it is switched on."""
    bash: bool = False
    isolation: IsolationLevel = IsolationLevel.CONFINED
    """The least that commands run at; with less, none is run."""
    network: bool = False
    """Whether commands have one."""
    loopback: tuple[int, ...] = ()
    """Ports of this machine that they may then connect to."""
    read: tuple[str, ...] = ()
    """What commands may read besides the workspace and the system's own programs."""
    timeout_s: float = 120.0
    """The longest a command may take."""
    output: int = 64 * 1024
    """How much of a command's output is kept, in bytes: its beginning and its end."""
    fetch_size: int = 5_000_000
    fetch_timeout_s: float = 30.0

    @property
    def offered(self) -> tuple[str, ...]:
        """The names of the tools that are there."""
        wanted = self.tools or WORKSPACE_TOOLS
        return tuple(name for name in WORKSPACE_TOOLS if name in wanted and (name != "bash" or self.bash))


NO_WORKSPACE = WorkspaceConfig()


BUILT_IN_EMBEDDERS = ("bundled", "none")
EMBEDDER_KINDS = ("bundled", "onnx", "openai", "ollama")


@dataclass(frozen=True, slots=True)
class EmbedderConfig:
    """One way to make vectors of documents; references stay references here."""

    kind: str
    model: str = ""
    url: str = ""
    """Empty: the provider's own address."""
    path: str = ""
    """The folder of an ONNX model."""
    api_key: str = field(default="", repr=False)
    dimensions: int = 0
    """Zero: as long as the model makes them."""
    query_prefix: str = ""
    document_prefix: str = ""
    batch: int = 0
    """How many texts are given at once; zero leaves it to the kind."""
    timeout_s: float = 30.0


@dataclass(frozen=True, slots=True)
class KbConfig:
    """The knowledge base: where it is, how it is searched, and who writes its answers."""

    enabled: bool = False
    """Whether the ``kb.*`` tools are in the catalogue; what comes from files has them unless it says no."""
    path: str = ""
    """Empty: ``kb.db`` in the user's state directory."""
    docs: bool = True
    """Whether toolcrib's own documentation is a collection of its own."""
    add_from: tuple[str, ...] = ()
    """Folders that ``kb.add`` may read, whoever calls it; what is typed at ``toolcrib kb add`` needs none."""
    embedder: str = "bundled"
    """For new collections: what is built in, or a name out of ``embedders``."""
    embedders: Mapping[str, EmbedderConfig] = field(default_factory=dict)
    provider: str = "openai"
    model: str = ""
    """Empty: answers are made of the best sentences, without a model."""
    url: str = ""
    """Empty: the provider's own address."""
    key: str = field(default="", repr=False)
    timeout_s: float = 60.0


MODEL_PROVIDERS = ("openai", "openai-responses", "anthropic", "ollama")


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The model of ``toolcrib chat`` and of agents that are delegated to."""

    provider: str = "openai"
    model: str = ""
    """Empty: there is none."""
    url: str = ""
    """Empty: the provider's own address."""
    key: str = field(default="", repr=False)
    """Empty: the provider's usual environment variable."""
    timeout_s: float = 120.0
    """How long it may be silent."""
    max_tokens: int = 4096
    """Of one answer."""


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """The way out, where it is not as the environment says."""

    proxy: str = field(default="", repr=False)
    """Empty: ``HTTPS_PROXY`` and its kin."""
    no_proxy: tuple[str, ...] = ()
    loopback: bool = False
    """Whether what is on this machine is reached through the proxy, too."""
    ca_file: str = ""
    """Empty: ``SSL_CERT_FILE``, else the system's own."""


TOKEN_CHECKS = ("jwt", "none")
GATEWAY_VERSIONS = ("auto", "v1", "v2")


@dataclass(frozen=True, slots=True)
class PlatformConfig:
    """A tooling platform whose servers are used beside those that are written down; none without an ``app_id``."""

    app_id: str = ""
    endpoint: str = ""
    """Empty: ``MCP_PLATFORM_ENDPOINT``, else the platform's own address."""
    token: str = field(default="", repr=False)
    """A reference, like all tokens here."""
    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Server → the token that is for it alone."""
    development: bool | None = None
    """Whether servers come from the manifest; ``None`` leaves it to the environment."""
    manifest: str = ""
    """Empty: the one that is found."""
    servers: tuple[str, ...] = ("*",)
    """Which of the platform's servers are used."""
    token_check: str = "jwt"  # noqa: S105 - which check, not a secret
    version: str = "auto"
    orchestrator: str = ""
    ttl_s: float = 300.0
    timeout_s: float = 30.0

    @property
    def is_on(self) -> bool:
        """Whether there is a platform to ask."""
        return bool(self.app_id or self.development or self.manifest)


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """Where audit, approvals, pins, discovery records, tokens, tasks and sessions are kept."""

    url: str = field(default="", repr=False)
    """``postgresql://…``, or a reference to a variable that holds it; empty: in files of this machine."""
    name: str = "main"
    """Replicas with the same name share everything; one database may hold several."""
    pool: int = 8
    """The most connections of one process."""
    timeout_s: float = 5.0
    """How long a statement waits for a connection before the store counts as away."""


@dataclass(frozen=True, slots=True)
class RedisConfig:
    """Where replicas agree on limits, discoveries and news."""

    url: str = field(default="", repr=False)
    """``redis://…``, ``rediss://…`` or ``unix://…``, or a reference; empty: there is none."""
    timeout_s: float = 2.0
    """How long an answer may take before Redis counts as away."""


NO_STORE = StoreConfig()
NO_REDIS = RedisConfig()
