"""A searcher over several segments behaves as if they were one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.search.hybrid import Features, Fusion, Searcher, Segment, best, fuse

TEXTS = [
    "The cat sleeps on the warm sofa.",
    "Kittens and cats like milk.",
    "Stock markets fell sharply on Monday.",
    "The central bank raised interest rates.",
    "Call get_user_name to read the name of a user.",
    "The cat sleeps on the warm sofa.",
]


class Letters:
    """Embeds a text by how often it holds each letter: crude, but near is near."""

    name = "letters"
    dimensions = 26

    def embed(self, texts):
        counted = np.array([[text.lower().count(chr(97 + at)) for at in range(26)] for text in texts], np.float32)
        counted = counted.reshape(-1, 26)
        return counted / np.maximum(np.linalg.norm(counted, axis=1, keepdims=True), 1e-9)


def segment(texts, vectors=True):
    entries = [{"text": text} for text in texts]
    return Segment.build(entries, Letters().embed(texts) if vectors else None)


def searcher(*groups, alive=None):
    masks = alive or [None] * len(groups)
    return Searcher([(segment(group), mask) for group, mask in zip(groups, masks, strict=True)], Letters())


def found(searcher, groups, query, **options):
    starts = np.cumsum([0, *map(len, groups)])
    hits = searcher.search(query, 10, **options).hits
    return [(int(starts[hit.segment]) + hit.position, hit.score) for hit in hits]


@settings(deadline=None)
@given(st.integers(0, len(TEXTS)), st.sampled_from(["hybrid", "lexical", "vector"]))
def test_results_do_not_depend_on_how_entries_are_split(cut, mode):
    """Two segments give the hits and the scores that one gives."""
    whole = found(searcher(TEXTS), [TEXTS], "cats on a sofa", mode=mode)
    groups = [TEXTS[:cut], TEXTS[cut:]]

    split = found(searcher(*groups), groups, "cats on a sofa", mode=mode)

    assert [entry for entry, _ in split] == [entry for entry, _ in whole]
    assert [score for _, score in split] == pytest.approx([score for _, score in whole], abs=1e-5)


def test_equal_entries_keep_their_order():
    """Two entries with the same text have the same score, and the first stays first."""
    first, second = found(searcher(TEXTS), [TEXTS], "cat sofa")[:2]

    assert (first[0], second[0]) == (0, 5)
    assert first[1] == second[1]


def test_what_is_not_alive_or_not_asked_for_is_not_found():
    """The mask of a segment and the mask of a search both hide entries, in every mode."""
    alive = np.array([False, True, True, True, True, True])
    wanted = np.array([True, True, True, True, True, False])
    over = searcher(TEXTS, alive=[alive])

    for mode in ("hybrid", "lexical", "vector"):
        hits = over.search("cat sofa", 10, masks=[wanted], mode=mode).hits

        assert hits
        assert not {hit.position for hit in hits} & {0, 5}


def test_scores_lie_between_0_and_1_and_fall():
    """The best hit comes first; no score leaves the scale."""
    hits = searcher(TEXTS).search("raise interest rates of the bank", 10).hits

    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert all(0 <= value <= 1 for hit in hits for value in (hit.score, hit.lexical, hit.vector))


def test_an_identifier_is_found_however_it_is_written():
    """camelCase finds snake_case."""
    assert found(searcher(TEXTS), [TEXTS], "getUserName", mode="lexical")[0][0] == 4


def test_without_vectors_words_decide():
    """A segment without vectors is searched by words, whatever the mode."""
    over = Searcher([(segment(TEXTS, vectors=False), None)], Letters())

    assert [hit.position for hit in over.search("milk", 3).hits] == [1]


@pytest.mark.parametrize("query", ["", "   ", "???", "the of and", "\x00", "x" * 10_000])
def test_queries_that_say_nothing_find_without_failing(query):
    """No query is an error."""
    assert searcher(TEXTS).search(query, 5).hits is not None


def test_an_empty_searcher_finds_nothing():
    """No segments, or empty ones, give no hits."""
    assert Searcher([], Letters()).search("cat", 5).hits == []
    assert searcher([]).search("cat", 5).hits == []


def test_a_segment_survives_being_written_and_merged():
    """Read back and merged with another, it finds what a fresh one finds."""
    keeps = [np.array([True, False, True]), None]
    parts = [Segment.from_bytes(segment(group).to_bytes()) for group in (TEXTS[:3], TEXTS[3:])]

    merged = Segment.merge(parts, keeps)

    kept = [TEXTS[0], *TEXTS[2:]]
    over = Searcher([(merged, None)], Letters())
    assert len(merged) == len(kept)
    assert found(over, [kept], "cat bank") == found(searcher(kept), [kept], "cat bank")


def test_a_quoted_phrase_wins_over_its_scattered_words():
    """With the texts at hand, what is quoted must stand as it is."""
    texts = ["layer upon layer, the boundary moved", "the boundary layer moved"]
    over = searcher(texts)

    hits = over.search('"boundary layer"', 2, texts=lambda segment, position: texts[position]).hits

    assert [hit.position for hit in hits] == [1, 0]
    assert hits[0].score > 1.5 * hits[1].score


@pytest.mark.parametrize("size", [0, 5, 700, 30_001])
@pytest.mark.parametrize("steps", [3, 1_000_000])
def test_the_best_are_found_among_many_equal_ones_in_order(size, steps):
    """However many scores there are, and however few different ones."""
    scores = (np.random.default_rng(5).integers(0, steps, size) / steps).astype(np.float32)
    expected = [at for at in np.argsort(-scores, kind="stable") if scores[at] > 0][:50]

    assert best(scores, 50).tolist() == expected


PLAIN = Features(entries=1000, terms=5, exact=0.0)


@pytest.mark.parametrize(
    ("features", "why"),
    [
        (Features(1000, 5, 1.0), "identifiers want to be matched to the letter"),
        (Features(1000, 40, 0.0), "the mean of forty words says little about each"),
        (Features(500_000, 5, 0.0), "chance neighbours grow in number"),
    ],
)
def test_meaning_counts_less_where_it_misleads(features, why):
    """Never nothing at all, always less than for a few plain words in a small collection."""
    assert 0 < Fusion().weight(features) < Fusion().weight(PLAIN), why


def test_a_query_of_some_length_keeps_the_full_weight():
    """Up to the limit, length changes nothing."""
    fusion = Fusion()

    assert fusion.weight(Features(1000, fusion.long, 0.0)) == fusion.weight(PLAIN)
    assert fusion.weight(Features(1000, 0, 0.0)) == fusion.weight(PLAIN)


def test_both_halves_stay_on_the_scale():
    """The whole is between its halves, and a negative cosine takes nothing away."""
    lexical, vector = np.array([0.0, 0.5, 1.0], np.float32), np.array([-1.0, 1.0, 1.0], np.float32)

    np.testing.assert_allclose(fuse(lexical, vector, 0.25), [0.0, 0.625, 1.0])
