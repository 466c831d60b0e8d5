"""JSON-RPC envelopes: one message or a refusal with the right code, whatever the bytes are."""

import json
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from toolcrib.wire.jsonrpc import (
    ID_LIMIT,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorBody,
    Inbound,
    Outbound,
    RpcError,
    decode_error,
    decode_inbound,
    decode_outbound,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
)

IDS = st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(codec="utf-8"), max_size=ID_LIMIT)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=8), inner, max_size=4)
    ),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=8), JSON, max_size=4)


def refusal(data: bytes) -> int:
    """The code ``data`` is refused with."""
    with pytest.raises(RpcError) as refused:
        decode_inbound(data)
    return refused.value.code


@given(IDS, st.text(st.characters(codec="utf-8"), max_size=30), OBJECTS)
def test_a_request_is_read_as_it_was_written(request_id, method, params):
    """Id, method and params come out of the bytes exactly as they went in."""
    data = json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}).encode()

    assert decode_inbound(data) == Inbound("2.0", request_id, method, params)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('"method":"ping"', Inbound("2.0", UNSET, "ping")),
        ('"method":"ping","params":null', Inbound("2.0", UNSET, "ping", None)),
        ('"id":7,"method":"ping","unknown":[1]', Inbound("2.0", 7, "ping")),
    ],
)
def test_what_may_be_missing_may_be_missing(body, expected):
    """Notifications have no id, params may be null, and unknown members are nobody's business."""
    assert decode_inbound(b'{"jsonrpc":"2.0",%b}' % body.encode()) == expected


def test_a_clients_answer_keeps_its_result_as_bytes():
    """Answers to questions of ours are not decoded here."""
    message = decode_inbound(b'{"jsonrpc":"2.0","id":"q1","result":{"a": 1}}')

    assert (message.id, bytes(message.result), message.error) == ("q1", b'{"a": 1}', UNSET)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"hello",
        b"{",
        b'{"jsonrpc":"2.0","id":1,"method":"x"}{}',
        b"[1,",
        b'{"jsonrpc":2,"id":',
        b"[" * 100_000,
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":NaN}}',
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":Infinity}}',
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"\xff"}}',
        b'{"jsonrpc":"2.0","id":"q","result":{"a":"\xff"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"\xc3"}',
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"\\ud800"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":' + b"[" * 100_000,
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":' + b'{"a":' * 100_000,
    ],
    ids=lambda data: data[:60].decode("latin-1"),
)
def test_what_is_not_json_is_a_parse_error(data):
    """Half messages, bad UTF-8, numbers JSON does not have, and endless nesting."""
    assert refusal(data) == PARSE_ERROR


@pytest.mark.parametrize(
    "data",
    [
        b"null",
        b"17",
        b'"ping"',
        b"[]",
        b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
        b"{}",
        b'{"id":1,"method":"ping"}',
        b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
        b'{"jsonrpc":2.0,"id":1,"method":"ping"}',
        b'{"jsonrpc":"2.0"}',
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","result":{}}',
        b'{"jsonrpc":"2.0","id":1,"method":null}',
        b'{"jsonrpc":"2.0","id":1,"method":5}',
        b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1.0,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1e3,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":true,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":[1],"method":"ping"}',
        b'{"jsonrpc":"2.0","id":"%b","method":"ping"}' % (b"x" * (ID_LIMIT + 1)),
        b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % (b"9" * (ID_LIMIT + 1)),
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":"text"}',
    ],
    ids=lambda data: data[:60].decode(),
)
def test_json_that_is_no_message_is_an_invalid_request(data):
    """Batches, missing versions, impossible ids, and objects that are neither question nor answer."""
    assert refusal(data) == INVALID_REQUEST


@given(st.binary(max_size=80) | JSON.map(lambda value: json.dumps(value).encode()))
def test_nothing_but_a_refusal_comes_of_nonsense(data):
    """Whatever arrives is a message or an ``RpcError``, never another exception."""
    outcomes = []
    with suppress(RpcError):
        outcomes.append(decode_inbound(data).jsonrpc)

    assert outcomes in ([], ["2.0"])


@given(st.binary(max_size=80))
def test_a_servers_nonsense_is_a_decode_error(data):
    """The other direction has one exception too."""
    outcomes = []
    with suppress(msgspec.DecodeError):
        outcomes.append(decode_outbound(data))

    assert all(isinstance(outcome, Outbound) for outcome in outcomes)


@pytest.mark.parametrize("part", [b"result", b"error", b"params"])
def test_parts_that_stay_raw_are_valid_text(part):
    """Bytes that are not UTF-8 never travel on inside a part that nobody decodes."""
    with pytest.raises(msgspec.DecodeError, match="not UTF-8"):
        decode_outbound(b'{"jsonrpc":"2.0","id":1,"%b":{"a":"\xff"}}' % part)


