"""Every way a server can misbehave, among healthy ones: it costs itself, and nobody else."""

import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.fleet import launcher
from tests.hostile.conftest import is_running
from tests.hostile.encounter import CALL_S, Encounter
from tests.hostile.servers import MODES

from toolcrib.core.errors import TOOL_CODES

AT_ONCE = 4  # most modes wait most of the time
LIMIT_S = 600
GONE_S = 60.0
SLACK_S = 60.0  # for a busy machine; what hangs, hangs longer
EVIL = sorted(MODES.keys() - {"proper", "proper_library"})


@dataclass(frozen=True)
class Aftermath:
    """One encounter, and which processes of the servers were there `GONE_S` after its end."""

    met: Encounter
    survivors: list[int]


def encounter(mode: str, folder: Path) -> Aftermath:
    (folder / "tmp").mkdir(parents=True)
    argv = [sys.executable, "-m", "tests.hostile.encounter", mode, str(folder)]
    done = launcher.run(argv, stdin="", timeout_s=LIMIT_S, cwd=folder)
    assert done.returncode == 0, done.stderr
    deadline = time.monotonic() + GONE_S
    while (left := survivors(folder)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return Aftermath(Encounter(**json.loads(done.stdout)), left)


def survivors(folder: Path) -> list[int]:
    pids = [int(pid) for file in folder.glob("*.pids") for pid in file.read_text().split()]
    return [pid for pid in pids if is_running(pid)]


@pytest.fixture(scope="module")
def encounters(request, tmp_path_factory) -> Iterator[dict[str, "Future[Aftermath]"]]:
    """All modes that are to be tested, a few at a time."""
    wanted = [item.callspec.params["mode"] for item in request.session.items if item.path == request.path]
    folder = tmp_path_factory.mktemp("evil")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {mode: pool.submit(encounter, mode, folder / mode) for mode in wanted}
        pool.shutdown(cancel_futures=True)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", EVIL)
def test_an_evil_server_costs_only_itself(encounters, mode):
    """A typed answer in time, the good server undisturbed, memory bounded, one audit record for each call, and nothing
    left behind. How long the event loop is held up is a figure: ``./dev bench attack`` measures it."""
    after = encounters[mode].result()
    met = after.met

    assert "good__echo" in met.listed or len(met.listed) == 3
    assert set(met.outcomes) <= TOOL_CODES | {"ok"}
    assert len(met.outcomes) == 2
    assert met.audited == ["success" if outcome == "ok" else outcome for outcome in met.outcomes]
    assert met.call_s <= CALL_S + SLACK_S
    assert met.good_calls > 0
    assert met.good_failures == 0
    assert met.growth_mb <= 64
    assert met.open_files <= 0
    assert met.left_files == []
    assert after.survivors == []
    assert set(met.asked.values()) <= TOOL_CODES | {"ok"}, met.asked
    assert {met.asked[label] for label in met.asked if label.startswith("neighbour")} <= {"ok"}
    assert met.offered <= 3 * 2000
    assert met.told_wrongly == 0
