"""Letting clients in: what a client asks for, in words a person can judge, and their answer; those that are connected;
and inviting people who may let in clients of their own.

Nobody is sent anywhere before they have clicked: whoever registers a client could otherwise lead people from here to
pages of their own (RFC 9700, 4.11.2).
"""

import asyncio
from typing import Any
from urllib.parse import urlencode, urlsplit

from toolcrib.core.access import Grants, may_operate
from toolcrib.core.audit import AuditEntry
from toolcrib.core.errors import ToolcribError
from toolcrib.core.offers import SecurityLevel
from toolcrib.server.answers import HttpAnswer, HttpProblem, forbidden, problem_of, see_other
from toolcrib.server.identity.oauth import (
    AUTHORIZE,
    AuthorizationRequest,
    BuiltinAuthorizationServer,
    ClientRefused,
    SentBack,
    levels_up_to,
)
from toolcrib.server.identity.oauth_clients import OAuthProblem, is_own_machine
from toolcrib.server.identity.oauth_tokens import OWNER_USER, is_person
from toolcrib.server.rest.accounts import disconnect
from toolcrib.server.router import is_own_origin
from toolcrib.server.views.accounts import ClientView, client_view
from toolcrib.server.visit import PageRequest
from toolcrib.server.web.render import PageRoutes, Pages, go_on, me_of
from toolcrib.server.web.settings_page import ROWS, patterns
from toolcrib.server.web.static_files import CONTENT_SECURITY_POLICY
from toolcrib.server.web.words import clock
from toolcrib.stores.connections import (
    INVITED_S,
    InvitationOver,
    accept_invitation,
    find_invitation,
    invite,
)

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
    visit.need_confirmed()
    query = visit.request.query
    try:
        request = await server.read_request(query)
    except (ClientRefused, SentBack) as problem:
        return _refusal(pages, problem)
    return _question(pages, visit, request, query.decode("ascii"))


@ROUTES.post(AUTHORIZE)
async def _answer(pages: Pages, visit: PageRequest) -> HttpAnswer:
    """What the form carries is checked as if it had just come: nothing of it was believed when it was shown."""
    server, fields = _need_person(visit), visit.form()
    asked = fields.get("request", "")
    if visit.signed_in is not None and not visit.signed_in.is_confirmed:  # they took their time to decide
        return see_other(f"/confirm?{urlencode({'next': f'{AUTHORIZE}?{asked}'})}")
    try:
        request = await server.read_request(asked.encode("utf-8", "replace"))
    except (ClientRefused, SentBack) as problem:
        return _refusal(pages, problem)
    if fields.get("answer") != "allow":
        await _note(pages, visit, request, "refused")
        return see_other(server.refuse(request))
    level = next((level for level in SecurityLevel if level == fields.get("level")), None)
    if level is None or level not in _choices(visit, request):
        raise forbidden("Choose one of the levels that the page offers.")
    await _note(pages, visit, request, "granted", level)
    try:
        place = await server.approve(request, visit.caller, level, _person(pages, visit))
    except OAuthProblem as problem:
        raise forbidden(problem.description) from None
    return see_other(place)


def _need_person(visit: PageRequest) -> BuiltinAuthorizationServer:
    """The authorization server, for whoever may let clients in."""
    server = visit.served.oauth
    if server is None:
        raise HttpProblem(404, "HTTP_NOT_FOUND", 'Clients are not let in here; [serve] oauth = "builtin" allows it.')
    visit.need_known()
    if visit.signed_in is None or not is_person(visit.caller):
        raise forbidden("Only the owner and people who were invited can let clients in. Sign in as one of them.")
    return server


def _person(pages: Pages, visit: PageRequest) -> str:
    return "the owner" if visit.caller.id == OWNER_USER else pages.callers.name_of(visit.caller.id)


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
        person=_person(pages, visit),
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
    values = {"title": "This client cannot connect", "problem": shown, "advice": ADVICE}
    if isinstance(problem, SentBack):  # its redirect URI is right, so it can be told
        values["back"] = problem.place
    return pages.render_bare("problem.html", status=400, **values)


ADVICE = "You were not sent anywhere. Start again in the program you came from; if that does not help, tell its maker."


async def _note(
    pages: Pages, visit: PageRequest, request: AuthorizationRequest, decision: str, level: SecurityLevel | None = None
) -> None:
    details = {
        "client": request.client.name,
        "client_id": request.client.id,
        "redirect": request.destination,
        "resource": request.resource,
        "user": _person(pages, visit),
    }
    await visit.view.note(AuditEntry("client", level=level or "", decision=decision, details=details))


