"""One bad server among good ones: the good ones answer as if alone, and the error names the cause."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.fleet.running import until
from tests.hostile.conftest import HostileServer

import toolcrib
from toolcrib.catalog.entries import missing_servers
from toolcrib.core.events import Event
from toolcrib.stores.paths import Environment

Hostile = Callable[[str], HostileServer]

ALONE = "[kb]\nenabled = false\n"
QUICK = "[catalog]\ngrace = 150\n[connect]\nattempts = 2\ndelays = [0, 0]\n"


class Company:
    """A Crib over a proper server and bad ones, with what it told; where one is bad, its name is ``bad``."""

    def __init__(self, crib: toolcrib.Crib, events: list[Event]) -> None:
        self.crib, self.events = crib, events

    async def names(self) -> list[str]:
        return [tool.name for tool in await self.crib.tools()]

    async def bad_call(self, name: str = "bad") -> toolcrib.Result:
        return await self.crib.call(f"{name}__echo", {"text": "hi"})

    async def good_call(self) -> str:
        return (await self.crib.call("good__echo", {"text": "still here"})).text


@pytest.fixture
def company(tmp_path: Path, hostile: Hostile):
    """``async with company(mode)``: the Crib, its processes checked to be gone at the end.

    With several modes, each server is named after its own.
    """

    @asynccontextmanager
    async def open_company(*modes: str, settings: str = QUICK, bad: str = "") -> AsyncIterator[Company]:
        servers = {mode if len(modes) > 1 else "bad": hostile(mode) for mode in modes}
        servers = {"good": hostile("proper"), **servers}
        config = tmp_path / "toolcrib.toml"
        config.write_text(settings + ALONE + "".join(_entry(name, server) for name, server in servers.items()) + bad)
        events: list[Event] = []
        around = Environment(tmp_path, {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "GATEWAY_SECRET": "x" * 12})
        async with toolcrib.open_crib(config, emit=events.append, surroundings=around, keep_results=False) as crib:
            yield Company(crib, events)
        until(
            lambda: not any(server.survivors() for server in servers.values()),
            deadline_s=150,
            what="every process of the servers is gone",
        )

    return open_company


def _entry(name: str, server: HostileServer) -> str:
    argv = [server.launch.command, *server.launch.args]
    return f"[servers.{name}]\ncommand = {argv[0]!r}\nargs = {argv[1:]!r}\n"


async def test_a_server_that_exits_at_start_costs_only_itself(company):
    """The others are listed and called; the error has the phase, the exit code and the server's own words."""
    async with company("exit_at_start") as gathering:
        assert await gathering.names() == ["good__echo"]
        assert await gathering.good_call() == "still here"
        failed = await gathering.bad_call()

        assert failed.error.code == "TOOL_UNAVAILABLE"
        assert failed.error.details["exit_code"] == 7
        assert failed.error.details["attempts"] == 2
        assert failed.error.details["stderr"]
        assert failed.error.details["stderr"][-1] in failed.error.message
        assert gathering.crib.health().status == "degraded"


async def test_a_command_that_does_not_exist_is_named(company):
    """The error says which command, and what to do."""
    missing = "[servers.absent]\ncommand = '/nonexistent/bin/server'\n"
    async with company("proper", bad=missing) as gathering:
        failed = await gathering.crib.call("absent__tool")

        assert failed.error.code == "TOOL_UNAVAILABLE"
        assert "/nonexistent/bin/server" in failed.error.message


async def test_a_server_that_hangs_in_its_list_delays_the_list_by_no_more_than_the_grace(company):
    """The list is there while the bad server is still being waited for in the background, and then waits no more."""
    async with company("hang_in_list", settings=QUICK.replace("grace = 150", "grace = '300ms'")) as gathering:
        await gathering.crib.refresh("good")

        assert await gathering.names() == ["good__echo"]
        assert gathering.crib.shelves["bad"].status == "discovering"
        assert await gathering.good_call() == "still here"
        assert [found.server for found in missing_servers(gathering.crib.shelves)] == ["bad"]


async def test_a_server_that_hangs_at_the_handshake_fails_within_its_own_time(company):
    """Its discovery ends by its own limit, with an error that says what it did not do."""
    async with company("hang_at_initialize", bad="discovery_timeout = 3\n") as gathering:
        failed = await gathering.bad_call()

        assert failed.error.code == "TOOL_UNAVAILABLE"
        assert "within 2.4 s" in failed.error.message
        assert await gathering.good_call() == "still here"


