"""Supervision: one connection per server, brought up patiently, given up openly, found again."""

import asyncio

import pytest

from toolcrib.config.model import ServerConfig
from toolcrib.core import events
from toolcrib.core.errors import ConfigError, ConnectionLost, InternalError, RemoteError, SourceUnavailable
from toolcrib.core.events import Event
from toolcrib.core.tasks import TaskScope
from toolcrib.sources.mcp import comeback, supervise
from toolcrib.sources.mcp.comeback import SupervisorSettings
from toolcrib.sources.mcp.http_link import HttpLink
from toolcrib.sources.mcp.link import ExitTrace, LinkEvents
from toolcrib.sources.mcp.negotiate import ClientIdentity, HandshakePatience, negotiate
from toolcrib.sources.mcp.redactor import Redactor
from toolcrib.sources.mcp.supervise import Supervisor
from toolcrib.testing import FakeServer, ManualClock

OFFER = ClientIdentity({"name": "toolcrib", "version": "1"}, {})


class Watched(Supervisor):
    """A supervisor by a clock that stands still, with everything it tells."""

    def __init__(self, server: FakeServer, **settings: object) -> None:
        self.events: list[Event] = []
        wishes = SupervisorSettings(**({"delays_s": (0.0, 0.0, 0.0)} | settings))
        super().__init__("files", server.dial, OFFER, wishes, self.events.append)
        self.clock = ManualClock(1000.0)
        self._loop = _Loop(self._loop, self.clock)

    def told(self, name: str) -> list[dict]:
        return [{k: v for k, v in event.fields.items() if k != "server"} for event in self.events if event.name == name]


