"""What is allowed, in the configuration: policies, pins, who may come, and how far programs are kept from the rest."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from toolcrib.core.tool import SecurityLevel

Policy = Literal["allow", "ask", "deny", "disable"]
POLICIES: tuple[Policy, ...] = ("allow", "ask", "deny", "disable")
PinMode = Literal["first", "strict", "off"]
PIN_MODES: tuple[PinMode, ...] = ("first", "strict", "off")


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

    policy: Policy = "allow"
    policies: Mapping[str, Policy] = field(default_factory=dict)
    """Pattern → policy; of several that fit, the most careful one counts."""
    levels: Mapping[str, SecurityLevel] = field(default_factory=dict)
    """Pattern → level; of several that fit, the highest one counts."""
    pins: PinMode = "first"
    """``first``: a tool is pinned as it was first seen; ``strict``: new tools wait for approval, too."""
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


ISOLATIONS = ("none", "limits", "confined", "isolated")
"""How far a program is kept from the rest, weakest first."""


@dataclass(frozen=True, slots=True)
class IsolationConfig:
    """How far servers are kept from the rest unless they say otherwise, and what is the least for whom."""

    level: str = "limits"
    minimum: Mapping[str, str] = field(default_factory=dict)
    """Security level → the least isolation its tools may run at; what is missing may run at any."""
