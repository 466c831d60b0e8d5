"""The accounts that calls are made with: one flight per account renews its token, whoever else wants it waits.

What must hold. A refresh token is spent by one process at a time, whoever shares the store, and only after it was read
anew. What came of it is on disk before it is used. What fails for now costs nothing: the old token is used as long as
it lives. A token of one issuer goes to its own server and a refresh token to its own issuer, nowhere else.
"""

import asyncio
import os
import random
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from toolcrib.config.model import ServerConfig
from toolcrib.config.oauth import OAuthConfig
from toolcrib.core.clocks import elapsed
from toolcrib.core.errors import SignInNeeded, SourceUnavailable, StoreUnavailable, ToolcribError
from toolcrib.core.events import Emit, Event
from toolcrib.core.kinds import SignInMode
from toolcrib.core.network import Network
from toolcrib.core.tasks import TaskScope
from toolcrib.core.view import DiscoveryStep
from toolcrib.credentials.account import Account, account_name, user_of
from toolcrib.credentials.discovery import Discovered, OutwardRequests, ServerDiscovery
from toolcrib.credentials.issuer import (
    Issuer,
    TokenWish,
    bind_client,
    configured_client,
    forget_registration,
    is_transient,
    obtain,
)
from toolcrib.credentials.lacking import WantedScopes, sign_in_needed
from toolcrib.credentials.oauth import (
    Challenge,
    IssuerRefused,
    OAuthClient,
    choose_scopes,
    renewal_due_s,
    with_scopes,
)
from toolcrib.credentials.vault import Vault, VaultKey
from toolcrib.stores.credentials import CredentialStore

CLAIM_S = 60.0
SPENT_WITHIN_S = 25.0
"""Of a claim: the rest is for the answer."""
POLL_S = 0.05
AFTER_OUTAGE_S = 3.0
"""Whoever could not reach the store lets others save first what they have got meanwhile."""
SAVING_S = 45.0
RETRY_FIRST_S, RETRY_MAX_S = 1.0, 300.0
STEP_UPS_MAX = 3
WHOLE_S = 1.0
FLIGHTS_MAX = 3


@dataclass(slots=True)
class AccountSurroundings:
    """What all accounts of a Crib share."""

    vault: Vault
    env: Mapping[str, str]
    emit: Emit
    wall: Callable[[], float] = time.time
    steady: Callable[[], float] = elapsed
    link_to: Callable[[str], str] = lambda server: ""  # noqa: ARG005
    """Where a person signs in to a server, if there is a page; set by whoever serves one."""
    tell_secrets: Callable[[str, tuple[str, ...]], None] = lambda server, secrets: None  # noqa: ARG005
    """Has nobody repeat these."""
    owner: str = field(default_factory=lambda: f"{os.getpid()}:{secrets.token_hex(8)}")
    """What this process is called where it claims something."""

    @property
    def network(self) -> Network:
        """The way out."""
        return Network.of(self.env)


