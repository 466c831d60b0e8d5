"""What replicas share, in the configuration: a PostgreSQL for what must last, a Redis for what must be quick."""

from dataclasses import dataclass, field


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
