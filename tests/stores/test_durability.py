"""What was acknowledged survives a process that is killed in the middle of writing."""

import random
import sys
from pathlib import Path

from bench.durability import kill_round

ROUNDS = 5


def test_nothing_acknowledged_is_lost_to_kill_9(tmp_path: Path):
    """Five rounds over one log and one lock; ``./dev bench durability`` does three hundred."""
    chance = random.Random(7)

    rounds = [kill_round(sys.executable, tmp_path, 1 + number * 1_000_000, chance) for number in range(ROUNDS)]

    assert [survived.lost for survived in rounds] == [0] * ROUNDS
    assert [survived.fault for survived in rounds] == [""] * ROUNDS
    assert all(survived.acknowledged for survived in rounds)
