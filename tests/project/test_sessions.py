"""Sessions: agents at work in the served project and in others, with real servers behind them."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from tests.cli.program import TINY

from toolcrib.calls.approvals import ApprovalReply
from toolcrib.config.lock import Lock, Record, write_lock
from toolcrib.config.model import config_hash
from toolcrib.core.access import EVERYTHING, Caller
from toolcrib.core.errors import RateLimited
from toolcrib.core.events import Emit, Event, Stay, drop
from toolcrib.core.kinds import DiscoveryStatus
from toolcrib.crib.builder import assemble
from toolcrib.crib.loading import load
from toolcrib.project.known import ProjectPlace
from toolcrib.project.project import Project
from toolcrib.project.projects import HAPPENINGS_KEPT, Journal, Projects, as_known
from toolcrib.project.sessions import (
    IDLE_S,
    MOST_OF_ONE,
    MOST_PLACES,
    AgentSession,
    AgentSessions,
    SessionElsewhere,
    UnknownSession,
    working,
)
from toolcrib.stores.paths import Environment
from toolcrib.stores.projects import ProjectFile, UnknownProject

ME = Caller("me", "local", EVERYTHING)
TOOLS = ["tiny__echo", "tiny__fail", "tiny__hang", "tiny__paint", "tiny__picture"]


class Bench:
    """Directories with projects in them, and a clock."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.now, self.steady = 1_700_000_000.0, 500.0
        self.env = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
        self.file = ProjectFile(home / "state")

    def project(self, name: str, *tables: str) -> Path:
        directory = self.home / name
        directory.mkdir(exist_ok=True)
        (directory / "toolcrib.toml").write_text(
            "\n\n".join(["audit.enabled = false\nkb.enabled = false", *tables]) + "\n"
        )
        return directory

    def tiny(self, name: str = "tiny") -> str:
        args = json.dumps([str(TINY), str(self.home / f"{name}.diary")])
        return f"[servers.{name}]\ncommand = {json.dumps(sys.executable)}\nargs = {args}"

    def starts(self, name: str = "tiny") -> int:
        diary = self.home / f"{name}.diary"
        return diary.read_text().count("started") if diary.exists() else 0

    def around(self, directory: Path) -> Environment:
        return Environment(directory, self.env)

    def remember(self, directory: Path) -> None:
        around = self.around(directory)
        self.file.note(as_known(Project(None, load(None, around), None, around)))  # type: ignore[arg-type]

    @asynccontextmanager
    async def serving(
        self, directory: Path, stays: Callable[[], list[Stay]] = list, emit: Emit = drop
    ) -> AsyncIterator[AgentSessions]:
        around = self.around(directory)
        loaded = load(None, around)
        crib = await assemble(loaded, surroundings=around)
        projects = Projects(Project(crib, loaded, None, around), self.file)
        sessions = AgentSessions(projects, emit, stays, lambda: self.now, lambda: self.steady)
        try:
            yield sessions
        finally:
            await sessions.close()
            await crib.close()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def happens(session: AgentSession, kind: str) -> None:
    """Wait until something is in the journal; fails if it does not come."""
    journal = session.workplace.journal
    async with asyncio.timeout(150):
        while kind not in {one.kind for one in journal.after(0)}:
            await journal.wait(journal.last, 20)


def names(session: AgentSession) -> list[str]:
    return [entry.name for entry in session.workplace.entries(ME)]


async def other_place(sessions: AgentSessions, name: str) -> ProjectPlace:
    return next(place for place in await sessions.projects.places() if place.name == name)


async def test_opening_a_session_starts_the_servers_and_shows_what_they_offer(bench: Bench):
    """Nobody waits for them; internal tools are not shown."""
    async with bench.serving(bench.project("mine", bench.tiny())) as sessions:
        session = await sessions.open(sessions.projects.place, "work", ME)
        at_once = names(session)
        await happens(session, "catalog.changed")

        assert (at_once, names(session)) == ([], TOOLS)
        assert all(entry.is_live for entry in session.workplace.entries(ME))
        assert bench.starts() == 1


async def test_servers_that_have_not_answered_are_shown_as_the_record_knows_them(bench: Bench):
    """A server that hangs is on record, one that answers is live."""
    directory = bench.project("mine", bench.tiny(), '[servers.hangs]\ncommand = "sleep"\nargs = ["600"]')
    hangs = load(None, bench.around(directory)).config.servers["hangs"]
    shown = {"name": "old", "inputSchema": {"type": "object"}}
    record = Record("hangs", DiscoveryStatus.SUCCESS, (shown,), "2026-01-02T03:04:05Z", config_hash=config_hash(hangs))
    (directory / "toolcrib.lock").write_text(write_lock(Lock({"hangs": record})))

    async with bench.serving(directory) as sessions:
        session = await sessions.open(sessions.projects.place, "", ME)
        await happens(session, "catalog.changed")
        live = {entry.name: (entry.is_live, entry.discovery_status) for entry in session.workplace.entries(ME)}

    assert live["hangs__old"] == (False, "discovering")
    assert live["tiny__echo"] == (True, "success")