class _Loop:
    """The running loop with another clock; timers wait to be rung."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: ManualClock) -> None:
        self._loop, self.time, self.timers, self.pauses = loop, clock, [], []

    def ring_pause(self, supervisor: "Watched") -> None:
        """Let the pause pass that somebody waits out, if there is one."""
        if supervisor._state.pause is not None:
            self.time.advance(self.pauses[-1])
            supervisor._end_pause()

    def call_later(self, delay_s: float, callback, *args):
        self.timers.append((delay_s, callback))
        if callback.__name__ == "_end_pause":
            self.pauses.append(delay_s)
        return self._loop.call_later(3600, callback, *args)


@pytest.fixture
async def supervised():
    """Makes supervisors and closes them afterwards."""
    made: list[Supervisor] = []

    def make(server: FakeServer, **settings: object) -> Watched:
        made.append(Watched(server, **settings))
        return made[-1]

    yield make
    for supervisor in made:
        await supervisor.close()


async def test_nothing_is_dialled_before_the_first_need(supervised):
    """And the status says so."""
    server = FakeServer()
    supervisor = supervised(server)

    assert (server.dialled, supervisor.current, supervisor.status().state) == (0, None, "idle")


async def test_the_open_link_is_handed_out_again(supervised):
    """One connection serves everybody."""
    server = FakeServer()
    supervisor = supervised(server)

    links = [await supervisor.link() for _ in range(3)]

    assert links == [server.link] * 3
    assert (server.dialled, supervisor.current) == (1, server.link)
    status = supervisor.status()
    assert (status.state, status.era, status.server_info) == (
        "connected",
        "2025-11-25",
        {"name": "fake", "version": "1"},
    )
    assert supervisor.told(events.SERVER_CONNECTED) == [{"attempt": 1, "era": "2025-11-25"}]


async def test_many_callers_share_one_attempt(supervised):
    """A single flight."""
    server = FakeServer()
    supervisor = supervised(server)

    links = await asyncio.gather(*(supervisor.link() for _ in range(20)))

    assert (set(links), server.dialled) == ({server.link}, 1)


async def test_a_caller_that_gives_up_does_not_end_the_others_attempt(supervised):
    """Its cancellation is its own."""
    server = FakeServer()
    supervisor = supervised(server)
    impatient, patient = asyncio.create_task(supervisor.link()), asyncio.create_task(supervisor.link())
    await asyncio.sleep(0)

    impatient.cancel()

    assert await patient is server.link
    assert (impatient.cancelled(), server.dialled) == (True, 1)


async def test_a_failed_attempt_is_followed_by_the_next_one(supervised):
    """Each is told, and success after a retry says so."""
    server, stumbles = FakeServer(), []
    server.refusals = [SourceUnavailable("not yet."), OSError("no")]
    supervisor = supervised(server)
    supervisor.attempt_failed = lambda: stumbles.append(server.dialled)

    assert await supervisor.link() is server.link

    assert supervisor.told(events.SERVER_CONNECTING) == [
        {"attempt": 1, "attempts": 3, "delay_s": 0.0},
        {"attempt": 1, "error": "not yet"},
        {"attempt": 2, "attempts": 3, "delay_s": 0.0},
        {"attempt": 2, "error": "OSError: no"},
        {"attempt": 3, "attempts": 3, "delay_s": 0.0},
    ]
    assert supervisor.told(events.SERVER_CONNECTED) == [{"attempt": 3, "era": "2025-11-25"}]
    assert stumbles == [1, 2]


async def test_the_pauses_before_each_attempt_are_the_configured_ones(supervised, monkeypatch):
    """0, 2 and 4 seconds unless somebody says otherwise."""
    server, pauses = FakeServer(), []
    server.refusals = [SourceUnavailable("no") for _ in range(3)]
    supervisor = supervised(server, delays_s=SupervisorSettings().delays_s)
    real_sleep = asyncio.sleep

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await real_sleep(0)

    monkeypatch.setattr(supervise.asyncio, "sleep", sleep)
    with pytest.raises(SourceUnavailable):
        await supervisor.link()

    assert [pause for pause in pauses if pause] == [2.0, 4.0]
    begun = [told for told in supervisor.told(events.SERVER_CONNECTING) if "error" not in told]
    assert [(told["attempt"], told["delay_s"]) for told in begun] == [(1, 0.0), (2, 2.0), (3, 4.0)]


@pytest.mark.parametrize("attempts", [1, 2, 5])
async def test_after_the_last_attempt_everybody_is_told_why(supervised, attempts):
    """How many, why, the server's own words, and that service goes on."""
    server = FakeServer({"server/discover": ConnectionLost("x"), "initialize": ConnectionLost("x")})
    server.remains = ExitTrace(7, 3, ["boom"])
    supervisor = supervised(server, delays_s=(0.0,) * attempts)

    outcomes = await asyncio.gather(*(supervisor.link() for _ in range(3)), return_exceptions=True)

    tried = f" after {attempts} attempts" if attempts > 1 else ""
    assert {str(outcome) for outcome in outcomes} == {
        f"Server 'files' is not available{tried}: its process exited with code 3 while shaking hands."
        " It wrote: 'boom'. Try: toolcrib servers logs files. Everything else goes on without it."
    }
    assert outcomes[0].details["attempts"] == attempts
    assert all(not link.is_open for link in server.links)
    status = supervisor.status()
    assert (status.state, status.error, status.details) == ("failing", str(outcomes[0]), outcomes[0].details)


async def test_without_any_attempt_the_server_is_unavailable(supervised):
    """An empty list of pauses is odd, not a crash."""
    with pytest.raises(SourceUnavailable, match="was never tried"):
        await supervised(FakeServer(), delays_s=()).link()


async def test_trouble_that_no_retry_can_mend_ends_the_attempts(supervised):
    """A missing program is missing the next time too."""
    server = FakeServer()
    server.refusals = [SourceUnavailable("There is no program 'x'.", details={"final": True})]

    with pytest.raises(SourceUnavailable, match="There is no program 'x' while starting"):
        await supervised(server).link()

    assert server.dialled == 1


async def test_a_server_that_does_not_answer_is_given_up_in_time(supervised):
    """The message says how long it had."""
    server = FakeServer()
    supervisor = supervised(server, delays_s=(0.0,), handshake_timeout_s=0.001)

    original = server.dial

    async def held(link_events):
        link = await original(link_events)
        link.held = {"server/discover"}
        return link

    supervisor._connector.dial = held
    with pytest.raises(SourceUnavailable, match=r"it did not answer within 0\.001 s while shaking hands"):
        await supervisor.link()

    assert not server.link.is_open


