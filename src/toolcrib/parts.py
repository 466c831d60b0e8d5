"""What a Crib is made of; ``assemble`` puts it together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolcrib.calls.pipeline import Layer
from toolcrib.calls.rig import Rig
from toolcrib.catalog.shelf import RecordStore
from toolcrib.catalog.supply import Supply
from toolcrib.config.ledger import Ledger
from toolcrib.config.model import ServerConfig
from toolcrib.config.security import SecurityConfig
from toolcrib.core.source import LocalSource, ServerSource
from toolcrib.fleet import Fleet


@dataclass(frozen=True, slots=True)
class CribSettings:
    """How a Crib behaves as a whole."""

    list_grace_s: float = 5.0
    prefix: bool = True
    capacity: int = 10_000


@dataclass(frozen=True, slots=True)
class Parts:
    """One of each."""

    native: LocalSource
    make_source: Callable[[ServerConfig], ServerSource]
    records: RecordStore
    layers: Sequence[Layer]
    rig: Rig
    settings: CribSettings = CribSettings()
    security: SecurityConfig = field(default_factory=SecurityConfig)
    close_last: Callable[[], Any] | None = None
    ledger: Ledger | None = None
    """Where records and answers outlive the process, for those who look after them."""
    supply: Supply | None = None
    """Servers that are found elsewhere, beside those that are written down."""
    fleet: Fleet | None = None
    """The replicas that this one shares its state with."""
