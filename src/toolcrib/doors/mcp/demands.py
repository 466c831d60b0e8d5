"""What the headers of a request demand, and the answers when that cannot be had."""

from toolcrib.transports.http_server import Exchange, Request, error_body
from toolcrib.wire.jsonrpc import INVALID_REQUEST, RpcError, encode_error

JSON = b"application/json"
EVENT_STREAM = b"text/event-stream"
USUAL_ACCEPT = b"application/json, text/event-stream"


def count(request: Request, name: bytes) -> int:
    """How often a header was sent."""
    return sum(1 for key, _ in request.headers if key == name)


def is_json(request: Request) -> bool:
    """Whether the body is said to be JSON."""
    stated = request.header(b"content-type") or b""
    return stated == JSON or stated.partition(b";")[0].strip().lower() == JSON


def accepts_json(request: Request) -> bool:
    """Whether the answer may be JSON."""
    accept = request.header(b"accept")
    return accept is None or accept == USUAL_ACCEPT or any(kind in accept for kind in (JSON, b"*/*", b"application/*"))


def accepts_stream(request: Request) -> bool:
    """Whether the answer may be an event stream."""
    accept = request.header(b"accept")
    return accept is None or accept == USUAL_ACCEPT or any(kind in accept for kind in (EVENT_STREAM, b"*/*", b"text/*"))


def want_stream(exchange: Exchange) -> None:
    """Refuse whoever does not accept a stream where there is nothing else."""
    exchange.answer(406, error_body("HTTP_NOT_ACCEPTABLE", "This opens an event stream: accept text/event-stream."))


def not_allowed(exchange: Exchange, allowed: bytes = b"GET, POST, DELETE") -> None:
    """Refuse a method."""
    body = error_body("HTTP_METHOD_NOT_ALLOWED", f"Use {allowed.decode()}.")
    exchange.answer(405, body, headers=((b"allow", allowed),))


def sessions_away(exchange: Exchange) -> None:
    """Whether the session goes on cannot be said now: not an end, so that the client comes back with it."""
    message = "The sessions of all replicas cannot be looked up right now. Try again in a moment."
    exchange.answer(503, error_body("HTTP_SESSIONS_UNAVAILABLE", message), headers=((b"retry-after", b"1"),))


def session_ended(exchange: Exchange) -> None:
    """There is no such session (any more): the client begins a new one."""
    exchange.answer(
        404, encode_error(None, RpcError(INVALID_REQUEST, "This session has ended: send initialize again."))
    )


def answer_delete(exchange: Exchange, *, was_there: bool) -> None:
    """Say whether there was a session to end."""
    if was_there:
        exchange.answer(204, b"")
    else:
        exchange.answer(404, error_body("HTTP_NO_SESSION", "There is no such session."))