async def test_a_server_that_answers_with_an_error_is_quoted(supervised):
    """Its own reason, not ours."""
    server = FakeServer({"initialize": RemoteError(-32000, "set API_KEY first")})

    with pytest.raises(SourceUnavailable, match="it answered with error -32000: set API_KEY first"):
        await supervised(server, delays_s=(0.0,)).link()


async def test_while_backing_off_nobody_dials(supervised):
    """The same error at once, with the time that is left; then one more try, and a longer pause."""
    server = FakeServer()
    server.refusals = [SourceUnavailable("no") for _ in range(3)]
    supervisor = supervised(server, delays_s=(0.0,))
    waits = []
    for _ in range(3):
        with pytest.raises(SourceUnavailable):
            await supervisor.link()
        with pytest.raises(SourceUnavailable) as refused:
            await supervisor.link()
        waits.append(refused.value.details["retry_after_s"])
        supervisor.clock.advance(waits[-1])

    link = await supervisor.link()

    assert (waits, server.dialled, link.is_open) == ([0.5, 1.0, 2.0], 4, True)


async def test_the_pause_has_an_upper_limit(supervised):
    """Half a minute."""
    server = FakeServer()
    server.refusals = [SourceUnavailable("no") for _ in range(40)]
    supervisor = supervised(server, delays_s=(0.0,))
    for _ in range(40):
        with pytest.raises(SourceUnavailable):
            await supervisor.link()
        supervisor.clock.advance(30.0)
    supervisor.clock.advance(-30.0)

    with pytest.raises(SourceUnavailable) as refused:
        await supervisor.link()

    assert refused.value.details["retry_after_s"] == 30.0


async def test_forgiving_tries_again_at_once(supervised):
    """A person asked for it."""
    server = FakeServer()
    server.refusals = [SourceUnavailable("no")]
    supervisor = supervised(server, delays_s=(0.0,))
    with pytest.raises(SourceUnavailable):
        await supervisor.link()

    supervisor.forgive()

    assert (await supervisor.link()).is_open
    assert (supervisor.status().state, supervisor.error) == ("connected", None)


@pytest.mark.parametrize("remembered", ["", "2026-07-28"])
async def test_a_server_that_dies_of_the_first_question_is_asked_in_the_old_way(supervised, remembered):
    """At once and as part of the same attempt, even if it was modern before; the era is then remembered."""
    server = FakeServer({"server/discover": ConnectionLost("died")})
    supervisor = supervised(server, delays_s=(0.0,))
    supervisor.remembered = remembered

    link = await supervisor.link()

    assert (server.asked, server.dialled, link.agreed) == (["server/discover", "initialize"], 2, "2025-11-25")
    assert supervisor.remembered == "2025-11-25"


async def test_a_remembered_handshake_is_not_preceded_by_another_question(supervised):
    """And a death during it is a failed attempt."""
    server = FakeServer({"initialize": ConnectionLost("died")})
    supervisor = supervised(server, delays_s=(0.0,))
    supervisor.remembered = "2025-06-18"

    with pytest.raises(SourceUnavailable):
        await supervisor.link()

    assert server.asked == ["initialize"]


async def test_a_lost_connection_is_made_anew_at_the_next_need(supervised):
    """The loss is told, the new connection counts as a restart."""
    server = FakeServer()
    server.remains = ExitTrace(7, -9)
    supervisor = supervised(server)
    first = await supervisor.link()

    first.lose()
    between = supervisor.current, supervisor.status().state
    second = await supervisor.link()

    assert between == (None, "failing")
    assert (second is not first, second.is_open, supervisor.status().restarts) == (True, True, 1)
    assert supervisor.told(events.SERVER_LOST) == [{"error": "was killed by signal 9"}]
    assert supervisor.status().error == ""


