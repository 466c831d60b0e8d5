"""What a replica knows of its own part: what it counted in long windows, and the places it holds. Bounded."""

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from toolcrib.core.coordination import Claim
from toolcrib.stores.coordination.engine import Wish

KEYS_MAX = 4096
PARTS = 30
"""A window is remembered in this many parts; the uses of one part count as made at the latest of them."""


@dataclass(slots=True)
class _Trace:
    count: int
    window_us: int
    parts: deque[list[int]] = field(default_factory=deque)
    """The stamp of the latest use, and how many uses, oldest part first."""


class Mirror:
    """One replica's own uses and places, to be put back after the engine lost them."""

    def __init__(self, whole_window_s: float, keys_max: int = KEYS_MAX) -> None:
        self.held: dict[str, str] = {}
        """The gate of each ticket."""
        self._whole_window_s, self._keys_max = whole_window_s, keys_max
        self._traces: OrderedDict[str, _Trace] = OrderedDict()

    def note(self, claim: Claim, stamp_us: int) -> None:
        """Remember a use that was counted; one in a short window need not be."""
        if claim.rate.window_s <= self._whole_window_s:
            return
        trace = self._traces.setdefault(claim.key, _Trace(0, 0))
        trace.count, trace.window_us = claim.rate.count, round(claim.rate.window_s * 1e6)
        self._traces.move_to_end(claim.key)
        if len(self._traces) > self._keys_max:
            self._traces.popitem(last=False)
        self._add(trace, stamp_us)

    def _add(self, trace: _Trace, stamp_us: int) -> None:
        width_us = trace.window_us // PARTS
        parts = trace.parts
        if parts and parts[-1][0] // width_us == stamp_us // width_us:
            parts[-1] = [stamp_us, parts[-1][1] + 1]
        else:
            parts.append([stamp_us, 1])
        while parts[0][0] + trace.window_us <= stamp_us:
            parts.popleft()

    def wishes(self, replica: str) -> Iterator[Wish]:
        """What puts all of it back; each can be sent twice without harm."""
        for key, trace in self._traces.items():
            parts = tuple((stamp, uses) for stamp, uses in trace.parts)
            yield ("back", key, trace.count, trace.window_us, f"{replica} {key}", parts)
        yield self.keeping()

    def keeping(self) -> Wish:
        """What renews the places."""
        return ("keep", *((gate, ticket) for ticket, gate in self.held.items()))
