"""The self-test as an ordinary user: run by root it gives up being root, run by anybody else it stays who it is."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from toolcrib.core.kinds import IsolationLevel
from toolcrib.isolate.levels import UNPROMISED, Probe, promises

NOBODY = 65534
PROGRAM = Path(__file__).with_name("as_user.py")
SOURCES = Path(__file__).parents[2] / "src"


def as_nobody() -> dict[str, object]:
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}


def find_python() -> str:
    """A Python of this version that the user can run: ours may lie in root's home."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    candidates = [sys.executable, f"/usr/bin/{name}", f"/usr/local/bin/{name}"]
    for candidate in candidates:
        try:
            done = subprocess.run([candidate, "-c", ""], check=False, capture_output=True, cwd="/", **as_nobody())
        except OSError:
            continue
        if done.returncode == 0:
            return candidate
    raise AssertionError(
        f"an ordinary user can run none of {', '.join(candidates)}: install one, or do not test as root"
    )


@pytest.fixture(scope="module")
def told():
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}
    env["PYTHONPATH"] = f"{SOURCES}:{sysconfig.get_path('purelib')}"
    argv = [find_python(), str(PROGRAM)]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, cwd="/", env=env, **as_nobody())
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("level", [level for level in IsolationLevel if promises(level)])
def test_an_ordinary_user_is_promised_no_less_than_root(told, level):
    """Every level keeps everything it promises."""
    verdicts = told["verdicts"][level]

    assert told["user"] != 0
    assert told["why_not"][level] == ""
    assert {probe for probe in promises(level) if verdicts[probe] == "open"} == set()


def test_without_isolation_an_ordinary_users_programs_can_do_everything_but_look_into_toolcrib(told):
    """Which shows that the probe can do it, and that toolcrib's own protection holds."""
    verdicts = told["verdicts"]["none"]

    assert {probe for probe in Probe if verdicts[probe] != "open"} == {Probe.ENVIRON, Probe.TRACE}


def test_what_no_level_promises_is_told_as_it_is(told):
    """The number of processes is limited for an ordinary user; datagrams within this machine are not."""
    verdicts = told["verdicts"]["confined"]

    assert {probe: verdicts[probe] for probe in UNPROMISED} == {Probe.FORK: "limited", Probe.LOCAL_UDP: "open"}
