"""Rendering: whatever a function returns becomes a result that a model can read and a door can encode."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core.errors import ToolFailed
from toolcrib.core.requests import Result
from toolcrib.sources.native.functions import to_result


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: int


class Model:
    """What Pydantic's models look like from here."""

    def model_dump(self, mode: str) -> dict:
        return {"mode": mode}


def text(value: str) -> list[dict]:
    return [{"type": "text", "text": value}]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, {"content": []}),
        ("", {"content": text("")}),
        ("grüße", {"content": text("grüße")}),
        (5, {"content": text("5")}),
        (True, {"content": text("true")}),
        (float("nan"), {"content": text("null")}),
        ([1, "a"], {"content": text('[1,"a"]')}),
        ([], {"content": text("[]")}),
        ((1, 2), {"content": text("[1,2]")}),
        (b"ab", {"content": text("YWI=")}),
        (Decimal("1.50"), {"content": text("1.50")}),
        (datetime(2026, 1, 2, tzinfo=UTC), {"content": text("2026-01-02T00:00:00Z")}),
        (PurePosixPath("/tmp/a"), {"content": text("/tmp/a")}),
        (Colour.RED, {"content": text("red")}),
        ({"a": 1}, {"content": text('{"a":1}'), "structuredContent": {"a": 1}}),
        ({1: 2}, {"content": text('{"1":2}'), "structuredContent": {"1": 2}}),
        (Point(1, 2), {"content": text('{"x":1,"y":2}'), "structuredContent": {"x": 1, "y": 2}}),
        (Model(), {"content": text('{"mode":"json"}'), "structuredContent": {"mode": "json"}}),
        ({"n": 2**70}, {"content": text('{"n":1180591620717411303424}'), "structuredContent": {"n": 2**70}}),
        ("a\ud800b", {"content": text("a?b")}),
        ({"\udcff": ["\ud800"]}, {"content": text('{"?":["?"]}'), "structuredContent": {"?": ["?"]}}),
    ],
    ids=lambda value: re.sub(" at 0x[0-9a-f]+", "", repr(value)),
)
def test_a_value_becomes_text_and_an_object_structured_data_too(value, expected):
    """Numbers, dates, paths, models, and names no encoding knows."""
    assert to_result(value).mcp == expected


PNG = b"\x89PNG\r\n\x1a\n rest"


class Drawing:
    """What a picture of Pillow looks like from here."""

    def _repr_png_(self) -> bytes:
        return PNG


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, None),
        (3, 3),
        (True, True),
        (1.5, 1.5),
        ("3", "3"),
        ([1, "a"], [1, "a"]),
        ((1, 2), [1, 2]),
        ({"a": 1}, {"a": 1}),
        (Point(1, 2), {"x": 1, "y": 2}),
        (b"ab", "YWI="),
        (PurePosixPath("/tmp/3"), "/tmp/3"),
        (PurePosixPath("3"), "3"),
        (Decimal("1.50"), "1.50"),
        (Colour.RED, "red"),
        (2**70, 2**70),
    ],
)
def test_what_a_function_returned_arrives_as_it_is_and_as_json_can_carry_it(value, shown):
    """The very object in ``data``; what is sent to other programs is JSON."""
    result = to_result(value)

    assert result.data is value
    assert result.json_data == shown
    assert type(result.json_data) is type(shown)


@pytest.mark.parametrize(
    ("value", "mime"),
    [
        (PNG, "image/png"),
        (Drawing(), "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
    ],
    ids=["png", "drawing", "jpeg", "gif", "webp"],
)
def test_a_picture_is_sent_as_a_picture(value, mime):
    """A model sees it instead of its letters."""
    result = to_result(value)

    assert result.data is value
    assert [(block["type"], block["mimeType"]) for block in result.content] == [("image", mime)]


def test_a_note_behind_the_text_does_not_change_what_was_returned():
    """As layers add them when they repaired arguments."""
    result = to_result([1])
    noted = Result({"content": [*result.content, *text("Note.")]}, value=result.value)

    assert (noted.data, noted.json_data) == ([1], [1])


def test_a_tool_that_promised_structured_data_gives_it_for_any_value():
    """A list under an output schema is structured as well."""
    assert to_result([1], structured=True).mcp == {"content": text("[1]"), "structuredContent": [1]}


@pytest.mark.parametrize("kind", ["text", "image", "audio", "resource", "resource_link"])
def test_content_blocks_are_taken_as_they_are(kind):
    """A function that speaks MCP is not translated."""
    blocks = [{"type": kind, "anything": 1}]

    assert to_result(blocks).mcp == {"content": blocks}


def test_a_list_that_only_looks_a_little_like_content_is_data():
    """One foreign entry, and it is a plain list."""
    assert to_result([{"type": "text", "text": "a"}, {"type": "row"}]).text.startswith('[{"type":"text"')


def test_a_ready_result_is_passed_on():
    """The very object."""
    ready = Result({"content": []})

    assert to_result(ready) is ready


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.tuples(inner, inner)
            | st.dictionaries(st.text(max_size=3) | st.integers(-9, 9), inner, max_size=3)
        ),
        max_leaves=5,
    )
)
def test_every_plain_value_can_be_sent(value):
    """Surrogates, infinities and all: a door never fails to encode what a tool returned."""
    assert msgspec.json.decode(msgspec.json.encode(to_result(value).mcp))["content"] is not None


def test_a_value_that_not_every_client_could_read_is_refused():
    """Who cannot read an answer waits for it for ever."""
    deep: dict = {}
    for _ in range(150):
        deep = {"deep": deep}

    with pytest.raises(ToolFailed, match="cannot be read by every client: it nests deeper than 100 levels"):
        to_result(deep)


def test_content_blocks_are_mended_like_any_text():
    """A half surrogate pair, as file names have them, would be no JSON."""
    assert to_result([{"type": "text", "text": "a\ud800"}]).content == [{"type": "text", "text": "a?"}]
