"""What the layers of one Crib share, and what doors look at and attach to."""

from dataclasses import dataclass, field

from toolcrib.calls.approvals import Desk
from toolcrib.calls.breaker import Breakers
from toolcrib.calls.inbox import Inbox
from toolcrib.calls.layers.keep import ResultKeeper
from toolcrib.calls.live import Live
from toolcrib.calls.metrics import Metrics
from toolcrib.core.audit import Audit
from toolcrib.core.coordination import Coordination
from toolcrib.core.events import Emit
from toolcrib.isolate.helpers import Helpers


@dataclass(frozen=True, slots=True)
class Rig:
    """One of each."""

    emit: Emit
    metrics: Metrics
    breakers: Breakers
    desk: Desk
    inbox: Inbox
    log: Audit
    results: ResultKeeper | None = None
    """Where results are kept that are too large for a model."""
    live: Live | None = None
    """The calls under way, where people may look at them."""
    fleet: Coordination | None = None
    """The other replicas, where there are any: limits hold over all of them."""
    helpers: Helpers = field(default_factory=Helpers)
    """Processes for what would hold up the event loop."""
