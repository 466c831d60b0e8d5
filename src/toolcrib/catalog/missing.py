"""Servers whose tools are not in the list, so that a list can say what it lacks."""

from collections.abc import Iterable, Mapping

from toolcrib.catalog.shelf import Shelf, barred_words
from toolcrib.core.access import Grants, may_know_server
from toolcrib.core.source import Missing
from toolcrib.schema.text import printable

REASON_MAX = 300


def missing_servers(shelves: Mapping[str, Shelf]) -> tuple[Missing, ...]:
    """All servers of which nothing is known; one that only cannot be reached now is listed as it was last seen."""
    return tuple(_missing(shelf) for shelf in shelves.values() if not shelf.is_known)


def known_to(missing: Iterable[Missing], grants: Grants) -> tuple[Missing, ...]:
    """Those that a caller with these grants may hear of."""
    return tuple(found for found in missing if may_know_server(grants, found.server))


def _missing(shelf: Shelf) -> Missing:
    status = shelf.status
    reason = barred_words(shelf) if shelf.barred else shelf.source.status().error or shelf.record.error
    if not reason:
        reason = "It has not answered yet." if status == "discovering" else "It has not been asked for its tools yet."
    return Missing(shelf.config.name, status, printable(reason)[:REASON_MAX])