async def lose_without_an_answer(supervisor: Watched, times: int) -> None:
    """Bring it up and see it die, with no answer in between; pauses are rung off."""
    for _ in range(times):
        (await arrival(supervisor)).lose()


async def arrival(supervisor: Watched):
    """The link, with the pause before it cut short by the clock."""
    waiting = asyncio.ensure_future(supervisor.link())
    while not waiting.done():
        await asyncio.sleep(0)
        supervisor._loop.ring_pause(supervisor)
    return await waiting


async def test_a_server_that_keeps_dying_unused_is_given_longer_and_longer_pauses(supervised):
    """The first quick death costs nothing; short pauses are waited out, of a long one everybody hears at once."""
    server = FakeServer()
    supervisor = supervised(server)

    await lose_without_an_answer(supervisor, 5)
    with pytest.raises(SourceUnavailable, match="closed its connection while running") as refused:
        await supervisor.link()

    assert supervisor._loop.pauses == [1.0, 2.0, 4.0]
    assert refused.value.details["retry_after_s"] == 8.0


async def test_a_server_that_answered_calls_is_started_again_at_once_however_often_it_dies(supervised):
    """Nothing is held against it, and nobody is refused or made to wait."""
    server = FakeServer()
    supervisor = supervised(server)
    for _ in range(20):
        link = await supervisor.link()
        supervisor.comeback.has_answered = True
        link.lose()

    assert (await supervisor.link()).is_open
    assert (server.dialled, supervisor._loop.pauses) == (21, [])


async def test_calls_wait_for_a_good_server_that_does_not_come_up_at_first(supervised):
    """Its attempts follow quickly; when all have failed there is a pause, then there are more."""
    server = FakeServer()
    supervisor = supervised(server)
    link = await supervisor.link()
    supervisor.comeback.has_answered = True
    link.lose()
    server.refusals = [SourceUnavailable("not yet") for _ in range(5)]

    links = await asyncio.gather(*(arrival(supervisor) for _ in range(3)))

    assert [link.is_open for link in links] == [True] * 3
    assert (server.dialled, supervisor._loop.pauses) == (7, [0.5])


async def test_a_good_server_that_stays_away_is_an_outage_after_a_while(supervised):
    """Whoever comes later is refused at once, with the reason and the time that is left."""
    server = FakeServer()
    supervisor = supervised(server)
    link = await supervisor.link()
    supervisor.comeback.has_answered = True
    link.lose()
    server.refusals = [SourceUnavailable("gone for good") for _ in range(99)]
    waiting = asyncio.ensure_future(supervisor.link())
    while not supervisor._loop.pauses:
        await asyncio.sleep(0)

    supervisor.clock.advance(comeback.GRACE_S)
    supervisor._end_pause()
    with pytest.raises(SourceUnavailable, match="gone for good"):
        await waiting
    with pytest.raises(SourceUnavailable, match="gone for good") as refused:
        await supervisor.link()

    assert refused.value.details["retry_after_s"] == 1.0


async def test_a_good_server_that_can_never_start_again_is_not_waited_for(supervised):
    """Its program is gone, say."""
    server = FakeServer()
    supervisor = supervised(server)
    link = await supervisor.link()
    supervisor.comeback.has_answered = True
    link.lose()
    server.refusals = [ConfigError("There is no program of that name.")]

    with pytest.raises(SourceUnavailable, match="no program"):
        await supervisor.link()

    assert server.dialled == 2


async def test_forgiving_ends_the_pause_of_those_who_wait(supervised):
    """They need not wait for it to pass."""
    server = FakeServer()
    supervisor = supervised(server)
    await lose_without_an_answer(supervisor, 2)
    waiting = asyncio.ensure_future(supervisor.link())
    while not supervisor._loop.pauses:
        await asyncio.sleep(0)

    supervisor.forgive()

    assert (await waiting).is_open


async def test_a_server_that_ran_for_long_starts_anew_without_a_record(supervised):
    """One death after a good while is no crash loop."""
    server = FakeServer()
    supervisor = supervised(server)
    for _ in range(4):
        link = await supervisor.link()
        supervisor.clock.advance(comeback.STABLE_AFTER_S)
        link.lose()

    assert (await supervisor.link()).is_open


