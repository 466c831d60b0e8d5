import random
import sys

from bench.kbcrash import kill_round


def test_a_killed_writer_loses_no_acknowledged_document_and_leaves_a_whole_index(tmp_path):
    """Four rounds over one knowledge base; ``./dev bench kbcrash`` does two hundred."""
    chance = random.Random(4)
    survived = [kill_round(sys.executable, tmp_path, number * 1000, chance) for number in range(1, 5)]

    assert sum(each.acknowledged for each in survived) > 4
    assert [(each.lost, each.fault) for each in survived] == [(0, "")] * 4
