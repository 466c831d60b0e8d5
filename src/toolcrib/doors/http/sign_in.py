"""Who is signed in to the page: a link that works once, or a token, becomes a cookie.

The owner's cookie is signed with a key made of the owner's token: it survives a restart and ends when the token is
changed. Everybody else's is remembered here only. A cookie alone changes nothing: whoever comes with one must come
from a page of this very address and know the word that stands in it.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from toolcrib.core.access import Caller
from toolcrib.doors.http.answers import Problem
from toolcrib.transports.http_server import Request

COOKIE = "toolcrib"
KEPT_S = 14 * 24 * 3600
LINK_S = 3600.0
MOST_LINKS = 100
MOST_GUESTS = 1_000
CSRF_FIELD = "csrf"
CSRF_HEADER = b"x-csrf"
SAFE = (b"GET", b"HEAD")


@dataclass(frozen=True, slots=True)
class SignedIn:
    """One browser that is signed in."""

    caller: Caller
    csrf: str
    """The word its forms must carry."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """What is known of tokens: whose one is, and whether its holder may still come in, or at least stay."""

    identify: Callable[[bytes], object | None]
    is_current: Callable[[Caller], bool]
    may_stay: Callable[[Caller], bool]


class SignIns:
    """Makes cookies and knows them again."""

    def __init__(
        self,
        owner: Caller,
        owner_token: Callable[[], str],
        tokens: Tokens,
        now: Callable[[], float],
    ) -> None:
        self._owner, self._owner_token, self._tokens, self._now = owner, owner_token, tokens, now
        self._links: dict[str, float] = {}
        self._guests: dict[str, tuple[Caller, float]] = {}

    def make_link(self) -> str:
        """A word that signs the owner in, once."""
        now = self._now()
        self._links = {word: end for word, end in self._links.items() if end > now}
        while len(self._links) >= MOST_LINKS:
            self._links.pop(next(iter(self._links)))
        word = secrets.token_urlsafe(24)
        self._links[word] = now + LINK_S
        return word

    def use_link(self, word: str) -> str | None:
        """The cookie of whoever follows a link for the first time."""
        end = self._links.pop(word, 0.0)
        return self._owner_cookie() if end > self._now() else None

    def use_token(self, token: str) -> str | None:
        """The cookie of whoever holds a token."""
        given = token.strip().encode()
        if hmac.compare_digest(given, self._owner_token().encode()):
            return self._owner_cookie()
        caller = self._tokens.identify(given) if given else None
        return self._guest_cookie(caller) if isinstance(caller, Caller) else None

    def of(self, request: Request) -> SignedIn | None:
        """Who sends the cookie that came with a request."""
        value = _cookie(request)
        kind, _, rest = value.partition(".")
        if kind == "o":
            return self._owner_of(value, rest)
        caller, end = self._guests.get(value, (None, 0.0))
        if caller is None or end < self._now() or not self._tokens.is_current(caller):
            return None
        return SignedIn(caller, self._word(value))

    def make_token(self) -> None:
        """See to it that the owner has a token, for a page that says where to find it."""
        self._owner_token()

    def may_stay(self, caller: Caller) -> bool:
        """Whether somebody who came in some time ago may go on with what was begun."""
        return self._tokens.may_stay(caller)

    def sign_out(self, request: Request) -> None:
        """Forget a guest; the owner's browser throws its cookie away."""
        self._guests.pop(_cookie(request), None)

    def _owner_cookie(self) -> str:
        body = f"o.{int(self._now()) + KEPT_S}.{secrets.token_urlsafe(12)}"
        return f"{body}.{self._sign(body)}"

    def _owner_of(self, value: str, rest: str) -> SignedIn | None:
        body, _, signature = value.rpartition(".")
        end = rest.partition(".")[0]
        if not end.isdigit() or not hmac.compare_digest(signature.encode(), self._sign(body).encode()):
            return None
        return SignedIn(self._owner, self._word(value)) if int(end) > self._now() else None

    def _guest_cookie(self, caller: Caller) -> str:
        now = self._now()
        self._guests = {word: guest for word, guest in self._guests.items() if guest[1] > now}
        while len(self._guests) >= MOST_GUESTS:
            self._guests.pop(next(iter(self._guests)))
        value = f"g.{secrets.token_urlsafe(24)}"
        self._guests[value] = caller, now + KEPT_S
        return value

    def _sign(self, text: str) -> str:
        key = b"toolcrib page\n" + self._owner_token().encode()
        return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()

    def _word(self, cookie: str) -> str:
        return self._sign(f"csrf {cookie}")[:32]


def _cookie(request: Request) -> str:
    """The value of our cookie; names of other programs on this host are passed over."""
    for part in (request.header(b"cookie") or b"").decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""


def cookie_header(value: str) -> tuple[bytes, bytes]:
    """Has a browser keep the cookie; an empty one has it thrown away."""
    age = KEPT_S if value else 0
    return b"set-cookie", f"{COOKIE}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict".encode()


def refuse_strangers(request: Request) -> None:
    """Stop what a page of another address has a browser send; following a link here is fine."""
    site = request.header(b"sec-fetch-site")
    if site is None or site in (b"same-origin", b"none"):
        return
    is_navigation = request.header(b"sec-fetch-mode") == b"navigate" and request.method in SAFE
    origin = request.header(b"origin")
    if not is_navigation and origin is None:
        raise Problem(403, "HTTP_WRONG_ORIGIN", "Pages of another address may not use this one.")


def check_word(request: Request, signed_in: SignedIn, given: str) -> None:
    """Stop a change that did not come from a page of ours."""
    own = b"http://" + (request.header(b"host") or b""), b"https://" + (request.header(b"host") or b"")
    origin = request.header(b"origin")
    is_ours = origin in own if origin is not None else request.header(b"sec-fetch-site") == b"same-origin"
    if not is_ours or not hmac.compare_digest(given.encode(), signed_in.csrf.encode()):
        raise Problem(403, "HTTP_FORGED", "This did not come from a page of toolcrib; reload the page and try again.")
