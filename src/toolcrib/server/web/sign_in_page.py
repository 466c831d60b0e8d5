"""Signing in and out: by the link that works once, or by a token; wrong tokens never keep a right one out."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

from toolcrib.config.lock import timestamp
from toolcrib.core.audit import AuditEntry
from toolcrib.server.answers import HttpAnswer, HttpProblem, not_found, see_other
from toolcrib.server.router import is_own_origin
from toolcrib.server.visit import PageRequest
from toolcrib.server.web.render import PageRoutes, Pages, go_on

GUESSES = 10
GUESSES_S = 60.0
MOST_PEERS = 1_000


@dataclass(slots=True)
class Guesses:
    """How often each address guessed wrong in the last minute."""

    now: Callable[[], float] = time.monotonic
    _wrong: dict[str, deque[float]] = field(default_factory=dict)

    def wait_s(self, peer: str) -> float:
        """How long an address has to wait before it may try again."""
        wrong = self._wrong.get(peer, deque())
        while wrong and wrong[0] <= self.now() - GUESSES_S:
            wrong.popleft()
        return wrong[0] + GUESSES_S - self.now() if len(wrong) >= GUESSES else 0.0

    def note_wrong(self, peer: str) -> float:
        """Count one more wrong guess; how long to wait where there were too many before it."""
        wait_s = self.wait_s(peer)
        if wait_s:
            return wait_s
        if peer not in self._wrong and len(self._wrong) >= MOST_PEERS:
            self._wrong.pop(next(iter(self._wrong)))
        self._wrong.setdefault(peer, deque()).append(self.now())
        return 0.0

    def refuse(self, visit: PageRequest, words: str) -> tuple[str, int]:
        """What to say of a wrong token, and with which status."""
        peer = visit.request.peer
        wait_s = self.note_wrong(str(peer[0]) if isinstance(peer, tuple) and peer else "")
        return (f"Too many wrong tokens. Try again in {wait_s:.0f} seconds.", 429) if wait_s else (words, 403)


def sign_in_routes() -> PageRoutes:
    """Signing in and out."""
    routes, guesses = PageRoutes(), Guesses()

    @routes.get("/signin")
    async def show(pages: Pages, visit: PageRequest) -> HttpAnswer:
        link = visit.query.get("link")
        if link is None or visit.request.method != b"GET":
            return _form(pages, visit)
        return _follow(pages, visit, link)

    @routes.post("/signin")
    async def take(pages: Pages, visit: PageRequest) -> HttpAnswer:
        if not is_own_origin(visit.request):
            raise HttpProblem(403, "HTTP_WRONG_ORIGIN", "Pages of another address may not sign you in.")
        fields, sign_ins = visit.form(), visit.served.sign_ins
        caller = sign_ins.use_token(fields.get("token", ""))
        if caller is None:
            # Looked at first: on this machine everybody has the same address, and guessing must lock nobody out.
            return _form(pages, visit, *guesses.refuse(visit, TOKEN_WRONG))
        wanted = safe_place(fields.get("next", "/"))
        if sign_ins.is_home(caller, visit.request):
            return see_other(wanted, (sign_ins.cookie_header(sign_ins.begin(caller, visit.request)),))
        if not sign_ins.can_send_on(visit.request):
            return _form(pages, visit, NOT_HERE, 403)
        link = f"{sign_ins.make_link(caller)}&{urlencode({'next': wanted})}"
        return pages.render_bare("signed_in.html", wanted=link)

    @routes.post("/signout")
    async def leave(_: Pages, visit: PageRequest) -> HttpAnswer:
        sign_ins = visit.served.sign_ins
        if visit.form().get("everywhere"):
            sign_ins.end(visit.caller)
        sign_ins.sign_out(visit.request)
        return see_other("/signin", (sign_ins.cookie_header(""),))

    return routes


LINK_USED = "This link was used before, or is too old. Make a new one, or use a token."
NOT_HERE = (
    "The page is for browsers on the machine where toolcrib runs. To use it from here, set public_url in [serve]."
)
TOKEN_WRONG = "This token is not known here, or has ended. Check that you copied all of it."  # noqa: S105


def _follow(pages: Pages, visit: PageRequest, link: str) -> HttpAnswer:
    """Sign in whoever follows a link; at another name of this server, its cookie would not count."""
    sign_ins, wanted = visit.served.sign_ins, safe_place(visit.query.get("next", "/"))
    place, cookie = sign_ins.place_of(link), sign_ins.use_link(link, visit.request)
    if cookie is not None:
        return _signed_in(pages, visit, cookie, wanted)
    if place is not None and sign_ins.can_send_on(visit.request):
        return see_other(f"{place}/signin?{urlencode({'link': link, 'next': wanted})}")
    return _form(pages, visit, LINK_USED if place is None else NOT_HERE, 403)


def _signed_in(pages: Pages, visit: PageRequest, cookie: str, wanted: str) -> HttpAnswer:
    """Go on; a browser sent by another site would not show its new cookie right away, so a page of ours sends it on."""
    kept = visit.served.sign_ins.cookie_header(cookie)
    if visit.request.header(b"sec-fetch-site") != b"cross-site":
        return see_other(wanted, (kept,))
    page = pages.render_bare("signed_in.html", wanted=wanted)
    return HttpAnswer(200, page.body, page.content_type, (kept,))


def _form(pages: Pages, visit: PageRequest, problem: str = "", status: int = 200) -> HttpAnswer:
    visit.served.sign_ins.make_token()
    comes_from_elsewhere = visit.request.header(b"sec-fetch-site") == b"cross-site" and "link" not in visit.query
    return pages.render_bare(
        "sign_in.html",
        status=status,
        problem=problem,
        wanted=safe_place(visit.query.get("next", "/")),
        try_again=comes_from_elsewhere and status == 200,
        token_file=pages.token_file,
    )


def safe_place(wanted: str) -> str:
    """A place on this page; whatever could lead elsewhere becomes the overview."""
    is_here = wanted.startswith("/") and not wanted.startswith(("//", "/\\", "/signin", "/signout"))
    return wanted if is_here and wanted.isascii() and wanted.isprintable() else "/"


BROWSERS = (("Edg/", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("Chrome/", "Chrome"), ("Safari/", "Safari"))
SYSTEMS = tuple((mark, mark) for mark in ("Android", "iPhone", "Windows", "Mac OS", "Linux"))


def session_routes() -> PageRoutes:
    """Browsers that are signed in, and the question who somebody is."""
    routes, guesses = PageRoutes(), Guesses()

    @routes.get("/settings/sessions")
    async def show(pages: Pages, visit: PageRequest) -> HttpAnswer:
        visit.need_known()
        own, sign_ins = visit.signed_in.session if visit.signed_in is not None else "", visit.served.sign_ins

        def moment(at: float) -> str:
            return timestamp(datetime.now(UTC) - timedelta(seconds=sign_ins.age_s(at)))

        rows = [
            (each, name_browser(each.browser), moment(each.began), moment(each.seen), each.id == own)
            for each in sign_ins.sessions(visit.caller)
        ]
        return pages.render(visit, "settings/sessions.html", rows=rows)

    @routes.post("/settings/sessions/{id}/end")
    async def end(_: Pages, visit: PageRequest) -> HttpAnswer:
        visit.need_known()
        if not visit.served.sign_ins.end(visit.caller, visit.params["id"]):
            raise not_found("session", visit.params["id"], "It may have ended.")
        return go_on("/settings/sessions", "signed_out")

    @routes.get("/confirm")
    async def ask(pages: Pages, visit: PageRequest) -> HttpAnswer:
        return _question(pages, visit)

    @routes.post("/confirm")
    async def confirm(pages: Pages, visit: PageRequest) -> HttpAnswer:
        fields = visit.form()
        if visit.served.sign_ins.confirm(visit.request, fields.get("token", "")):
            await visit.view.note(AuditEntry("session", decision="confirmed"))
            return see_other(safe_place(fields.get("next", "/")))
        return _question(pages, visit, *guesses.refuse(visit, "This is not your token."))

    return routes


def _question(pages: Pages, visit: PageRequest, problem: str = "", status: int = 200) -> HttpAnswer:
    given = visit.form() if visit.request.method == b"POST" else visit.query
    return pages.render(
        visit,
        "confirm.html",
        status=status,
        problem=problem,
        wanted=safe_place(given.get("next", "/")),
        token_file=pages.token_file,
    )


def name_browser(said: str) -> str:
    """What a person calls the browser that says this of itself."""
    browser = next((name for mark, name in BROWSERS if mark in said), "")
    system = next((name for mark, name in SYSTEMS if mark in said), "")
    return " on ".join(filter(None, (browser, system))) or said[:40] or "a browser without a name"
