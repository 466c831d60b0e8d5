"""Scores depend on the entries, not on how they are stored."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.core.errors import DamagedIndex
from toolcrib.search.lexical import Bm25, FieldWeight, Lexical, Postings

WORDS = ["apple", "pear", "plum", "cherry", "get_user", "42", "running"]
TEXT = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
ENTRY = st.fixed_dictionaries({"text": TEXT}, optional={"title": TEXT})
FORMULA = Bm25({"title": FieldWeight(2.0, 0.5), "text": FieldWeight(1.0, 0.75)})
QUERY = ["appl", "run", "42", "getuser"]


def indexed(entries):
    fields = list(dict.fromkeys(name for entry in entries for name in entry))
    return Postings.build(entries, fields)


def scores(parts):
    lexical = Lexical(parts, FORMULA)
    return lexical.score(lexical.look_up(QUERY).values())


def idfs(parts, terms):
    return {term: found.idf for term, found in Lexical(parts, FORMULA).look_up(terms).items()}


@settings(deadline=None)
@given(st.lists(ENTRY, min_size=1, max_size=12), st.data())
def test_scores_do_not_depend_on_how_entries_are_split(entries, data):
    """One segment or several: the same entries have the same scores."""
    cut = data.draw(st.integers(0, len(entries)))
    whole, split = [indexed(entries)], [indexed(entries[:cut]), indexed(entries[cut:])]

    assert np.array_equal(scores(whole), scores(split))
    assert idfs(whole, QUERY) == idfs(split, QUERY)


@settings(deadline=None)
@given(st.lists(ENTRY, min_size=1, max_size=12), st.data())
def test_merging_keeps_what_the_masks_keep(entries, data):
    """Merged postings are those of the kept entries, as if only they had been indexed."""
    cut = data.draw(st.integers(0, len(entries)))
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=len(entries), max_size=len(entries))), np.bool_)
    kept = [entry for entry, wanted in zip(entries, keep, strict=True) if wanted]

    merged = Postings.merge([indexed(entries[:cut]), indexed(entries[cut:])], [keep[:cut], keep[cut:]])

    assert len(merged) == len(kept)
    assert merged.terms() == indexed(kept).terms()
    assert np.allclose(scores([merged]), scores([indexed(kept)]), atol=1e-6)


@settings(deadline=None)
@given(st.lists(ENTRY, max_size=8))
def test_postings_survive_being_written(entries):
    """What is read back scores the same."""
    postings = indexed(entries)

    again = Postings.from_bytes(postings.to_bytes())

    assert again.terms() == postings.terms()
    assert np.array_equal(scores([again]), scores([postings]))


@settings(deadline=None)
@given(st.integers(0, 10_000))
def test_a_changed_byte_is_noticed(at):
    """A frame with one bit turned over is refused, wherever the bit is."""
    frame = bytearray(indexed([{"text": "apple pear"}, {"text": "plum"}]).to_bytes())
    frame[at % len(frame)] ^= 1

    with pytest.raises(DamagedIndex):
        Postings.from_bytes(bytes(frame))


def test_a_title_counts_more_than_a_text():
    """The same word weighs more in the field with the higher weight."""
    title, text = scores([indexed([{"title": "apple", "text": "pear"}, {"title": "pear", "text": "apple"}])])

    assert title > text > 0


def test_rare_terms_weigh_more():
    """A word that every entry holds says least."""
    postings = indexed([{"text": "apple pear"}, {"text": "apple plum"}, {"text": "apple"}])
    rare = idfs([postings], ["appl", "pear"])

    assert rare["pear"] > rare["appl"] > 0
