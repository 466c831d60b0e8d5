"""What an account lacks: somebody who signs in, or scopes that a server wants, which the next sign-in asks for."""

from collections.abc import Sequence
from typing import Any

from toolcrib.core.errors import SignInNeeded, SourceError
from toolcrib.core.kinds import FailureKind
from toolcrib.credentials.discovery import Discovered
from toolcrib.credentials.oauth import Challenge, with_scopes
from toolcrib.credentials.vault import Vault

SCOPES_MAX = 100


class ScopesRefused(SourceError):
    """An account may not do this, and signing in again changes nothing; the server itself is well."""

    code = "TOOL_PERMISSION_DENIED"


class WantedScopes:
    """The scopes that one server wanted of one account; kept, since a person signs in from a process of their own."""

    def __init__(self, vault: Vault, account: str, server: str) -> None:
        self._vault, self._name, self._server = vault, f"wanted:{account}", server
        self.scopes: tuple[str, ...] = ()

    def note(self, challenge: Challenge | None) -> None:
        """Ask for these as well from now on."""
        if challenge is not None:
            self.scopes = with_scopes(self.scopes, challenge.scopes)[:SCOPES_MAX]

    async def keep(self) -> None:
        """Have other processes know; written only if it says something new."""
        if set(self.scopes) - set(await self._kept()):
            await self._vault.put(self._name, self.scopes)

    async def recall(self) -> None:
        """Take in what another process noted."""
        self.scopes = with_scopes(self.scopes, await self._kept())[:SCOPES_MAX]

    async def forget(self) -> None:
        """Somebody signed in, and was asked for all of it."""
        self.scopes = ()
        if await self._kept():
            await self._vault.remove(self._name)

    async def _kept(self) -> tuple[str, ...]:
        return await self._vault.get(self._name, tuple[str, ...]) or ()

    def check(self, challenge: Challenge, asked: tuple[str, ...], granted: tuple[str, ...]) -> None:
        """Refuse to have somebody sign in again for what the last sign-in asked for: it would end the same way."""
        if not challenge.scopes or set(challenge.scopes) - set(asked):
            return
        scopes, missing = " ".join(challenge.scopes), set(challenge.scopes) - set(granted)
        cause = "its authorization server did not grant them" if missing else "it was granted them"
        said = f" It says: {challenge.description}." if challenge.description else ""
        raise ScopesRefused(
            f"Server {self._server!r} wants the scopes {scopes}, which the last sign-in asked for: {cause}.{said}",
            hint="Whoever looks after that server has to allow this account more; then sign in again.",
            details={"server": self._server, "failure": FailureKind.CREDENTIAL, "scopes": list(challenge.scopes)},
        )


def sign_in_needed(
    server: str, said: str, link: str | None, found: Discovered | None, issuer: str = "", scopes: Sequence[str] = ()
) -> SignInNeeded:
    """What a caller is told who came too early: at which server, why, and what to do; without a ``link`` (one that is
    empty leads nowhere now) it is toolcrib's own account that is not let in, and no person's."""
    issuer = issuer or (found.server.issuer if found is not None else "")
    because = (f" at {issuer}" if issuer and issuer not in said else "") + (f": {said.rstrip('.')}" if said else "")
    kind, cause, message = FailureKind.SIGN_IN, "somebody has to sign in", "needs somebody to sign in"
    hint = f"open {link} or run `toolcrib login {server}`." if link else f"run `toolcrib login {server}`."
    if link is None:
        kind, cause, message = FailureKind.CREDENTIAL, "our account is not let in", "does not let our account in"
        hint = f"look at [servers.{server}.oauth], or run `toolcrib doctor`."
    if found is not None and found.is_guess:
        hint += " Or, if it takes a key instead, set that under `headers`: it does not say who lets people in."
    details: dict[str, Any] = {
        "server": server,
        "sign_in": True,
        "failure": kind,
        "cause": cause + because,
        "final": True,
        "issuer": issuer,
        "said": said,
        "link": link or "",
        **({"scopes": list(scopes)} if scopes else {}),
    }
    return SignInNeeded(f"Server {server!r} {message}{because}.", hint=hint[:1].upper() + hint[1:], details=details)
