"""JSON from strangers: one verdict at every way in, and never another exception."""

import msgspec
import pytest

from toolcrib.config.jsonc import read_jsonc
from toolcrib.core.errors import ConfigError
from toolcrib.core.framing import LineFramer
from toolcrib.core.requests import Result
from toolcrib.wire.jsonrpc import RpcError, decode_error, decode_inbound, decode_outbound


def as_request(text: bytes) -> bool:
    try:
        decode_inbound(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":%b}}' % text)
    except RpcError:
        return False
    return True


def as_line(text: bytes) -> bool:
    lines = LineFramer().feed(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":%b}}\n' % text)
    try:
        return all(decode_inbound(line) for line in lines)
    except RpcError:
        return False


def as_result(text: bytes) -> bool:
    try:
        answer = decode_outbound(b'{"jsonrpc":"2.0","id":1,"result":{"structuredContent":%b}}' % text)
    except msgspec.DecodeError:
        return False
    return "structuredContent" in Result(raw=bytes(answer.result)).mcp


def as_error(text: bytes) -> bool:
    """What a server sends along with an error is only worth something if it can be read."""
    return decode_error(b'{"code":-1,"message":"no","data":%b}' % text).code == -1


def as_config(text: bytes) -> bool:
    try:
        read_jsonc(text.decode(), "the file")
    except (ConfigError, UnicodeDecodeError):
        return False
    return True


WAYS_IN = [as_request, as_line, as_result, as_error, as_config]

GOOD = [
    b"null",
    b" true ",
    b"-0",
    b"0e1",
    b"1E-2",
    b"-0.000000000000000000000000000000000000001",
    b'""',
    b'"\\u0000\\/\\"\\b\\f\\n\\r\\t"',
    b'"\\ud834\\udd1e"',
    b'"\xf4\x8f\xbf\xbf"',
    b'"\xc2\x80\x7f\xe2\x80\xa8"',
    b"[[]   ]",
    b'{"a":1,"a":2}',
    b'{"":{"\\u0000":[]}}',
    b"[" * 60 + b"]" * 60,
]
BAD = [
    b"",
    b"]",
    b"[1 2]",
    b"[1,,2]",
    b"[,1]",
    b"[1]]",
    b"[][]",
    b"{1:1}",
    b"{'a':1}",
    b'{"a" 1}',
    b'{"a":1,,}',
    b'{"a"}',
    b"nul",
    b"True",
    b"NaN",
    b"-Infinity",
    b"+1",
    b"01",
    b"-01",
    b".5",
    b"1.",
    b"1e",
    b"0x1",
    b"1 000",
    b"\xef\xbc\x91",
    b'"\t"',
    b'"a\x00b"',
    b'"new\nline"',
    b'"\\x41"',
    b'"\\u00g0"',
    b'"\\ud800"',
    b'"\\ud800\\n"',
    b'"open',
    b'"\xff"',
    b'"\xc0\xaf"',
    b'"\xed\xa0\x80"',
    b"[\x0c]",
    b"[\xc2\xa0]",
    b"[\xe2\x81\xa0]",
    b"\xef\xbb\xbf{}",
    b"123\x00",
    b"[" * 100_000,
    b'{"a":' * 100_000,
]
DOUBTFUL = [b"1e999", b"-1e999", b"9" * 20_000, b"1e-999", b"[" * 500 + b"]" * 500, b"\xff\xfe[\x00]\x00"]


@pytest.mark.parametrize("way_in", WAYS_IN)
@pytest.mark.parametrize("text", GOOD, ids=ascii)
def test_json_is_read(way_in, text):
    """What the standard allows passes, odd as it may look."""
    assert way_in(text)


@pytest.mark.parametrize("way_in", WAYS_IN)
@pytest.mark.parametrize("text", BAD, ids=lambda text: ascii(text[:20]))
def test_what_only_looks_like_json_is_refused(way_in, text):
    """Nothing is guessed, repaired or silently changed."""
    assert not way_in(text)


@pytest.mark.parametrize("way_in", WAYS_IN)
@pytest.mark.parametrize("text", DOUBTFUL, ids=lambda text: ascii(text[:20]))
def test_what_the_standard_leaves_open_is_decided(way_in, text):
    """Numbers beyond all bounds and deep nesting are read or refused, never a crash."""
    assert way_in(text) in (True, False)
