"""Protocol revisions: which exist, which two sides agree on, and how a server's era is found out.

The *handshake* era opens with ``initialize`` and keeps state per connection; the *modern* era (2026-07-28) is
stateless, each request carries what the server must know in ``_meta``.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, assert_never

from toolcrib.core.errors import ProtocolError
from toolcrib.core.kinds import EraChoice

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSIONS = ("2026-07-28",)
KNOWN_VERSIONS = HANDSHAKE_VERSIONS + MODERN_VERSIONS
LATEST_HANDSHAKE = HANDSHAKE_VERSIONS[-1]
LATEST_MODERN = MODERN_VERSIONS[-1]

META_VERSION = "io.modelcontextprotocol/protocolVersion"
META_CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
META_CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
META_SERVER_INFO = "io.modelcontextprotocol/serverInfo"
META_LOG_LEVEL = "io.modelcontextprotocol/logLevel"
META_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
META_RELATED_TASK = "io.modelcontextprotocol/related-task"
META_RESERVED = frozenset({
    META_VERSION, META_CLIENT_INFO, META_CLIENT_CAPABILITIES, META_SERVER_INFO, META_LOG_LEVEL, META_SUBSCRIPTION,
    META_RELATED_TASK,
})  # fmt: skip

UNSUPPORTED_VERSION = -32022


def is_modern(version: str) -> bool:
    """Whether a revision is of the stateless era."""
    return version in MODERN_VERSIONS


def agree_on_handshake(requested: object) -> str:
    """The revision a server answers ``initialize`` with: the requested one if known, else its newest."""
    return requested if isinstance(requested, str) and requested in HANDSHAKE_VERSIONS else LATEST_HANDSHAKE


class ProbeStep(Enum):
    """Where a client stands in finding out what a server speaks."""

    DISCOVER = "send server/discover"
    INITIALIZE = "send initialize"
    DISCOVER_AGAIN = "send server/discover once more"
    MODERN = "speak modern"
    HANDSHAKE = "speak the handshake era"


class ProbeOutcome(Enum):
    """What came back."""

    ACCEPTED = "was accepted"
    REFUSED = "was refused"
    REFUSED_AS_MODERN = "was refused by a server that names modern revisions"
    SILENT = "was ignored"


LEGAL: Mapping[ProbeStep, Mapping[ProbeOutcome, ProbeStep]] = {
    ProbeStep.DISCOVER: {
        ProbeOutcome.ACCEPTED: ProbeStep.MODERN,
        ProbeOutcome.REFUSED: ProbeStep.INITIALIZE,
        ProbeOutcome.REFUSED_AS_MODERN: ProbeStep.DISCOVER_AGAIN,
        ProbeOutcome.SILENT: ProbeStep.INITIALIZE,
    },
    ProbeStep.INITIALIZE: {
        ProbeOutcome.ACCEPTED: ProbeStep.HANDSHAKE,
        ProbeOutcome.REFUSED: ProbeStep.DISCOVER_AGAIN,
        ProbeOutcome.REFUSED_AS_MODERN: ProbeStep.DISCOVER_AGAIN,
    },
    ProbeStep.DISCOVER_AGAIN: {ProbeOutcome.ACCEPTED: ProbeStep.MODERN},
    ProbeStep.MODERN: {},
    ProbeStep.HANDSHAKE: {},
}


def first_step(remembered: str, choice: EraChoice = EraChoice.AUTO) -> ProbeStep:
    """Where to begin with a server that was found to speak ``remembered`` before (empty: unknown)."""
    match choice:
        case EraChoice.AUTO:
            return ProbeStep.INITIALIZE if remembered in HANDSHAKE_VERSIONS else ProbeStep.DISCOVER
        case EraChoice.HANDSHAKE:
            return ProbeStep.INITIALIZE
        case EraChoice.STATELESS:
            return ProbeStep.DISCOVER
        case _:
            assert_never(choice)


def allows(choice: EraChoice, step: ProbeStep) -> bool:
    """Whether a step leads to an era that may be spoken."""
    handshake = step in (ProbeStep.INITIALIZE, ProbeStep.HANDSHAKE)
    return choice is EraChoice.AUTO or handshake == (choice is EraChoice.HANDSHAKE)


def advance(step: ProbeStep, outcome: ProbeOutcome) -> ProbeStep:
    """The step after ``outcome``; one the table does not know means that both sides share no revision."""
    try:
        return LEGAL[step][outcome]
    except KeyError:
        raise ProtocolError(f"{step.value}: the server's answer leaves nothing to try ({outcome.value}).") from None


def judge_discover(result: Mapping[str, Any]) -> ProbeOutcome:
    """Whether a ``server/discover`` result offers a modern revision toolcrib speaks."""
    supported = result.get("supportedVersions")
    offered = supported if isinstance(supported, Sequence) else ()
    return ProbeOutcome.ACCEPTED if any(version in MODERN_VERSIONS for version in offered) else ProbeOutcome.REFUSED


def judge_refusal(code: int, data: object) -> ProbeOutcome:
    """What a JSON-RPC error says about the server's era."""
    supported = data.get("supported") if isinstance(data, Mapping) else None
    names_modern = isinstance(supported, Sequence) and any(version in MODERN_VERSIONS for version in supported)
    if code == UNSUPPORTED_VERSION and names_modern:
        return ProbeOutcome.REFUSED_AS_MODERN
    return ProbeOutcome.REFUSED
