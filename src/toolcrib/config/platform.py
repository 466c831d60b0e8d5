"""A tooling platform in the configuration: who is asked for servers, and with which tokens."""

from collections.abc import Mapping
from dataclasses import dataclass, field

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
