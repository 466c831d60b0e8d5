"""The way in to the page: some addresses are open to everybody, whoever comes to another one signs in first."""

from collections.abc import Callable
from dataclasses import dataclass

from toolcrib.core.access import Caller
from toolcrib.doors.http.answers import Problem
from toolcrib.doors.http.entering import Entering
from toolcrib.doors.http.sign_in import SAFE, refuse_strangers
from toolcrib.doors.http.visit import Visit
from toolcrib.transports.http_server import Exchange, Request

STRANGER = Caller("stranger", "agent")


@dataclass(frozen=True, slots=True)
class Threshold:
    """Lets everybody reach the open addresses, as nobody in particular."""

    entering: Entering
    is_open: Callable[[bytes], bool]

    def __call__(self, request: Request, exchange: Exchange) -> Visit:
        """The visit; the ``Problem`` of whoever must sign in first says where they wanted to go."""
        if self.is_open(request.path):
            refuse_strangers(request)
            return Visit(request, exchange, STRANGER, is_known=False)
        try:
            return self.entering(request, exchange)
        except Problem as problem:
            if problem.status != 401:
                raise
            wanted, is_fragment = wanted_place(request), request.header(b"hx-request") is not None
            raise Problem(401, problem.code, problem.detail, wanted=wanted, is_fragment=is_fragment) from None


def wanted_place(request: Request) -> str:
    """Where to go on after signing in; a form that was sent is not sent again."""
    if request.method not in SAFE:
        return "/"
    return (request.path + (b"?" + request.query if request.query else b"")).decode("latin-1")


def is_own_origin(request: Request) -> bool:
    """Whether a form was sent by a page of this very address; a program that names no origin is no browser."""
    host = request.header(b"host") or b""
    return request.header(b"origin") in (None, b"http://" + host, b"https://" + host)
