"""Quarantine: which of a server's tools are not what was accepted, and how that is mended."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from toolcrib.catalog.pins import (
    TOO_MANY,
    Comparison,
    Definition,
    accept,
    comparison,
    held_tools,
    join_pins,
    settle,
    why_barred,
)
from toolcrib.catalog.shelf import RecordStore, Shelf
from toolcrib.config.lock import Pin, Record, timestamp
from toolcrib.config.security import PinMode
from toolcrib.core import events
from toolcrib.core.events import Emit, Event


class Quarantine:
    """Compares what servers show with what was accepted."""

    def __init__(self, mode: PinMode, emit: Emit) -> None:
        self.mode: PinMode = mode
        self._emit = emit

    def comparison(self, shelf: Shelf) -> Comparison:
        """How the tools of a server are looked at now."""
        return comparison(shelf.config, self.mode, timestamp(datetime.now(UTC)))

    def settle(self, shelf: Shelf, definitions: Sequence[Definition], is_new: bool) -> Mapping[str, Pin]:
        """The pins after a discovery; hashing is not for nothing, so what is as it was is not hashed again.

        The first discovery of a run looks at everything: the lock is a file, and files get edited and merged.
        """
        first, shelf.is_compared = not shelf.is_compared, True
        if first or is_new or any(shown["name"] not in shelf.record.pins for shown in definitions):
            return settle(shelf.record, definitions, self.comparison(shelf))
        return shelf.record.pins

    def bar(self, shelf: Shelf, record: Record, others: Mapping[str, Record]) -> None:
        """Find out whether the server itself is in quarantine."""
        shelf.barred = "" if self.mode == "off" else why_barred(shelf.config, record, others)

    def held(self, shelf: Shelf) -> dict[str, str]:
        """Its tools that are in quarantine now; all of them if the server itself is."""
        held = held_tools(shelf.record, self.comparison(shelf))
        return {tool.name: held.get(tool.name, shelf.barred) for tool in shelf.tools} if shelf.barred else held

    def hold(self, shelf: Shelf) -> bool:
        """Find out what is in quarantine now, and tell of what was not before; whether anything is different."""
        held = self.held(shelf)
        new = sorted(held.keys() - shelf.held.keys())
        too_many = [name for name in new if held[name] == TOO_MANY]
        for name in new if not too_many else [*(set(new) - set(too_many)), too_many[0]]:  # the log is not filled, too
            fields = {"server": shelf.config.name, "tool": name, "reason": held[name]}
            self._emit(Event(events.TOOL_HELD, "warning", fields))
        before, shelf.held = shelf.held, held
        return before != held

    async def accept(self, shelf: Shelf, names: Sequence[str], records: RecordStore) -> None:
        """Accept these tools, and their server, as they are now; returns when that is stored."""
        how, ours, entry = self.comparison(shelf), shelf.record, shelf.config.entry or shelf.record.entry

        def accepted_of(stored: Record | None) -> Record:
            return replace(accept(join_pins(stored, ours, how), names, how), entry=entry)

        await records.update(ours.server, accepted_of)
        accepted = shelf.stored = replace(accept(ours, names, how), entry=entry)
        self.unbar(shelf)
        # Meanwhile a discovery may have found something else: what was accepted is not what there is now.
        shelf.record = join_pins(accepted, shelf.record, how)
        shelf.held = held_tools(shelf.record, how)

    @staticmethod
    def unbar(shelf: Shelf) -> None:
        """Let the server be asked, soon."""
        if shelf.barred:
            shelf.barred, shelf.fresh_until, shelf.is_compared = "", 0.0, False
            shelf.settled.clear()  # the next listing waits for it as for any server nobody has heard of

    def take_over(self, shelf: Shelf, stored: Record | None) -> bool:
        """Let count what another process accepted; whether that changed anything."""
        joined = join_pins(stored, shelf.record, self.comparison(shelf))
        is_open = bool(shelf.barred) and joined.entry == shelf.config.entry
        if joined.pins == shelf.record.pins and not is_open:
            return False
        shelf.record = joined
        if is_open:
            self.unbar(shelf)
        self.hold(shelf)
        return True
