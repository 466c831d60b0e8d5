"""How a visit begins: who comes, by token, by cookie or without either, and whether a browser was tricked into it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from toolcrib.core.access import Caller
from toolcrib.doors.http.answers import Problem
from toolcrib.doors.http.sign_in import CSRF_FIELD, CSRF_HEADER, SAFE, SignedIn, SignIns, check_word, refuse_strangers
from toolcrib.doors.http.visit import FORM, Visit, read_fields
from toolcrib.transports.http_server import Exchange, Request

Identify = Callable[[bytes], object | None]


class Enter(Protocol):
    """Finds out who comes."""

    def __call__(self, request: Request, exchange: Exchange) -> Visit:
        """The visit; a ``Problem`` for whoever may not come in."""


@dataclass(frozen=True, slots=True)
class Entering:
    """The way in to the REST door (with ``usual``) and to the page (without)."""

    sign_ins: SignIns
    identify: Identify
    """From a token to a caller, also where none is needed."""
    usual: Caller | None = None
    """Whoever comes without a token; ``None`` where everybody needs one."""

    def __call__(self, request: Request, exchange: Exchange) -> Visit:
        """The visit; a ``Problem`` for whoever may not come in."""
        refuse_strangers(request)
        caller = request.identity if isinstance(request.identity, Caller) else self._by_token(request)
        if caller is not None:
            return Visit(request, exchange, caller, is_known=True)
        signed_in = self.sign_ins.of(request, is_seen=True)
        if signed_in is not None:
            if request.method not in SAFE:
                check_word(request, signed_in, _word(request))
            return Visit(request, exchange, signed_in.caller, is_known=True, signed_in=signed_in)
        if self.usual is None:
            raise Problem(401, "HTTP_UNAUTHORIZED", "A token is needed here: send `Authorization: Bearer <token>`.")
        return Visit(request, exchange, self.usual, is_known=False)

    def _by_token(self, request: Request) -> Caller | None:
        """Who sends a token the guard did not look at, because here nobody needs one."""
        presented = request.header(b"authorization")
        if presented is None:
            return None
        scheme, _, token = presented.partition(b" ")
        caller = self.identify(token.strip()) if scheme.lower() == b"bearer" else None
        if not isinstance(caller, Caller):
            raise Problem(401, "HTTP_UNAUTHORIZED", "This token is not valid.")
        return caller


def _word(request: Request) -> str:
    header = request.header(CSRF_HEADER)
    if header is not None:
        return header.decode("latin-1")
    is_form = (request.header(b"content-type") or b"").partition(b";")[0].strip().lower() == FORM
    return read_fields(request.body).get(CSRF_FIELD, "") if is_form else ""


__all__ = ["Enter", "Entering", "SignedIn"]
