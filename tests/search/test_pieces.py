"""Counting terms: as plain counting would, whoever else counts, and whatever was met before."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.search import pieces
from toolcrib.search.pieces import EntryPieces
from toolcrib.search.tokens import analyse

TEXTS = st.text("aB9 ._-'’é中\n", max_size=30)


def counted(entries):
    """What was gathered of entries with two fields, as plain values."""
    gathered = EntryPieces(2)
    for entry in entries:
        gathered.add(entry)
    words, terms, owners, counts, lengths = gathered.count()
    found = [(words[term], owner) for term, owner in zip(terms.tolist(), owners.tolist(), strict=True)]
    assert words == sorted(words)
    assert found == sorted(found)
    return dict(zip(found, zip(*counts.tolist(), strict=True), strict=True)), lengths.tolist()


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=6))
def test_terms_are_counted_by_entry_and_field(entries):
    held, lengths = counted(entries)
    plain = [[Counter(term.encode() for term in analyse(text)) for text in entry] for entry in entries]

    assert held == {
        (word, at): (fields[0][word], fields[1][word])
        for at, fields in enumerate(plain)
        for word in {*fields[0], *fields[1]}
    }
    assert lengths == [[fields[number].total() for fields in plain] for number in (0, 1)]


def test_several_threads_count_at_once():
    entries = [[(f"word{number * step} getUser{number}", "a title") for number in range(300)] for step in range(1, 9)]
    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(counted, entries))

    assert together == [counted(each) for each in entries]


@pytest.mark.parametrize(("most", "kept"), [(12, 12), (10, 2)])
def test_pieces_are_remembered_unless_they_are_too_many(monkeypatch, most, kept):
    monkeypatch.setattr(pieces, "MOST_PIECES", most)
    pieces._idle.clear()
    first = counted([("one two three four five six seven eight nine ten eleven", "")])
    again = counted([("one twelve", "")])

    assert (first[1], again[1]) == ([[11], [0]], [[2], [0]])
    assert sorted(again[0]) == [(b"one", 0), (b"twelv", 0)]
    assert [len(each.pieces) for each in pieces._idle] == [kept]


@pytest.mark.parametrize("entries", [[], [("", "")]])
def test_nothing_has_no_terms(entries):
    assert counted(entries) == ({}, [[0] * len(entries)] * 2)
