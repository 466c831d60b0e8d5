"""A server that is forked for its stand-in: it has that one's streams, and neither outlives the other."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fleet.forked import forked, toolcrib_stand_in
from tests.fleet.running import until
from tests.fleet.servers import Launch

import toolcrib

SCRIPT = """
import os, sys
print(os.getpid(), os.environ["GREETING"], os.getcwd(), *sys.argv[1:], flush=True)
sys.exit(len(sys.stdin.readline()))
"""


@pytest.fixture
def argv(tmp_path: Path) -> Iterator[list[str]]:
    (tmp_path / "python").symlink_to(sys.executable)
    (tmp_path / "server").write_text(SCRIPT)
    with forked(Launch(str(tmp_path / "server"), ("a", "b")), tmp_path) as launch:
        yield launch.argv


def test_toolcrib_is_there_at_once(tmp_path):
    """With its own arguments, streams and exit code."""
    done, wrong = (
        subprocess.run(
            [*toolcrib_stand_in(), word], cwd=tmp_path, capture_output=True, text=True, timeout=150, check=False
        )
        for word in ("--version", "no-such-word")
    )

    assert (done.returncode, toolcrib.__version__ in done.stdout) == (0, True)
    assert (wrong.returncode, "no-such-word" in wrong.stderr) == (2, True)


def start(argv: list[str], folder: Path) -> "subprocess.Popen[bytes]":
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen(argv, cwd=folder, env={**os.environ, "GREETING": "hello"}, **pipes)


def test_the_server_has_the_streams_arguments_and_surroundings_and_its_end_is_told(argv, tmp_path):
    with start(argv, tmp_path) as stand_in:
        pid, *said = stand_in.stdout.readline().decode().split()
        stand_in.communicate(b"12\n", timeout=150)

    assert said == ["hello", str(tmp_path), "a", "b"]
    assert stand_in.returncode == 3
    assert int(pid) != stand_in.pid


def test_a_server_ends_with_its_stand_in(argv, tmp_path):
    with start(argv, tmp_path) as stand_in:
        pid = int(stand_in.stdout.readline().split()[0])
        stand_in.kill()

    until(lambda: not Path(f"/proc/{pid}").exists(), deadline_s=150, what="the end of the server")
