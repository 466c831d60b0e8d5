"""Signing in at servers in a browser: begun by somebody who is signed in here, answered by the same browser.

A page elsewhere can lead somebody to the first address, and no further: what goes on needs their own click on our page,
and what comes back counts only in the browser that clicked.
"""

import secrets

import msgspec

from toolcrib.core.audit import AuditEntry
from toolcrib.core.errors import ToolcribError
from toolcrib.core.kinds import Share
from toolcrib.crib.accounts import CALLBACK_PATH, START_PATH
from toolcrib.server.answers import HttpAnswer, not_found, see_other
from toolcrib.server.identity.sign_in import host_of
from toolcrib.server.visit import PageRequest
from toolcrib.server.web.render import PageRoutes, Pages

ROUTES = PageRoutes()
CLIENT_PATH = "/.well-known/toolcrib-client.json"
OPEN = frozenset({CALLBACK_PATH.encode(), CLIENT_PATH.encode()})
"""Where strangers come to: what they bring is looked at, not who they are."""
COOKIE = "toolcrib-sign-in"
KEPT_S = 600


@ROUTES.get(f"{START_PATH}/{{name}}")
async def _show(pages: Pages, visit: PageRequest) -> HttpAnswer:
    name = _server(visit)
    probe = await visit.view.sign_ins().probe(name, visit.caller.id)
    return pages.render(visit, "servers/sign_in.html", name=name, probe=probe, is_shared=_is_shared(visit, name))


@ROUTES.post(f"{START_PATH}/{{name}}")
async def _begin(pages: Pages, visit: PageRequest) -> HttpAnswer:
    name, browser = _server(visit), secrets.token_urlsafe(32)
    home = visit.served.sign_ins.address.base(visit.caller)
    begun = await visit.view.sign_ins().begin(name, visit.caller.id, browser=browser, home=home)
    page = pages.render_bare("servers/sign_in_elsewhere.html", name=name, wanted=begun.url)
    return HttpAnswer(200, page.body, page.content_type, (_cookie(visit, browser),))


def _server(visit: PageRequest) -> str:
    """The server, if whoever asks may sign in there: as themselves, or as who looks after the shared account."""
    visit.need_known()
    name = visit.params["name"]
    if not visit.view.has_server(name):
        raise not_found("server", name, "Look at the list of servers.")
    if _is_shared(visit, name):
        visit.need_operator()
    return name


def _is_shared(visit: PageRequest, name: str) -> bool:
    view = visit.view.server(name)
    return view is None or view.share is Share.ALL


def _cookie(visit: PageRequest, value: str) -> tuple[bytes, bytes]:
    """Lax, so that it comes back with a browser that an authorization server sends here."""
    secure = "; Secure" if visit.served.sign_ins.address.is_secure else ""
    return b"set-cookie", f"{COOKIE}={value}; Path=/oauth; Max-Age={KEPT_S}; HttpOnly; SameSite=Lax{secure}".encode()


@ROUTES.get(CALLBACK_PATH)
async def _answer(pages: Pages, visit: PageRequest) -> HttpAnswer:
    sign_ins, query = visit.view.sign_ins(), visit.query
    flow = await sign_ins.flow(query)
    host = (visit.request.header(b"host") or b"").decode("latin-1").lower()
    if flow is not None and flow.home and host != host_of(flow.home):  # there is what the browser holds
        return see_other(f"{flow.home}{CALLBACK_PATH}?{visit.request.query.decode('latin-1')}")
    try:
        account = await sign_ins.answer(query, _held(visit))
    except ToolcribError as error:
        return pages.render_bare("servers/signed_in_elsewhere.html", status=400, problem=str(error), name="")
    await visit.view.note(
        AuditEntry("server", server=account.server, decision="signed_in", details={"user": account.user})
    )
    await visit.served.project.discover(account.server)
    page = pages.render_bare("servers/signed_in_elsewhere.html", problem="", name=account.server, who=account.who)
    return HttpAnswer(page.status, page.body, page.content_type, (_cookie(visit, ""),))


def _held(visit: PageRequest) -> str:
    for part in (visit.request.header(b"cookie") or b"").decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""


@ROUTES.get(CLIENT_PATH)
async def _document(_: Pages, visit: PageRequest) -> HttpAnswer:
    document = visit.view.sign_ins().client_document()
    if document is None:
        raise not_found("document", CLIENT_PATH, "There is one where public_url is an https address.")
    return HttpAnswer(200, msgspec.json.encode(document), b"application/json")
