"""Who calls, and what they may reach."""

from dataclasses import dataclass

from toolcrib.core.tool import SecurityLevel


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever makes a call: a person at the terminal, a token, an agent's session."""

    id: str
    kind: str = "local"
    highest_level: SecurityLevel = SecurityLevel.SYSTEM


LOCAL_USER = Caller("local")
