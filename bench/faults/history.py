"""What was tried and what was acknowledged, and whether what is found afterwards can have come of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

GONE = "gone"
"""The value of what was removed."""


class Event(NamedTuple):
    """Something was begun, or acknowledged, when the journal had that many operations."""

    at: int
    key: str
    value: str
    is_acknowledged: bool


@dataclass
class History:
    """In the order in which it happened."""

    events: list[Event] = field(default_factory=list)

    def note(self, at: int, key: str, value: str, *, is_acknowledged: bool) -> None:
        self.events.append(Event(at, key, value, is_acknowledged))

    def allowed(self, key: str, until: int | None = None) -> set[str]:
        """What may be found: what was acknowledged last, and what was tried since."""
        values = {GONE}
        for event in self.events:
            if event.key == key and (until is None or event.at <= until):
                values = {event.value} if event.is_acknowledged else values | {event.value}
        return values

    def misses(self, found: Mapping[str, str], until: int | None = None) -> list[str]:
        """What cannot be: something acknowledged is not there, or something nobody wrote is."""
        keys = {event.key for event in self.events} | set(found)
        return [
            f"{key} is {found.get(key, GONE)}, not {' or '.join(sorted(self.allowed(key, until)))}"
            for key in sorted(keys)
            if found.get(key, GONE) not in self.allowed(key, until)
        ]
