"""What a strict reader would refuse is found without taking results apart."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.wire import strict
from toolcrib.wire.results import LARGE_BYTES, read_head
from toolcrib.wire.strict import (
    DEPTH_MAX,
    Unreadable,
    _as_ending,
    clean_object,
    flaw_of,
    is_accounted_for,
    is_plain,
    look_beside,
    looks,
    suspicions,
    tidied,
    tidy,
    tidy_beside,
)


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def texts(*said: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text} for text in said], **more}


@pytest.mark.parametrize(
    "number",
    [
        b"1e999",
        b"-1E400",
        b"1e+309",
        b"0.1e4000",
        b"7" * 200_000,
        b"1" * 310 + b".5",
        b"9" * 191 + b"e200",
    ],
)
def test_a_number_beyond_all_bounds_is_a_flaw(number):
    """Some readers refuse it, some make infinity of it; wherever it stands, and whatever stands before it."""
    for raw in (b'{"n":%b}' % number, b'{"s":"%b","n":[%b]}' % (b"x" * 37, number)):
        assert any(suspicions(raw, read_head(raw)))
        assert "out of range" in flaw_of(raw)


@pytest.mark.parametrize("number", [b"1e308", b"1e-999", b"1" * 250, b"0." + b"3" * 400, b"12345678901234567890123"])
def test_a_number_that_everybody_can_read_is_none(number):
    """However it is written."""
    assert flaw_of(b'{"n":%b}' % number) == ""


@pytest.mark.parametrize("text", ["1e999", "7" * 1000, "[" * 500, '"]' * 300, "\\" * 99 + "[{" * 200])
def test_what_only_stands_in_a_text_is_none(text):
    """Texts are not read as numbers or brackets."""
    raw = json.dumps({"a": text, text[:9]: [text]}).encode()

    assert flaw_of(raw) == ""


@pytest.mark.parametrize("wrap", [b"%b", b'{"a":"]","b":%b}', b'["\\\\",%b]', b'["\\"[",{"x":%b}]'])
def test_too_many_levels_are_a_flaw_whatever_stands_around_them(wrap):
    """Brackets in texts neither add to the depth nor hide it."""
    outside = wrap.replace(b'"]"', b"").replace(b'"\\"["', b"").count(b"[") + wrap.count(b"{")

    assert flaw_of(wrap % nested(DEPTH_MAX - outside)) == ""
    assert "nests deeper than 100 levels" in flaw_of(wrap % nested(DEPTH_MAX - outside + 1))


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.integers()
    | st.text('ab"\\[]{}1e9'),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('ab"\\[]{}'), inner, max_size=4),
    max_leaves=40,
)


@given(JSON, st.integers(1, 130))
def test_the_depth_is_never_mistaken(value, depth):
    """For any JSON around any depth, with and without spaces."""
    for _ in range(depth):
        value = [value, [[]] * 60]
    real, level = 0, [value]
    while level:
        real += 1
        level = [
            part
            for whole in level
            for part in (whole.values() if isinstance(whole, dict) else whole)
            if isinstance(part, (dict, list))
        ]

    for raw in (json.dumps(value).encode(), json.dumps(value, separators=(",", ":")).encode()):
        assert bool(flaw_of(raw)) == (real > DEPTH_MAX)


@pytest.mark.parametrize(
    "result",
    [
        texts("a"),
        texts(),
        texts("a", "b" * 500, isError=False),
        texts("x", isError=True, resultType="complete"),
        {"content": [{"type": "image", "data": "aa", "mimeType": "image/png"}]},
    ],
)
def test_texts_are_known_to_be_plain(result):
    """One more look at the blocks is all they need."""
    raw = msgspec.json.encode(result)

    assert is_plain(len(raw), read_head(raw))


@pytest.mark.parametrize(
    "raw",
    [
        b'{"content":[],"structuredContent":{"n":1}}',
        b'{"content":[{"type":"text","text":"a","n":1e999}]}',
        b'{"content":[{"type":"text","text":1e999}]}',
        b'{"content":[{"type":"text","text":"a","text":"b"}]}',
        b'{"content":[],"":1e999}',
        b'{"content":[],"content":[]}',
        b'{"content":[],"_meta":{"n":1e999}}',
        b'{"content":[],"isError":true,"isError":false}',
    ],
)
def test_nothing_else_passes_for_plain(raw):
    """A number, a further member, the same member twice."""
    assert not is_plain(len(raw), read_head(raw))


@pytest.mark.parametrize(
    "result",
    [texts("ü", structuredContent={"n": 1}), {"content": [{"type": "image", "data": "aa", "mimeType": "a/b"}]}],
)
def test_a_sound_result_stays_byte_for_byte(result):
    """Whatever its numbers look like."""
    raw = msgspec.json.encode(result).replace(b":1}", b":1.00}")

    assert tidy(raw, read_head(raw)) is raw


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        (b'{"content":[],"isError":true,"isError":false}', b'{"content":[],"isError":false}'),
        (b'{"content":[],"is\\u0045rror":true,"isError":false}', b'{"content":[],"isError":false}'),
        (b'{"content":[1],"content":[]}', b'{"content":[]}'),
        (b'{"content":[],"own":"first","own":2}', b'{"content":[],"own":2}'),
        (b'{"content":[],"":1,"":2}', b'{"content":[],"":2}'),
        (b'{"content":[{"type":"text","text":"a","text":"b"}]}', b'{"content":[{"type":"text","text":"b"}]}'),
        (b'{"content":[{"type":"x","of":{"a":1,"a":2}}]}', b'{"content":[{"type":"x","of":{"a":2}}]}'),
        (b'{"content":[],"structuredContent":{"a":1,"a":2}}', b'{"content":[],"structuredContent":{"a":2}}'),
        (b'{"content":[],"structuredContent":{"a":1,"\\u0061":2}}', b'{"content":[],"structuredContent":{"a":2}}'),
        (b'{ "content": [], "structuredContent": {"a":1,"a":2} }', b'{"content":[],"structuredContent":{"a":2}}'),
    ],
)
def test_a_member_that_stands_there_twice_is_passed_on_once(raw, clean):
    """The last, as it was read here: of the result, of its content, of its data."""
    assert tidy(raw, read_head(raw)) == clean
    assert tidied(raw, tidy_beside(raw)) == clean


@given(JSON, st.sampled_from([(", ", ": "), (",", ":")]))
def test_what_is_passed_on_means_the_same(value, separators):
    """Whatever the data are, and with any spaces."""
    result = texts("a", structuredContent={"value": value, "ü\n": 1}, own=value)
    raw = json.dumps(result, separators=separators).encode()

    assert json.loads(tidy(raw, read_head(raw))) == result


@pytest.mark.parametrize(
    "raw",
    [
        b'{"content":[],"structuredContent":{"n":1e999}}',
        b'{"content":[],"_meta":{"n":1e999}}',
        b'{"content":[],"own":1e999}',
        b'{"content":[{"type":"text","text":1e999}]}',
        b'{"content":[],"structuredContent":{"n":%b}}' % nested(DEPTH_MAX - 1),
        b'{"content":[{"type":"text","text":"%b"}],"structuredContent":{"n":%b}}'
        % (b"x" * 9000, nested(DEPTH_MAX - 1)),
        b'{"content":[{"type":"text","text":"%b"}],"structuredContent":{"n":1e999}}' % (b"x" * 9000),
    ],
)
def test_what_cannot_be_read_by_everybody_is_not_passed_on(raw):
    """Wherever it stands; a helper says the same."""
    with pytest.raises(Unreadable):
        tidy(raw, read_head(raw))
    with pytest.raises(Unreadable):
        tidied(raw, tidy_beside(raw))


def test_as_many_levels_as_are_allowed_pass():
    """Also beside a long text, which is not looked at again."""
    for text in (b"x", b"x" * 9000):
        raw = b'{"content":[{"type":"text","text":"%b"}],"structuredContent":{"n":%b}}' % (text, nested(DEPTH_MAX - 2))

        assert tidy(raw, read_head(raw)) is raw


@pytest.mark.parametrize("number", [b"1e999", b"7" * 320, b"9" * 191 + b"e200", b"1e" + b"0" * 180 + b"999"])
@pytest.mark.parametrize("before", [1, 2, 100, 191, 319])
def test_a_number_is_found_wherever_a_large_result_is_cut_for_looking(number, before):
    """Pieces overlap; one that begins within a letter is looked at as well."""
    opening = b'{"content":[],"structuredContent":{"t":"'
    filling = "é".encode() * ((strict._PIECE - len(opening) - len(b'","n":') - before) // 2)
    raw = b'%b%b","n":%b}}' % (opening, filling, number)
    assert any(list(suspicions(raw, read_head(raw)))[2:])


def test_a_large_result_without_anything_suspicious_needs_no_helper():
    """Only one that might have a flaw, or lacks something."""
    long = "x" * LARGE_BYTES
    sound, odd = (
        msgspec.json.encode(texts(long, **more)) for more in ({"structuredContent": {"n": 1}}, {"own": [[]] * 100})
    )

    assert not any(suspicions(sound, read_head(sound)))
    assert any(suspicions(odd, read_head(odd)))
    assert tidied(odd, tidy_beside(odd)) == odd


def test_what_is_passed_on_is_encoded_anew():
    """Names once, and nothing that not everybody can read."""
    assert clean_object(b'{ "a":1,"a":2 }') == b'{"a":2}'
    for unreadable in (b'{"a":1e999}', b'{"a":%b}' % nested(101), b"[]", b'{"a":1e999,"b":"%b"}' % (b"x" * 300_000)):
        with pytest.raises(msgspec.DecodeError):
            clean_object(unreadable)


def test_the_words_of_a_flaw_end_a_sentence():
    assert _as_ending(ValueError("Number out of range")) == "number out of range"


@pytest.mark.parametrize(("size", "is_anew"), [(LARGE_BYTES, True), (LARGE_BYTES + 1, False)])
def test_only_a_small_object_is_encoded_anew(size, is_anew):
    """A larger one passes as it came, if nothing about it is suspicious."""
    raw = b'{ "a": "' + b"x" * (size - 10) + b'"}'

    assert len(raw) == size
    assert (clean_object(raw) != raw) is is_anew


def test_content_that_is_no_list_of_texts_is_not_plain():
    head = read_head(b'{"content":[1]}')

    assert not is_plain(len(b'{"content":[1]}'), head)
    assert not is_plain(len(b'{"content":5}'), read_head(b'{"content":5}'))


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"content": []},
        texts("a", "b"),
        {"content": [{"type": "image", "data": "AA==", "mimeType": "image/png"}]},
        {"content": [], "isError": True},
        {"content": [], "isError": False},
        {"content": [], "resultType": "complete"},
        {"content": [], "_meta": {"a": 1}},
        {"content": [], "structuredContent": {"a": 1, "b": [2]}},
        {"content": [], "structuredContent": {}, "_meta": {}, "isError": True, "resultType": "x"},
    ],
)
def test_every_byte_of_what_is_read_of_a_result_is_accounted_for(result):
    """One more is not."""
    raw = msgspec.json.encode(result)
    head = read_head(raw)

    assert (is_accounted_for(len(raw), head), is_accounted_for(len(raw) + 1, head)) == (True, False)


def test_content_of_another_kind_has_each_member_once_as_well():
    raw = b'{"content":[5,{"a":1,"a":2}]}'

    assert tidy(raw, read_head(raw)) == b'{"content":[5,{"a":2}]}'


@pytest.mark.parametrize(("content", "is_suspect"), [(b"[]", False), (b"5", True)])
def test_a_large_result_that_must_be_repaired_is_suspect(content, is_suspect):
    """However well its bytes are accounted for."""
    raw = b'{"content":%b,"structuredContent":{"a":"%b"}}' % (content, b"x" * LARGE_BYTES)

    assert any(suspicions(raw, read_head(raw))) is is_suspect


def test_brackets_in_texts_hide_no_level_however_many_empty_texts_stand_beside_them():
    """Each bracket that opens a level has one in a text that seems to close it."""
    levels = DEPTH_MAX + 50
    opening, closing = b'["]",' * levels, b',"["]' * levels

    flaws = {flaw_of(opening + b",".join([b'""'] * empty) + closing) for empty in range(1, 2 * levels * 2 + 2)}

    assert flaws == {f"it nests deeper than {DEPTH_MAX} levels"}


def test_brackets_between_escaped_quotation_marks_hide_no_level():
    """They stand in texts, though with all marks taken alike they would seem to stand outside."""
    levels = DEPTH_MAX + 50
    opening, closing = rb'["\"]\"",' * levels, rb',"\"[\""]' * levels

    assert flaw_of(opening + b'""' + closing) == f"it nests deeper than {DEPTH_MAX} levels"


def test_digits_here_and_there_in_a_large_object_are_no_huge_number():
    """However they are sampled."""
    raw = b'{"a":"' + b"x" * 18 + (b"0" + b"x" * 23) * 12_000 + b'"}'

    assert len(raw) > LARGE_BYTES
    assert clean_object(raw) == raw


@pytest.mark.parametrize("raw", [b'{"a":1}', b'{"a":1e999}'])
def test_a_helper_says_just_what_is_wrong(raw):
    """Nothing at all, if nothing is."""
    assert (look_beside(raw) == b"") is (flaw_of(raw) == "")


def test_a_huge_number_is_seen_in_the_middle_of_a_piece():
    """Not only where two pieces meet."""
    raw = b'{"a":"' + b"x" * (strict._PIECE // 2) + b'","n":1e999,"b":"' + b"x" * 3 * strict._PIECE + b'"}'

    assert any(looks(raw))
