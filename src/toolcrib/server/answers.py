"""Answers as values; what a route returns is sent in one place."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import msgspec

from toolcrib.core.errors import ToolcribError
from toolcrib.core.events import News
from toolcrib.transports.http.server import Exchange

JSON = b"application/json"
HTML = b"text/html; charset=utf-8"
PROBLEM = b"application/problem+json"

_encode = msgspec.json.Encoder(enc_hook=str).encode


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A status, a body, and headers beside the usual ones."""

    status: int
    body: bytes = b""
    content_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()

    def send(self, exchange: Exchange) -> None:
        """Send it as the response."""
        exchange.answer(self.status, self.body, self.content_type, self.headers)


def json_answer(value: Any, status: int = 200) -> HttpAnswer:
    """Plain data as JSON; not to be cached."""
    return json_bytes(_encode(value), status)


def json_bytes(encoded: bytes, status: int = 200) -> HttpAnswer:
    """The same for data that are encoded already."""
    return HttpAnswer(status, encoded, JSON, ((b"cache-control", b"no-store"),))


def see_other(place: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> HttpAnswer:
    """Send a browser on, after a form."""
    return HttpAnswer(303, b"", HTML, ((b"location", place.encode()), *headers))


class HttpProblem(Exception):
    """A request that gets no further: its status, its code, and what to do (RFC 9457)."""

    def __init__(self, status: int, code: str, detail: str, **more: Any) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.more = status, code, detail, more
        self.headers: tuple[tuple[bytes, bytes], ...] = ()
        """Beside the usual ones."""

    def to_answer(self) -> HttpAnswer:
        """As problem details."""
        body = {
            "type": "about:blank",
            "title": TITLES.get(self.status, "Error"),
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            **self.more,
        }
        headers: tuple[tuple[bytes, bytes], ...] = ((b"cache-control", b"no-store"), *self.headers)
        if self.status == 401:
            headers = (*headers, (b"www-authenticate", b'Bearer realm="toolcrib"'))
        if (retry := self.more.get("retryAfterSeconds")) is not None:
            headers = (*headers, (b"retry-after", b"%d" % max(1, round(retry))))
        return HttpAnswer(self.status, _encode(body), PROBLEM, headers)


TITLES = {
    400: "Bad request",
    401: "Not signed in",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    413: "Too large",
    415: "Not JSON",
    422: "Not valid",
    424: "Sign-in needed",
    429: "Too many requests",
    500: "Internal error",
    502: "Cannot be shown",
    503: "Unavailable",
    504: "Too late",
}

STATUSES = {
    "TOOL_INVALID_INPUT": 422,
    "TOOL_NOT_FOUND": 404,
    "TOOL_PERMISSION_DENIED": 403,
    "TOOL_RATE_LIMITED": 429,
    "TOOL_AUTH_REQUIRED": 424,
    "TOOL_UNAVAILABLE": 503,
    "TOOL_TIMEOUT": 504,
    "TOOL_CANCELLED": 409,
    "RESOURCE_NOT_FOUND": 404,
}
"""The status of each error code; whatever is not here is a fault of ours."""


def problem_of(error: ToolcribError) -> HttpProblem:
    """Trouble of our own tree, as a problem."""
    return HttpProblem(STATUSES.get(error.code, 500), error.code, str(error))


def unfit(detail: str) -> HttpProblem:
    """Something was sent that cannot be meant."""
    return HttpProblem(422, "TOOL_INVALID_INPUT", detail)


def forbidden(detail: str) -> HttpProblem:
    """Whoever asks may not have it."""
    return HttpProblem(403, "HTTP_FORBIDDEN", detail)


def conflict(detail: str) -> HttpProblem:
    """Things do not stand as whoever asks believes."""
    return HttpProblem(409, "HTTP_CONFLICT", detail)


def not_found(what: str, name: str, hint: str = "") -> HttpProblem:
    """Something that is not there."""
    return HttpProblem(404, "RESOURCE_NOT_FOUND", f"There is no {what} {name!r}. {hint}".strip())


async def with_pauses(news: AsyncGenerator[News, None], pause_s: float) -> AsyncGenerator[News | None, None]:
    """The news, and ``None`` whenever there was none for a while; who reads them lets go of them at the end."""
    coming = asyncio.ensure_future(anext(news, None))
    try:
        while True:
            done, _ = await asyncio.wait({coming}, timeout=pause_s)
            if not done:
                yield None
                continue
            item = coming.result()
            if item is None:
                return
            yield item
            coming = asyncio.ensure_future(anext(news, None))
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
        await news.aclose()