async def test_rubbish_on_stdout_is_counted_and_survived(company):
    """Lines that are no messages harm nothing and show in health."""
    async with company("rubbish_on_stdout") as gathering:
        assert await gathering.names() == ["bad__echo", "good__echo"]
        result = await gathering.bad_call()

        assert result.text == "hi"
        assert gathering.crib.health().servers["bad"].stdout_noise > 0


DYING = ["exit_in_call", "killed_in_call", "half_answer"]


async def test_a_server_that_dies_in_a_call_leaves_the_outcome_open_and_comes_back(company):
    """The call says that its outcome is unknown; calls to others go on; the next call finds the server restarted."""
    async with company(*DYING) as gathering:
        await gathering.names()
        for mode in DYING:
            failed, others = await asyncio.gather(
                gathering.bad_call(mode), asyncio.gather(*(gathering.good_call() for _ in range(5)))
            )

            assert failed.error.code == "TOOL_EXECUTION_FAILED", mode
            assert failed.error.details["outcome"] == "unknown", mode
            assert others == ["still here"] * 5, mode
            await gathering.crib.refresh(mode)
        assert {gathering.crib.health().servers[mode].restarts for mode in DYING} == {1}


UNREADABLE = [
    "invalid_utf8",
    "surrogate_result",
    "huge_line",
    "deep_result",
    "not_a_number",
    "wrong_types",
    "result_and_error",
]


async def test_an_answer_that_cannot_be_read_fails_at_once_and_only_itself(company):
    """No waiting for the time limit: the call fails with the reason, the connection goes on."""
    async with company(*UNREADABLE) as gathering:
        await gathering.names()
        for mode in UNREADABLE:
            failed = await gathering.bad_call(mode)

            assert failed.error.code == "TOOL_EXECUTION_FAILED", mode
            assert gathering.crib.health().servers[mode].state == "connected", mode
            assert await gathering.good_call() == "still here", mode


ODDITIES = {
    "double_answer": "hi",
    "slow_drip": "hi",
    "null_fields": "",
    "unknown_content": "",
    "no_content": "",
    "notification_flood": "hi",
    "progress_flood": "hi",
    "ping_flood": "hi",
    "list_changed_storm": "hi",
    "ignore_discover": "hi",
    "exit_on_discover": "hi",
    "stderr_flood": "hi",
    "cursor_loop": "hi",
    "duplicate_names": "hi",
    "invalid_schema": "hi",
    "missing_schema": "hi",
    "exploding_schema": "hi",
    "cyclic_schema": "hi",
    "remote_ref": "hi",
    "file_ref": "hi",
    "invisible_description": "hi",
    "ansi_description": "hi",
}


async def test_oddities_are_survived(company):
    """What a strict client would stumble over still gives the answer, and disturbs nobody: all of them at once."""
    async with company(*ODDITIES) as gathering:
        listed = await gathering.names()
        for mode, text in ODDITIES.items():
            result = await gathering.bad_call(mode)

            assert f"{mode}__echo" in listed
            assert result.success, (mode, result.error)
            assert result.text == text, mode
            assert await gathering.good_call() == "still here", mode


async def test_never_answering_is_a_timeout_that_tells_the_server(company):
    """The call ends with its own time limit; others are not disturbed."""
    async with company("never_answer") as gathering:
        await gathering.names()
        result = await gathering.crib.call("bad__echo", {"text": "hi"}, timeout_s=0.2)

        assert result.error.code == "TOOL_TIMEOUT"
        assert await gathering.good_call() == "still here"


async def test_a_server_that_was_stopped_by_a_signal_is_replaced_by_a_refresh(company):
    """It answers nothing and does not end: after a timeout, a person's refresh starts another one."""
    async with company("proper") as gathering:
        await gathering.names()
        os.kill(gathering.crib.shelves["bad"].source.status().pid, signal.SIGSTOP)
        timed_out = await gathering.crib.call("bad__echo", {"text": "hi"}, timeout_s=1.1)

        found = await gathering.crib.refresh("bad")

        assert (timed_out.error.code, found["bad"].status) == ("TOOL_TIMEOUT", "success")
        assert (await gathering.bad_call()).text == "hi"


async def test_a_stopped_server_is_replaced_after_three_timeouts(company):
    """Without anybody's help."""
    async with company("proper") as gathering:
        await gathering.names()
        os.kill(gathering.crib.shelves["bad"].source.status().pid, signal.SIGSTOP)
        for _ in range(3):
            await gathering.crib.call("bad__echo", {"text": "hi"}, timeout_s=1.1)

        assert (await gathering.bad_call()).text == "hi"


