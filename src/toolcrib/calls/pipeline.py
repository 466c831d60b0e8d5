"""Layers around a source: one signature for what flows, one visible list for the order."""

from collections.abc import Awaitable, Callable, Sequence

from toolcrib.core.access import NATIVE, Reach
from toolcrib.core.offers import Offer, RequestKind, offer_key
from toolcrib.core.requests import Request, Result

Step = Callable[[Request], Awaitable[Result]]
"""What is called is awaited at once: a step that has nothing to do afterwards returns what the next one returns."""


class Subject:
    """What a chain of layers is built for: an offer, the name it is exposed under, and what is asked of it."""

    __slots__ = ("is_transparent", "kind", "name", "offer", "reach", "renew", "server", "settle")

    def __init__(
        self,
        name: str,
        server: str,
        offer: Offer,
        reach: Reach | None = None,
        renew: Callable[[], None] | None = None,
        kind: RequestKind = RequestKind.CALL,
    ) -> None:
        self.name, self.server, self.offer, self.kind = name, server, offer, kind
        self.reach = reach or Reach(name, server or NATIVE, offer.security_level, offer.capabilities)
        self.renew = renew
        """Has its server asked for what it offers again, in the background, if the last answer is too old."""
        self.settle: Callable[[Result], None] | None = None
        """Compares what it gives with what was accepted of it, and raises if that is something else; for apps."""
        self.is_transparent = False
        """Whether its server checks arguments and results itself, and gets and gives them as they are."""

    @property
    def key(self) -> str:
        """What it is counted and approved by: a tool's exposed name; of others, the kind and the exposed name."""
        return offer_key(self.offer.kind, self.name)


Layer = Callable[[Subject, Step], Step]
"""Given an offer and the next step, the step to take instead; the next step itself when there is nothing to do."""


def compose(layers: Sequence[Layer], subject: Subject, source: Step) -> Step:
    """Wrap ``source`` for one offer, once; the first layer listed sees each request first."""
    step = source
    for layer in reversed(layers):
        step = layer(subject, step)
    return step
