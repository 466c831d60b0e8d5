"""Commands: they work in the workspace, and reach nothing else."""

import asyncio
import os
import secrets
import signal
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fleet.running import until
from tests.workspace.conftest import CANARY

from toolcrib.core.errors import PermissionDenied, ToolcribError
from toolcrib.core.kinds import IsolationLevel
from toolcrib.isolate.plan import Host
from toolcrib.isolate.proof import Prover
from toolcrib.stores.paths import find_project
from toolcrib.version import VERSION
from toolcrib.workspace.root import WorkspaceRoot
from toolcrib.workspace.shell import Ends, ShellSettings, ShellTools


@pytest.fixture(params=["confined", "isolated"])
def bounds(request, spawner, state):
    """This machine with and without its bubblewrap, so that commands are run at both levels."""
    host = Host.here(os.environ)
    assert host.bwrap, "bubblewrap is not installed: run `./dev` once"
    if request.param == "confined":
        host = replace(host, bwrap=None)
    return host, Prover(spawner, host, state.with_name(request.param), VERSION)


async def test_a_command_runs_at_the_level_that_is_proven(shell, request):
    assert (await run(shell, "echo hi"))["isolation"] == request.node.callspec.params["bounds"]


@pytest.fixture
def shell(work, programs):
    return ShellTools(WorkspaceRoot(work), programs, ShellSettings(timeout_s=150.0, output=4096))


async def run(shell, command, **more):
    return (await shell.bash({"command": command} | more)).structured


async def test_a_command_works_in_the_workspace(shell, work):
    done = await shell.bash({"command": "cat a.txt; echo new > made.txt; echo oops >&2; echo last; exit 3"})

    assert done.structured["output"] == "alpha\nbeta\noops\nlast\n"
    assert done.structured["exit_code"] == 3
    assert done.text.endswith(f"[exit code 3, isolation {done.structured['isolation']}, network off]")
    assert (work / "made.txt").read_text() == "new\n"


async def test_a_command_starts_where_it_is_told(shell):
    done = await run(shell, "ls; pwd | grep -o '[^/]*$'", path="src")

    assert done["output"] == "b.py\nsrc\n"
    with pytest.raises(ToolcribError, match="leads out"):
        await run(shell, "ls", path="../outside")


async def test_a_command_reads_and_writes_nothing_outside(shell, outside, work):
    (work / "way_out").symlink_to(outside)
    attempts = [
        f"cat {outside}/secret.txt",
        "cat way_out/secret.txt",
        f"echo pwned > {outside}/new.txt",
        f"rm -rf {outside}",
        f"ln {outside}/secret.txt hard; cat hard",
        f"mv {outside}/secret.txt .",
        f"cp -r {outside} copy",
        "cat ~/.bashrc",
        "cat /proc/1/environ",
        f"cat /proc/$PPID/root{outside}/secret.txt",
        f"cd {outside} && cat *",
        "cat < way_out/deep/secret.txt",
    ]
    done = await run(shell, "\n".join(attempts))

    assert CANARY not in done["output"]
    assert sorted(path.name for path in outside.rglob("*")) == ["deep", "secret.txt", "secret.txt"]
    assert not any(CANARY in path.read_text() for path in work.rglob("*") if path.is_file() and not path.is_symlink())


