"""The coarse look by signs loses next to nothing."""

import numpy as np
import pytest

from toolcrib.core.errors import DamagedIndex
from toolcrib.search.vectors import Vectors, cosines, nearest


def clustered(count, seed=3, dimensions=256):
    """Unit rows around a few hundred centres, as texts are."""
    centres = np.random.default_rng(1).standard_normal((300, dimensions))
    generator = np.random.default_rng(seed)
    rows = centres[generator.integers(0, 300, count)] + 1.2 * generator.standard_normal((count, dimensions))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def top(parts, masks, query, k):
    offsets = np.cumsum([0, *map(len, parts)])
    rows = nearest(parts, masks, query, 2_000)
    near = np.concatenate([found + offset for found, offset in zip(rows, offsets, strict=False)])
    return near[np.argsort(-cosines(parts, query, near), kind="stable")[:k]]


def test_recall_of_the_coarse_look():
    """Of the ten nearest by exact cosine at least 95 % are found among 30,000 rows."""
    rows, queries = clustered(30_000), clustered(60, seed=4)
    parts = [Vectors.build(rows[:20_000]), Vectors.build(rows[20_000:])]

    kept = [
        len(set(top(parts, [None, None], query, 10)) & set(np.argsort(-(rows @ query), kind="stable")[:10]))
        for query in queries
    ]

    assert sum(kept) / (10 * len(queries)) >= 0.95


def test_masked_rows_are_not_found():
    """A filter comes before the look, so that it cannot empty the result."""
    rows = clustered(5_000)
    mask = np.zeros(5_000, np.bool_)
    mask[::50] = True

    found = top([Vectors.build(rows)], [mask], rows[7], 20)

    assert len(found) == 20
    assert mask[found].all()


def test_quantised_cosines_are_close():
    """Eight bits move a cosine by less than a hundredth."""
    rows = clustered(500)

    assert np.abs(Vectors.build(rows).similarities(rows[0], slice(None)) - rows @ rows[0]).max() < 0.01


@pytest.mark.parametrize("dimensions", [1, 26, 64, 100, 384])
def test_any_number_of_dimensions_survives_being_written(dimensions):
    """What is read back gives the same cosines and distances."""
    vectors = Vectors.build(clustered(40, dimensions=dimensions))
    again = Vectors.from_bytes(vectors.to_bytes())
    query = clustered(1, seed=9, dimensions=dimensions)[0]

    assert np.array_equal(again.similarities(query, slice(None)), vectors.similarities(query, slice(None)))
    assert np.array_equal(again.distances(query), vectors.distances(query))


def test_a_cut_frame_is_refused():
    """Half a file is not an index."""
    frame = Vectors.build(clustered(10)).to_bytes()

    with pytest.raises(DamagedIndex, match="checksum"):
        Vectors.from_bytes(frame[: len(frame) // 2])


def test_vectors_made_of_vectors_are_the_same():
    rows = np.random.default_rng(1).normal(size=(20, 48)).astype(np.float32)
    made = Vectors.build(rows)

    assert Vectors.build(made.to_floats()).to_bytes() == made.to_bytes()