async def test_a_server_that_hangs_in_the_handshake_gets_an_autopsy(company):
    """Within the time of the discovery, with what it wrote meanwhile."""
    async with company("hang_at_initialize", bad="discovery_timeout = 2\n") as gathering:
        record = (await gathering.crib.refresh("bad"))["bad"]

        assert "did not answer within 1.6 s while shaking hands" in record.error
        assert gathering.crib.shelves["bad"].source.status().details["attempts"] == 1


async def test_what_a_server_prints_beside_its_messages_is_told(company):
    """As an event, and in small doses."""
    async with company("rubbish_on_stdout") as gathering:
        await gathering.names()

        noises = [event for event in gathering.events if event.name == "server.noise"]
        assert [(event.level, event.fields["server"]) for event in noises] == [("warning", "bad")]
        assert "Starting server on port 3000" in noises[0].fields["line"]


async def test_names_that_could_hurt_are_left_out_and_said_so(company):
    """Path-like, empty, endless and control-character names never reach a client; ``problems`` lists them."""
    async with company("bad_names") as gathering:
        names = await gathering.names()

        assert all("/" not in name and name.isprintable() and len(name) <= 140 for name in names)
        assert gathering.crib.shelves["bad"].record.problems


async def test_a_server_sees_only_the_environment_it_was_given(company):
    """No variable of the gateway reaches a server unless it is harmless or declared for it."""
    async with company("environment") as gathering:
        await gathering.names()

        assert "GATEWAY_SECRET" not in (await gathering.bad_call()).text


async def test_what_a_server_writes_cannot_control_a_terminal(company):
    """Escape sequences on stderr do not survive into error messages."""
    async with company("ansi_on_stderr", bad="") as gathering:
        await gathering.names()

        assert not any("\x1b" in str(event.fields) for event in gathering.events)


async def test_secrets_in_a_servers_error_do_not_come_back(company):
    """A value that was given to the server by reference is blotted out of its errors."""
    secret = "env = { API_TOKEN = '${GATEWAY_SECRET}' }\n"
    async with company("secret_in_error", bad=secret) as gathering:
        await gathering.names()
        failed = await gathering.bad_call()

        assert failed.error is not None
        assert "x" * 12 not in failed.error.message
        assert "x" * 12 not in str(failed.mcp)


UNWILLING = [
    "ignore_sigterm",
    "ignore_end_of_input",
    "grandchild",
    "grandchild_ignores_sigterm",
    "grandchild_in_own_session",
]


async def test_unwilling_processes_are_gone_when_the_crib_is(company):
    """Whatever a server started or ignores, nothing is left (the fixture looks)."""
    async with company(*UNWILLING) as gathering:
        assert {f"{mode}__echo" for mode in UNWILLING} <= set(await gathering.names())


async def test_a_server_that_hangs_is_left_alone_after_five_calls_and_nobody_else_is_disturbed(company):
    """Each of the five waits its time; the sixth is refused at once, and a refresh lets calls through again."""
    async with company("hang_in_call", bad='call_timeout = "200ms"\ndiscovery_timeout = "5s"\n') as gathering:
        await gathering.names()
        late = [await gathering.bad_call() for _ in range(5)]
        refused = await gathering.bad_call()

        assert {result.error.code for result in late} == {"TOOL_TIMEOUT"}
        assert refused.error.code == "TOOL_UNAVAILABLE"
        assert "failed 5 times in a row and is left alone; last: it did not answer echo in time." in refused.text
        assert 0 < refused.error.details["retry_after_s"] <= 1.0
        assert await gathering.good_call() == "still here"
        assert gathering.crib.health().servers["good"].breaker == "closed"
        assert gathering.crib.health().servers["bad"].breaker in ("open", "half-open")
        assert [event.fields["server"] for event in gathering.events if event.name == "server.paused"] == ["bad"]
        await gathering.crib.refresh("bad")
        assert (await gathering.bad_call()).error.code == "TOOL_TIMEOUT"


async def test_a_server_that_dies_in_every_call_is_told_of_in_the_words_of_its_autopsy(company):
    """Whoever restarts it knows better when to try again: the breaker does not cut in."""
    async with company("exit_in_call") as gathering:
        await gathering.names()
        results = [await gathering.bad_call() for _ in range(8)]

        assert not any("left alone" in result.text for result in results)
        refused = [result for result in results if "retry_after_s" in result.error.details]
        assert refused
        assert all(f"Try again in {result.error.details['retry_after_s']:g} s." in result.text for result in refused)
        assert await gathering.good_call() == "still here"