async def test_a_server_that_answered_lately_is_not_asked_again(bench: Bench):
    """A second session finds it connected."""
    async with bench.serving(bench.project("mine", bench.tiny())) as sessions:
        first = await sessions.open(sessions.projects.place, "", ME)
        await happens(first, "catalog.changed")
        shelf = first.workplace.crib.shelves["tiny"]
        asked = shelf.fresh_until
        await first.workplace.wake()

        assert shelf.fresh_until == asked
        await first.workplace.crib.refresh("tiny")
        assert shelf.fresh_until > asked


async def test_sessions_hear_of_servers_that_come_change_and_go(bench: Bench):
    """In order, each with its name; a session hears only of what happened after it began."""
    directory = bench.project("mine", bench.tiny("a"))
    async with bench.serving(directory) as sessions:
        first = await sessions.open(sessions.projects.place, "", ME)
        await happens(first, "catalog.changed")
        project, journal = sessions.projects.served, first.workplace.journal
        before = journal.last
        bench.project("mine", bench.tiny("a") + '\ndescription = "new words"', bench.tiny("b"))
        await project.reload()
        second = await sessions.open(sessions.projects.place, "", ME)
        bench.project("mine", bench.tiny("b"))
        await project.reload()

        told = [(one.kind, one.server) for one in journal.after(before) if one.server]
        assert told == [("server.changed", "a"), ("server.created", "b"), ("server.removed", "a")]
        assert [one.server for one in journal.after(second.since) if one.server] == ["a"]


async def test_a_session_in_another_project_has_that_projects_servers(bench: Bench):
    """Started in that project's directory, shared by its sessions, ended with the last of them."""
    other = bench.project("other", bench.tiny())
    bench.remember(other)
    async with bench.serving(bench.project("mine")) as sessions:
        place = await other_place(sessions, "other")
        first, second = [await sessions.open(place, "", ME) for _ in range(2)]
        await happens(first, "catalog.changed")
        result = await first.workplace.crib.call("tiny__echo", {"text": "hello"}, caller=ME)
        crib = first.workplace.crib
        await sessions.end(first)
        still_open = await second.workplace.crib.call("tiny__echo", {"text": "again"}, caller=ME)
        await sessions.end(second)
        ended = await crib.call("tiny__echo", {"text": "too late"}, caller=ME)

    assert first.workplace is second.workplace
    assert (json.loads(result.text), json.loads(still_open.text)) == ({"text": "hello"}, {"text": "again"})
    assert ended.error is not None
    assert "was stopped" in ended.error.message


async def test_servers_of_another_project_start_in_its_directory(bench: Bench):
    """As they would if toolcrib were run there."""
    script = f"import os, pathlib; pathlib.Path({str(bench.home / 'where')!r}).write_text(os.getcwd())"
    args = json.dumps(["-c", script])
    other = bench.project("other", f"[servers.x]\ncommand = {json.dumps(sys.executable)}\nargs = {args}")
    bench.remember(other)
    async with bench.serving(bench.project("mine")) as sessions:
        session = await sessions.open(await other_place(sessions, "other"), "", ME)
        await session.workplace.crib.refresh("x")

    assert (bench.home / "where").read_text() == str(other)


async def test_edits_of_another_project_count_when_it_is_used(bench: Bench):
    """A good one is taken over, a broken one leaves what runs."""
    other = bench.project("other", bench.tiny("a"))
    bench.remember(other)
    async with bench.serving(bench.project("mine")) as sessions:
        session = await sessions.open(await other_place(sessions, "other"), "", ME)
        bench.project("other", bench.tiny("a"), bench.tiny("b"))
        await sessions.use(session.id)
        after_a_good_edit = set(session.workplace.crib.shelves)
        (other / "toolcrib.toml").write_text("[servers.a\n")
        await sessions.use(session.id)

        assert after_a_good_edit == {"a", "b"}
        assert set(session.workplace.crib.shelves) == {"a", "b"}