async def test_an_old_link_that_ends_late_does_not_disturb_the_new_one(supervised):
    """What it says is ignored."""
    server = FakeServer()
    supervisor = supervised(server)
    first = await supervisor.link()
    first.lose()
    second = await supervisor.link()

    first.lose()

    assert supervisor.current is second


async def test_an_unused_server_is_stopped(supervised):
    """After its idle time; the next need starts it again."""
    server = FakeServer()
    supervisor = supervised(server, idle_timeout_s=60)
    await supervisor.link()
    delay_s, reap = supervisor._loop.timers[-1]

    supervisor.clock.advance(60)
    reap()
    stopped = supervisor.current, supervisor.status().state
    await asyncio.sleep(0)

    assert (delay_s, stopped, server.link.is_open) == (60, (None, "idle"), False)
    assert supervisor.told(events.SERVER_STOPPED) == [{"reason": "idle"}]
    assert (await supervisor.link()).is_open


async def test_a_server_in_use_is_not_stopped(supervised):
    """Neither one that was used meanwhile, nor one that somebody waits for."""
    server = FakeServer()
    supervisor = supervised(server, idle_timeout_s=60)
    link = await supervisor.link()
    _, reap = supervisor._loop.timers[-1]

    supervisor.clock.advance(50)
    assert supervisor.current is link
    supervisor.clock.advance(20)
    reap()
    again_s = supervisor._loop.timers[-1][0]
    link._waiting.append(asyncio.get_running_loop().create_future())
    supervisor.clock.advance(100)
    reap()

    assert (again_s, supervisor.current) == (40, link)


async def test_a_server_may_run_for_ever(supervised):
    """An idle time of zero is none."""
    supervisor = supervised(FakeServer(), idle_timeout_s=0)

    await supervisor.link()

    assert supervisor._loop.timers == []


@pytest.mark.parametrize(
    ("modern", "capabilities", "listening"),
    [
        (False, {"tools": {"listChanged": True}}, True),
        (False, {"tools": {}}, False),
        (True, {"tools": {"listChanged": True}}, True),
    ],
)
async def test_a_server_that_tells_of_changes_is_listened_to(supervised, modern, capabilities, listening):
    """In the way of its era; what it tells is passed on."""
    server, changes = FakeServer(modern=modern), []
    method = "server/discover" if modern else "initialize"
    server.answers[method] = {**server.answers[method], "capabilities": capabilities}
    supervisor = supervised(server)
    supervisor.tools_changed = lambda: changes.append(1)

    link = await supervisor.link()
    link.change()

    assert (link.listening is not None, changes) == (listening, [1])
    if modern:
        assert link.listening["notifications"] == {"toolsListChanged": True}


async def test_closing_ends_the_link_and_whoever_waits_gets_an_answer(supervised):
    """Not a cancellation that nobody asked for; and nothing is dialled afterwards."""
    server = FakeServer()
    server.refusals = [SourceUnavailable("no")]
    supervisor = supervised(server, delays_s=(0.0, 3600.0))
    waiting = asyncio.create_task(supervisor.link())
    while not supervisor.told(events.SERVER_CONNECTING)[1:]:
        await asyncio.sleep(0)

    await supervisor.close()
    with pytest.raises(SourceUnavailable, match="was stopped"):
        await asyncio.wait_for(waiting, 150)
    with pytest.raises(SourceUnavailable, match="was stopped"):
        await supervisor.link()

    assert server.dialled == 1


async def test_closing_twice_is_safe(supervised):
    """The link is closed, and its last state can still be looked at."""
    server = FakeServer()
    server.remains = ExitTrace(7, stderr=["bye"])
    supervisor = supervised(server)
    await supervisor.link()

    await supervisor.close()
    await supervisor.close()

    assert (server.link.is_open, supervisor.remains().stderr) == (False, ["bye"])


