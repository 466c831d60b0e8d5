"""Where the description is read: by programs as OpenAPI, by people as a page."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import msgspec

from toolcrib.doors.http.answers import HTML, JSON, Answer
from toolcrib.doors.http.router import RouteSpec
from toolcrib.doors.http.visit import Visit
from toolcrib.doors.rest.about import About

PATH = "/api/v1/openapi.json"
REFERENCE = "/api/v1/reference"
_KEEP = ((b"cache-control", b"no-cache"), (b"x-content-type-options", b"nosniff"))


def description_routes(routes: Callable[[], Sequence[RouteSpec]]) -> list[RouteSpec]:
    """The routes of the description; ``routes`` are those it describes, itself among them."""

    @cache
    def document() -> dict[str, Any]:
        from toolcrib.doors.rest.openapi import describe  # only whoever reads it needs it

        return describe(routes())

    @cache
    def encoded() -> bytes:
        return msgspec.json.encode(document())

    @cache
    def page() -> tuple[bytes, bytes]:
        from toolcrib.doors.rest.reference import POLICY, render

        return render(document()).encode(), POLICY.encode()

    async def read(visit: Visit) -> Answer:
        del visit
        return Answer(200, encoded(), JSON, _KEEP)

    async def show(visit: Visit) -> Answer:
        del visit
        body, policy = page()
        return Answer(
            200, body, HTML, (*_KEEP, (b"content-security-policy", policy), (b"referrer-policy", b"no-referrer"))
        )

    about = About("Read the OpenAPI description", "description", dict[str, Any], is_open=True)
    shown = About("Read the reference", "description", str, media="text/html", is_open=True)
    return [RouteSpec("GET", PATH, read, about), RouteSpec("GET", REFERENCE, show, shown)]
