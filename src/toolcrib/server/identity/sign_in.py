"""Who is signed in to the page: a link that works once, or a token, begins a session.

Sessions live here, in memory: signing out ends them, so does a restart, and so does time. A browser holds a random
number, of which only the digest is kept. It counts only at the host the session was begun at. A cookie alone changes
nothing: whoever comes with one must come from a page of this very address and know the word that stands in it.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from toolcrib.core.access import Caller
from toolcrib.core.errors import InternalError
from toolcrib.server.answers import HttpProblem
from toolcrib.transports.http.server import HttpRequest

COOKIE = "toolcrib"
LABEL_DIGITS = 32
MOST_NAMES = 1_000
NEAR = ("localhost", "127.0.0.1", "[::1]")
DEFAULT_PORTS = {"http": ":80", "https": ":443"}

Admit = Callable[[Iterable[str]], None]
"""Has the server answer for these hosts as well, in place of those it was told before."""


class PageAddress(Protocol):
    """Where each person finds the page."""

    is_secure: bool
    """Whether it is reached over TLS."""
    cookie: str
    """What the cookie of a session is called there."""

    def is_home(self, caller: Caller, host: str) -> bool:
        """Whether the caller's sessions count at ``host``."""

    def base(self, caller: Caller) -> str:
        """Scheme and host of the page as ``caller`` sees it, without a slash at the end."""

    def leads_from(self, host: str) -> bool:
        """Whether a browser that reached ``host`` can be sent there and finds this server."""


class OwnNames:
    """The page on this machine: for each caller a name under ``localhost`` that stays the same."""

    is_secure = False
    cookie = COOKIE

    def __init__(self, key: str, port: int, admit: Admit) -> None:
        self._key, self._port, self._admit = key.encode(), port, admit
        self._hosts: dict[str, None] = {}

    def base(self, caller: Caller) -> str:
        """The caller's own name; the server answers for it from now on."""
        label = hmac.new(self._key, f"{self._port} {caller.id}".encode(), hashlib.sha256).hexdigest()[:LABEL_DIGITS]
        host = f"{label}.localhost" if self._port == 80 else f"{label}.localhost:{self._port}"
        if host not in self._hosts:
            self._remember(host)
        return f"http://{host}"

    def is_home(self, caller: Caller, host: str) -> bool:
        """Only at the caller's own name."""
        return host_of(self.base(caller)) == host

    def leads_from(self, host: str) -> bool:
        """A browser on another machine would look for the name at home."""
        name = host.rpartition(":")[0] or host
        return name in NEAR or name.endswith(".localhost")

    def _remember(self, host: str) -> None:
        """The first one is the owner's and stays; of the others, the oldest goes."""
        if len(self._hosts) >= MOST_NAMES:
            self._hosts.pop(list(self._hosts)[1])
        self._hosts[host] = None
        self._admit(tuple(self._hosts))


class PublicAddress:
    """The page at the address that was configured for it."""

    def __init__(self, url: str) -> None:
        self._base = url.rstrip("/")
        self.is_secure = url.startswith("https://")
        # With `__Host-`, browsers see to it that nobody but this very host, over TLS, has set it; for that it has to
        # count for all of the host, which one of an application that is mounted beside others must not.
        is_whole = not urlsplit(url).path.strip("/")
        self.cookie = COOKIE if not self.is_secure else f"__Host-{COOKIE}" if is_whole else f"__Secure-{COOKIE}"

    def base(self, caller: Caller) -> str:  # noqa: ARG002 - the same for everybody
        """The address."""
        return self._base

    def is_home(self, caller: Caller, host: str) -> bool:
        """At its one host."""
        return host_of(self.base(caller)) == host

    def leads_from(self, host: str) -> bool:  # noqa: ARG002 - the same for everybody
        """It leads here from everywhere."""
        return True


class MountedAddress(PublicAddress):
    """The page inside an application whose hosts are allowed one by one: it is at home at each of them."""

    def is_home(self, caller: Caller, host: str) -> bool:  # noqa: ARG002 - the same for everybody
        """Wherever a request is answered at all; a session counts at the host it was begun at."""
        return True


def host_of(base: str) -> str:
    """What a browser sends as ``Host`` to an address."""
    parts = urlsplit(base.lower())
    return parts.netloc.removesuffix(DEFAULT_PORTS.get(parts.scheme, ":"))


KEPT_S = 12 * 3600
IDLE_S = 2 * 3600
CONFIRMED_S = 300.0
"""How long after signing in, or giving a token again, somebody may do what reaches furthest."""
LINK_S = 3600.0
MOST_LINKS = 100
MOST_SESSIONS = 1_000
CSRF_FIELD = "csrf"
CSRF_HEADER = b"x-csrf"
SAFE = (b"GET", b"HEAD")


