"""toolcrib started by the launcher: a process like any other, which ends with whoever asked for it."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.fleet import launcher
from tests.fleet.running import until

ROOT = Path(__file__).resolve().parents[2]
ASK = """
import os, signal, sys
from tests.fleet import launcher
home = sys.argv[1]
process = launcher.popen([*launcher.TOOLCRIB, "stdio"], stdin=-1, cwd=home, env={**os.environ, "HOME": home})
print(process.pid, flush=True)
signal.pause()
"""


def is_there(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_it_has_its_own_directory_environment_streams_and_exit_code(tmp_path):
    here = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    told = launcher.run([*launcher.TOOLCRIB, "config", "path"], stdin="", timeout_s=150, cwd=tmp_path, env=here)
    wrong = launcher.run([*launcher.TOOLCRIB, "nothing"], stdin="", timeout_s=150, cwd=tmp_path, env=here)

    assert (told.returncode, str(tmp_path) in told.stdout) == (0, True)
    assert (wrong.returncode, wrong.stdout, "nothing" in wrong.stderr) == (2, "", True)


def test_that_a_signal_ended_it_is_told(tmp_path):
    env = {**os.environ, "HOME": str(tmp_path)}
    with launcher.popen([*launcher.TOOLCRIB, "stdio"], stdin=subprocess.PIPE, cwd=tmp_path, env=env) as process:
        before = process.poll()
        process.kill()
        code = process.wait(150)

    assert (before, code) == (None, -signal.SIGKILL)


def test_it_ends_with_whoever_asked_for_it_however_that_ends(tmp_path):
    asking = subprocess.Popen([sys.executable, "-c", ASK, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE)
    try:
        pid = int(asking.stdout.readline())
    finally:
        asking.kill()
        asking.wait()

    until(lambda: not is_there(pid), deadline_s=150, what="the end of what was started")
