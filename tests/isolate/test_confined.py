"""Programs within their bounds, for real: what is granted works, what is not does not, and nothing stays behind."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.isolate.conftest import CONFINED
from tests.transports.processes import until

from toolcrib.core.kinds import IsolationLevel
from toolcrib.isolate.levels import IsolationWanted, Probe, ResourceLimits
from toolcrib.isolate.plan import CONFINED_POWERS, Host, confine
from toolcrib.isolate.run import run_once
from toolcrib.isolate.selftest import Verdict, listen, was_called
from toolcrib.transports.process.spec import ProcessSpec

TRY = """
import sys
try:
    {}
except OSError as error:
    print(type(error).__name__)
else:
    print("done")
"""
READ = TRY.format("open(sys.argv[1]).read()")
WRITE = TRY.format("open(sys.argv[1], 'w').write('x')")
CONNECT = TRY.format("import socket; socket.create_connection(('127.0.0.1', int(sys.argv[1])))")
UNIX = TRY.format("import socket; socket.socket(socket.AF_UNIX).connect(sys.argv[1])")


async def test_a_granted_directory_can_be_read_and_not_written(run_python, wish, tmp_path):
    """Its neighbours can be neither."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("a")
    (tmp_path / "other").write_text("b")
    granted = replace(wish, read=(str(tmp_path / "in"),))

    assert await run_python(READ, granted, tmp_path / "in" / "a") == "done"
    assert await run_python(WRITE, granted, tmp_path / "in" / "b") in ("PermissionError", "OSError")
    assert await run_python(READ, granted, tmp_path / "other") in ("PermissionError", "FileNotFoundError")


async def test_a_directory_granted_for_writing_can_be_written(run_python, wish, tmp_path):
    """What is written there is there, and nobody else can read it."""
    await run_python(WRITE, replace(wish, write=(str(tmp_path),)), tmp_path / "out")

    assert (tmp_path / "out").read_text() == "x"
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o600


async def test_a_symbolic_link_does_not_lead_out(run_python, wish, tmp_path):
    """What counts is where a file is, not by which name it is reached."""
    (tmp_path / "in").mkdir()
    (tmp_path / "secret").write_text("s")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "secret")

    seen = await run_python(READ, replace(wish, read=(str(tmp_path / "in"),)), tmp_path / "in" / "link")

    assert seen in ("PermissionError", "FileNotFoundError")


async def test_unix_sockets_stay_closed_even_with_a_network(run_python, wish, tmp_path):
    """Behind them are docker, ssh-agent and the desktop; a granted directory does not open them."""
    with listen(socket.AF_UNIX, socket.SOCK_STREAM, str(tmp_path / "s")) as listener:
        told = await run_python(UNIX, replace(wish, network=True, write=(str(tmp_path),)), tmp_path / "s")

        assert told == "PermissionError"
        assert not was_called(listener)


async def test_a_confined_program_cannot_read_the_environment_of_toolcrib(run_python, wish):
    """Not even as root."""
    told = await run_python(READ, wish, f"/proc/{os.getpid()}/environ")

    assert told in ("PermissionError", "FileNotFoundError")


async def test_limits_alone_do_not_keep_root_from_it(run_python):
    """They are no confinement, and do not pretend to be."""
    told = await run_python(
        READ.replace("open(sys.argv[1])", "open(sys.argv[1], 'rb')"), IsolationWanted(), f"/proc/{os.getpid()}/environ"
    )

    assert told == "done" or os.getuid() != 0


async def test_threads_subprocesses_and_event_loops_work(run_python, wish):
    """What ordinary programs need is not forbidden."""
    script = """
import asyncio, threading
async def main():
    shell = await asyncio.create_subprocess_exec("/bin/echo", "hi", stdout=asyncio.subprocess.PIPE)
    said, _ = await shell.communicate()
    print(said.decode().strip(), await asyncio.to_thread(threading.active_count) > 1)
asyncio.run(main())
"""
    assert await run_python(script, wish) == "hi True"


async def test_the_private_directory_is_private_and_gone_afterwards(run_python, wish):
    """Also what was hidden in it: read-only directories, links to elsewhere."""
    script = """
import ctypes
import os
home = os.environ["TMPDIR"]
os.makedirs(home + "/a/b")
open(home + "/a/b/c", "w").close()
os.symlink("/usr", home + "/a/link")
os.chmod(home + "/a", 0)
print(os.getcwd() == home, oct(os.stat(home).st_mode & 0o777), home)
"""
    same, mode, home = (await run_python(script, wish)).split()

    assert (same, mode) == ("True", "0o700")
    assert not Path(home).exists()
    assert Path("/usr").exists()


