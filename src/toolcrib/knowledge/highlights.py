"""Where the words of a query stand in a text. Pure."""

from toolcrib.search.tokens import places, read_query

MOST = 50


def highlights(query: str, text: str) -> list[tuple[int, int]]:
    """The character ranges of words that share a stem with a word of the query."""
    wanted = set(read_query(query).terms)
    return [(start, end) for start, end, terms in places(text) if not wanted.isdisjoint(terms)][:MOST]
