"""Who is signed in at which server, and which clients are let in here: everything but the tokens."""

import time
from datetime import UTC, datetime

from toolcrib.config.lock import timestamp
from toolcrib.core.view import View
from toolcrib.credentials.account import Account
from toolcrib.stores.connections import ConnectedClient


class AccountView(View):
    """One account at one server."""

    server: str
    user: str
    """Whose it is here: ``owner``, or a caller of their own."""
    issuer: str
    who: str | None
    """What the authorization server calls whoever signed in, if it says."""
    is_signed_in: bool
    signed_in_at: str
    expires_at: str | None
    """When its token ends; it is renewed before that, if ``is_renewed``. ``None``: when the server refuses it."""
    is_renewed: bool
    scopes: list[str]
    error: str | None
    """What went wrong last, in the authorization server's own words; none once it goes well again."""


class AccountList(View):
    """The accounts a caller may know of."""

    accounts: list[AccountView]


class SignOutcome(View):
    """An account that was signed out."""

    account: AccountView
    problem: str | None
    """Why its tokens could not be revoked; it is forgotten here all the same."""


def account_view(account: Account) -> AccountView:
    """An account as plain data."""
    now = time.time()
    tokens, ends_at = account.tokens, account.ends_at
    lives = bool(tokens.refresh_token) or ends_at is None or ends_at > now
    return AccountView(
        server=account.server,
        user=account.user,
        issuer=account.provider.issuer,
        who=account.who or None,
        is_signed_in=bool(tokens.access_token) and lives,
        signed_in_at=_moment(account.signed_in_at),
        expires_at=None if ends_at is None else _moment(ends_at),
        is_renewed=bool(tokens.refresh_token),
        scopes=list(tokens.scopes),
        error=account.error or None,
    )


def _moment(seconds: float) -> str:
    return timestamp(datetime.fromtimestamp(seconds, UTC))


class ClientView(View):
    """One client that somebody let in by OAuth."""

    id: str
    name: str
    """As it calls itself."""
    client_id: str
    user: str
    """Who let it in."""
    state: str
    """``active``, ``expired`` or ``revoked``."""
    level: str
    servers: list[str]
    tools: list[str]
    resource: str
    """The one address its tokens are for."""
    connected_at: str
    renewed_at: str
    """When it was last given tokens."""
    reason: str | None
    """Why it was revoked."""


class ClientList(View):
    """The clients a caller may know of."""

    clients: list[ClientView]


def client_view(connection: ConnectedClient, now: float) -> ClientView:
    """A connected client as plain data."""
    return ClientView(
        id=connection.id,
        name=connection.client_name,
        client_id=connection.client_id,
        user=connection.user_name,
        state=connection.state(now),
        level=str(connection.level),
        servers=list(connection.servers),
        tools=list(connection.tools),
        resource=connection.resource,
        connected_at=_moment(connection.created),
        renewed_at=_moment(connection.refreshed),
        reason=connection.reason or None,
    )
