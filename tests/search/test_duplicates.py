"""Near duplicates are folded onto the first of them."""

from toolcrib.search.duplicates import fold_duplicates

STORY = "The quick brown fox jumps over the lazy dog while the farmer watches from his old wooden porch at dawn."


def test_a_near_copy_is_folded():
    """A few changed marks and cases make no new text."""
    assert fold_duplicates([STORY, "Something else entirely, about boats and the sea.", STORY.upper() + "!"]) == [
        0,
        1,
        0,
    ]


def test_different_texts_stay():
    """Texts that only share a topic are all kept."""
    texts = ["Cats sleep most of the day.", "Dogs bark at cats at night.", "A cat chased a mouse."]

    assert fold_duplicates(texts) == [0, 1, 2]


def test_a_longer_text_is_not_folded_into_its_excerpt():
    """What says much more than the first is no repetition of it."""
    longer = STORY + " Later that morning a train arrived, and nobody could say who had sent the telegram about it all."

    assert fold_duplicates([STORY, longer]) == [0, 1]


def test_nothing_gives_nothing():
    """No texts, and empty texts, are no error."""
    assert fold_duplicates([]) == []
    assert fold_duplicates(["", "a"]) == [0, 1]
