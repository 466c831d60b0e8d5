"""JSON-RPC envelopes. Only the envelope is decoded; results travel as the bytes they came in."""

import re
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from toolcrib.core import framing

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REQUEST_CANCELLED = -32800
HEADER_MISMATCH = -32020
MISSING_CLIENT_CAPABILITY = -32021
UNSUPPORTED_PROTOCOL_VERSION = -32022

HTTP_STATUS = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    MISSING_CLIENT_CAPABILITY: 400,
    UNSUPPORTED_PROTOCOL_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}
"""The status a stateless-era HTTP answer carries for an error code; others are 200."""

ID_LIMIT = 256

RequestId = int | str


class RpcError(Exception):
    """An error answer on its way to the other side."""

    def __init__(self, code: int, message: str, data: Any = None, request_id: RequestId | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data
        self.request_id = request_id
        """Of a request that could not be read as a whole."""


class Inbound(msgspec.Struct, gc=False):
    """One message from a client: a request, a notification, or its answer to a request of ours."""

    jsonrpc: str = ""
    id: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | str | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: dict[str, Any] | UnsetType | None = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class Outbound(msgspec.Struct, gc=False):
    """One message from a server: an answer (result or error), a notification, or a request of its own."""

    id: RequestId | None = None
    method: str | None = None
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET
    params: Raw | UnsetType = UNSET


class ErrorBody(msgspec.Struct):
    """The error member of an answer; real servers leave fields out."""

    code: int = INTERNAL_ERROR
    message: str = ""
    data: Any = None


class _Envelope(msgspec.Struct):
    """What can still be read of a request whose params cannot."""

    method: str
    id: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | Annotated[str, Meta(max_length=ID_LIMIT)]


_inbound = msgspec.json.Decoder(Inbound)
_envelope = msgspec.json.Decoder(_Envelope)
_outbound = msgspec.json.Decoder(Outbound)
_error = msgspec.json.Decoder(ErrorBody)
_any = msgspec.json.Decoder(Raw)
encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode


def decode_inbound(data: bytes) -> Inbound:
    """The message in ``data``; anything that is not exactly one JSON-RPC 2.0 message is an error answer."""
    try:
        if not data.isascii():
            _check_text(data)
        message = _inbound.decode(data) if len(data) <= framing.SMALL_BYTES else _decode_large(data)
    except msgspec.ValidationError as error:
        raise _refusal(data, error) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise RpcError(PARSE_ERROR, f"Not valid JSON: {error}", request_id=_id_in(data)) from None
    if message.jsonrpc != "2.0":
        raise RpcError(INVALID_REQUEST, 'Not a JSON-RPC message: "jsonrpc" must be "2.0".')
    if message.method is UNSET:
        _check_answer(message)
    elif message.id is None or (type(message.id) is str and len(message.id) > ID_LIMIT):
        raise RpcError(INVALID_REQUEST, f"A request id is a number or a string of at most {ID_LIMIT} characters.")
    return message


def _decode_large(data: bytes) -> Inbound:
    if framing.is_bulky(data):
        request_id = _envelope.decode(data).id  # what is no JSON, or no request, is told as such
        raise RpcError(INVALID_REQUEST, framing.TOO_MANY_VALUES, request_id=request_id)
    with framing.without_collecting():
        return _inbound.decode(data)


def _refusal(data: bytes, error: msgspec.ValidationError) -> RpcError:
    """The decoder stops at the first value of a wrong kind; whether it stands in JSON at all is seen only now."""
    try:
        _any.decode(data)
    except (msgspec.DecodeError, RecursionError) as broken:
        return RpcError(PARSE_ERROR, f"Not valid JSON: {broken}")
    return RpcError(INVALID_REQUEST, f"Not a JSON-RPC message: {error}", request_id=_id_in(data))


def _id_in(data: bytes) -> RequestId | None:
    """The id of a request that cannot be read as a whole (a number beyond all bounds, say), if that can be."""
    try:
        return _envelope.decode(data).id
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _check_answer(message: Inbound) -> None:
    if message.id is UNSET or (message.result is UNSET and message.error is UNSET):
        raise RpcError(INVALID_REQUEST, "Not a JSON-RPC message: neither a method nor an answer to one.")


def _check_text(data: bytes) -> None:
    """Refuse what is not UTF-8: the decoder does not look into those parts that stay raw."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"not UTF-8 (byte {error.start})") from None


_LONG = 256 * 1024
_ENDS = 64
_BEFORE_RESULT = re.compile(rb'\{"jsonrpc":"2\.0","id":(\d{1,15}),"result":(?=\{)')
_AFTER_RESULT = re.compile(rb'(?<=\}),"jsonrpc":"2\.0","id":(\d{1,15})\}')


def _long_answer(data: bytes) -> Outbound | None:
    """An answer in one of the two forms that SDKs write, by its ends: whoever reads its result passes over all of that
    and sees whether it is one, so that this need not be done twice."""
    if data.startswith(b'{"result":{'):
        after = _AFTER_RESULT.search(data[-_ENDS:])
        if after is not None and after.end() == _ENDS:
            return Outbound(int(after[1]), result=Raw(memoryview(data)[10 : after.start() - _ENDS]))
    before = _BEFORE_RESULT.match(data)
    if before is None or not data.endswith(b"}}"):
        return None
    return Outbound(int(before[1]), result=Raw(memoryview(data)[before.end() : -1]))


def decode_outbound(data: bytes) -> Outbound:
    """The message in ``data``; raises ``msgspec.DecodeError`` for what is none, or too much work to read."""
    if len(data) > framing.DENSE_BYTES and framing.is_dense(data):
        raise msgspec.DecodeError("it is long and holds too many values: ask for less at once")
    try:
        if not data.isascii():
            _check_text(data)
        return (_long_answer(data) if len(data) > _LONG else None) or _outbound.decode(data)
    except RecursionError:
        raise msgspec.DecodeError("nested too deeply") from None


def decode_error(data: Raw | bytes) -> ErrorBody:
    """The error member, whatever shape it has."""
    try:
        return _error.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ErrorBody(message=bytes(data)[:500].decode(errors="replace"))


def encode_request(request_id: RequestId, method: str, params: bytes) -> bytes:
    """A request; ``params`` is a JSON object already encoded."""
    return b"".join(
        (b'{"jsonrpc":"2.0","id":', encode(request_id), b',"method":"', method.encode(), b'","params":', params, b"}")
    )


def encode_notification(method: str, params: bytes = b"{}") -> bytes:
    """A notification; ``params`` is a JSON object already encoded, left out where it says nothing."""
    if params == b"{}":
        return b'{"jsonrpc":"2.0","method":"%b"}' % method.encode()
    return b'{"jsonrpc":"2.0","method":"%b","params":%b}' % (method.encode(), params)


def encode_result(request_id: RequestId, result: bytes | Raw) -> bytes:
    """An answer around a result that is already encoded."""
    return b"".join((b'{"jsonrpc":"2.0","id":', encode(request_id), b',"result":', result, b"}"))


def encode_error(request_id: RequestId | None, error: RpcError) -> bytes:
    """An error answer; the id is null when the request's could not be read."""
    body: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        body["data"] = error.data
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (encode(request_id), encode(body))
