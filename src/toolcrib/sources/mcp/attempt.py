"""One attempt to connect to a server: by which way, in which era, after which install; what is damaged is repaired."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from toolcrib.core.errors import InternalError, ToolcribError
from toolcrib.core.tasks import TaskScope
from toolcrib.sources.mcp.autopsy import AttemptFailed
from toolcrib.sources.mcp.comeback import Dial, SupervisorSettings
from toolcrib.sources.mcp.installing import Damage, Install, InstallQueue, find_damage, remove_entry
from toolcrib.sources.mcp.link import ExitTrace, Link, LinkEvents, bury
from toolcrib.sources.mcp.negotiate import Agreement, ClientIdentity, HandshakePatience, negotiate
from toolcrib.wire import eras


class OpenLink(NamedTuple):
    """An open link, and what was settled over it."""

    link: Link
    agreement: Agreement


class ConnectAttempt(NamedTuple):
    """Who listens to the link of an attempt, who closes it, and what the server is told of its client."""

    events: LinkEvents
    tasks: TaskScope
    offer: ClientIdentity

    async def part_from(self, link: Link | None, error: Exception) -> ExitTrace:
        """What a failed attempt leaves; one that hangs takes long to end, and nothing more is to be learnt from it."""
        if link is None or not isinstance(error, TimeoutError):
            return await bury(link)
        self.tasks.spawn(bury(link), "bury")
        return link.remains()


class LinkConnector:
    """Makes attempts to connect to one server."""

    def __init__(self, server: str, dial: Dial, settings: SupervisorSettings) -> None:
        self._server, self._settings = server, settings
        self.dial = self._first_dial = dial
        self._installs = settings.installs or InstallQueue()
        self._repaired: set[str] = set()
        """What was damaged and removed since it was last connected: each once, or it would go on for ever."""
        self.installing: Callable[[str], None] = _ignore
        """Told what is fetched, and with nothing when that is over."""
        self.repairing: Callable[[str], None] = _ignore
        """Told of what is damaged before it is removed."""
        self.remains = ExitTrace()
        """What the last failed attempt left to look at."""

    async def connect(self, attempt: ConnectAttempt, remembered: str) -> OpenLink:
        """One try; a server that dies of an unknown first question is asked again in the old way at once, one that
        takes no messages in this way in the other one, and one whose package is damaged after that was removed."""
        try:
            return await self._connect_somehow(attempt, remembered)
        except AttemptFailed as failed:
            if not await self._has_repaired(failed):
                raise
        return await self._connect_somehow(attempt, remembered)

    async def _connect_somehow(self, attempt: ConnectAttempt, remembered: str) -> OpenLink:
        try:
            return await self._connect(attempt, remembered)
        except AttemptFailed as failed:
            if failed.died_of_discover and self._damage(failed) is None:
                return await self._connect(attempt, eras.LATEST_HANDSHAKE)
            other = self._settings.fallback if self.dial is self._first_dial else self._first_dial
            if other is None or not failed.is_refused_post:
                raise
            return await self._connect_by(other, attempt, remembered, failed)

    async def _connect_by(
        self, other: Dial, attempt: ConnectAttempt, remembered: str, failed: AttemptFailed
    ) -> OpenLink:
        """Try the other way, and stay with it; if it is none either, the first failure is the one to tell of."""
        self.dial = other
        try:
            return await self._connect(attempt, remembered)
        except AttemptFailed:
            self.dial = self._first_dial
            raise failed from None

    def _damage(self, failed: AttemptFailed) -> Damage | None:
        damage = find_damage(self._settings.fetch, failed.trouble.remains.stderr)
        return None if damage is None or str(damage.entry) in self._repaired else damage

    async def _has_repaired(self, failed: AttemptFailed) -> bool:
        """Whether what its command fetched was damaged, and is removed now."""
        damage = await asyncio.to_thread(self._damage, failed)
        if damage is None:
            return False
        self._repaired.add(str(damage.entry))
        self.repairing(f"what was fetched for it is damaged; {damage.entry} is removed and fetched anew")
        for part in damage.parts:
            await asyncio.to_thread(remove_entry, part)
        return True

    async def _connect(self, attempt: ConnectAttempt, remembered: str) -> OpenLink:
        link: Link | None = None
        phase, settings = "starting", self._settings
        patience = HandshakePatience(settings.first_answer_timeout_s, settings.handshake_timeout_s)
        install = self._install(patience)
        try:
            async with patience.limit:
                if install is not None:
                    await install.begin(is_cold=not remembered)
                link = await self.dial(attempt.events)
                phase = "shaking hands"
                if install is not None:
                    install.watch(link)
                agreement = await negotiate(link, attempt.offer, remembered, patience)
        except (ToolcribError, TimeoutError, OSError) as error:
            remains = self.remains = await attempt.part_from(link, error)
            raise AttemptFailed(phase, error, remains, remembered, patience) from error
        except Exception as error:  # it may quote a header or a variable: only its kind is told
            await bury(link)
            kind = type(error).__name__
            raise InternalError(f"Server {self._server!r} could not be connected to: {kind}.") from error
        except BaseException:
            await self._leave_whole(link, install)
            raise
        finally:
            if install is not None:
                await install.close()
        self._repaired.clear()
        return OpenLink(link, agreement)

    def _install(self, patience: HandshakePatience) -> Install | None:
        fetch = self._settings.fetch
        return None if fetch is None else Install(fetch, self._installs, patience, self.installing)

    async def _leave_whole(self, link: Link | None, install: Install | None) -> None:
        """End a server while toolcrib stops: one that still fetches is asked first, and what it leaves is removed if it
        is not complete, so that it does not stand in anybody's way."""
        was_fetching = link is not None and install is not None and install.is_underway
        await bury(link)
        fetch = self._settings.fetch
        if was_fetching and fetch is not None and fetch.entry is not None and not fetch.is_there:
            self.repairing(f"its install was interrupted; {fetch.entry} is removed")
            remove_entry(fetch.entry)


def _ignore(words: str) -> None:
    """The default listener: does nothing."""
