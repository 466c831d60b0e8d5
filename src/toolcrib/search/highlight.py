"""Where the words of a query stand in a text."""

from collections.abc import Collection

from toolcrib.search.tokens import places, read_query

MOST = 100  # ranges in one text


def highlights(query: str, text: str) -> list[tuple[int, int]]:
    """The character ranges of words that share a stem with the query, in order; neighbours become one range."""
    wanted = frozenset(read_query(query).terms)
    ranges: list[tuple[int, int]] = []
    for start, end in _matches(wanted, text):
        if ranges and text[ranges[-1][1] : start].isspace():
            ranges[-1] = (ranges[-1][0], end)
        elif len(ranges) == MOST:
            break
        else:
            ranges.append((start, end))
    return ranges


def _matches(wanted: Collection[str], text: str) -> list[tuple[int, int]]:
    return [(start, end) for start, end, terms in places(text) if any(term in wanted for term in terms)]
