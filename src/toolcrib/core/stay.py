"""One client that stays for a while, as people who look on see it."""

from collections.abc import Callable
from dataclasses import dataclass

from toolcrib.core.access import Caller


@dataclass(frozen=True, slots=True)
class Stay:
    """A client between its coming and its going; the ``id`` opens no door."""

    id: str
    client: str
    """What the client calls itself; not to be believed."""
    era: str
    caller: Caller
    age_s: float
    idle_s: float
    end: Callable[[], None]
