"""How much meaning counts beside words depends on the query and on how much there is to search."""

import numpy as np
import pytest

from toolcrib.search.fuse import Features, Fusion, fuse

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
