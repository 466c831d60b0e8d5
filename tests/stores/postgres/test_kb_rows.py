import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.search.lexical import Postings
from toolcrib.stores.postgres.kb_rows import (
    ROW_MAX,
    PostingRow,
    decode_head,
    decode_held,
    encode_head,
    posting_rows,
    whole_postings,
)

FIELDS = ("title", "text")
WORDS = st.text("abcdé語", min_size=1, max_size=6)
TEXTS = st.lists(st.lists(WORDS, max_size=8).map(" ".join), min_size=1, max_size=12)


def read(encoded: bytes) -> tuple[str, PostingRow]:
    """A row as the server would give it back."""
    count, at, fields = int.from_bytes(encoded[:2], "big"), 2, []
    for _ in range(count):
        size = int.from_bytes(encoded[at : at + 4], "big")
        fields.append(encoded[at + 4 : at + 4 + size])
        at += 4 + size
    assert at == len(encoded)
    return fields[2].decode(), PostingRow(*fields[3:])


def indexed(texts: list[str]) -> tuple[Postings, list[tuple[str, PostingRow]], int]:
    postings = Postings.build([{"title": "all of it", "text": text} for text in texts], FIELDS)
    rows, size = posting_rows("main", 7, postings)
    return postings, [read(row) for row in rows], size


@given(TEXTS)
def test_every_term_is_found_in_the_last_row_that_does_not_begin_after_it(texts):
    postings, rows, _ = indexed(texts)

    for term in [each.decode() for each in postings.terms()]:
        row = [row for first, row in rows if first.encode() <= term.encode()][-1]
        found, held = decode_held(row.find(term), len(FIELDS)), postings.held(term)
        assert found.entries.tolist() == held.entries.tolist()
        assert found.counts.tolist() == held.counts.tolist()


@given(TEXTS)
def test_rows_put_together_are_what_was_indexed(texts):
    postings, rows, size = indexed(texts)
    owners = [(1, at) for at in range(len(texts))]
    block = decode_head(7, "notes", encode_head(owners, owners, postings))

    assert whole_postings(block, [row for _, row in rows]).to_bytes() == postings.to_bytes()
    assert size == sum(len(row.held) for _, row in rows)


@pytest.mark.parametrize("term", ["wor", "ord", "word0 word1", "none"])
def test_part_of_a_term_is_no_term(term):
    _, rows, _ = indexed(["word0 word1 word2"])

    assert all(row.find(term) == b"" for _, row in rows)


def test_a_term_that_many_hold_has_a_row_of_its_own():
    texts = [f"common w{number:04}" for number in range(500)]
    _, rows, _ = indexed(texts)

    large = [row.terms for _, row in rows if len(row.held) > ROW_MAX]
    assert large == [b"\0all\0", b"\0common\0", b"\0it\0", b"\0of\0"]
    assert len(rows) < 500 / 10
