import pytest

from toolcrib.knowledge.statements import check, coverage, markers_in, sentences, without_markers

PASSAGE = "Ants carry leaves that weigh fifty times as much. Version 3.2 was released in May."


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("It holds [1]. So does that. [2] And this [3].", ["It holds [1].", "So does that. [2]", "And this [3]."]),
        ("- first\n- second", ["- first", "- second"]),
        ("Version 3.2 is out.", ["Version 3.2 is out."]),
        (" \n … ", []),
    ],
)
def test_text_falls_into_sentences_with_their_markers(text, parts):
    assert list(sentences(text)) == parts


def test_markers_are_numbers_in_brackets_each_once():
    assert markers_in("a [2], b [1][2], c [1234] d [x]") == (2, 1)
    assert without_markers("- It holds [1][2].") == "It holds ."


@pytest.mark.parametrize(
    ("sentence", "is_supported"),
    [
        ("Ants carry leaves [1].", True),
        ("The ant carries a leaf weighing fifty times more [1].", True),
        ("Version 3.3 was released in May [1].", False),
        ("Elephants sleep standing in the shade [1].", False),
        ("Ants carry leaves.", False),
        ("Ants carry leaves [2].", False),
    ],
)
def test_a_sentence_holds_if_what_it_cites_says_it(sentence, is_supported):
    (found,) = check(sentence, {1: PASSAGE})

    assert found.is_supported is is_supported


def test_nearness_in_meaning_helps_only_what_is_partly_covered():
    partly, never = "Ants haul leaves around daily [1].", "Rockets fly to distant planets [1]."

    assert [each.is_supported for each in check(partly, {1: PASSAGE}, lambda *_: 0.9)] == [True]
    assert [each.is_supported for each in check(partly, {1: PASSAGE}, lambda *_: 0.1)] == [False]
    assert [each.is_supported for each in check(never, {1: PASSAGE}, lambda *_: 0.9)] == [False]


def test_nothing_is_covered_by_nothing():
    assert coverage("", [PASSAGE]) == 0.0
    assert coverage("ants", []) == 0.0