@dataclass(frozen=True, slots=True)
class SignedIn:
    """One browser that is signed in, as it is right now."""

    caller: Caller
    csrf: str
    """The CSRF token its forms must carry."""
    is_confirmed: bool
    """Whether its person was asked lately who they are."""
    session: str
    """Names the session in lists; cannot be used to sign in."""


@dataclass(slots=True)
class BrowserSession:
    """One browser that signed in."""

    id: str
    caller: Caller
    host: str
    browser: str
    """What it says it is."""
    csrf: str
    owner_digest: bytes
    began: float
    seen: float
    confirmed_until: float

    def is_over(self, now: float) -> bool:
        """Whether it ended by time."""
        return now >= self.began + KEPT_S or now >= self.seen + IDLE_S


@dataclass(frozen=True, slots=True)
class Tokens:
    """What is known of tokens: whose one is, and whether its holder may still come in, or at least stay."""

    identify: Callable[[bytes], object | None]
    is_current: Callable[[Caller], bool]
    may_stay: Callable[[Caller], bool]


class SignIns:
    """Begins sessions, knows them again and ends them."""

    def __init__(
        self,
        owner: Caller,
        owner_token: Callable[[], str],
        tokens: Tokens,
        now: Callable[[], float],
    ) -> None:
        """``now`` is a clock that nobody sets: setting the other one ends no session, and lengthens none."""
        self._owner, self._owner_token, self._tokens, self._now = owner, owner_token, tokens, now
        self._address: PageAddress | None = None
        self._links: dict[str, tuple[Caller, float]] = {}
        self._sessions: dict[str, BrowserSession] = {}
        """By the digest of what the browser holds."""

    def open(self, address: PageAddress) -> None:
        """Start accepting sign-ins, at ``address``."""
        self._address = address
        address.base(self._owner)

    @property
    def address(self) -> PageAddress:
        """Where the page is."""
        if self._address is None:
            raise InternalError("Nobody said where the page is.")
        return self._address

    def make_link(self, caller: Caller | None = None) -> str:
        """A one-time link that signs in a caller, by default the owner."""
        who = caller or self._owner
        while len(self._links) >= MOST_LINKS:
            self._links.pop(next(iter(self._links)))
        word = secrets.token_urlsafe(24)
        self._links[word] = who, self._now() + LINK_S
        return f"{self.address.base(who)}/signin?link={word}"

    def place_of(self, word: str) -> str | None:
        """Where a link has to be followed; ``None`` for one that does not work."""
        found = self._links.get(word)
        return self.address.base(found[0]) if found is not None and found[1] > self._now() else None

    def use_link(self, word: str, request: HttpRequest) -> str | None:
        """What a browser holds that follows a link for the first time, where it has to be followed."""
        if self.place_of(word) is None or not self.is_home(self._links[word][0], request):
            return None
        return self.begin(self._links.pop(word)[0], request)

    def use_token(self, token: str) -> Caller | None:
        """Who holds a token."""
        given = token.strip().encode()
        if hmac.compare_digest(given, self._owner_token().encode()):
            return self._owner
        caller = self._tokens.identify(given) if given else None
        # A token for one address is not for this one: it is a program's, which could pass for the person here.
        return caller if isinstance(caller, Caller) and not caller.audience else None

    def is_home(self, caller: Caller, request: HttpRequest) -> bool:
        """Whether a request came to the host where the caller's sessions count."""
        return self.address.is_home(caller, _host(request))

    def can_send_on(self, request: HttpRequest) -> bool:
        """Whether the browser that sent a request can be sent to the page's own host."""
        return self.address.leads_from(_host(request))

    def begin(self, caller: Caller, request: HttpRequest) -> str:
        """Begin a session; what its browser holds from now on."""
        now = self._now()
        self._sessions = {digest: each for digest, each in self._sessions.items() if not each.is_over(now)}
        while len(self._sessions) >= MOST_SESSIONS:
            self._sessions.pop(next(iter(self._sessions)))
        value = secrets.token_urlsafe(32)
        self._sessions[_digest(value)] = BrowserSession(
            id=secrets.token_hex(6),
            caller=caller,
            host=_host(request),
            browser=(request.header(b"user-agent") or b"").decode("latin-1")[:200],
            csrf=secrets.token_hex(16),
            owner_digest=self._owner_digest(caller),
            began=now,
            seen=now,
            confirmed_until=now + CONFIRMED_S,
        )
        return value

    def of(self, request: HttpRequest, *, is_seen: bool = False) -> SignedIn | None:
        """Who sends the cookie that came with a request; ``is_seen``: a person did something."""
        session = self._session(request)
        if session is None:
            return None
        now = self._now()
        if is_seen:
            session.seen = now
        return SignedIn(session.caller, session.csrf, now < session.confirmed_until, session.id)

    def confirm(self, request: HttpRequest, token: str) -> bool:
        """Whether whoever is signed in holds a token of theirs; they are believed for a few minutes."""
        session, caller = self._session(request), self.use_token(token)
        if session is None or caller is None or caller.id != session.caller.id:
            return False
        session.confirmed_until = self._now() + CONFIRMED_S
        return True

    def sessions(self, caller: Caller) -> list[BrowserSession]:
        """Browser sessions, newest first: all for the owner, their own for others."""
        now = self._now()
        found = [each for each in self._sessions.values() if not each.is_over(now)]
        return [each for each in reversed(found) if caller.id in (self._owner.id, each.caller.id)]

    def age_s(self, moment: float) -> float:
        """How long ago something was that a session tells."""
        return self._now() - moment

    def sign_out(self, request: HttpRequest) -> None:
        """End the session a request came with."""
        self._sessions.pop(_digest(self._cookie(request)), None)

    def end(self, caller: Caller, session_id: str | None = None) -> int:
        """End one session that ``caller`` may see, or all of their own; how many ended."""
        seen = {each.id for each in self.sessions(caller) if session_id is not None or each.caller.id == caller.id}
        wanted = seen if session_id is None else seen & {session_id}
        ended = [digest for digest, each in self._sessions.items() if each.id in wanted]
        for digest in ended:
            del self._sessions[digest]
        return len(ended)

    def make_token(self) -> None:
        """See to it that the owner has a token, for a page that says where to find it."""
        self._owner_token()

    def may_stay(self, caller: Caller) -> bool:
        """Whether somebody who came in some time ago may go on with what was begun."""
        return self._tokens.may_stay(caller)

    def cookie_header(self, value: str) -> tuple[bytes, bytes]:
        """Has a browser keep ``value`` for this host alone; an empty one has it thrown away."""
        age, secure = (KEPT_S if value else 0), ("; Secure" if self.address.is_secure else "")
        kept = f"{self.address.cookie}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{secure}"
        return b"set-cookie", kept.encode()

    def _session(self, request: HttpRequest) -> BrowserSession | None:
        """The session whose number came with a request, if it came to the right host and nothing has ended it."""
        digest = _digest(self._cookie(request))
        session = self._sessions.get(digest)
        if session is None or session.host != _host(request) or not self.is_home(session.caller, request):
            return None
        is_current = self._tokens.is_current(session.caller) and hmac.compare_digest(
            session.owner_digest, self._owner_digest(session.caller)
        )
        if session.is_over(self._now()) or not is_current:
            self._sessions.pop(digest, None)
            return None
        return session

    def _owner_digest(self, caller: Caller) -> bytes:
        """What changes with the owner's token, for the owner's sessions: they end with it."""
        is_owner = caller.id == self._owner.id
        return hashlib.sha256(self._owner_token().encode()).digest() if is_owner else b""

    def _cookie(self, request: HttpRequest) -> str:
        """The value of our cookie; names of other programs on this host are passed over."""
        wanted = self._address.cookie if self._address is not None else COOKIE
        for part in (request.header(b"cookie") or b"").decode("latin-1").split(";"):
            name, _, value = part.strip().partition("=")
            if name == wanted:
                return value
        return ""


