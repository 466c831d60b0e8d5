"""The self-test on this machine: every probe against every level, by what really happened."""

import os
from dataclasses import replace

import pytest

from toolcrib.core.kinds import IsolationLevel
from toolcrib.isolate.levels import Probe, promises
from toolcrib.isolate.selftest import Proof, Trial, Verdict, measure, open_arena, try_level

OPEN = {Verdict.OPEN}
KEPT = {Verdict.STOPPED, Verdict.LIMITED}


@pytest.mark.parametrize("probe", sorted(promises(IsolationLevel.ISOLATED) - {Probe.ENVIRON, Probe.TRACE}))
def test_without_isolation_everything_is_open(proof, probe):
    """Which also shows that the probe is able to do it."""
    assert proof.trials[IsolationLevel.NONE].verdicts[probe] is Verdict.OPEN


@pytest.mark.parametrize("probe", [Probe.ENVIRON, Probe.TRACE])
def test_limits_do_not_keep_root_from_looking_into_toolcrib(proof, probe):
    """An ordinary user's toolcrib forbids it for itself when it serves; nothing at this level keeps root out."""
    if os.getuid() == 0:
        assert proof.trials[IsolationLevel.LIMITS].verdicts[probe] is Verdict.OPEN
    assert probe not in promises(IsolationLevel.LIMITS)


@pytest.mark.parametrize("level", [level for level in IsolationLevel if promises(level)])
def test_a_level_is_proven_by_what_it_stops_and_by_nothing_else(proof, level):
    """Where a level is not to be had, the reason is given instead."""
    trial = proof.trials[level]

    if proof.holds(level):
        assert {trial.verdicts[probe] for probe in promises(level)} <= KEPT
        assert proof.why_not(level) == ""
    else:
        assert proof.why_not(level)


@pytest.mark.parametrize("level", [IsolationLevel.CONFINED, IsolationLevel.ISOLATED])
def test_a_confined_or_isolated_program_is_stopped(proof, level):
    """A machine that cannot confine or isolate fails here and says why."""
    verdicts = proof.trials[level].verdicts

    assert not proof.why_not(level)
    assert {probe for probe in promises(level) if verdicts[probe] not in KEPT} == set()


@pytest.mark.parametrize("level", [IsolationLevel.CONFINED, IsolationLevel.ISOLATED])
def test_what_no_level_promises_is_reported_as_it_is(proof, level):
    """Datagrams get to this machine where there is a network."""
    assert proof.trials[level].verdicts[Probe.LOCAL_UDP] is Verdict.OPEN


def test_the_number_of_processes_is_reported_as_it_is(proof):
    """Root is not held to it at any level; an ordinary user is, from limits on."""
    verdicts = [proof.trials[level].verdicts[Probe.FORK] for level in (IsolationLevel.LIMITS, IsolationLevel.CONFINED)]

    assert set(verdicts) == ({Verdict.OPEN} if os.getuid() == 0 else {Verdict.LIMITED})


async def test_without_bubblewrap_the_third_level_is_not_available(spawner, host):
    """And not proven, whatever the others do."""
    proof = await measure(spawner, replace(host, bwrap=None))

    assert proof.why_not(IsolationLevel.ISOLATED) == "bubblewrap (bwrap) is not installed"
    assert proof.proven is not IsolationLevel.ISOLATED


async def test_a_bubblewrap_that_does_not_work_proves_nothing(spawner, host):
    """Being installed is not enough."""
    trial = await try_level(spawner, replace(host, bwrap="/bin/false"), IsolationLevel.ISOLATED)

    assert trial.verdicts == {}
    assert "the probe could not run" in trial.missing


async def test_a_bubblewrap_that_only_pretends_proves_nothing(spawner, host, tmp_path):
    """The program runs, but nothing keeps it: every promise about files is broken."""
    pretender = tmp_path / "bwrap"
    pretender.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    pretender.chmod(0o755)

    trial = await try_level(spawner, replace(host, bwrap=str(pretender)), IsolationLevel.ISOLATED)

    assert {Probe.SECRET, Probe.WRITE, Probe.TCP, Probe.UNIX, Probe.SIGNAL} <= trial.broken(IsolationLevel.ISOLATED)


async def test_elsewhere_than_on_linux_only_limits_are_tried(spawner, host):
    """The higher levels say what they need."""
    trials = (await measure(spawner, replace(host, is_linux=False))).trials

    assert trials[IsolationLevel.CONFINED] == trials[IsolationLevel.ISOLATED] == Trial(missing="it needs Linux")


def test_one_broken_promise_costs_the_level():
    """All others kept."""
    kept = dict.fromkeys(promises(IsolationLevel.CONFINED), Verdict.STOPPED)
    trials = {level: Trial(kept) for level in (IsolationLevel.LIMITS, IsolationLevel.CONFINED)}
    broken = {**trials, IsolationLevel.CONFINED: Trial(kept | {Probe.UDP: Verdict.OPEN})}

    assert Proof(trials).proven is IsolationLevel.CONFINED
    assert Proof(broken).proven is IsolationLevel.LIMITS
    assert Proof(broken).why_not(IsolationLevel.CONFINED) == "the self-test could still get at: udp"


def test_what_the_probe_did_not_tell_counts_as_not_stopped_where_it_matters(host):
    """An empty answer proves neither tracing nor signals nor limits."""
    with open_arena(host.temporary, forks=0) as arena:
        verdicts = arena.judge({})

        with_network = arena.judge_network({})

    seen_from_here = {Probe.SECRET, Probe.WRITE, Probe.CHMOD, Probe.TCP, Probe.UDP, Probe.UNIX, Probe.ENVIRON}
    assert {probe for probe, verdict in verdicts.items() if verdict is not Verdict.OPEN} == seen_from_here
    assert with_network[Probe.NETLINK] is Verdict.OPEN


def test_the_arena_leaves_nothing(host):
    """Not even when the test is interrupted."""
    with pytest.raises(KeyboardInterrupt), open_arena(host.temporary, forks=0) as arena:
        raise KeyboardInterrupt

    assert not arena.home.exists()
