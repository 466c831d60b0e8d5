"""Signing in at the servers of a Crib, for every door: begun, answered, listed, ended; and what a server says of it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from toolcrib.config.model import ServerConfig
from toolcrib.config.references import resolve_server
from toolcrib.core.access import Caller, may_operate
from toolcrib.core.errors import CallerError, ToolcribError, UnknownServer
from toolcrib.core.kinds import SignInMode
from toolcrib.core.offers import SecurityLevel
from toolcrib.core.view import DiscoveryStep
from toolcrib.crib.servers import Servers
from toolcrib.stores.paths import Environment

if TYPE_CHECKING:
    from toolcrib.credentials.account import Account
    from toolcrib.credentials.accounts import Accounts, ServerAccount
    from toolcrib.credentials.sign_in import BegunSignIn, SignInFlow

CALLBACK_PATH = "/oauth/callback"
START_PATH = "/oauth/start"
WATCH_S = 0.5
"""How often it is looked whether somebody has signed in: the browser may have come back to another process."""


@dataclass(frozen=True, slots=True)
class StrangerProbe:
    """How a server answers somebody who does not say who they are, and what its metadata lead to."""

    status: int
    steps: tuple[DiscoveryStep, ...]
    issuer: str
    problem: str = ""


class ServerSignIns:
    """What doors ask to have somebody signed in at a server."""

    servers: Servers
    """Set as soon as there is a Crib; nothing is asked before."""

    def __init__(self, find: "Callable[[], Accounts]", around: Environment) -> None:
        self._find, self._around = find, around
        self._answered = asyncio.Event()
        """Set, and replaced, when somebody has signed in."""
        self.base_url = ""
        """Where browsers reach this process; empty: nowhere."""
        self.public_url = ""

    @property
    def _accounts(self) -> "Accounts":
        return self._find()

    def serve_at(self, base_url: str, public_url: str) -> None:
        """Sign-ins can be begun on a page from now on, and come back to it."""
        self.base_url, self.public_url = (public_url or base_url).rstrip("/"), public_url.rstrip("/")

    def link_to(self, server: str) -> str:
        """Where a person signs in to a server; empty if there is no page."""
        return f"{self.base_url}{START_PATH}/{server}" if self.base_url else ""

    def client_document(self) -> dict[str, object] | None:
        """What toolcrib says of itself to authorization servers that look; only at a public address over TLS."""
        from toolcrib.credentials.issuer import CLIENT_DOCUMENT, client_document

        url = self.public_url
        if not url.startswith("https://"):
            return None
        return client_document(f"{url}{CALLBACK_PATH}", client_id=f"{url}{CLIENT_DOCUMENT}")

    def config_of(self, server: str) -> ServerConfig:
        """A configured server, as it is reached."""
        shelf = self.servers.shelves.get(server)
        if shelf is None:
            raise UnknownServer(server, known=sorted(self.servers.shelves))
        return resolve_server(shelf.config, self._around.variables)

    def account(self, server: str, caller: str) -> "ServerAccount":
        """The account of a caller at a server where people sign in."""
        config = self.config_of(server)
        found = self._accounts.of(config, caller)
        if found is None or found.mode not in (SignInMode.SHARED, SignInMode.PER_USER):
            why = "it runs on this machine" if config.url is None else f"its mode is {_mode(found)}"
            raise CallerError(f"Nobody signs in to server {server!r}: {why}.")
        return found

    def is_wanted_at(self, server: str) -> bool:
        """Whether people may have to sign in at a server."""
        shelf = self.servers.shelves.get(server)
        if shelf is None or shelf.config.url is None:
            return False
        return shelf.config.sign_in_mode.is_for_people

    def is_asked_for(self, server: str) -> bool:
        """Whether a server is reached with an account, be it a person's or toolcrib's own."""
        shelf = self.servers.shelves.get(server)
        return shelf is not None and self._accounts.of(self.config_of(server)) is not None

    async def last(self, server: str, caller: Caller) -> float | None:
        """When the account was signed in to that a caller uses at a server, zero if it never was; ``None`` if the
        caller may not do that: a shared account is for whoever looks after this toolcrib."""
        account = self.account(server, caller.id)
        if account.mode is SignInMode.SHARED and not may_operate(caller, SecurityLevel.ADMIN):
            return None
        found = await account.kept()
        return 0.0 if found is None else found.signed_in_at

    async def wait(self, server: str, caller: Caller, after: float) -> None:
        """Return once the server can be used with an account that was signed in to after that moment, in whichever
        process that was done."""
        while ((await self.last(server, caller)) or 0.0) <= after:
            with suppress(TimeoutError):
                async with asyncio.timeout(WATCH_S):
                    await self._answered.wait()
        await self.servers.refresh(server)

    async def begin(
        self, server: str, caller: str, *, redirect_uri: str = "", browser: str = "", home: str = ""
    ) -> "BegunSignIn":
        """Begin to sign a caller in; the address to open, and where it comes back to."""
        from toolcrib.credentials.sign_in import begin

        account = self.account(server, caller)
        await self.probe(server, caller)
        back = redirect_uri or f"{self.base_url}{CALLBACK_PATH}"
        return await begin(account, back, public_url=self.public_url, browser=browser, home=home)

    async def sign_in_here(
        self, server: str, caller: str, show: "Callable[[str], None]", pasted: "Awaitable[str]"
    ) -> "Account":
        """Sign a caller in from a terminal: the address is shown, and the answer comes back to this machine, or is
        pasted by whoever has the browser elsewhere."""
        from toolcrib.credentials.sign_in import CallbackListener, read_answer

        port = self.account(server, caller).config.callback_port or 0
        async with CallbackListener(port) as listener:
            begun = await self.begin(server, caller, redirect_uri=listener.redirect_uri)
            listener.expect(begun.state)
            show(begun.url)
            coming, typing = asyncio.ensure_future(listener.answer()), asyncio.ensure_future(pasted)
            try:
                await asyncio.wait([coming, typing], return_when=asyncio.FIRST_COMPLETED)
                query = coming.result() if coming.done() else read_answer(typing.result())
            finally:
                coming.cancel()
                typing.cancel()
        return await self.answer(query)

    async def flow(self, query: Mapping[str, str]) -> "SignInFlow | None":
        """The sign-in that an answer belongs to."""
        from toolcrib.credentials.sign_in import find_flow

        return await find_flow(self._accounts.around.vault, query)

    async def answer(self, query: Mapping[str, str], browser: str = "") -> "Account":
        """Take what a browser brought back; the server is used with the account from now on."""
        from toolcrib.credentials.sign_in import finish

        answered = await finish(self._accounts.around.vault, query, browser)
        config = self.config_of(answered.flow.server)
        if config.url != answered.flow.url:
            raise CallerError(f"Server {config.name!r} has another address by now.", hint="Begin again.")
        account = self._accounts.of(config, answered.flow.user)
        if account is None:
            raise CallerError(f"Nobody signs in to server {config.name!r} any more.")
        found = await answered.redeem(account)
        self._answered.set()
        self._answered = asyncio.Event()
        return found

    async def kept(self) -> "list[Account]":
        """Every account that somebody signed in to, at the servers that are configured."""
        urls = {name: self.config_of(name).url for name in self.servers.shelves}
        return [account for account in await self._accounts.kept() if urls.get(account.server) == account.url]

    async def sign_out(self, server: str, caller: str) -> "tuple[Account, str]":
        """End an account: forgotten here, revoked there, and its server is asked how it stands now; the account, and
        what its authorization server had against it."""
        account = self.account(server, caller)
        found = [one for one in await self.kept() if (one.server, one.user) == (server, account.user)]
        if not found:
            raise CallerError(f"Nobody is signed in to server {server!r}.", hint="See `toolcrib accounts`.")
        problem = await self._accounts.sign_out(found[0])
        await self.servers.refresh(server)
        return found[0], problem

    async def probe(self, server: str, caller: str = "") -> StrangerProbe:
        """Ask a server as a stranger, and walk from its refusal to its authorization server."""
        from toolcrib.credentials.discovery import ask_as_stranger

        config = self.config_of(server)
        account = self._accounts.of(config, caller)
        if account is None:
            return StrangerProbe(0, (), "", "nobody signs in to it")
        status, challenge, problem = await ask_as_stranger(account.server.url or "", account.surroundings.network)
        first = DiscoveryStep("asked without an account", config.url or "", problem or f"HTTP {status}", not problem)
        if problem:
            return StrangerProbe(status, (first,), "", problem)
        if status not in (401, 403):
            return StrangerProbe(status, (first,), "", "it lets everybody in")
        try:
            found = await account.discover(challenge)
        except ToolcribError as error:
            return StrangerProbe(status, (first, *account.steps), "", error.message)
        return StrangerProbe(status, (first, *found.steps), found.server.issuer)

    async def walk(self, server: str) -> StrangerProbe:
        """The same, with how it would go on, and how it stands with the account that is shared by all."""
        from toolcrib.credentials.sign_in import foresee

        probe, account = await self.probe(server), self._accounts.of(self.config_of(server))
        if account is None or account.discovered is None or not probe.issuer:
            return probe
        steps = [*probe.steps, *foresee(account, account.discovered, self.public_url), await self._stands(account)]
        return replace(probe, steps=tuple(steps))

    async def _stands(self, account: "ServerAccount") -> DiscoveryStep:

        found, url = account.account, account.server.url or ""
        if account.mode.is_for_people:
            found = await account.kept()
        if found is None:
            return DiscoveryStep("account", url, "nobody is signed in", is_good=False)
        is_good = bool(found.tokens.access_token) and not found.error
        return DiscoveryStep("account", url, found.error or found.who or "signed in", is_good)


def _mode(account: "ServerAccount | None") -> str:
    return "header: it gets the headers that are configured" if account is None else account.mode.value