async def test_sessions_that_nobody_uses_end(bench: Bench):
    """With what was opened for them; one that is used, or has a call under way, stays."""
    bench.remember(bench.project("other"))
    async with bench.serving(bench.project("mine")) as sessions:
        idle = await sessions.open(await other_place(sessions, "other"), "", ME)
        busy = await sessions.open(sessions.projects.place, "", ME)
        asleep = asyncio.Event()
        work = asyncio.ensure_future(working(busy, asleep.wait()))
        await asyncio.sleep(0)
        bench.steady += IDLE_S - 1
        await sessions.sweep()
        before = len(sessions.all())
        bench.steady += 2
        await sessions.sweep()
        left = sessions.all()
        asleep.set()
        await work
        ended = await idle.workplace.crib.call("x", caller=ME)

    assert (before, left) == (2, [busy])
    assert ended.error is not None
    with pytest.raises(UnknownSession):
        sessions.find(idle.id)


@pytest.mark.parametrize("jump_s", [-36_000, 36_000, 315_360_000], ids=["back", "on", "years on"])
async def test_a_clock_that_jumps_ends_no_session_and_keeps_none(bench: Bench, jump_s: float):
    """How long a session was not used is told by another clock than when that was."""
    async with bench.serving(bench.project("mine")) as sessions:
        await sessions.open(sessions.projects.place, "", ME)
        bench.now += jump_s
        await sessions.sweep()
        before = len(sessions.all())
        bench.steady += IDLE_S + 1
        await sessions.sweep()

        assert (before, sessions.all()) == (1, [])


async def test_there_is_a_limit_to_projects_that_are_open(bench: Bench):
    """Beyond it, one must be ended first."""
    for number in range(MOST_PLACES + 1):
        bench.remember(bench.project(f"p{number}"))
    async with bench.serving(bench.project("mine")) as sessions:
        places = [place for place in await sessions.projects.places() if not place.is_served]
        opened = [await sessions.open(place, "", ME) for place in places[:MOST_PLACES]]
        with pytest.raises(RateLimited, match="other projects are open"):
            await sessions.open(places[-1], "", ME)
        await sessions.end(opened[0])

        assert (await sessions.open(places[-1], "", ME)).workplace.place is places[-1]


async def test_nobody_takes_all_the_places(bench: Bench):
    """One caller has only so many; others still find room."""
    async with bench.serving(bench.project("mine")) as sessions:
        for _ in range(MOST_OF_ONE):
            await sessions.open(sessions.projects.place, "", ME)
        with pytest.raises(RateLimited, match="sessions of yours are open"):
            await sessions.open(sessions.projects.place, "", ME)

        assert (await sessions.open(sessions.projects.place, "", Caller("you"))).caller.id == "you"


async def test_what_happens_in_another_project_says_so(bench: Bench):
    """In the log and wherever events go."""
    told: list[Event] = []
    bench.remember(bench.project("other", bench.tiny()))
    async with bench.serving(bench.project("mine"), emit=told.append) as sessions:
        session = await sessions.open(await other_place(sessions, "other"), "", ME)
        await happens(session, "catalog.changed")

    assert {event.fields.get("project") for event in told if event.fields.get("server") == "tiny"} == {"other"}


async def test_an_opening_is_seen_through_when_the_one_who_asked_is_gone(bench: Bench):
    """Nothing is left half open; in the end all is closed."""
    bench.remember(bench.project("other"))
    async with bench.serving(bench.project("mine")) as sessions:
        opening = asyncio.ensure_future(sessions.open(await other_place(sessions, "other"), "", ME))
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        async with asyncio.timeout(150):
            while not sessions.all():
                await asyncio.sleep(0)
        crib = sessions.all()[0].workplace.crib

    ended = await crib.call("anything", caller=ME)
    assert sessions.all() == []
    assert ended.error is not None
    assert "not open" in ended.error.message


async def test_mcp_clients_are_sessions_too(bench: Bench):
    """Found by an id that opens no door, in the served project; ending one ends the client's session."""
    ended: list[str] = []
    stay = Stay("mcp-1", "client 2", "2025-06-18", ME, 60.0, 5.0, lambda: ended.append("mcp-1"))
    async with bench.serving(bench.project("mine"), lambda: [stay]) as sessions:
        session = sessions.find("mcp-1")
        await sessions.end(session)

    assert msgspec.to_builtins(session.view()) == {
        "id": "mcp-1",
        "name": "client 2",
        "kind": "mcp",
        "project": {"id": sessions.projects.place.id, "name": "mine"},
        "caller": "me",
        "era": "2025-06-18",
        "openedAt": "2023-11-14T22:12:20Z",
        "lastUsed": "2023-11-14T22:13:15Z",
    }
    assert ended == ["mcp-1"]


