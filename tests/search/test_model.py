"""The bundled embedder works offline and cuts words as the model it was made from does."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.search.model import WordPieces, bundled

VOCABULARY = ["[UNK]", "un", "##aff", "##able", "cafe", ",", "!", "hello", "world", "東", "##s", "42", "±", "_", "a"]


@pytest.fixture(scope="module")
def embedder():
    return bundled()


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("unaffable", ["un", "##aff", "##able"]),
        ("Hello, World!", ["hello", ",", "world", "!"]),
        ("Café cafes", ["cafe", "cafe", "##s"]),
        ("hello\nworld\x00", ["hello", "world"]),
        ("東hello", ["東", "hello"]),
        ("a_a", ["a", "_", "a"]),
        ("42±", ["[UNK]"]),
        ("unzip", ["[UNK]"]),
        ("x" * 200, ["[UNK]"]),
        ("", []),
    ],
)
def test_words_are_cut_like_the_original(text, pieces):
    """As the uncased BERT tokenizer cuts them."""
    one, many = WordPieces(VOCABULARY).cut([text]), WordPieces(VOCABULARY).cut([text] * 9)

    assert [VOCABULARY[number] for number in one[0]] == pieces
    assert [VOCABULARY[number] for number in many[0]] == pieces * 9
    assert (one[1].tolist(), many[1].tolist()) == ([len(pieces)], [len(pieces) * count for count in range(1, 10)])


@given(st.lists(st.text("aB9 ._'’é中—\t\n\x00\x1f\u2003", max_size=20), min_size=9))
def test_many_texts_are_cut_as_each_alone(texts):
    pieces = WordPieces(VOCABULARY)
    numbers, past = pieces.cut(texts)

    assert [each.tolist() for each in np.split(numbers, past[:-1])] == [
        pieces.cut([text])[0].tolist() for text in texts
    ]


def test_vectors_have_length_1_or_0(embedder):
    """One row for each text; a text without words is nowhere."""
    rows = embedder.embed(["a cat", "", "the stock market fell"])

    assert rows.shape == (3, embedder.dimensions)
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 0, 1], abs=1e-5)


@pytest.mark.parametrize(
    ("query", "near", "far"),
    [
        ("heart attack", "myocardial infarction of a patient", "interest rates of the central bank"),
        ("remove a file", "delete documents from a folder", "weather forecast for tomorrow"),
        ("purchase a car", "buy vehicles from a dealer", "translate a sentence into French"),
    ],
)
def test_what_means_the_same_is_near_without_a_shared_word(embedder, query, near, far):
    """Meaning is found where words differ."""
    asked, wanted, other = embedder.embed([query, near, far])

    assert asked @ wanted > asked @ other + 0.1


def test_a_text_has_the_same_vector_alone_and_among_others(embedder):
    """Batches change nothing."""
    texts = [f"text number {at} about topic {at % 7}" for at in range(600)]

    assert np.array_equal(embedder.embed(texts)[555], embedder.embed([texts[555]])[0])