async def test_a_fault_while_connecting_leaves_no_connection_behind(supervised):
    """Even one that nobody foresaw."""
    server = FakeServer({"server/discover": KeyError("bug")})
    supervisor = supervised(server)

    with pytest.raises(InternalError, match="could not be connected to: KeyError"):
        await supervisor.link()

    assert (server.link.is_open, supervisor.status().state) == (False, "idle")


async def test_no_event_gives_a_secret_away(supervised):
    """Neither the reason of a failed attempt, nor what an unforeseen fault quotes, nor a line of noise."""
    server = FakeServer({"initialize": RemoteError(-1, "bad key hunter22")})
    supervisor = supervised(server, delays_s=(0.0, 0.0), redactor=Redactor({"hunter22"}))
    with pytest.raises(SourceUnavailable):
        await supervisor.link()
    server.answers["server/discover"] = ValueError("hunter22")
    supervisor.forgive()
    with pytest.raises(InternalError) as fault:
        await supervisor.link()
    await asyncio.sleep(0)

    server.link.events.noise("key hunter22\x1b[31m")

    assert "hunter22" not in repr(supervisor.events) + repr(fault.value)
    assert supervisor.told("server.task.failed") == [{"task": "connect-files", "error": "ValueError"}]
    assert supervisor.told("server.noise") == [{"line": "key ***"}]


async def test_what_is_known_of_a_failing_server_is_told_while_it_is_tried_again(supervised):
    """Whoever gave up waiting finds the autopsy in the status."""
    server = FakeServer({"server/discover": ConnectionLost("x"), "initialize": ConnectionLost("x")})
    server.remains = ExitTrace(7, 3, ["boom"])
    supervisor = supervised(server, delays_s=(0.0, 3600.0))
    waiting = asyncio.create_task(supervisor.link())
    while not supervisor.told(events.SERVER_CONNECTING)[1:]:
        await asyncio.sleep(0)

    waiting.cancel()
    status = supervisor.status()

    assert (status.state, status.details["stderr"], status.details["attempts"]) == ("connecting", ["boom"], 1)
    assert "its process exited with code 3 while shaking hands. It wrote: 'boom'" in status.error


async def test_a_server_that_hangs_in_the_handshake_gets_its_autopsy_at_once(supervised):
    """Another attempt would not fit into the time of a discovery."""
    server = FakeServer()
    server.remains = ExitTrace(7, stderr=["waiting for the database"])
    supervisor = supervised(server, delays_s=(0.0, 3600.0), handshake_timeout_s=0.001)
    dial = supervisor._connector.dial

    async def held(link_events):
        link = await dial(link_events)
        link.held = {"server/discover"}
        return link

    supervisor._connector.dial = held
    with pytest.raises(SourceUnavailable, match="waiting for the database") as failed:
        await asyncio.wait_for(supervisor.link(), 150)

    assert (failed.value.details["attempts"], server.dialled) == (1, 1)