@ROUTES.get("/settings/clients")
async def _show_clients(pages: Pages, visit: PageRequest) -> HttpAnswer:
    return await _clients(pages, visit)


async def _clients(pages: Pages, visit: PageRequest, **values: Any) -> HttpAnswer:
    """The connected clients: their own for everybody who is signed in, all for an operator."""
    visit.need_known()
    server, may_invite = visit.served.oauth, visit.is_operator()
    rows: list[tuple[ClientView, str]] = []
    if server is not None:
        found = await asyncio.to_thread(server.connected, visit.caller, is_operator=may_invite)
        rows = [(client_view(each, server.now()), clock(each.refreshed)) for each in found[:ROWS]]
    filled = {"link": "", "problem": "", "fields": {}} | values
    return pages.render(
        visit,
        "settings/clients.html",
        status=422 if filled["problem"] else 200,
        is_on=server is not None,
        rows=rows,
        levels=[level for level in SecurityLevel if may_operate(visit.caller, level)],
        may_invite=may_invite and server is not None,
        is_confirmed=visit.signed_in is None or visit.signed_in.is_confirmed,
        wanted="/settings/clients",
        token_file=pages.token_file,
        days=round(INVITED_S / 86_400),
        **filled,
    )


@ROUTES.post("/settings/clients/{id}/disconnect")
async def _disconnect(_: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_known()
    ended = await disconnect(visit)
    return go_on("/settings/clients", "disconnected", ended.client_name)


@ROUTES.post("/settings/clients")
async def _invite(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    visit.need_confirmed()
    server, fields = visit.served.oauth, visit.form()
    level = next((level for level in SecurityLevel if level == fields.get("level")), None)
    if server is None or level is None or not may_operate(visit.caller, level):
        raise forbidden("Choose a level that you have yourself.")
    name, grants = fields.get("name", "").strip(), Grants(level, patterns(fields, "servers"), patterns(fields, "tools"))
    try:
        word = await asyncio.to_thread(invite, server.book, pages.tokens, name, grants, server.now())
    except ToolcribError as error:
        return await _clients(pages, visit, problem=str(error), fields=fields)
    await visit.view.note(AuditEntry("client", level=level, decision="invited", details={"user": name}))
    link = f"{visit.served.sign_ins.address.base(visit.caller)}{INVITE_PATH}?{urlencode({'word': word})}"
    return await _clients(pages, visit, link=link)


INVITE_PATH = "/invite"


@ROUTES.get(INVITE_PATH)
async def _show_invitation(pages: Pages, visit: PageRequest) -> HttpAnswer:
    """Looking accepts nothing: programs that preview links do that."""
    server = _server_of(visit)
    try:
        kept = await asyncio.to_thread(find_invitation, server.book, visit.word("word"), server.now())
    except InvitationOver as over:
        return _over(pages, over)
    return pages.render_bare("invite.html", name=kept.name, word=visit.word("word"), text="")


@ROUTES.post(INVITE_PATH)
async def _accept(pages: Pages, visit: PageRequest) -> HttpAnswer:
    if not is_own_origin(visit.request):
        raise HttpProblem(403, "HTTP_WRONG_ORIGIN", "Pages of another address may not accept this for you.")
    server, word = _server_of(visit), visit.form().get("word", "")
    try:
        token, text = await asyncio.to_thread(accept_invitation, server.book, pages.tokens, word, server.now())
    except InvitationOver as over:
        return _over(pages, over)
    noted = AuditEntry("client", caller=token.caller.id, decision="accepted", details={"user": token.name})
    visit.served.project.crib.audit.note(noted)
    sign_ins = visit.served.sign_ins
    page = pages.render_bare("invite.html", name=token.name, word="", text=text)
    if not sign_ins.is_home(token.caller, visit.request):
        return page
    cookie = sign_ins.cookie_header(sign_ins.begin(token.caller, visit.request))
    return HttpAnswer(page.status, page.body, page.content_type, (cookie,))


def _server_of(visit: PageRequest) -> BuiltinAuthorizationServer:
    if visit.served.oauth is None:
        raise HttpProblem(404, "HTTP_NOT_FOUND", "Nobody is invited here.")
    return visit.served.oauth


def _over(pages: Pages, over: InvitationOver) -> HttpAnswer:
    return pages.render_bare("problem.html", status=404, title="Not found", problem=problem_of(over), advice="")