def _digest(value: str) -> str:
    return hashlib.sha256(value.encode("latin-1", "replace")).hexdigest()


def _host(request: HttpRequest) -> str:
    return (request.header(b"host") or b"").decode("latin-1").lower()


def refuse_strangers(request: HttpRequest) -> None:
    """Stop what a page of another address has a browser send; following a link here is fine."""
    site = request.header(b"sec-fetch-site")
    if site is None or site in (b"same-origin", b"none"):
        return
    is_navigation = request.header(b"sec-fetch-mode") == b"navigate" and request.method in SAFE
    origin = request.header(b"origin")
    if not is_navigation and origin is None:
        raise HttpProblem(403, "HTTP_WRONG_ORIGIN", "Pages of another address may not use this one.")


def check_word(request: HttpRequest, signed_in: SignedIn, given: str) -> None:
    """Stop a change that did not come from a page of ours."""
    host, origin = request.header(b"host") or b"", request.header(b"origin")
    own = b"http://" + host, b"https://" + host
    is_ours = origin in own if origin is not None else request.header(b"sec-fetch-site") == b"same-origin"
    if not is_ours or not hmac.compare_digest(given.encode(), signed_in.csrf.encode()):
        raise HttpProblem(
            403, "HTTP_FORGED", "This did not come from a page of toolcrib; reload the page and try again."
        )
