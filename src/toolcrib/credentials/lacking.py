"""What an account lacks: somebody who signs in, or scopes that a server wants, which the next sign-in asks for."""

from dataclasses import dataclass

from toolcrib.core.errors import SignInNeeded, SourceError
from toolcrib.core.kinds import FailureKind
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


@dataclass(frozen=True, slots=True)
class SignInTold:
    """What a caller is told who came too early: why, where to sign in, and what was said."""

    server: str
    issuer: str
    said: str
    link: str
    scopes: tuple[str, ...]

    def error(self, *, is_for_people: bool) -> SignInNeeded:
        """The same as an error, with what to do."""
        at = f" at {self.issuer}" if self.issuer else ""
        because = f": {self.said.rstrip('.')}" if self.said else ""
        cause = f"somebody has to sign in{at}{because}"
        details = {"server": self.server, "sign_in": True, "failure": FailureKind.SIGN_IN, "cause": cause}
        details |= {"final": True, "issuer": self.issuer, "said": self.said, "link": self.link}
        scopes = {"scopes": list(self.scopes)} if self.scopes else {}
        words = f"Server {self.server!r} needs somebody to sign in{at}{because}."
        return SignInNeeded(words, hint=self._hint(is_for_people=is_for_people), details=details | scopes)

    def _hint(self, *, is_for_people: bool) -> str:
        if not is_for_people:
            return f"Look at [servers.{self.server}.oauth], or run `toolcrib doctor`."
        command = f"`toolcrib login {self.server}`"
        return f"Open {self.link} or run {command}." if self.link else f"Run {command}."
