"""Results that speak of resources: their URIs are translated, every other byte is left alone."""

import json

import pytest

from toolcrib.core.links import has_links, translate_read, translate_result


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


TEXT, BLOB = {"uri": "memo://a", "mimeType": "text/plain", "text": 'a "b" \n'}, {"uri": "memo://ü", "blob": "AAAA"}
HINTS = {"resultType": "complete", "ttlMs": 1.5, "cacheScope": "private"}


def compact(result: object) -> bytes:
    return json.dumps(result, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize("contents", [[], [TEXT], [BLOB], [TEXT, BLOB, {"uri": "x"}]])
@pytest.mark.parametrize("hints", [{}, HINTS, {"resultType": "complete"}])
def test_what_was_read_is_translated_in_one_look_where_it_is_only_texts_and_data(contents, hints):
    """Without the hints of one era, which the door knows itself; just as the thorough way does it."""
    raw = compact({"contents": contents, **hints})

    shown = translate_read(raw, public)

    assert shown is not None
    assert json.loads(shown) == {"contents": [{**one, "uri": public(one["uri"])} for one in contents]}
    assert json.loads(shown) == json.loads(translate_result(raw, public, is_call=False))


@pytest.mark.parametrize(
    "raw",
    [
        json.dumps({"contents": [TEXT]}).encode(),
        compact({"contents": [{**TEXT, "_meta": {"a": 1}}]}),
        compact({"contents": [TEXT], "_meta": {"a": 1}}),
        compact({"contents": [{**TEXT, "text": 7}]}),
        compact({"contents": [{**TEXT, "text": [[[1]]]}]}),
        compact({"contents": [{"text": "no URI"}]}),
        compact({"contents": "odd"}),
        compact({"contents": [TEXT], "resultType": "input_required"}),
        compact({"resultType": "input_required", "inputRequests": {}}),
        b'{"contents":[{"uri":"memo://a","text":"x","text":"y"}]}',
        b'{"contents":[],"contents":[{"uri":"memo://a"}]}',
        b'{"contents":[{"uri":"memo:\\/\\/a","text":"x"}]}',
        b"[]",
        b"{",
    ],
)
def test_whatever_else_was_read_is_left_to_the_thorough_way(raw):
    """Other members, members that stand twice, spaces, escaped URIs, questions, and what is no read at all."""
    assert translate_read(raw, public) is None
