"""Results of calls: repaired and stamped without losing anything a client may want."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core.errors import ProtocolError
from toolcrib.wire import eras
from toolcrib.wire.results import needs_repair, read_head, repair, sign, stamp_modern, without_type

PLAIN = st.none() | st.booleans() | st.integers(-9, 9) | st.text(st.characters(codec="utf-8"), max_size=8)
NESTED = st.dictionaries(st.sampled_from(["resultType", "content", "a"]), PLAIN | st.lists(PLAIN, max_size=2))
KEYS = st.sampled_from(["structuredContent", "resultType2", "x", "", "ü"])
RESULTS = st.dictionaries(KEYS, PLAIN | NESTED, max_size=3)


def mended(raw: bytes) -> dict:
    """The result as a source passes it on."""
    return json.loads(repair(raw) if needs_repair(read_head(raw)) else raw)


@given(RESULTS, st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": st.text()}), max_size=2))
def test_a_sound_result_is_left_alone(fields, content):
    """Unknown fields and all."""
    raw = json.dumps({"content": content, **fields}).encode()

    assert not needs_repair(read_head(raw))


@given(RESULTS)
def test_a_result_without_content_gets_empty_content_and_keeps_the_rest(fields):
    """Strict clients insist on the field."""
    assert mended(json.dumps(fields).encode()) == {**fields, "content": []}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, []),
        ("plain", [{"type": "text", "text": "plain"}]),
        ({"type": "text", "text": "one"}, [{"type": "text", "text": "one"}]),
        (5, []),
        ([], []),
    ],
)
def test_content_that_is_no_list_becomes_one(content, expected):
    """A bare text or a single block is what the server meant to say."""
    assert mended(json.dumps({"content": content, "isError": None, "a": 1}).encode()) in (
        {"content": expected, "a": 1},
        {"content": expected, "a": 1, "isError": None},
    )


@pytest.mark.parametrize("slash", ["/", "\\/"])
def test_reserved_meta_of_the_server_is_not_passed_on(slash):
    """Its own name and version are between the server and us; what else is in ``_meta`` is the client's."""
    reserved = eras.META_SERVER_INFO.replace("/", slash)
    raw = b'{"content":[],"_meta":{"%b":{"name":"x"},"trace":"t"}}' % reserved.encode()

    assert mended(raw) == {"content": [], "_meta": {"trace": "t"}}


def test_meta_that_is_empty_afterwards_is_left_out():
    """No empty object remains."""
    raw = json.dumps({"content": [], "_meta": {eras.META_SERVER_INFO: {}}}).encode()

    assert mended(raw) == {"content": []}


def test_a_question_back_needs_no_content():
    """An ``input_required`` result has none by design, but its reserved meta goes too."""
    question = {"resultType": "input_required", "inputRequests": {"a": {"method": "roots/list"}}}

    assert mended(json.dumps(question).encode()) == question
    assert mended(json.dumps({**question, "_meta": {eras.META_SERVER_INFO: {}}}).encode()) == question


@pytest.mark.parametrize(
    "raw",
    [b"[]", b"5", b"null", b'"text"', b'{"isError":"yes"}', b'{"resultType":5}', b'{"a":"\xff","_meta":{"\xff":1}}'],
)
def test_what_is_no_result_is_the_servers_protocol_error(raw):
    """Said as such, never as a fault of ours."""
    with pytest.raises(ProtocolError, match="not a tool result"):
        repair(raw) if needs_repair(read_head(raw)) else read_head(raw)


def test_a_number_beyond_all_bounds_is_the_servers_protocol_error():
    """It is legal JSON that no Python value can hold."""
    with pytest.raises(ProtocolError):
        repair(b'{"structuredContent":{"a":1e999}}')


@given(RESULTS, st.sampled_from([None, 0, 2]))
def test_a_stamped_result_is_complete_and_otherwise_the_same(fields, indent):
    """However it was written, it gains one field and loses none."""
    raw = json.dumps(fields, indent=indent).encode()

    assert msgspec.json.decode(stamp_modern(raw)) == {**fields, "resultType": "complete"}
    assert stamp_modern(raw, "") == stamp_modern(raw)


@pytest.mark.parametrize(
    "fields",
    [
        {"structuredContent": {"resultType": 1}},
        {"a": "resultType", "content": []},
        {"resultType": None, "content": []},
    ],
)
def test_the_word_alone_is_no_stamp(fields):
    """A nested field or a text of that name does not make a result complete."""
    assert msgspec.json.decode(stamp_modern(json.dumps(fields).encode())) == {**fields, "resultType": "complete"}


@pytest.mark.parametrize("result_type", ["complete", "input_required", "something new"])
def test_a_stamp_that_is_there_stays(result_type):
    """Byte for byte."""
    for raw in (
        b'{"resultType":"%b","content":[]}' % result_type.encode(),
        b'{"content":[{"type":"text","text":"%b"}],"resultType":"%b"}' % (b"x" * 50, result_type.encode()),
    ):
        assert stamp_modern(raw) == raw
        assert stamp_modern(raw, read_head(raw).result_type) == raw


@pytest.mark.parametrize(
    ("raw", "signed"),
    [
        (b"{}", {}),
        (b' {"content":[]}', {"content": []}),
        (b'{"content":[{"_meta":{"a":1}}]}', {"content": [{"_meta": {"a": 1}}]}),
        (b'{"_meta":{"own":[1]},"content":[]}', {"content": [], "_meta": {"own": [1]}}),
        (b'{"_meta":null,"content":[]}', {"content": []}),
    ],
)
def test_a_signed_result_says_who_answered_and_keeps_all_else(raw, signed):
    """The stateless era wants it in the result's own metadata."""
    meta = {**signed.get("_meta", {}), eras.META_SERVER_INFO: {"name": "n"}}

    assert json.loads(sign(raw, b'{"name":"n"}')) == {**signed, "_meta": meta}


@pytest.mark.parametrize(
    "text",
    [
        '{"resultType":"complete","content":[]}',
        '{"content":[],"resultType":"complete"}',
        '{"content":[], "resultType": "complete" ,"isError":false}',
        '{"resultType":"complete"}',
        '{"content":[],"structuredContent":{"resultType":"complete"}}',
        '{"content":[{"type":"text","text":"a \\"resultType\\":\\"complete\\""}]}',
        '{"structuredContent":{"x":1,"resultType":"complete"}}',
    ],
)
def test_the_handshake_era_hears_nothing_of_the_type_of_a_result(text):
    """What a tool itself says under that name stays."""
    raw, fields = text.encode(), json.loads(text)
    kind = fields.pop("resultType", "")

    assert json.loads(without_type(raw, kind)) == fields
    assert json.loads(without_type(raw)) == fields
