"""One connection per server, kept alive: retries, back-off, idle reaping, and an autopsy when it ends badly.

Whoever needs the server while it is on its way back waits, for as long as their own deadline lets them; ``comeback``
says when that is. Of a server that is plainly down they hear at once.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from toolcrib.config.model import RELAYABLE
from toolcrib.core import events
from toolcrib.core.errors import ConnectionLost, InternalError, SignInNeeded, SourceUnavailable, ToolcribError
from toolcrib.core.events import Emit, Event
from toolcrib.core.kinds import LinkState
from toolcrib.core.limits import retry_after_s, try_again
from toolcrib.core.source import SourceStatus
from toolcrib.core.tasks import TaskScope
from toolcrib.sources.mcp import autopsy
from toolcrib.sources.mcp.attempt import ConnectAttempt, LinkConnector
from toolcrib.sources.mcp.autopsy import AttemptFailed, Trouble, describe_exit
from toolcrib.sources.mcp.comeback import RESTART_DELAYS_S, Comeback, Dial, SupervisorSettings
from toolcrib.sources.mcp.link import ANY_URI, UPDATED, ExitTrace, Link, LinkEvents, ServerRequest, Silence, bury
from toolcrib.sources.mcp.negotiate import Agreement, ClientIdentity, listen_params
from toolcrib.wire import eras
from toolcrib.wire.jsonrpc import encode
from toolcrib.wire.messages import LOG_LEVELS

SERVER_NOISE = "server.noise"

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
    installing: str = ""
    """What its command fetches right now."""
    attempt: int = 0
    """Which attempt since the last connection is under way, or failed last."""
    since: float = 0.0
    """When the present phase began, by the wall clock."""
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
        self._settings, self._emit = settings, emit
        self.offer = offer
        """What the server is told of its client."""
        self._connector = LinkConnector(server, dial, settings)
        self._connector.installing, self._connector.repairing = self._note_installing, self._note_repair
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
        self.installing: Callable[[bool], None] = _ignore_phase
        """Told when its command begins to fetch what it runs, and when that is over."""
        self.is_of_one = False
        """Whether only one caller uses it."""
        self.stray: Callable[[str, bytes], None] | None = None
        """Takes what the server says unasked, where its one client wants to hear that."""
        self.first_id = 0

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

    def remains(self) -> ExitTrace:
        """What the present or the last connection left to look at."""
        return self._state.link.remains() if self._state.link is not None else self._state.last_remains

    def status(self) -> SourceStatus:
        """How the server is doing right now."""
        state, remains = self._state, self.remains()
        connected = state.link is not None and state.link.is_open
        underway = LinkState.INSTALLING if state.installing else LinkState.CONNECTING
        waiting = underway if state.flight else LinkState.FAILING if state.error else LinkState.IDLE
        return SourceStatus(
            state=LinkState.CONNECTED if connected else waiting,
            doing=state.installing,
            era=self.remembered,
            pid=remains.pid,
            restarts=state.restarts,
            error="" if connected or state.error is None else str(state.error),
            stdout_noise=remains.noise_count,
            isolation=remains.isolation,
            server_info=state.agreement.server_info if state.agreement else {},
            details={} if connected or state.error is None else state.error.details,
            since=state.since,
            attempt=state.attempt,
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
        if isinstance(state.error, SignInNeeded):
            raise state.error
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
            self._state.attempt, self._state.since = self._state.attempt + 1, time.time()
            self._tell(events.SERVER_CONNECTING, attempt=number, attempts=len(delays_s), delay_s=delay_s)
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

    def explain_loss(self, link: Link, lost: ConnectionLost, phase: str) -> SourceUnavailable:
        """Why a link ended in the middle of something, with the server's last words and what to try."""
        remains = link.remains()
        facts = {key: lost.details[key] for key in autopsy.FACTS if key in lost.details}
        return self._explain(Trouble(phase, autopsy.reason_of(lost, remains, 0), remains, lost.hint, facts))

    def _explain(self, trouble: Trouble, attempts: int = 1) -> SourceUnavailable:
        return autopsy.explain(self.server, trouble, attempts=attempts, redactor=self._settings.redactor)

    async def _attempt(self) -> Link:
        try:
            attempt = ConnectAttempt(self._link_events(), self._tasks, self.offer)
            link, agreement = await self._connector.connect(attempt, self.remembered)
        except AttemptFailed:
            self._state.last_remains = self._connector.remains
            raise
        self._adopt(link, agreement)
        return link

    def _note_installing(self, words: str) -> None:
        """What its command fetches; nothing when that is over."""
        state = self._state
        if words == state.installing:
            return
        is_other_phase = bool(words) != bool(state.installing)
        state.installing = words
        if is_other_phase:
            state.since = time.time()
            self.installing(bool(words))
        if words:
            self._tell(events.SERVER_INSTALLING, what=words)

    def _note_repair(self, words: str) -> None:
        self._tell(events.SERVER_REPAIRED, "warning", what=words)

    def _link_events(self) -> LinkEvents:
        told = self.tell_changed, self._lost, self._noise, self._settings.redactor, self._updated
        asking = self.offer.asking
        own = asking.complete, asking.standing, self.stray, self.first_id
        return LinkEvents(*told, self.is_of_one, self._asked_blindly, *own)

    def _adopt(self, link: Link, agreement: Agreement) -> None:
        state = self._state
        if state.agreement is not None:
            state.restarts += 1
        state.link, state.agreement, state.silence = link, agreement, Silence()
        state.connected_at = state.last_used = self._loop.time()
        state.attempt, state.since = 0, time.time()
        self.comeback.note_connected()
        self.remembered = agreement.version
        state.log_level = ""
        asks = any(name in RELAYABLE for name in self.offer.capabilities)
        may_ask = asks and not eras.is_modern(agreement.version)  # some ask on the standing stream
        may_say = self.stray is not None and not eras.is_modern(agreement.version)
        if agreement.tells_of_changes or may_ask or may_say or self._watched:
            link.listen(listen_params(self.offer, agreement, self._watched))
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
        if self.stray is not None and uri != ANY_URI and uri not in self._watched:
            self.stray(UPDATED, encode({"uri": uri}))

    async def watch(self, uris: frozenset[str]) -> None:
        """Be told when one of these resources changes, and of no other; raises what the server says against it."""
        if not uris and self._state.link is None:
            self._watched = uris
            return
        link = await self.link()  # before: a new one takes up what was watched by itself
        before, self._watched = self._watched, uris
        if eras.is_modern(self.remembered):
            link.listen(listen_params(self.offer, self.agreed, uris))
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


def _ignore_phase(is_installing: bool) -> None:
    """The default listener: does nothing."""


def _nothing() -> None:
    """The default listener: does nothing."""
