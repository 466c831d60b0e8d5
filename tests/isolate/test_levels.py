"""Levels: what they promise, and whether that is enough for a tool."""

import itertools

import pytest

from toolcrib.config.security import ISOLATIONS
from toolcrib.core.tool import SecurityLevel
from toolcrib.isolate.levels import ADDED, ATTEMPTS, IsolationLevel, Probe, promises, shortfall


def test_every_level_promises_what_the_one_before_does():
    """More isolation never gives anything up."""
    levels = list(IsolationLevel)

    assert all(promises(low) <= promises(high) for low, high in itertools.pairwise(levels))


def test_the_number_of_processes_is_promised_by_no_level():
    """The kernel does not hold root to it, so nobody may rely on it; everything else is promised by exactly one."""
    added = [probe for probes in ADDED.values() for probe in probes]

    assert sorted(added) == sorted(set(Probe) - {Probe.FORK})


def test_every_probe_has_words():
    """What the table of ``doctor --isolation`` shows."""
    assert set(ATTEMPTS) == set(Probe)


def test_the_configuration_knows_the_same_levels():
    """In the same order."""
    assert tuple(IsolationLevel) == ISOLATIONS


@pytest.mark.parametrize(
    ("level", "has", "is_enough"),
    [
        (SecurityLevel.SYSTEM, IsolationLevel.NONE, False),
        (SecurityLevel.SYSTEM, IsolationLevel.LIMITS, False),
        (SecurityLevel.SYSTEM, IsolationLevel.CONFINED, True),
        (SecurityLevel.SYSTEM, IsolationLevel.ISOLATED, True),
        (SecurityLevel.READ_ONLY, IsolationLevel.NONE, True),
    ],
)
def test_a_tool_below_its_minimum_falls_short(level, has, is_enough):
    """A level without a minimum never does."""
    assert (shortfall(level, has, {"system": "confined"}) == "") is is_enough


def test_a_shortfall_says_what_is_needed_what_there_is_and_what_to_do():
    """One plain sentence, and the fix."""
    assert shortfall(SecurityLevel.SYSTEM, IsolationLevel.LIMITS, {"system": "confined"}) == (
        "Tools of level 'system' must run at isolation 'confined' or higher, but this one runs at 'limits'. "
        'Set isolation = "confined" for its server, or change minimum under [isolation]; '
        "`toolcrib doctor --isolation` shows what this machine can do."
    )