async def test_the_served_project_is_first_and_what_is_gone_is_not_listed(bench: Bench):
    """Even if nobody noted it."""
    bench.remember(bench.project("other"))
    gone = bench.project("gone")
    bench.remember(gone)
    (gone / "toolcrib.toml").unlink()
    gone.rmdir()
    async with bench.serving(bench.project("mine")) as sessions:
        places = await sessions.projects.places()
        with pytest.raises(UnknownProject):
            await sessions.projects.find("0123456789ab")

    assert [(place.name, place.is_served) for place in places] == [("mine", True), ("other", False)]


async def test_a_journal_keeps_the_latest_and_says_what_it_forgot(bench: Bench):
    """And lets go of whoever waits when it is closed."""
    async with bench.serving(bench.project("mine")) as sessions:
        project = sessions.projects.served
        journal = Journal(project.crib)
        for number in range(HAPPENINGS_KEPT + 3):
            bench.project("mine", f'[servers.x]\nurl = "http://127.0.0.1:1/{number}"')
            project.loaded = load(None, project.around)
            await project.crib.servers.apply(project.loaded.config.servers)
        waiting = asyncio.ensure_future(journal.wait(journal.last, 60))
        await asyncio.sleep(0)
        journal.close()
        await waiting

    assert (journal.forgotten(), len(journal.after(0))) == (3, HAPPENINGS_KEPT)
    assert [one.kind for one in journal.after(journal.last - 1)] == ["server.changed"]


async def test_numbers_in_a_journal_tell_nobody_what_happened_to_other_servers(bench: Bench):
    """Whoever is told of one server counts only what concerns it, also after much was forgotten; a wait, too."""

    def sees(servers: frozenset[str]) -> bool:
        return "x" in servers

    async with bench.serving(bench.project("mine")) as sessions:
        project = sessions.projects.served
        journal = Journal(project.crib)

        async def change(**urls: int) -> None:
            servers = (f'[servers.{name}]\nurl = "http://127.0.0.1:1/{number}"' for name, number in urls.items())
            bench.project("mine", "\n".join(servers))
            project.loaded = load(None, project.around)
            await project.crib.servers.apply(project.loaded.config.servers)

        await change(x=0, other=0)
        first, waiting = journal.latest(sees), asyncio.ensure_future(journal.wait(journal.latest(sees), 60, sees))
        for number in range(HAPPENINGS_KEPT):
            await change(x=0, other=number)
        is_still_waiting, unmoved = not waiting.done(), (journal.latest(sees), journal.after(first, sees))
        await change(x=1, other=number)
        await waiting
        told = journal.after(first, sees)
        journal.close()

    assert (is_still_waiting, unmoved) == (True, (first, []))
    assert "x" in {one.server for one in told} <= {"", "x"}
    assert [one.id for one in told] == list(range(first + 1, first + 1 + len(told)))
    assert (journal.latest(sees), journal.latest()) == (first + len(told), journal.last)
    assert journal.forgotten(sees) <= first < journal.forgotten()


async def test_questions_of_another_project_say_where_they_come_from(bench: Bench):
    """They go to the people who look after the served one."""
    bench.remember(bench.project("other", bench.tiny() + '\npolicy = "ask"'))
    viewer = Caller("viewer", "local", EVERYTHING)
    async with bench.serving(bench.project("mine")) as sessions:
        inbox = sessions.projects.served.crib.inbox
        await inbox.look(viewer)
        session = await sessions.open(await other_place(sessions, "other"), "", ME)
        await happens(session, "catalog.changed")
        calling = asyncio.ensure_future(session.workplace.crib.call("tiny__echo", {"text": "x"}, caller=session.caller))
        waiting = await inbox.look(viewer, 20)
        inbox.answer(waiting[0].question.id, ApprovalReply.ONCE, viewer)
        result = await calling

    assert [one.question.server for one in waiting] == ["tiny (project other)"]
    assert result.success


async def test_a_session_that_is_at_another_replica_is_said_to_be_there(bench: Bench):
    """Behind a balancer "there is none" would be half the truth; what to do about it is said."""
    async with bench.serving(bench.project("mine", bench.tiny())) as served:
        here, there = (AgentSessions(served.projects, drop, replica=name) for name in ("r1", "r2"))
        session = await there.open(served.projects.place, "work", ME)

        with pytest.raises(SessionElsewhere, match="opened at replica 'r2'; this is 'r1'") as caught:
            here.find(session.id)
        with pytest.raises(UnknownSession):
            there.find("s-r2.gone")
        assert there.find(session.id) is session
        assert "have the balancer send their requests there" in caught.value.hint
        await asyncio.gather(here.close(), there.close())
