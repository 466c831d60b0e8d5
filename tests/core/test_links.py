"""Results that speak of resources: their URIs are translated, every other byte is left alone."""

import json

import pytest

from toolcrib.core.links import has_links, translate_result


def public(uri: str) -> str:
    return f"pub:{uri}"


LINK = {"type": "resource_link", "uri": "memo://a", "name": "a"}
EMBEDDED = {"type": "resource", "resource": {"uri": "memo://b", "text": "memo://b"}}
SEEN_LINK = {**LINK, "uri": "pub:memo://a"}
SEEN_EMBEDDED = {"type": "resource", "resource": {"uri": "pub:memo://b", "text": "memo://b"}}


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"content": [LINK, EMBEDDED]}, {"content": [SEEN_LINK, SEEN_EMBEDDED]}),
        ({"contents": [{"uri": "memo://a", "text": "x"}]}, {"contents": [{"uri": "pub:memo://a", "text": "x"}]}),
        (
            {"messages": [{"role": "user", "content": EMBEDDED}, {"role": "user", "content": [LINK]}]},
            {"messages": [{"role": "user", "content": SEEN_EMBEDDED}, {"role": "user", "content": [SEEN_LINK]}]},
        ),
        ({"_meta": {"ui": {"resourceUri": "ui://x"}}}, {"_meta": {"ui": {"resourceUri": "pub:ui://x"}}}),
        ({"content": [{"type": "text", "text": "memo://a"}]}, {"content": [{"type": "text", "text": "memo://a"}]}),
        ({"content": ["odd", {"type": "resource"}, {"type": "resource_link", "uri": 7}]}, None),
        ({"content": "odd"}, None),
        ({"structuredContent": {"uri": "memo://a"}}, None),
    ],
)
def test_each_uri_of_a_result_is_translated_wherever_it_stands(result, expected):
    """Links, embedded resources, what was read, what prompts say, and apps; data is nobody's to change."""
    assert json.loads(translate_result(json.dumps(result).encode(), public)) == (expected or result)


def test_what_stays_is_passed_on_as_the_bytes_it_came_in():
    """Also a number that Python would write in another way."""
    raw = b'{"contents":[{"uri":"memo://a","blob":"QQ==","size":1.50}]}'

    assert translate_result(raw, public) == b'{"contents":[{"uri":"pub:memo://a","blob":"QQ==","size":1.50}]}'


def test_what_only_one_era_knows_is_left_to_the_door():
    """The hints of a read, and what a server says of itself."""
    raw = b'{"resultType":"complete","ttlMs":5,"cacheScope":"public","messages":[],"_meta":{"x/info":1}}'

    assert translate_result(raw, public, is_call=False, reserved={"x/info"}) == b'{"messages":[]}'
    assert translate_result(b'{"resultType":"input_required"}', public, is_call=False) == (
        b'{"resultType":"input_required"}'
    )


@pytest.mark.parametrize("raw", [b"[]", b"{", b'{"content":[1e999', b"7"])
def test_what_cannot_be_read_is_left_as_it_is(raw):
    """Somebody else says what is wrong with it."""
    assert translate_result(raw, public) == raw


def test_a_result_without_resources_is_recognised():
    """So that nothing is taken apart for it."""
    assert not has_links(b'{"content":[{"type":"text","text":"x"}]}')
    assert has_links(json.dumps({"content": [LINK]}).encode())