class ServerAccount:
    """One account at one server, as the links of that server use it."""

    def __init__(self, server: ServerConfig, user: str, around: AccountSurroundings, tasks: TaskScope) -> None:
        self.server, self.user, self.surroundings, self._tasks = server, user, around, tasks
        self.mode = server.sign_in_mode
        self.config = server.oauth or OAuthConfig()
        self._url = server.url or ""
        self.name = account_name(server.name, self._url, user)
        self._line: bytes | None = None
        self._ends = float("inf")
        self.account: Account | None = None
        """What is known of it; ``None``: nobody signed in."""
        self.discovered: Discovered | None = None
        self.steps: list[DiscoveryStep] = []
        """How the last walk to who lets people in went."""
        self.wanted = WantedScopes(around.vault, self.name, server.name)
        self._flight: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._failures = 0

    async def kept(self) -> Account | None:
        """What is kept of it, also by other processes; ``None``: nobody signed in."""
        return await self.surroundings.vault.get(self.name, Account)

    # What links ask, for every request

    def usable(self) -> bytes | None:
        """What a request carries right now, without waiting; ``None`` if that is not known or has ended."""
        return self._line if elapsed() < self._ends else None

    async def ready(self) -> bytes | None:
        """The same after whatever it takes; ``None``: nobody is signed in, which the server may not mind."""
        if self.usable() is None:
            try:
                await self._fly(None)
            except SignInNeeded:
                self._line = None
        return self.usable()

    def may_have_ended(self, used: bytes | None) -> bool:
        """Whether a refused token may simply have been too old when it came there: many count whole seconds."""
        return used != self._line or elapsed() >= self._ends - WHOLE_S

    async def after_refusal(self, used: bytes | None, challenge: Challenge | None) -> bytes:
        """Another try after a server refused ``used``; raises ``SignInNeeded`` if there is nothing to try."""
        self.wanted.note(challenge)
        line = self.usable()
        if line is not None and line != used:
            return line
        for _ in range(FLIGHTS_MAX):  # the first may have begun before, for whoever was refused an older token
            if challenge is not None and challenge.wants_more_scopes:
                await self._step_up(used, challenge)
            else:
                await self._fly(used, challenge)
            line = self.usable()
            if line is not None and line != used:
                return line
        raise self.needed("it refuses the token that its own authorization server gave", challenge)

    async def _step_up(self, used: bytes | None, challenge: Challenge) -> None:
        """A token that is good for more: one that somebody else got meanwhile, one that nobody has to sign in for, or
        the next one that a person signs in for."""
        if self.mode.is_for_people:
            kept = await self.kept()
            if kept is not None and used != b"Bearer " + kept.tokens.access_token.encode():
                self._adopt(kept)
                return
        if self.account is not None:
            self.wanted.check(challenge, self.account.asked, self.account.tokens.scopes)
        if not self.mode.is_for_people:
            await self._fly(used, challenge)
            return
        await self.wanted.keep()
        await self._look(challenge)
        raise self.needed(f"it wants the scopes {' '.join(self.wanted.scopes)}", challenge)

    async def _fly(self, used: bytes | None, challenge: Challenge | None = None) -> None:
        """Renew, together with everybody else who wants that now; what one of them cancels goes on for the others."""
        flight = self._flight
        if flight is None or flight.done():
            flight = self._flight = self._tasks.spawn(self._renew(used, challenge), f"sign-in-{self.server.name}")
        await asyncio.wait([flight])
        if flight.cancelled():
            raise SourceUnavailable(f"Server {self.server.name!r} was stopped.")
        if (error := flight.exception()) is not None:
            raise error

    # Renewing

    async def _renew(self, used: bytes | None, challenge: Challenge | None) -> None:
        if self.mode.is_for_people:
            return await self._renew_account(used, challenge)
        try:
            await self._obtain(challenge)
        except IssuerRefused as error:
            if is_transient(error):
                raise
            raise self.needed(error.message, challenge) from None

    async def _obtain(self, challenge: Challenge | None) -> None:
        """A token that nobody has to sign in for; without having been refused, nothing is known of who gives it."""
        if challenge is None and self.discovered is None:
            return
        found = self.discovered or await self._look(challenge)
        out = self.outward()
        issuer, wish = Issuer(found.server, out, self.surroundings.wall), self.wish(found)
        await bind_client(self.surroundings.vault, self.config, self._url, found.server.issuer)
        tokens = await obtain(self.config, self.surroundings.env, issuer, wish, out)
        now = self.surroundings.wall()
        client = OAuthClient(self.config.client_id, is_configured=True)
        made = Account(self.server.name, self._url, self.user, found.server, client, tokens, now, now)
        self._adopt(msgspec.structs.replace(made, asked=wish.scopes))

    async def _renew_account(self, used: bytes | None, challenge: Challenge | None) -> None:
        """Take what another process got meanwhile, or spend the refresh token while nobody else can."""
        limit = elapsed() + CLAIM_S
        while True:
            asked_at = self.surroundings.steady()
            try:
                if await self._take_over(used):
                    return
                if await self.surroundings.vault.store.claim(self.name, self.surroundings.owner, CLAIM_S):
                    break
            except StoreUnavailable:
                if elapsed() > limit:
                    raise
                await asyncio.sleep(AFTER_OUTAGE_S)
                continue
            except SignInNeeded:
                raise await self._lost(challenge) from None
            if elapsed() > limit + CLAIM_S:
                raise SourceUnavailable(f"Somebody else renews the token of {self.server.name!r}, and does not finish.")
            await asyncio.sleep(POLL_S)
        try:
            if not await self._take_over(used):
                await self._spend(challenge, asked_at + SPENT_WITHIN_S)
        finally:
            with suppress(ToolcribError):
                await self.surroundings.vault.store.release(self.name, self.surroundings.owner)

    async def _lost(self, challenge: Challenge | None) -> SignInNeeded:
        """What to say when nobody is signed in: where that can be done, or why that is not known."""
        try:
            await self._look(challenge)
        except IssuerRefused as error:
            self.discovered = None
            needed = self.needed(error.message, challenge)
            needed.hint = f"{error.hint} Run `toolcrib doctor` to see each step.".lstrip()
            needed.details["link"] = ""
            return needed
        return self.needed("", challenge)

    async def _take_over(self, used: bytes | None) -> bool:
        """Read what is kept; whether that is enough. Raises ``SignInNeeded`` if nothing can come of it."""
        kept = await self.kept()
        if kept is None or (kept.error and not kept.tokens.refresh_token):
            self.account = kept
            self._line = None
            raise SignInNeeded("Nobody is signed in.")
        is_other = self.account is None or kept.tokens.access_token != self.account.tokens.access_token
        if is_other:
            self._adopt(kept)
        line = self.usable()
        if line is not None and line != used and (is_other or used is not None):
            return True
        if not kept.tokens.refresh_token:
            if used is None and line is not None:
                return True
            self._line = None
            raise SignInNeeded("Its token has ended, and there is none to renew it with.")
        return False

    async def _spend(self, challenge: Challenge | None, latest: float) -> None:
        """Spend the refresh token; only for who has claimed the account, and not when the claim may have ended by the
        time of the answer: a machine may have slept since."""
        account = self.account
        if account is None:  # the claim is ours, so it was read
            raise self.needed("", challenge)
        if challenge is not None and await self._has_moved(account.provider.issuer, challenge):
            raise self.needed("another authorization server lets people in now", challenge)
        if self.surroundings.steady() > latest:
            raise SourceUnavailable(f"The token of {self.server.name!r} was not renewed in time; it is tried again.")
        issuer = Issuer(account.provider, self.outward(), self.surroundings.wall)
        wish = TokenWish(account.resource, account.tokens.scopes)
        try:
            tokens = await issuer.refresh(self.client_of(account), account.tokens.refresh_token, wish)
        except SourceUnavailable as error:
            await self._renewal_failed(account, error, challenge)
            return
        renewed = msgspec.structs.replace(account, tokens=tokens, obtained_at=self.surroundings.wall(), error="")
        if not tokens.scopes:
            kept = msgspec.structs.replace(tokens, scopes=account.tokens.scopes)
            renewed = msgspec.structs.replace(renewed, tokens=kept)
        self._hide(renewed)
        await self._save(renewed)
        self._adopt(renewed)

    async def _has_moved(self, issuer: str, challenge: Challenge) -> bool:
        """Whether a server that refuses its tokens names other issuers now: what this one would give is of no use."""
        try:
            found = await self._look(challenge)
        except SourceUnavailable:
            return False
        return issuer not in found.issuers

    async def _renewal_failed(self, account: Account, error: SourceUnavailable, challenge: Challenge | None) -> None:
        """What fails for now is tried again; what was refused for good means that somebody has to sign in."""
        self._tell("account.renewal.failed", "warning", error=error.message)
        if is_transient(error):
            if account.error != error.message:
                with suppress(ToolcribError):
                    await self.surroundings.vault.put(self.name, msgspec.structs.replace(account, error=error.message))
            raise error
        kept = await self.kept()
        if kept is not None and kept.tokens.refresh_token != account.tokens.refresh_token:
            self._adopt(kept)  # somebody else renewed it after all
            return
        await forget_registration(self.surroundings.vault, account.client, error)
        spent = msgspec.structs.replace(account.tokens, refresh_token="", access_token="")
        await self._save(msgspec.structs.replace(account, tokens=spent, error=error.message))
        self._line = None
        self.account = None
        raise self.needed(error.message, challenge, account.provider.issuer)

    async def _save(self, account: Account) -> None:
        """Keep what was got, however long the store is away: it is the only copy."""
        limit = elapsed() + SAVING_S
        while True:
            try:
                return await self.surroundings.vault.put(self.name, account)
            except StoreUnavailable:
                if elapsed() > limit:
                    raise
                await asyncio.sleep(POLL_S)

    def _adopt(self, account: Account) -> None:
        """Use these tokens from now on."""
        self.account = account
        self._failures = 0
        self._hide(account)
        token = account.tokens.access_token
        self._line = b"Bearer " + token.encode() if token else None
        life_s, ends_at = account.tokens.life_s, account.ends_at
        if life_s is None or ends_at is None:
            self._ends = float("inf")
            return
        # A clock that was set back, or is another machine's, makes no token live longer than it was given for.
        left_s = min(ends_at - self.surroundings.wall(), life_s)
        self._ends = elapsed() + left_s
        if account.tokens.refresh_token or not self.mode.is_for_people:
            self._renew_in(max(0.0, left_s - life_s + renewal_due_s(life_s)))

    def _renew_in(self, wait_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._renew_soon)

    def _renew_soon(self) -> None:
        """In the background: nobody waits for it while the old token works."""
        with suppress(RuntimeError):  # it was closed
            self._tasks.spawn(self._renew_quietly(), f"renew-{self.server.name}")

    async def _renew_quietly(self) -> None:
        try:
            await self._fly(self._line)
        except SignInNeeded as error:
            self._tell("account.ended", "warning", error=error.message)
        except ToolcribError:
            self._failures += 1
            pause_s = min(RETRY_FIRST_S * 2**self._failures, RETRY_MAX_S)
            self._renew_in(pause_s * random.uniform(0.8, 1.0))  # noqa: S311 - so that replicas do not all come at once

    async def sign_in(self, account: Account) -> None:
        """Keep what somebody signed in to, and use it from now on."""
        self._hide(account)
        await self._save(account)
        await self.wanted.forget()
        self._adopt(account)

    # What it takes

    async def recall(self) -> None:
        """Take in what other processes know of it: who begins a sign-in asks for all that is had and wanted."""
        await self.wanted.recall()
        kept = await self.kept()
        if self.account is None and kept is not None and kept.tokens.access_token:
            self._adopt(kept)

    async def _look(self, challenge: Challenge | None) -> Discovered:
        """Find out who lets people in."""
        walk = ServerDiscovery(self._url, self.outward(), self.config.issuer)
        self.steps = walk.steps
        self.discovered = found = await walk.find(challenge)
        return found

    async def discover(self, challenge: Challenge | None = None) -> Discovered:
        """Who lets people in to this server, as it is now."""
        self.wanted.note(challenge)
        return await self._look(challenge)

    def outward(self) -> OutwardRequests:
        """The way to whoever the server names."""
        return OutwardRequests(self._url, self.surroundings.network, self.config.issuer)

    def wish(self, found: Discovered) -> TokenWish:
        """What a token is asked for: what is configured, else what the server says; with what it was refused for."""
        said = self.config.resource
        resource = said if isinstance(said, str) and said else "" if said is False else found.resource
        offered = found.server.scopes_supported if self.mode.is_for_people else ()
        wanted, account = self.wanted.scopes, self.account
        chosen = choose_scopes(self.config.scopes, wanted, found.scopes, offered)
        is_same = account is not None and account.provider.issuer == found.server.issuer
        had = account.tokens.scopes if account is not None and is_same else ()
        return TokenWish(resource, with_scopes(had, with_scopes(chosen, wanted)), self.config.audience)

    def client_of(self, account: Account) -> OAuthClient:
        """The client an account was made with; what a person configured is read anew, and is for its own issuer."""
        if not account.client.is_configured:
            return account.client
        found = configured_client(self.config, self.surroundings.env, account.client.redirect_uri)
        issuer = self.config.issuer or account.provider.issuer
        is_same = found is not None and (found.client_id, issuer) == (account.client.client_id, account.provider.issuer)
        return found if found is not None and is_same else account.client

    def needed(self, why: str, challenge: Challenge | None = None, issuer: str = "") -> SignInNeeded:
        """What a caller is told who came too early: why, where to sign in, and what was said."""
        kept = self.account.error if self.account is not None else ""
        said = why or kept or (challenge.description if challenge is not None else "")
        link = self.surroundings.link_to(self.server.name) if self.mode.is_for_people else None
        return sign_in_needed(self.server.name, said, link, self.discovered, issuer, self.wanted.scopes)

    def _hide(self, account: Account) -> None:
        tokens, client = account.tokens, account.client
        known = (tokens.access_token, tokens.refresh_token, tokens.id_token, client.client_secret)
        self.surroundings.tell_secrets(self.server.name, tuple(filter(None, known)))

    def _tell(self, name: str, level: str, **fields: object) -> None:
        self.surroundings.emit(Event(name, level, {"server": self.server.name, "user": self.user, **fields}))

    def forget(self) -> None:
        """Use its tokens no more: links that are open show nothing from the next request on."""
        self.account, self._line = None, None
        self.close()

    def close(self) -> "asyncio.Task[None] | None":
        """Renew no more, but for what is under way."""
        if self._timer is not None:
            self._timer.cancel()
        return self._flight if self._flight is not None and not self._flight.done() else None


