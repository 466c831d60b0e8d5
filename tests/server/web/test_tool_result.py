"""What came of a call, made ready to be shown: nothing twice, nothing too large, nothing that acts."""

import base64

import pytest

from toolcrib.core.errors import InvalidArguments
from toolcrib.core.requests import Result
from toolcrib.server.web.tool_result import LARGEST_PICTURE, LONGEST_TEXT, outcome_of


def shown(*blocks, **more):
    return outcome_of(Result({"content": list(blocks), **more}), 0.5, "1-1")


def test_data_that_stands_in_the_text_as_well_is_shown_once():
    """As data; other texts stay."""
    outcome = shown({"type": "text", "text": '{"a": 1}'}, {"type": "text", "text": "hi"}, structuredContent={"a": 1})

    assert [block.text for block in outcome.blocks] == ["hi"]
    assert outcome.tree == {"a": 1}


def test_what_is_too_long_is_cut_and_said():
    """How much more there is."""
    outcome = shown({"type": "text", "text": "x" * (LONGEST_TEXT + 7)})

    assert outcome.blocks[0].text.endswith("… and 7 more characters")
    assert shown(structuredContent={"a": "x" * 50_000}).tree is None


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ({"type": "image", "mimeType": "text/html", "data": "eA=="}, "not shown here"),
        ({"type": "image", "mimeType": "image/png", "data": "no base64!"}, "not written as it should be"),
        ({"type": "image", "mimeType": "image/png", "data": "A" * (LARGEST_PICTURE * 2)}, "too large"),
        ({"type": "audio", "data": "eA=="}, "not played here"),
        ({"type": "resource_link", "uri": "file:///x", "name": "x"}, "A link to file:///x"),
        ({"type": "resource", "resource": {"uri": "a:b", "blob": "eA=="}}, "A file of"),
    ],
)
def test_what_cannot_be_shown_is_described(block, words):
    """In one sentence."""
    [found] = shown(block).blocks

    assert found.kind == "note"
    assert words in found.text


def test_a_plain_picture_is_shown():
    """Written anew, so that nothing else can stand in its address."""
    data = base64.b64encode(b"\x89PNG").decode()

    [found] = shown({"type": "image", "mimeType": "image/png", "data": data}).blocks

    assert (found.kind, found.text) == ("picture", f"data:image/png;base64,{data}")


def test_a_failure_says_what_to_do_and_nothing_twice():
    """Its code, its words, and advice."""
    outcome = outcome_of(Result.failed(InvalidArguments("That does not fit.")), 0.1)

    assert (outcome.is_good, outcome.code, outcome.blocks) == (False, "TOOL_INVALID_INPUT", ())
    assert outcome.advice


def test_blocks_nobody_knows_are_shown_as_they_are():
    """Rather than left out."""
    [found] = shown({"type": "hologram", "x": 1}).blocks

    assert '"hologram"' in found.text
