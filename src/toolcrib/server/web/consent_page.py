"""Letting clients in: what a client asks for, in words a person can judge, and their answer."""

from urllib.parse import urlsplit

from toolcrib.core.audit import AuditEntry
from toolcrib.core.offers import SecurityLevel
from toolcrib.server.answers import HttpAnswer, HttpProblem, forbidden, see_other
from toolcrib.server.identity.oauth import (
    AUTHORIZE,
    AuthorizationRequest,
    BuiltinAuthorizationServer,
    ClientRefused,
    SentBack,
    levels_up_to,
)
from toolcrib.server.identity.oauth_clients import OAuthProblem, is_own_machine
from toolcrib.server.identity.oauth_tokens import is_person
from toolcrib.server.visit import PageRequest
from toolcrib.server.web.render import PageRoutes, Pages, me_of
from toolcrib.server.web.static_files import CONTENT_SECURITY_POLICY

ROUTES = PageRoutes()
PRESELECTED = SecurityLevel.WRITE
"""The furthest level that is chosen before the person chooses."""
LEVEL_WORDS = {
    SecurityLevel.READ_ONLY: "Look things up. Nothing is changed.",
    SecurityLevel.WRITE: "Look things up, create and change things.",
    SecurityLevel.ADMIN: "All of that, and what is hard to undo: delete, change settings.",
    SecurityLevel.SYSTEM: "Everything, also programs and files of the machine toolcrib runs on.",
}


@ROUTES.get(AUTHORIZE)
async def _ask(pages: Pages, visit: PageRequest) -> HttpAnswer:
    server = _need_person(visit)
    query = visit.request.query
    try:
        request = await server.read_request(query)
    except ClientRefused as refused:
        return _refusal(pages, refused)
    except SentBack as back:
        return see_other(back.place)
    return _question(pages, visit, request, query.decode("ascii"))


@ROUTES.post(AUTHORIZE)
async def _answer(pages: Pages, visit: PageRequest) -> HttpAnswer:
    """What the form carries is checked as if it had just come: nothing of it was believed when it was shown."""
    server, fields = _need_person(visit), visit.form()
    try:
        request = await server.read_request(fields.get("request", "").encode("utf-8", "replace"))
    except ClientRefused as refused:
        return _refusal(pages, refused)
    except SentBack as back:
        return see_other(back.place)
    if fields.get("answer") != "allow":
        await _note(pages, visit, request, "refused")
        return see_other(server.refuse(request))
    level = next((level for level in SecurityLevel if level == fields.get("level")), None)
    if level is None or level not in _choices(visit, request):
        raise forbidden("Choose one of the levels that the page offers.")
    await _note(pages, visit, request, "granted", level)
    try:
        place = await server.approve(request, visit.caller, level, pages.callers.name_of(visit.caller.id))
    except OAuthProblem as problem:
        raise forbidden(problem.description) from None
    return see_other(place)


def _need_person(visit: PageRequest) -> BuiltinAuthorizationServer:
    """The authorization server, for whoever may let clients in and was asked lately who they are."""
    server = visit.served.oauth
    if server is None:
        raise HttpProblem(404, "HTTP_NOT_FOUND", 'Clients are not let in here; [serve] oauth = "builtin" allows it.')
    visit.need_known()
    if visit.signed_in is None or not is_person(visit.caller):
        raise forbidden("Only the owner and people who were invited can let clients in. Sign in as one of them.")
    visit.need_confirmed()
    return server


def _choices(visit: PageRequest, request: AuthorizationRequest) -> list[SecurityLevel]:
    """The levels a person can give: what the client asks for, and they have themselves."""
    own = visit.caller.grants.level
    return [level for level in levels_up_to(request.level) if own is not None and level.rank <= own.rank]


def _question(pages: Pages, visit: PageRequest, request: AuthorizationRequest, query: str) -> HttpAnswer:
    choices = _choices(visit, request)
    chosen = max((level for level in choices if level.rank <= PRESELECTED.rank), key=lambda level: level.rank)
    page = pages.render_bare(
        "consent.html",
        me=me_of(visit),
        person="the owner" if visit.caller.kind == "local" else pages.callers.name_of(visit.caller.id),
        client=request.client,
        destination=request.destination,
        is_local=_is_local(request),
        resource=request.resource,
        levels=[(level, LEVEL_WORDS[level], level == chosen) for level in choices],
        query=query,
    )
    return HttpAnswer(page.status, page.body, page.content_type, ((b"content-security-policy", _policy(request)),))


def _is_local(request: AuthorizationRequest) -> bool:
    """Whether the person is sent back to a program on their own machine: any program there could pretend to be it."""
    parts = urlsplit(request.redirect_uri)
    return parts.scheme not in ("http", "https") or is_own_machine(parts.hostname or "")


def _policy(request: AuthorizationRequest) -> bytes:
    """The page's own policy, and that its form may lead back to this client: browsers look at where it is sent on."""
    parts = urlsplit(request.redirect_uri)
    is_named = parts.scheme in ("http", "https") and ":" not in (parts.hostname or "")
    place = f"{parts.scheme}://{parts.netloc}" if is_named else f"{parts.scheme}:"
    return CONTENT_SECURITY_POLICY.replace(b"form-action 'self'", b"form-action 'self' " + place.encode("ascii"))


def _refusal(pages: Pages, problem: OAuthProblem) -> HttpAnswer:
    shown = HttpProblem(400, f"OAUTH_{problem.error.upper()}", problem.description)
    advice = (
        "You were not sent anywhere. Start again in the program you came from; if that does not help, tell its maker."
    )
    return pages.render_bare(
        "problem.html", status=400, title="This client cannot connect", problem=shown, advice=advice
    )


async def _note(
    pages: Pages, visit: PageRequest, request: AuthorizationRequest, decision: str, level: SecurityLevel | None = None
) -> None:
    details = {
        "client": request.client.name,
        "client_id": request.client.id,
        "redirect": request.destination,
        "resource": request.resource,
        "user": pages.callers.name_of(visit.caller.id),
    }
    await visit.view.note(AuditEntry("client", level=level or "", decision=decision, details=details))