OWNER = """
import asyncio, os, sys
from toolcrib.isolate.levels import IsolationWanted
from toolcrib.isolate.plan import Host, confine
from toolcrib.transports.process.spawn import Spawner
from toolcrib.transports.process.spec import ProcessSpec

async def main():
    spec = ProcessSpec(("/bin/sleep", "60"), {"PATH": os.defpath}, stop_grace_s=0, kill_grace_s=0)
    bounded = confine(spec, IsolationWanted(sys.argv[1]), Host.here(os.environ))
    await Spawner().start(bounded)
    print(bounded.confinement.private, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_the_private_directory_is_gone_after_toolcrib_was_killed(wish):
    """The keeper outlives it and clears up."""
    owner = subprocess.Popen([sys.executable, "-c", OWNER, wish.level], stdout=subprocess.PIPE, text=True)
    private = Path(owner.stdout.readline().strip())
    assert private.is_dir()

    owner.send_signal(signal.SIGKILL)
    owner.communicate()

    await until(lambda: not private.exists())


async def test_memory_and_file_sizes_are_limited_as_configured(run_python, wish):
    """At every level above none; an ordinary error inside the program."""
    script = """
import ctypes
import os
try:
    bytearray(300_000_000)
except MemoryError:
    print("no memory")
try:
    with open(os.environ["TMPDIR"] + "/f", "wb") as file:
        file.seek(2_000_000)
        file.write(b"x")
except OSError as error:
    print(error.strerror)
"""
    limits = ResourceLimits(memory_bytes=200_000_000, file_bytes=1_000_000)

    assert await run_python(script, replace(wish, limits=limits)) == "no memory\nFile too large"


async def test_a_program_gains_no_privileges(run_python):
    """From limits on: a setuid program inside is an ordinary one."""
    script = "print([line for line in open('/proc/self/status') if line.startswith('NoNewPrivs')][0].split()[1])"

    assert await run_python(script, IsolationWanted()) == "1"


async def test_an_isolated_program_sees_no_other_processes(run_python):
    wish = IsolationWanted(IsolationLevel.ISOLATED)

    assert int(await run_python("import os; print(len([n for n in os.listdir('/proc') if n.isdigit()]))", wish)) <= 2


@pytest.mark.parametrize("level", [IsolationLevel.LIMITS, IsolationLevel.CONFINED])
async def test_root_keeps_no_power_over_its_limits(run_python, level):
    """At confined none over the machine either: files, users, its own processes and low ports are all that is left."""
    script = "print(*[line.split()[1] for line in open('/proc/self/status') if line.startswith('CapBnd')])"
    sys_resource = 1 << 24

    left = int(await run_python(script, IsolationWanted(level)), 16)

    assert os.getuid() or not left & sys_resource
    assert os.getuid() or level is IsolationLevel.LIMITS or left == CONFINED_POWERS


async def test_a_program_that_says_too_much_is_cut(spawner, host):
    """It does not fill the memory of toolcrib."""
    spec = ProcessSpec(("/bin/cat", "/dev/zero"), {"PATH": os.defpath}, stop_grace_s=0, kill_grace_s=0)

    finished = await run_once(spawner, confine(spec, IsolationWanted(), Host.here(os.environ)), b"", 100_000)

    assert finished.is_cut


def landlock_version() -> int:
    return ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1)


def test_signals_are_kept_in_by_kernels_that_can(proof):
    """From Linux 6.12 on; elsewhere it is open, and said to be."""
    verdict = proof.trials[IsolationLevel.CONFINED].verdicts[Probe.SIGNAL]

    assert verdict is (Verdict.STOPPED if landlock_version() >= 6 else Verdict.OPEN)


async def test_landlock_stops_tcp_also_without_the_filter(spawner, host):
    """Two fences, each standing by itself; kernels before 6.7 have only the filter."""
    with listen(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)) as listener:
        argv = (sys.executable, "-I", "-S", "-c", CONNECT, str(listener.getsockname()[1]))
        spec = ProcessSpec(argv, {"PATH": os.defpath}, stop_grace_s=0, kill_grace_s=0)
        bounded = confine(spec, CONFINED, host)
        bounded = replace(bounded, confinement=replace(bounded.confinement, filter=b""))
        await run_once(spawner, bounded, b"", 1000)

        assert was_called(listener) is (landlock_version() < 4)
