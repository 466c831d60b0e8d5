"""toolcrib started by the launcher: a process like any other, which ends with whoever asked for it."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fleet import launcher
from tests.fleet.running import until

ROOT = Path(__file__).resolve().parents[2]
ASK = """
import os, signal, sys
from tests.fleet import launcher
home = sys.argv[1]
process = launcher.popen([*launcher.TOOLCRIB, "stdio", "--alone"], stdin=-1, cwd=home, env={**os.environ, "HOME": home})
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


PROGRAMS = {
    "print('done')": (0, "done\n", ""),
    "import atexit; atexit.register(print, 'at last')": (0, "at last\n", ""),
    "import threading; threading.Thread(target=print, args=('beside',)).start()": (0, "beside\n", ""),
    "raise SystemExit(3)": (3, "", ""),
    "raise SystemExit('in words')": (1, "", "in words\n"),
}


@pytest.mark.parametrize("code", PROGRAMS)
def test_a_program_ends_as_python_ends_it(code, tmp_path):
    """What is to happen at the end does, and the exit code is told."""
    script = tmp_path / "program.py"
    script.write_text(code)

    done = [
        launcher.run([sys.executable, *words], stdin="", timeout_s=150, cwd=tmp_path)
        for words in ([str(script)], ["-c", code])
    ]

    assert [(one.returncode, one.stdout, one.stderr) for one in done] == [PROGRAMS[code]] * 2


def test_it_finds_modules_where_its_own_environment_says(tmp_path):
    (tmp_path / "elsewhere.py").write_text("print('found')")
    command = [sys.executable, "-c", "import sys, elsewhere; print(sys.argv)", "word"]
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}

    with_path = launcher.run(command, stdin="", timeout_s=150, cwd="/", env=env)
    without = launcher.run(command, stdin="", timeout_s=150, cwd="/")

    assert with_path.stdout == "found\n['-c', 'word']\n"
    assert "No module named 'elsewhere'" in without.stderr


def test_a_program_that_fails_says_where(tmp_path):
    script = tmp_path / "program.py"
    script.write_text("1 / 0")

    done = launcher.run([sys.executable, str(script)], stdin="", timeout_s=150, cwd=tmp_path)

    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "ZeroDivisionError: division by zero")


def test_imports_are_done_once_and_a_launcher_starts_from_another(tmp_path):
    """Each program has the modules; what one of them does to a module, no other sees."""
    (tmp_path / "slow.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'a').write('x')")
    script = tmp_path / "program.py"
    script.write_text("import colorsys, slow, sys\nprint(hasattr(slow, 'mine'))\nslow.mine = 1")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with (
        contextlib.closing(launcher.Launcher(imports="import slow", env=env)) as base,
        contextlib.closing(launcher.Launcher(imports="import colorsys", env=env, base=base)) as above,
    ):
        said = [one.run([str(script)], cwd=tmp_path, env=env).stdout for one in (base, above, above)]

    assert said == ["False\n"] * 3
    assert (tmp_path / "imported").read_text() == "x"


def test_that_a_signal_ended_it_is_told(tmp_path):
    env = {**os.environ, "HOME": str(tmp_path)}
    with launcher.popen(
        [*launcher.TOOLCRIB, "stdio", "--alone"], stdin=subprocess.PIPE, cwd=tmp_path, env=env
    ) as process:
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