async def test_a_server_that_accepts_and_says_nothing_is_tried_again_like_any_other():
    """Each attempt gets the time to connect, not that of a whole discovery."""
    taken: list[asyncio.StreamWriter] = []
    listener = await asyncio.start_server(lambda _reader, writer: taken.append(writer), "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/mcp"
    config = ServerConfig("mute", url=url, connect_timeout_s=0.05)
    told, tasks = [], TaskScope(lambda _name, _error: None)
    settings = SupervisorSettings((0.0, 0.0, 0.0), handshake_timeout_s=3600, first_answer_timeout_s=0.05)
    supervisor = Supervisor(
        "mute", lambda link_events: HttpLink.open(config, link_events, tasks), OFFER, settings, told.append
    )
    try:
        with pytest.raises(SourceUnavailable) as failed:
            await asyncio.wait_for(supervisor.link(), 150)
    finally:
        await supervisor.close()
        await tasks.close()
        listener.close()
        for writer in taken:
            writer.close()

    assert str(failed.value) == (
        "Server 'mute' is not available after 3 attempts: it did not answer within 0.05 s while shaking hands. Check"
        " that an MCP server is at that address; if it is only slow, raise its `connect_timeout`. Everything else goes"
        " on without it."
    )
    assert [event.fields["attempt"] for event in told if event.level == "warning"] == [1, 2, 3]


async def test_a_server_that_has_answered_something_gets_the_time_of_the_whole_handshake():
    """Only silence is given up early."""
    patience, server = HandshakePatience(600, 3600), FakeServer()
    before = patience.allowed_s, patience.is_whole

    async with patience.limit:
        await negotiate(await server.dial(LinkEvents(lambda: None, lambda: None)), OFFER, "", patience)
        ends_s = patience.limit.when() - asyncio.get_running_loop().time()

    assert before == (600, False)
    assert (patience.allowed_s, patience.is_whole) == (3600, True)
    assert ends_s > 3000


async def give_up(supervisor: Watched, link: object, waited_s: float = 2.0, **fields: int) -> None:
    """A question that nobody answers for a while."""
    asked_at = supervisor.now()
    supervisor.clock.advance(waited_s)
    supervisor.note_silence(link, asked_at, **fields)
    await asyncio.sleep(0)


async def test_three_questions_in_a_row_without_a_word_end_the_link(supervised):
    """The next need opens another one, at once."""
    server = FakeServer()
    supervisor = supervised(server)
    link = await supervisor.link()

    states = []
    for _ in range(3):
        await give_up(supervisor, link)
        states.append((supervisor.current is link, link.is_open))

    assert states == [(True, True), (True, True), (False, False)]
    assert supervisor.told(events.SERVER_LOST) == [{"error": "answered nothing any more"}]
    assert supervisor.status().details["phase"] == "running"
    assert (await supervisor.link(), supervisor.status().restarts) == (server.links[1], 1)


async def test_a_listing_without_a_word_ends_the_link(supervised):
    """Once is enough: it had all the time of a discovery."""
    supervisor = supervised(FakeServer())
    link = await supervisor.link()

    await give_up(supervisor, link, patience=1)

    assert (supervisor.current, link.is_open) == (None, False)


async def test_a_server_that_said_something_meanwhile_is_kept(supervised):
    """It is slow, not hung."""
    server = FakeServer()
    supervisor = supervised(server)
    link = await supervisor.link()

    for _ in range(5):
        server.remains = ExitTrace(heard_at=supervisor.now() + 1)
        await give_up(supervisor, link, patience=1)
    for _ in range(4):
        await give_up(supervisor, link)
        server.remains = ExitTrace(heard_at=supervisor.now() + 0.5)
        supervisor.clock.advance(1)

    assert supervisor.current is link


async def test_calls_given_up_side_by_side_or_at_once_say_little_of_the_server(supervised):
    """A client that cancels everything it asked has only changed its mind."""
    supervisor = supervised(FakeServer())
    link = await supervisor.link()
    asked_at = supervisor.now()
    supervisor.clock.advance(5)

    for _ in range(10):
        supervisor.note_silence(link, asked_at)
    for _ in range(10):
        await give_up(supervisor, link, 0.5)

    assert supervisor.current is link


@pytest.mark.parametrize(("waited_s", "kept"), [(0.5, True), (2.0, False)])
async def test_forgiving_drops_a_link_that_left_a_question_unanswered(supervised, waited_s, kept):
    """A person asks for it because something hangs."""
    supervisor = supervised(FakeServer())
    link = await supervisor.link()
    await give_up(supervisor, link, waited_s)

    supervisor.forgive()

    assert (supervisor.current is link) == kept


@pytest.mark.parametrize(("heard_s", "kept"), [(0.0, False), (20.0, True)])
async def test_forgiving_drops_a_link_on_which_somebody_waits_for_long(supervised, heard_s, kept):
    """Half a minute without a word; a call that is merely slow tells of itself now and then."""
    server = FakeServer()
    supervisor = supervised(server)
    link = await supervisor.link()
    link._waiting.append(asyncio.get_running_loop().create_future())
    server.remains = ExitTrace(heard_at=supervisor.now() + heard_s)
    supervisor.clock.advance(supervise.SUSPECT_AFTER_S)

    supervisor.forgive()

    assert (supervisor._state.link is link) == kept
