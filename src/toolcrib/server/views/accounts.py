"""Who is signed in at which server: everything but the tokens."""

from datetime import UTC, datetime

from toolcrib.config.lock import timestamp
from toolcrib.core.view import View
from toolcrib.credentials.account import Account


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
    """Why it cannot be used any more, in the authorization server's own words."""


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
    tokens = account.tokens
    return AccountView(
        server=account.server,
        user=account.user,
        issuer=account.provider.issuer,
        who=account.who or None,
        is_signed_in=bool(tokens.access_token),
        signed_in_at=_moment(account.signed_in_at),
        expires_at=None if account.ends_at is None else _moment(account.ends_at),
        is_renewed=bool(tokens.refresh_token),
        scopes=list(tokens.scopes),
        error=account.error or None,
    )


def _moment(seconds: float) -> str:
    return timestamp(datetime.fromtimestamp(seconds, UTC))
