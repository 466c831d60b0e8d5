"""One connection per server, kept alive: retries, back-off, idle reaping, and an autopsy when it ends badly.

Whoever needs the server while it is on its way back waits, for as long as their own deadline lets them; ``comeback``
says when that is. Of a server that is plainly down they hear at once.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from toolcrib.config.model import RELAYABLE
from toolcrib.core import events
from toolcrib.core.errors import InternalError, SourceUnavailable, ToolcribError
from toolcrib.core.events import Emit, Event
from toolcrib.core.kinds import LinkState
from toolcrib.core.limits import retry_after_s, try_again
from toolcrib.core.source import SourceStatus
from toolcrib.core.tasks import TaskScope
from toolcrib.sources.mcp import autopsy
from toolcrib.sources.mcp.autopsy import AttemptFailed, Trouble, describe_exit
from toolcrib.sources.mcp.comeback import Comeback
from toolcrib.sources.mcp.link import ANY_URI, ExitTrace, Link, LinkEvents, ServerRequest, Silence, bury
from toolcrib.sources.mcp.negotiate import Agreement, ClientIdentity, listen_params, negotiate
from toolcrib.sources.mcp.redactor import NO_SECRETS, Redactor
from toolcrib.wire import eras
from toolcrib.wire.jsonrpc import encode
from toolcrib.wire.messages import LOG_LEVELS

RESTART_DELAYS_S = (0.0, 0.0, 0.2, 0.5)
"""Pauses before the attempts to bring back a server that is known to be good."""


@dataclass(frozen=True, slots=True)
class SupervisorSettings:
    """How patiently a server is brought up and how long it may idle."""

    delays_s: tuple[float, ...] = (0.0, 2.0, 4.0)
    """Pause before each attempt; as many attempts as entries."""
    handshake_timeout_s: float = 30.0
    idle_timeout_s: float = 600.0
    redactor: Redactor = NO_SECRETS
    """Takes the secrets out of everything the server says."""
    fallback: "Dial | None" = None
    """Another way to the server, for one that refuses messages on the first; kept as long as it works."""


SERVER_NOISE = "server.noise"
Dial = Callable[[LinkEvents], Awaitable[Link]]

SILENCES_MAX = 3
SUSPECT_AFTER_S = 30.0


@dataclass(slots=True)
class _State:
    link: Link | None = None
    agreement: Agreement | None = None
    flight: asyncio.Task[Link] | None = None
    error: SourceUnavailable | None = None
    pause: asyncio.Future[None] | None = None
    """What the flight waits for before it tries again."""
    connected_at: float = 0.0
    last_used: float = 0.0
    restarts: int = 0
    log_level: str = ""
    """What a server of the handshake era was told to log, over this link."""
    silence: Silence = field(default_factory=Silence)
    last_remains: ExitTrace = field(default_factory=ExitTrace)


class Supervisor:
    """Hands out the server's open link; brings it up when there is none."""

    def __init__(
        self, server: str, dial: Dial, offer: ClientIdentity, settings: SupervisorSettings, emit: Emit
    ) -> None:
        self.server = server
        self._dial, self._offer, self._settings, self._emit = dial, offer, settings, emit
        self._first_dial = dial
        self._loop = asyncio.get_running_loop()
        self._state = _State()
        self.comeback = Comeback()
        self._tasks = TaskScope(self._task_failed)
        self._reaper: asyncio.TimerHandle | None = None
        self._closed = False
        self.remembered = ""
        self.tools_changed: Callable[[], None] = _nothing
        self.updated: Callable[[str], None] = ignore_news
        self._watched: frozenset[str] = frozenset()
        self.attempt_failed: Callable[[], None] = _nothing
        self.asked_blindly: Callable[[], None] = _nothing
        self.is_of_one = False
        """Whether only one caller uses it."""

    @property
    def current(self) -> Link | None:
        """The open link, if there is one; marks it as used."""
        return self.use()

    def use(self) -> Link | None:
        """The same as a method, for every call: a property costs it 0.2 µs more before Python 3.12."""
        state = self._state
        link = state.link
        if link is not None and link.is_open:
            state.last_used = self._loop.time()
            return link
        return None

    @property
    def is_idle(self) -> bool:
        """Whether nobody uses it: no call is under way, nobody waits for it, and nothing is watched."""
        state = self._state
        is_busy = state.link is not None and state.link.is_busy
        return not is_busy and state.flight is None and not self._watched

    @property
    def last_used(self) -> float:
        """When somebody last wanted its link, by the event loop's clock."""
        return self._state.last_used

    @property
    def agreement(self) -> Agreement | None:
        """What was settled with the server when it was last connected."""
        return self._state.agreement

    @property
    def agreed(self) -> Agreement:
        """The same; nothing but a revision before the first connection."""
        return self._state.agreement or Agreement(self.remembered)

    @property
    def error(self) -> SourceUnavailable | None:
        """Why the server is not there, when it is not."""
        return self._state.error

    @property
    def restarts(self) -> int:
        """How often the connection had to be made anew."""
        return self._state.restarts

    def remains(self) -> ExitTrace:
        """What the present or the last connection left to look at."""
        return self._state.link.remains() if self._state.link is not None else self._state.last_remains

    def status(self) -> SourceStatus:
        """How the server is doing right now."""
        state, remains = self._state, self.remains()
        connected = state.link is not None and state.link.is_open
        waiting = LinkState.CONNECTING if state.flight else LinkState.FAILING if state.error else LinkState.IDLE
        return SourceStatus(
            state=LinkState.CONNECTED if connected else waiting,
            era=self.remembered,
            pid=remains.pid,
            restarts=state.restarts,
            error="" if connected or state.error is None else str(state.error),
            stdout_noise=remains.noise_count,
            isolation=remains.isolation,
            server_info=state.agreement.server_info if state.agreement else {},
            details={} if connected or state.error is None else state.error.details,
        )

    def hide_secrets(self, text: str) -> str:
        """``text`` without the values that only the server may know."""
        return self._settings.redactor.text(text)

    def clean(self, error: ToolcribError) -> None:
        """Take the secrets out of an error that is on its way to others."""
        self._settings.redactor.error(error)

    def forgive(self) -> None:
        """Forget past failures, so that the next need tries at once; a link that seems to hang is dropped."""
        state = self._state
        self.comeback.forgive()
        self._end_pause()
        if state.link is None:
            return
        heard_at = state.link.remains().heard_at
        waits_long = state.link.is_busy and self._loop.time() - max(heard_at, state.last_used) >= SUSPECT_AFTER_S
        if waits_long or state.silence.lasts(heard_at):
            self._drop()

    def note_silence(self, link: Link, asked_at: float, patience: int = SILENCES_MAX) -> None:
        """A question was given up unanswered; ``patience`` of them in a row, and nothing heard, end the link."""
        state, heard_at = self._state, link.remains().heard_at
        if link is state.link:
            state.silence.note(asked_at, self.now(), heard_at)
            if state.silence.count >= patience and state.silence.lasts(heard_at):
                self._drop()

    def now(self) -> float:
        """The time by the clock that ``note_silence`` goes by."""
        return self._loop.time()

    def _drop(self) -> None:
        """Let go of a link that answers nothing; the next need opens another."""
        if self._state.link is not None:
            self._state.error = self._note_loss(self._state.link, "answered nothing any more")

    def turn_to_handshake(self) -> None:
        """Speak the handshake era from the next request on; those under way over the present link are answered."""
        self.remembered = eras.LATEST_HANDSHAKE
        link, self._state.link = self._state.link, None
        if link is not None:
            self._tasks.spawn(bury(link, SUSPECT_AFTER_S if link.is_busy else 0), f"retire-{self.server}")

    async def link(self) -> Link:
        """The open link; callers that come while it is being opened share one attempt, and the pause before it."""
        while True:
            link = self.current
            if link is not None:
                return link
            if self._closed:
                raise self._stopped()
            self._refuse_while_down()
            flight = self._state.flight
            if flight is None:
                flight = self._state.flight = self._tasks.spawn(self._bring_up(), f"connect-{self.server}")
            await asyncio.wait([flight])
            if flight.cancelled():
                raise self._stopped()
            error = flight.exception()
            if error is None:
                return flight.result()
            if not isinstance(error, SourceUnavailable) or not self.comeback.is_awaited(self._loop.time()):
                raise error

    def _stopped(self) -> SourceUnavailable:
        return SourceUnavailable(f"Server {self.server!r} was stopped.", details={"server": self.server})

    def _refuse_while_down(self) -> None:
        state, now = self._state, self._loop.time()
        wait_s = self.comeback.wait_s(now)
        if state.error is None or wait_s <= 0 or state.flight is not None or self.comeback.is_awaited(now):
            return
        hint = f"{state.error.hint} {try_again(wait_s)}".lstrip()
        details = state.error.details | {"retry_after_s": retry_after_s(wait_s)}
        raise SourceUnavailable(state.error.message, hint=hint, details=details)

    async def _bring_up(self) -> Link:
        try:
            await self._wait_out_pause()
            link = await self._try_repeatedly()
        finally:
            self._state.flight = None
        self._state.error = None
        return link

    async def _wait_out_pause(self) -> None:
        pause_s = self.comeback.wait_s(self._loop.time())
        if pause_s <= 0:
            return
        self._state.pause = pause = asyncio.get_running_loop().create_future()
        timer = self._loop.call_later(pause_s, self._end_pause)
        try:
            await pause
        finally:
            timer.cancel()
            self._state.pause = None

    def _end_pause(self) -> None:
        pause = self._state.pause
        if pause is not None and not pause.done():
            pause.set_result(None)

    async def _try_repeatedly(self) -> Link:
        trouble, number, is_final = Trouble("starting", "was never tried"), 0, False
        delays_s = self._delays_s()
        for number, delay_s in enumerate(delays_s, 1):
            await asyncio.sleep(delay_s)
            self._tell(events.SERVER_CONNECTING, attempt=number, attempts=len(delays_s))
            try:
                link = await self._attempt()
            except AttemptFailed as failed:
                trouble, is_final = failed.trouble, failed.is_final
                self._state.error = self._explain(trouble, number)
                self._tell(events.SERVER_CONNECTING, "warning", attempt=number, error=trouble.reason)
                self.attempt_failed()
                if is_final:
                    break
                continue
            self._tell(events.SERVER_CONNECTED, attempt=number, era=self.remembered)
            return link
        error = self._state.error = self._explain(trouble, number)
        self.comeback.note_failed_attempts(self._loop.time(), is_final=is_final)
        raise error

    def _delays_s(self) -> tuple[float, ...]:
        """A server that is known to be good is not made to wait for its next attempt."""
        configured = self._settings.delays_s
        if len(configured) > 1 and self.comeback.is_known_good(self._loop.time()):
            return RESTART_DELAYS_S
        return configured

    def _explain(self, trouble: Trouble, attempts: int = 1) -> SourceUnavailable:
        return autopsy.explain(self.server, trouble, attempts=attempts, redactor=self._settings.redactor)

    async def _attempt(self) -> Link:
        """One try; a server that dies of an unknown first question is asked again in the old way at once, and one that
        takes no messages in this way in the other one."""
        try:
            return await self._connect_and_agree(self.remembered)
        except AttemptFailed as failed:
            if failed.died_of_discover:
                return await self._connect_and_agree(eras.LATEST_HANDSHAKE)
            other = self._settings.fallback if self._dial is self._first_dial else self._first_dial
            if other is None or not failed.is_refused_post:
                raise
            return await self._attempt_by(other, failed)

    async def _attempt_by(self, other: Dial, failed: AttemptFailed) -> Link:
        """Try the other way, and stay with it; if it is none either, the first failure is the one to tell of."""
        self._dial = other
        try:
            return await self._connect_and_agree(self.remembered)
        except AttemptFailed:
            self._dial = self._first_dial
            raise failed from None

    async def _connect_and_agree(self, remembered: str) -> Link:
        link: Link | None = None
        phase = "starting"
        try:
            async with asyncio.timeout(self._settings.handshake_timeout_s):
                link = await self._dial(self._link_events())
                phase = "shaking hands"
                agreement = await negotiate(link, self._offer, remembered)
        except (ToolcribError, TimeoutError, OSError) as error:
            remains = self._state.last_remains = await self._part_from(link, error)
            raise AttemptFailed(phase, error, remains, remembered, self._settings.handshake_timeout_s) from error
        except Exception as error:  # it may quote a header or a variable: only its kind is told
            await bury(link)
            kind = type(error).__name__
            raise InternalError(f"Server {self.server!r} could not be connected to: {kind}.") from error
        except BaseException:
            await bury(link)
            raise
        self._adopt(link, agreement)
        return link

    def _link_events(self) -> LinkEvents:
        told = self.tell_changed, self._lost, self._noise, self._settings.redactor, self._updated
        asking = self._offer.asking
        return LinkEvents(*told, self.is_of_one, self._asked_blindly, asking.complete, asking.standing)

    async def _part_from(self, link: Link | None, error: Exception) -> ExitTrace:
        """What a failed attempt leaves; one that hangs takes long to end, and nothing more is to be learnt from it."""
        if link is None or not isinstance(error, TimeoutError):
            return await bury(link)
        self._tasks.spawn(bury(link), f"bury-{self.server}")
        return link.remains()

    def _adopt(self, link: Link, agreement: Agreement) -> None:
        state = self._state
        if state.agreement is not None:
            state.restarts += 1
        state.link, state.agreement, state.silence = link, agreement, Silence()
        state.connected_at = state.last_used = self._loop.time()
        self.comeback.note_connected()
        self.remembered = agreement.version
        state.log_level = ""
        asks = any(name in RELAYABLE for name in self._offer.capabilities)
        may_ask = asks and not eras.is_modern(agreement.version)  # some ask on the standing stream
        if agreement.tells_of_changes or may_ask or self._watched:
            link.listen(listen_params(self._offer, agreement, self._watched))
        if self._watched:
            self._tasks.spawn(self._watch_again(link), f"watch-{self.server}")
        self._watch_idleness()

    def tell_changed(self) -> None:
        """Something says that what the server offers changed."""
        self.tools_changed()

    def _asked_blindly(self) -> None:
        self.asked_blindly()

    def _updated(self, uri: str) -> None:
        for watched in self._watched if uri == ANY_URI else (uri,):
            self.updated(watched)

    async def watch(self, uris: frozenset[str]) -> None:
        """Be told when one of these resources changes, and of no other; raises what the server says against it."""
        if not uris and self._state.link is None:
            self._watched = uris
            return
        link = await self.link()  # before: a new one takes up what was watched by itself
        before, self._watched = self._watched, uris
        if eras.is_modern(self.remembered):
            link.listen(listen_params(self._offer, self.agreed, uris))
            return
        link.listen(b"{}")  # where they are told of
        try:
            for uri in uris - before:
                await self._subscribe(link, "resources/subscribe", uri)
        except BaseException as error:
            self._watched -= uris - before
            if isinstance(error, ToolcribError):
                self.clean(error)
            raise
        for uri in before - uris:
            with suppress(ToolcribError):
                await self._subscribe(link, "resources/unsubscribe", uri)

    async def _subscribe(self, link: Link, method: str, uri: str) -> None:
        await link.ask(ServerRequest(link.new_id(), method, encode({"uri": uri}), version=self.remembered))

    async def _watch_again(self, link: Link) -> None:
        """After a new connection: subscribe to what is watched, which may have changed in between."""
        for uri in sorted(self._watched) if not eras.is_modern(self.remembered) else ():
            with suppress(ToolcribError):
                await self._subscribe(link, "resources/subscribe", uri)
        self._updated(ANY_URI)

    async def want_log(self, link: Link, level: str) -> None:
        """Have a server of the handshake era log at least this; what is more than one client wants is kept from it."""
        state = self._state
        is_enough = state.log_level and LOG_LEVELS.index(state.log_level) <= LOG_LEVELS.index(level)
        if is_enough or link is not state.link or "logging" not in self.agreed.features:
            return
        state.log_level = level
        with suppress(ToolcribError):
            question = ServerRequest(link.new_id(), "logging/setLevel", encode({"level": level}))
            await link.ask(question)

    def _lost(self) -> None:
        """The link ended by itself: note why, and let quick deaths count."""
        state = self._state
        if state.link is None or state.link.is_open or self._closed:
            return
        state.error = self._note_loss(state.link, describe_exit(state.link.remains()))
        now = self._loop.time()
        self.comeback.note_loss(now, now - state.connected_at)

    def _note_loss(self, link: Link, reason: str) -> SourceUnavailable:
        """Part with a link: keep what it left, tell, close it in the background."""
        state = self._state
        state.link, state.last_remains = None, link.remains()
        self._tell(events.SERVER_LOST, "warning", error=reason)
        self._tasks.spawn(bury(link), f"bury-{self.server}")
        return self._explain(Trouble("running", reason, state.last_remains))

    def _noise(self, line: str) -> None:
        self._tell(SERVER_NOISE, "warning", line=autopsy.show_noise(line, self._settings.redactor))

    def _watch_idleness(self) -> None:
        if self._reaper is not None:
            self._reaper.cancel()
        if self._settings.idle_timeout_s > 0:
            self._reaper = self._loop.call_later(self._settings.idle_timeout_s, self._reap_if_idle)

    def _reap_if_idle(self) -> None:
        state = self._state
        idle_s = self._loop.time() - state.last_used
        if state.link is None or self._closed:
            return
        if idle_s >= self._settings.idle_timeout_s and not state.link.is_busy and not self._watched:
            link, state.link = state.link, None
            state.last_remains = link.remains()
            self._tell(events.SERVER_STOPPED, reason="idle")
            self._tasks.spawn(link.close(), f"reap-{self.server}")
            return
        self._reaper = self._loop.call_later(max(1.0, self._settings.idle_timeout_s - idle_s), self._reap_if_idle)

    async def close(self) -> None:
        """Stop the server; safe to call twice."""
        self._closed = True
        if self._reaper is not None:
            self._reaper.cancel()
        link, self._state.link = self._state.link, None
        try:
            if link is not None:
                self._state.last_remains = link.remains()
                await link.close()
        finally:
            await self._tasks.close()

    def _tell(self, name: str, level: str = "info", **fields: object) -> None:
        clean = {key: self.hide_secrets(value) if isinstance(value, str) else value for key, value in fields.items()}
        self._emit(Event(name, level, {"server": self.server, **clean}))

    def _task_failed(self, name: str, error: BaseException) -> None:
        if isinstance(error, InternalError) or not isinstance(error, ToolcribError):
            kind = type(error.__cause__ or error).__name__
            self._tell("server.task.failed", "error", task=name, error=kind)


def ignore_news(uri: str) -> None:
    """Where nobody wants to hear that a resource changed."""
    del uri


def _nothing() -> None:
    """The default listener: does nothing."""