def test_a_server_nesting_without_end_is_a_decode_error():
    """Deep nesting is no reason to fall over."""
    with pytest.raises(msgspec.DecodeError):
        decode_outbound(b'{"id":1,"result":' + b"[" * 100_000)


@given(st.integers(0, 2**53), OBJECTS)
def test_an_encoded_request_is_a_request(request_id, params):
    """What we send is read by the same rules as what we receive."""
    data = encode_request(request_id, "tools/call", json.dumps(params).encode())

    assert decode_inbound(data) == Inbound("2.0", request_id, "tools/call", params)


def test_an_encoded_notification_has_no_id():
    """Notifications are told from requests by that alone."""
    assert decode_inbound(encode_notification("notifications/x")) == Inbound("2.0", UNSET, "notifications/x", UNSET)


@given(IDS, OBJECTS)
def test_an_encoded_result_comes_back_byte_for_byte(request_id, result):
    """The result is put into the envelope as it is."""
    raw = json.dumps(result).encode()

    answer = decode_outbound(encode_result(request_id, raw))

    assert (answer.id, bytes(answer.result)) == (request_id, raw)
    assert decode_outbound(encode_result(request_id, Raw(raw))).id == request_id


@given(st.none() | IDS, st.integers(-40_000, 40_000), st.text(st.characters(codec="utf-8")), JSON)
def test_an_encoded_error_keeps_code_message_and_data(request_id, code, message, data):
    """The id is null when the request's could not be read."""
    answer = msgspec.json.decode(encode_error(request_id, RpcError(code, message, data)))

    expected = {"code": code, "message": message} | ({} if data is None else {"data": data})
    assert answer == {"jsonrpc": "2.0", "id": request_id, "error": expected}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b'{"code":-1,"message":"no","data":[1]}', ErrorBody(-1, "no", [1])),
        (b"{}", ErrorBody(INTERNAL_ERROR, "")),
        (b'"broken"', ErrorBody(INTERNAL_ERROR, '"broken"')),
        (b'{"code":"E_BAD","message":"no"}', ErrorBody(INTERNAL_ERROR, '{"code":"E_BAD","message":"no"}')),
    ],
)
def test_an_error_of_any_shape_is_readable(raw, expected):
    """Servers that bend the rules still get their words across."""
    assert decode_error(raw) == expected


@pytest.mark.parametrize(
    ("line", "request_id"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"n":1e999}}', 7),
        (b'{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"n":%b}}' % (b"1" * 5000), "a"),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"n":"\xff"}}', 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":5}', 7),
        (b'{"jsonrpc":"2.0","id":1e999,"method":"x"}', None),
        (b'{"jsonrpc":"2.0","id":7,"method":"x","params":{', None),
    ],
)
def test_a_request_that_cannot_be_read_is_refused_by_its_id_if_that_can_be(line, request_id):
    """Who waits for an answer to that id gets one."""
    with pytest.raises(RpcError) as refused:
        decode_inbound(line)

    assert refused.value.request_id == request_id


TEXT = '"' + "a" * 300_000 + '"'


@pytest.mark.parametrize(
    "line",
    [
        '{"jsonrpc":"2.0","id":7,"result":{"text":%s}}',
        '{"result":{"text":%s},"jsonrpc":"2.0","id":7}',
        '{"id":7,"jsonrpc":"2.0","result":{"text":%s}}',
        '{"jsonrpc": "2.0", "id": 7, "result": {"text":%s}}',
        '{"result":{"text":%s},"jsonrpc":"2.0","id":7 }',
    ],
)
def test_a_long_answer_is_the_same_however_it_is_written(line):
    """Of the two forms that SDKs write, only the ends are looked at; whoever reads the result passes over the rest."""
    message = decode_outbound((line % TEXT).encode())

    assert (message.id, message.method, message.error) == (7, None, UNSET)
    assert bytes(message.result) == f'{{"text":{TEXT}}}'.encode()


@pytest.mark.parametrize(
    "line",
    [
        '{"jsonrpc":"2.0","id":7,"result":{"text":%s},"more":{}}',
        '{"jsonrpc":"2.0","id":7,"result":{"text":%s},"error":{"code":1}}',
        '{"result":{"text":%s},"result":{},"jsonrpc":"2.0","id":7}',
        '{"jsonrpc":"2.0","id":7,"result":{"text":%s]}}',
    ],
)
def test_a_long_answer_with_anything_else_in_it_is_no_result(line):
    """It is not taken for one by those who read results."""
    message = decode_outbound((line % TEXT).encode())

    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(message.result)
