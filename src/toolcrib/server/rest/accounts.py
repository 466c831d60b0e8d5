"""The accounts at servers over REST: who is signed in where, and signing in and out."""

from toolcrib.core.audit import AuditEntry
from toolcrib.core.view import View
from toolcrib.server.answers import HttpAnswer, HttpProblem, json_answer, not_found
from toolcrib.server.rest.about import About, RestResource
from toolcrib.server.views.accounts import AccountList, SignOutcome, account_view
from toolcrib.server.visit import PageRequest

ACCOUNTS = RestResource("accounts", "Who is signed in at which server.")
ONE = "/accounts/{name}"


class SignInStart(View):
    """A sign-in that was begun."""

    server: str
    url: str
    """To open in a browser; it comes back to this toolcrib."""


@ACCOUNTS.route(
    "GET", "/accounts", About("List the accounts at servers", AccountList, "Without any token.", problems=(403,))
)
async def _list(visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    return json_answer(AccountList([account_view(each) for each in await visit.view.sign_ins().kept()]))


@ACCOUNTS.route(
    "POST",
    f"{ONE}/sign-in",
    About(
        "Begin to sign in at a server",
        SignInStart,
        "For the account of the caller, or the shared one. Whoever opens the address and agrees there is signed in"
        " here: hand it to nobody else.",
        problems=(403, 404, 422, 424, 503),
    ),
)
async def _begin(visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    name = _known(visit)
    begun = await visit.view.sign_ins().begin(name, visit.caller.id)
    return json_answer(SignInStart(name, begun.url))


@ACCOUNTS.route(
    "DELETE",
    ONE,
    About("Sign out at a server", SignOutcome, "Its tokens are revoked.", problems=(403, 404, 422)),
)
async def _end(visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    name = _known(visit)
    await visit.view.note(AuditEntry("server", server=name, decision="signed_out"))
    account, problem = await visit.view.sign_ins().sign_out(name, visit.caller.id)
    return json_answer(SignOutcome(account_view(account), problem or None))


def _known(visit: PageRequest) -> str:
    name = visit.params["name"]
    if not visit.view.has_server(name):
        raise _no_server(name)
    return name


def _no_server(name: str) -> HttpProblem:
    return not_found("server", name, "GET /api/v1/servers lists them.")
