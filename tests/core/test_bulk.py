"""What is too much work to read is known before it is read."""

import gc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core import framing
from toolcrib.core.framing import MESSAGE_BYTES, WORK_MAX, is_bulky
from toolcrib.transports.http.limits import HttpLimits
from toolcrib.wire import jsonrpc


def request(value: object) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"value": value}})


MANY = {
    "numbers": lambda count: [1] * count,
    "lists": lambda count: [[]] * (count // 3),
    "members": lambda count: dict.fromkeys(map(str, range(count // 9)), 0),
    "objects": lambda count: [{"a": 1}] * (count // 11),
    "texts": lambda count: [",:"] * (count * 2 // 5),
}


@pytest.mark.parametrize("kind", MANY)
def test_a_request_with_too_many_values_is_refused_by_its_id(kind):
    """The client that sent it learns why, the others wait for nothing."""
    with pytest.raises(jsonrpc.RpcError, match="Send less at once") as refused:
        jsonrpc.decode_inbound(request(MANY[kind](WORK_MAX + 1000)))

    assert (refused.value.code, refused.value.request_id) == (jsonrpc.INVALID_REQUEST, 7)


@pytest.mark.parametrize("kind", MANY)
def test_a_request_with_fewer_is_read(kind):
    """Nearly as many as are allowed."""
    value = MANY[kind](WORK_MAX - 10_000 if kind != "texts" else WORK_MAX // 2)

    assert jsonrpc.decode_inbound(request(value)).params == {"value": value}


@pytest.mark.parametrize("text", ['{"a": [1, 2]}, ', '\\"[{,:', "a,\n"])
def test_a_long_text_is_no_work_whatever_it_says(text):
    """JSON in a text is a text."""
    message = request([text * (1_000_000 // len(text))] * 3)

    assert len(message) < MESSAGE_BYTES
    assert not is_bulky(message)


@given(st.text('"\\\\[{,:n'))
def test_only_what_stands_outside_of_texts_is_counted(text):
    """Whatever they hold, and however that is escaped."""
    marks = framing._outside_texts(msgspec.json.encode([text, {text: text}]))

    assert marks == b"[,{:"


def test_nothing_is_collected_while_a_large_message_is_read():
    """And afterwards as before."""
    before = gc.get_stats()
    with framing.without_collecting():
        kept = [[] for _ in range(100_000)]
        meanwhile = gc.get_stats()

    assert (len(kept), meanwhile, gc.isenabled()) == (100_000, before, True)


def test_both_doors_take_messages_of_the_same_size():
    """What a client may send does not depend on how it is connected."""
    assert HttpLimits().body_bytes == MESSAGE_BYTES


DENSE = {"numbers": b"1,", "lists": b"[],", "objects": b"{},", "texts": b'"",', "members": b'"a":1,'}


@pytest.mark.parametrize("kind", DENSE)
def test_a_servers_message_that_is_long_and_of_nothing_but_small_values_is_not_read(kind):
    """Whichever bytes are looked at; one that is shorter is read."""
    unit = DENSE[kind]
    opening, closing = (b"{", b'"z":1}') if b":" in unit else (b"[", b"1]")
    long, short = (
        b'{"id":1,"result":%b%b%b}' % (opening, unit * (size // len(unit)), closing)
        for size in (15_000_000, framing.DENSE_BYTES - 100)
    )

    with pytest.raises(msgspec.DecodeError, match="ask for less at once"):
        jsonrpc.decode_outbound(long)
    assert jsonrpc.decode_outbound(short).id == 1


@pytest.mark.parametrize(
    "unit", [b"some words, and others; ", b"iVBORw0KGgo", b"\\n- one: two", b'{\\"name\\":\\"x\\"},']
)
def test_a_servers_long_texts_are_read(unit):
    message = b'{"id":1,"result":["%b"]}' % (unit * (15_000_000 // len(unit)))

    assert jsonrpc.decode_outbound(message).id == 1


def test_values_cannot_hide_from_the_samples():
    """Not even where they keep out of the way of any one step."""
    for step in range(1, 5):
        period = b"1," * (60 * step) + b"99,"
        assert framing.is_dense(period * (12_000_000 // len(period)))
