import json
import random
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

from tests.fleet import launcher

WORKER = Path(__file__).parents[2] / "bench" / "workers" / "kb_embedder.py"
PASSAGES = 60


def kill_round(home, chance):
    """Let a process change the embedder back and forth, kill it somewhere, and look what is left."""
    command = [sys.executable, str(WORKER)]
    with launcher.popen([*command, "fill", str(home)], is_example=True, stdout=subprocess.PIPE) as process:
        try:
            heard = b"".join(process.stdout.readline() for _ in range(chance.randint(3, 8)))
            time.sleep(chance.uniform(0, 0.05))  # nothing depends on how far it comes meanwhile
        finally:
            process.kill()
        heard += process.stdout.read()
    done = launcher.run([*command, "check", str(home)], stdin="", timeout_s=150)
    told = [int(line.split()[0]) for line in heard[: heard.rfind(b"\n") + 1].splitlines()]
    return told, json.loads(done.stdout)


def test_a_killed_change_of_embedder_loses_no_vector_and_goes_on_where_it_was(tmp_path):
    """Three kills; each time every document is found by a vector, and what was put aside is still there."""
    chance = random.Random(7)
    rounds = [kill_round(tmp_path, chance) for _ in range(3)]

    assert [found["fault"] for _, found in rounds] == [""] * 3
    assert sum(len(told) for told, _ in rounds) > 8
    assert all(told for told, _ in rounds)
    for (told, found), (going_on, _) in pairwise(rounds):
        assert told[-1] == PASSAGES or found["done"] >= told[-1]
        assert found["done"] == PASSAGES or going_on[0] > found["done"]