async def test_a_command_has_no_network(shell):
    with socket.create_server(("127.0.0.1", 0)) as canary:
        canary.setblocking(False)
        port = canary.getsockname()[1]
        done = await run(shell, f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached")

        assert done["network"] is False
        assert "reached" not in done["output"]
        with pytest.raises(BlockingIOError):
            canary.accept()


@pytest.mark.parametrize(("granted", "told"), [(True, "reached\n"), (False, "")])
async def test_a_command_with_a_network_reaches_those_ports_of_this_machine_that_it_was_granted(
    work, programs, granted, told
):
    """Others it does not: one of them is toolcrib's."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        settings = ShellSettings(network=True, loopback=(port,) if granted else ())
        done = await run(
            ShellTools(WorkspaceRoot(work), programs, settings),
            f"(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>&- && echo reached",
        )

    assert (done["output"], done["network"]) == (told, True)


async def test_a_command_sees_nothing_of_our_environment(shell, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", CANARY)
    done = await run(shell, "env; cat /proc/self/environ | tr '\\0' '\\n'; cat /proc/*/environ")

    assert CANARY not in done["output"]
    assert f"HOME={os.environ.get('HOME')}\n" not in done["output"]


async def test_a_command_that_takes_too_long_is_ended_with_all_it_started(shell, mark):
    done = await run(shell, f"echo begun; sleep {mark} & sleep {mark}", timeout_s=4.0)

    assert (done["output"], done["timed_out"], done["exit_code"]) == ("begun\n", True, None)
    await asyncio.to_thread(until, lambda: not find_running(mark), deadline_s=150, what="both are gone")


async def test_what_a_command_leaves_behind_is_ended(shell, mark):
    """It is counted, too, unless it went with its namespace before anybody could count."""
    done = await run(shell, f"setsid sleep {mark} & echo done")

    assert (done["output"], done["exit_code"]) == ("done\n", 0)
    assert done["left_behind"] == 1 or (done["left_behind"], done["isolation"]) == (0, "isolated")
    await asyncio.to_thread(until, lambda: not find_running(mark), deadline_s=150, what="it is gone")


async def test_a_call_that_is_called_off_ends_its_command(shell, mark):
    calling = asyncio.create_task(run(shell, f"sleep {mark}"))
    await asyncio.to_thread(until, lambda: find_running(mark), deadline_s=150, what="the command runs")
    calling.cancel()

    with pytest.raises(asyncio.CancelledError):
        await calling
    await asyncio.to_thread(until, lambda: not find_running(mark), deadline_s=150, what="it is gone")


@pytest.fixture
def mark():
    """A time to sleep that nobody else sleeps: in a namespace, numbers of processes say nothing outside."""
    return f"600.{secrets.randbelow(10**12):012}"


def find_running(mark):
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        found += [entry] if words[-2:-1] == [mark.encode()] else []
    return found


async def test_of_a_long_output_both_ends_are_kept(shell):
    done = await run(shell, "for i in $(seq 1 100000); do echo $i; done")

    assert done["output"].startswith("1\n2\n3\n")
    assert done["output"].endswith("99999\n100000\n")
    assert "bytes left out" in done["output"]
    assert (len(done["output"]) < 5000, done["cut"], done["output_bytes"]) == (True, True, 588_895)


async def test_a_command_that_asks_gets_no_answer(shell):
    assert (await run(shell, 'read -r answer; echo "got <$answer>"; cat'))["output"] == "got <>\n"


async def test_a_killed_command_tells_its_signal(shell):
    """Inside a bubblewrap as shells tell it."""
    done = await run(shell, "kill -9 $$")

    assert done["exit_code"] == (128 + signal.SIGKILL if done["isolation"] == "isolated" else -signal.SIGKILL)


async def test_nothing_runs_with_less_isolation_than_asked_for(work, programs):
    proven = await programs.level()
    shell = ShellTools(WorkspaceRoot(work), programs, ShellSettings(IsolationLevel.ISOLATED))
    if proven is IsolationLevel.ISOLATED:
        assert (await run(shell, "echo hi"))["isolation"] == "isolated"
    else:
        with pytest.raises(PermissionDenied, match="must run at isolation 'isolated' or higher"):
            await run(shell, "touch made")
        assert not (work / "made").exists()


async def test_a_command_cannot_configure_toolcrib(work, programs):
    """Where nothing keeps it from that, it is not run at all."""
    (work / "toolcrib.toml").write_text("# as it was\n")
    shell = ShellTools(WorkspaceRoot(work), programs, ShellSettings())
    if await programs.level() is IsolationLevel.ISOLATED:
        await run(shell, "echo pwned > toolcrib.toml; mv toolcrib.toml gone; rm -f toolcrib.toml")
    else:
        with pytest.raises(PermissionDenied, match=r"toolcrib\.toml lies in the workspace"):
            await run(shell, "echo pwned > toolcrib.toml")

    assert (work / "toolcrib.toml").read_text() == "# as it was\n"


def test_both_ends_of_anything_are_kept():
    for most, chunks in ((10, [b"0123456789"]), (10, [b"01234", b"56789"]), (10, [b"0"] * 10)):
        ends = Ends(most)
        for chunk in chunks:
            ends.add(chunk)
        assert (bytes(ends), ends.is_cut) == (b"".join(chunks), False)
    ends = Ends(10)
    for number in range(100):
        ends.add(b"%02d" % number)

    assert str(ends) == "00010\n... (190 bytes left out) ...\n79899"


async def test_a_command_reads_what_it_is_granted(work, outside, programs):
    shell = ShellTools(WorkspaceRoot(work), programs, ShellSettings(read=(str(outside / "deep"),)))
    done = await run(
        shell, f"cat {outside}/deep/secret.txt; cat {outside}/secret.txt; echo x > {outside}/deep/secret.txt"
    )

    assert done["output"].count(CANARY) == 1
    assert (outside / "deep" / "secret.txt").read_text() == f"{CANARY}\n"


@pytest.mark.parametrize(
    "command",
    [
        "echo pwned > toolcrib.toml",
        "echo pwned > x; mv x .mcp.json",
        "echo pwned > x; ln -s x mcp.json",
        "ln -s later toolcrib.toml",
        "mkdir .cursor; echo pwned > .cursor/mcp.json",
        "mkdir y; echo pwned > y/mcp.json; ln -s $PWD/y .vscode",
        "echo pwned > toolcrib.toml; sleep 600",
        "mkdir -p src/deep; echo pwned > src/deep/toolcrib.toml",
        "echo pwned > src/ToolingManifest.JSON",
        "mkdir y; echo pwned > y/settings.json; mv y .gemini",
        "mkdir y; echo pwned > y/settings.json; ln -s y .gemini",
        "ln src/b.py src/mcp.json",
    ],
)
async def test_a_command_makes_no_file_that_toolcrib_would_read_its_servers_from(work, programs, command):
    """It is there under another name, and the result says so."""
    shell = ShellTools(WorkspaceRoot(work), programs, ShellSettings(timeout_s=4.0))
    done = await run(shell, command)

    assert find_project(work) is None
    assert "decides which programs are run" in done["output"]
    assert [path for path in work.rglob("*") if path.name.endswith(".not-read")]


async def test_a_changed_file_below_is_no_longer_read_whatever_its_times_say(shell, work):
    """Not even one that was changed by another name of it."""
    (work / "src" / "toolcrib.toml").write_text("# as it was\n")
    (work / "src" / "link").hardlink_to(work / "src" / "toolcrib.toml")

    done = await run(shell, "cd src; cp -p toolcrib.toml /tmp/x; echo '# as it is ' > link; touch -d @0 link")

    assert "src/toolcrib.toml decides which programs are run; it is src/toolcrib.toml.not-read now" in done["output"]
    assert find_project(work / "src") is None


async def test_a_manifest_in_the_workspace_is_kept_from_commands(work, programs):
    """Its servers are sent tokens."""
    (work / "ToolingManifest.json").write_text("{}")
    shell = ShellTools(WorkspaceRoot(work), programs, ShellSettings())
    if await programs.level() is IsolationLevel.ISOLATED:
        await run(shell, "echo pwned > ToolingManifest.json")
    else:
        with pytest.raises(PermissionDenied, match=r"ToolingManifest\.json lies in the workspace"):
            await run(shell, "echo pwned > ToolingManifest.json")

    assert (work / "ToolingManifest.json").read_text() == "{}"


async def test_what_was_there_before_a_command_stays_under_its_name(shell, work):
    (work / ".cursor").mkdir()
    (work / ".cursor" / "mcp.json").write_text("{}")

    assert "toolcrib" not in (await run(shell, "touch new"))["output"]
    assert find_project(work) == work / ".cursor" / "mcp.json"
