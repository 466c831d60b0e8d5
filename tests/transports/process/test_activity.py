"""A process tree as the kernel counts it."""

import os
import subprocess
import sys

import pytest

from toolcrib.transports.process.activity import look_at

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a process does")
CHILD = "input(); print(1, flush=True); input()"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', '{CHILD}'])"


def test_a_tree_is_seen_with_its_commands_and_whether_it_moved():
    """Two looks differ when something was done in between."""
    env = {**os.environ, "npm_lifecycle_event": "npx"}
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", PARENT], stdin=pipe, stdout=pipe, env=env, text=True) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        while (
            (before := look_at(parent.pid)) is None or len(before.commands) < 2 or "input()" not in before.commands[1]
        ):
            pass
        parent.stdin.write("\n")
        parent.stdin.flush()
        parent.stdout.readline()
        after = look_at(parent.pid)
        parent.stdin.write("\n")

    assert before != after
    assert before.tasks == {"npx"}


def test_a_process_that_is_gone_tells_nothing():
    """There is nothing to see."""
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass

    assert look_at(gone.pid) is None
