"""What another replica found out about a server, and when it counts here."""

from collections.abc import Callable

from toolcrib.catalog.recorded import fitting_record
from toolcrib.catalog.shelf import Shelf
from toolcrib.config.lock import Record


def follow_record(shelf: Shelf, stored: Record | None, adopt: Callable[[Shelf, Record], None]) -> bool:
    """Take over a newer discovery of another replica; whether that changed anything people see.

    That a server could not be asked there says nothing of here. A listing of an address is a comparison with the
    pins for all of us; one of a program is not: ours may be another version.
    """
    found = fitting_record(shelf.config, stored)
    if not _is_newer(found, shelf.record) or found.status != "success":
        return False
    before = (shelf.tools, shelf.held, shelf.is_known, shelf.record.status)
    shelf.record = shelf.stored = found
    adopt(shelf, found)
    shelf.is_compared = shelf.is_compared or bool(shelf.config.url)
    shelf.settled.set()
    return before != (shelf.tools, shelf.held, shelf.is_known, "success")


def _is_newer(found: Record, ours: Record) -> bool:
    return bool(found.last_discovery) and found != ours and found.last_discovery >= ours.last_discovery
