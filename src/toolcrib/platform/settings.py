"""Where the platform is and how this process meets it: by value, by callable, by environment variable, by default.

An override that is a callable is called each time it is needed, and one that gives ``None`` leaves it to the
environment; so one program can serve several tenants.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar
from urllib.parse import urlsplit

from toolcrib.core.errors import ConfigError

T = TypeVar("T")
Override: TypeAlias = T | Callable[[], T | None] | None

DEFAULT_ENDPOINT = "https://agent365.svc.cloud.microsoft"
DEFAULT_SCOPE = "ea9ffc3e-8a23-4a7d-836d-234d7c7565c1/.default"
DEFAULT_CLUSTER = "prod"
DEVELOPMENT_CLUSTERS = frozenset({"local", "dev"})

ENDPOINT_VARIABLE = "MCP_PLATFORM_ENDPOINT"
SCOPE_VARIABLE = "MCP_PLATFORM_AUTHENTICATION_SCOPE"
CLUSTER_VARIABLE = "CLUSTER_CATEGORY"
SWITCH = "TOOLCRIB_PLATFORM_DEVELOPMENT"
MODE_VARIABLES = ("PYTHON_ENVIRONMENT", "ENVIRONMENT", "ASPNETCORE_ENVIRONMENT", "DOTNET_ENVIRONMENT", "NODE_ENV")
"""The first of them that is set says whether this is development."""

_ON = frozenset({"1", "true", "yes", "on"})


@dataclass(frozen=True, slots=True)
class Mode:
    """Whether servers come from the manifest, and who said so."""

    is_development: bool
    because: str


@dataclass(frozen=True, slots=True)
class PlatformSettings:
    """What may be overridden, and the environment that counts for the rest."""

    mcp_platform_endpoint: Override[str] = None
    mcp_platform_authentication_scope: Override[str] = None
    cluster_category: Override[str] = None
    use_tooling_manifest: Override[bool] = None
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)

    @property
    def endpoint(self) -> str:
        """The platform's address, without a slash at its end."""
        found = _given(self.mcp_platform_endpoint) or self.env.get(ENDPOINT_VARIABLE, "").strip() or DEFAULT_ENDPOINT
        return check_endpoint(found)

    @property
    def authentication_scope(self) -> str:
        """What a token for the platform must be made for."""
        given = _given(self.mcp_platform_authentication_scope)
        return given or self.env.get(SCOPE_VARIABLE, "").strip() or DEFAULT_SCOPE

    @property
    def cluster(self) -> str:
        """``prod``, or the cluster this process belongs to."""
        return _given(self.cluster_category) or self.env.get(CLUSTER_VARIABLE, "").strip() or DEFAULT_CLUSTER

    @property
    def is_development_cluster(self) -> bool:
        """Whether the cluster is a developer's."""
        return self.cluster.lower() in DEVELOPMENT_CLUSTERS

    @property
    def mode(self) -> Mode:
        """Manifest or gateway: what was given, else the switch, else the usual variables, else the gateway."""
        given = _given(self.use_tooling_manifest)
        if given is not None:
            return Mode(given, "use_tooling_manifest")
        if switch := self.env.get(SWITCH, "").strip():
            return Mode(switch.lower() in _ON, f"{SWITCH}={switch}")
        for name in MODE_VARIABLES:
            if value := self.env.get(name, "").strip():
                return Mode(value.lower() == "development", f"{name}={value}")
        return Mode(False, "default")


def check_endpoint(url: str) -> str:
    """The address of a platform, if it can be one: what is asked for is put behind it."""
    hint = f"Write it like {DEFAULT_ENDPOINT}, in {ENDPOINT_VARIABLE} or as endpoint."
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ConfigError("The endpoint of the platform is not an address.", hint=hint) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise ConfigError("The endpoint of the platform is not an http or https address.", hint=hint)
    if parts.query or parts.fragment:
        raise ConfigError("The endpoint of the platform may not have a query or a fragment.", hint=hint)
    return url.rstrip("/")


def _given(override: Override[T]) -> T | None:
    return override() if callable(override) else override
