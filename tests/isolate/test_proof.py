"""What was proven is remembered as long as nothing changes, and decides who may start."""

import json
from dataclasses import replace

import pytest

from toolcrib.core.errors import SourceUnavailable
from toolcrib.core.kinds import IsolationLevel
from toolcrib.isolate.levels import IsolationWanted, promises
from toolcrib.isolate.proof import Prover, describe_circumstances, recall, remember, state_path
from toolcrib.isolate.selftest import Proof, Trial, Verdict


def proven_up_to(highest: IsolationLevel) -> Proof:
    """What a self-test finds on a machine that can do so much."""
    able = {
        level: Trial(dict.fromkeys(promises(level), Verdict.STOPPED) if level.rank <= highest.rank else {})
        for level in IsolationLevel
    }
    return Proof(able)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "isolation.json"


@pytest.fixture
def prover_for(spawner, host, path):
    """A prover that remembers such an outcome from an earlier start."""

    def make(highest):
        remember(path, describe_circumstances(host, "1"), proven_up_to(highest))
        return Prover(spawner, host, path, "1")

    return make


async def test_the_self_test_runs_once_and_is_remembered(spawner, host, path):
    """The next start only reads a file; nothing is started."""
    first = await Prover(spawner, host, path, "1").proof()
    await spawner.close()
    second = await Prover(spawner, host, path, "1").proof()

    assert first == second
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("change", ["boot", "kernel", "user", "bwrap", "version", "probes", "namespaces", "traits"])
def test_another_machine_boot_user_or_version_is_tested_anew(host, path, change):
    """What held there says nothing of here."""
    circumstances = describe_circumstances(host, "1")
    remember(path, circumstances, proven_up_to(IsolationLevel.ISOLATED))

    assert recall(path, circumstances) is not None
    assert recall(path, circumstances | {change: "other"}) is None


@pytest.mark.parametrize("text", ["", "[]", "{", '{"circumstances": 1}', '{"trials": {"none": 3}}'])
def test_a_memory_that_cannot_be_read_is_no_memory(host, path, text):
    """Whatever happened to the file."""
    path.parent.mkdir()
    path.write_text(text)

    assert recall(path, describe_circumstances(host, "1")) is None


def test_a_word_nobody_knows_proves_nothing(host, path):
    """A file of another version."""
    circumstances = describe_circumstances(host, "1")
    remember(path, circumstances, proven_up_to(IsolationLevel.CONFINED))
    kept = json.loads(path.read_text())
    kept["trials"]["confined"]["verdicts"]["secret"] = "perhaps"
    path.write_text(json.dumps(kept))

    assert recall(path, circumstances) is None


async def test_where_nothing_can_be_remembered_it_is_measured_again(spawner, host, tmp_path):
    """A file stands in the way of the directory."""
    (tmp_path / "state").touch()
    prover = Prover(spawner, replace(host, bwrap=None), tmp_path / "state" / "isolation.json", "1")

    assert (await prover.proof()).holds(IsolationLevel.LIMITS)


async def test_a_level_that_is_not_proven_is_refused_with_the_fix(prover_for):
    """Fail closed: what is missing, what to do, what there is."""
    with pytest.raises(SourceUnavailable) as caught:
        await prover_for(IsolationLevel.LIMITS).settle(IsolationWanted(IsolationLevel.CONFINED))

    assert caught.value.message.startswith("isolation 'confined' is asked for, but not proven on this machine: ")
    assert "Landlock" in caught.value.hint
    assert "Or ask for 'limits'" in caught.value.hint
    assert caught.value.details["final"] is True


@pytest.mark.parametrize("highest", list(IsolationLevel))
async def test_auto_is_the_highest_proven_level_and_at_least_limits(prover_for, highest):
    """Whoever leaves it to toolcrib is never refused."""
    settled = await prover_for(highest).settle(IsolationWanted("auto"))

    assert settled is max(highest, IsolationLevel.LIMITS, key=lambda level: level.rank)


async def test_no_isolation_needs_no_proof(spawner, host, path):
    """Nothing is measured for it."""
    prover = Prover(spawner, host, path, "1")

    assert await prover.settle(IsolationWanted(IsolationLevel.NONE)) is IsolationLevel.NONE
    assert spawner.pid is None


async def test_without_bubblewrap_the_third_level_is_refused(spawner, host, path):
    """With the package to install."""
    prover = Prover(spawner, replace(host, bwrap=None), path, "1")

    with pytest.raises(SourceUnavailable, match=r"bubblewrap \(bwrap\) is not installed") as caught:
        await prover.settle(IsolationWanted(IsolationLevel.ISOLATED))

    assert "Install bubblewrap" in caught.value.hint


def test_the_outcome_is_kept_in_the_state_directory(tmp_path):
    """XDG: a relative ``XDG_STATE_HOME`` does not count."""
    assert state_path({"XDG_STATE_HOME": "/s", "HOME": "/h"}).as_posix() == "/s/toolcrib/isolation.json"
    assert state_path({"XDG_STATE_HOME": "s", "HOME": "/h"}).as_posix() == "/h/.local/state/toolcrib/isolation.json"
