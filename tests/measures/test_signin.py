"""What the figure ``signin`` stands on; it is measured by ``./dev bench signin``."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.options import parse

WORKER = Path(__file__).parents[2] / "bench" / "workers" / "signed_in.py"


def test_the_length_of_an_endurance_run_is_ten_minutes_or_what_was_asked_for():
    assert parse(["signin"]).endurance is None
    assert parse(["signin", "--endurance"]).endurance == 600
    assert parse(["signin", "--endurance", "120"]).endurance == 120


def test_the_stage_signs_somebody_in_and_restarts_what_replicas_share(tmp_path: Path):
    """It takes one order after the other, and ends with its input."""
    (home := tmp_path / "home").mkdir()
    argv = [sys.executable, str(WORKER), json.dumps({"wishes": {"accessS": 60}, "shared": True})]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None

        def order(**told: Any) -> Any:
            worker.stdin.write(json.dumps(told) + "\n")
            worker.stdin.flush()
            return json.loads(next(line for line in worker.stdout if line.startswith("@@"))[2:])

        about = order(do="open")
        tables = f'[kb]\nenabled = false\n[store]\nurl = "{about["store"]}"\n[servers.s0]\nurl = "{about["url"]}"\n'
        (home / "toolcrib.toml").write_text(tables)
        got = order(do="sign_in", home=str(home), key="a key of sixteen letters")
        restarted = order(do="restart")
        again = order(do="sign_in", home=str(home), key="a key of sixteen letters")
        seen, unknown = order(do="seen"), order(do="sign_in", home=str(tmp_path / "nowhere"))
        worker.stdin.close()

    assert got["token"]
    assert restarted["s"] > 0
    assert again["client"] == got["client"]
    assert seen["tokens"] == 2
    assert "error" in unknown
    assert worker.returncode == 0