class Accounts:
    """Every account that servers of a Crib are used with."""

    def __init__(self, around: AccountSurroundings) -> None:
        self.around = around
        self._tasks = TaskScope(self._failed)
        self._known: dict[str, ServerAccount] = {}

    def of(self, server: ServerConfig, caller: str = "") -> ServerAccount | None:
        """The account a caller uses at a server; ``None`` where nobody signs in. Its address has no references left."""
        mode = server.sign_in_mode
        if server.url is None or mode is SignInMode.HEADER:
            return None
        user = user_of(mode, caller)
        name = account_name(server.name, server.url, user)
        found = self._known.get(name)
        if found is None or found.server.oauth != server.oauth:
            if found is not None:
                found.close()
            found = self._known[name] = ServerAccount(server, user, self.around, self._tasks)
        return found

    async def kept(self) -> list[Account]:
        """Every account that somebody signed in to."""
        return [account for _, account in await self.around.vault.entries("account:", Account)]

    async def sign_out(self, account: Account) -> str:
        """Forget an account here, then have its tokens end; what the authorization server said, if it refused that."""
        name = account_name(account.server, account.url, account.user)
        await self.around.vault.remove(name)
        await WantedScopes(self.around.vault, name, account.server).forget()
        known = self._known.get(name)
        if known is not None:
            known.forget()
        out = OutwardRequests(account.url, self.around.network, account.provider.issuer)
        client = known.client_of(account) if known is not None else account.client
        return await Issuer(account.provider, out, self.around.wall).revoke_all(client, account.tokens)

    async def close(self) -> None:
        """Renew no more; what is under way is finished first, for it may be the only copy of a token."""
        flights = [flight for account in self._known.values() if (flight := account.close()) is not None]
        if flights:
            await asyncio.wait(flights, timeout=SAVING_S)
        await self._tasks.close()

    def _failed(self, name: str, error: BaseException) -> None:
        if not isinstance(error, ToolcribError):
            self.around.emit(Event("account.task.failed", "error", {"task": name, "error": type(error).__name__}))


def open_accounts(
    store: CredentialStore, env: Mapping[str, str], emit: Emit, tell_secrets: Callable[[str, tuple[str, ...]], None]
) -> Accounts:
    """The accounts that are kept in a store."""
    return Accounts(AccountSurroundings(Vault(store, VaultKey(env)), env, emit, tell_secrets=tell_secrets))
