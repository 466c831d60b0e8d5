"""The accounts at servers over REST: who is signed in where, and signing in and out; and the clients signed in here."""

import asyncio

from toolcrib.core.audit import AuditEntry
from toolcrib.core.view import View
from toolcrib.server.answers import HttpAnswer, HttpProblem, json_answer, not_found
from toolcrib.server.identity.oauth import audit_entry
from toolcrib.server.rest.about import About, RestResource
from toolcrib.server.views.accounts import (
    AccountList,
    ClientList,
    ClientView,
    SignOutcome,
    account_view,
    client_view,
)
from toolcrib.server.visit import PageRequest
from toolcrib.stores.connections import ConnectedClient, NoSuchConnection

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


CLIENTS = RestResource(
    "clients",
    'The clients that people let in by OAuth, where `[serve] oauth` is "builtin".',
    {"id": "the client's id, as the list shows it"},
)


@CLIENTS.route("GET", "/clients", About("List the connected clients", ClientList, "Your own; all for an operator."))
async def _list_clients(visit: PageRequest) -> HttpAnswer:
    visit.need_known()
    server = visit.served.oauth
    if server is None:
        return json_answer(ClientList([]))
    found = await asyncio.to_thread(server.connected, visit.caller, is_operator=visit.is_operator())
    return json_answer(ClientList([client_view(each, server.now()) for each in found]))


@CLIENTS.route(
    "DELETE",
    "/clients/{id}",
    About("Disconnect a client", ClientView, "All its tokens end at once.", problems=(404,)),
)
async def _disconnect(visit: PageRequest) -> HttpAnswer:
    visit.need_known()
    ended = await disconnect(visit)
    return json_answer(client_view(ended, ended.refreshed))


async def disconnect(visit: PageRequest) -> ConnectedClient:
    """End the client of a request's path, if whoever asks may."""
    server, wanted = visit.served.oauth, visit.params["id"]
    if server is None:
        raise NoSuchConnection(wanted)
    ended = await asyncio.to_thread(server.disconnect, visit.caller, wanted, is_operator=visit.is_operator())
    await visit.view.note(audit_entry("revoked", ended))
    return ended


def _known(visit: PageRequest) -> str:
    name = visit.params["name"]
    if not visit.view.has_server(name):
        raise _no_server(name)
    return name


def _no_server(name: str) -> HttpProblem:
    return not_found("server", name, "GET /api/v1/servers lists them.")
