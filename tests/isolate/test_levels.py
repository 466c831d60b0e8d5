"""Levels: what they promise, and whether that is enough for a tool."""

import itertools
from pathlib import Path

import pytest

from toolcrib.config.rules import SETTING_RULES
from toolcrib.core.kinds import IsolationLevel
from toolcrib.core.offers import SecurityLevel
from toolcrib.isolate.levels import ADDED, UNPROMISED, Probe, promises, shortfall

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "isolation.md"


def test_every_level_promises_what_the_one_before_does():
    """More isolation never gives anything up."""
    levels = list(IsolationLevel)

    assert all(promises(low) <= promises(high) for low, high in itertools.pairwise(levels))


def test_everything_is_promised_by_one_level_or_said_to_be_promised_by_none():
    """The number of processes, to which the kernel does not hold root, and datagrams within this machine."""
    added = [probe for probes in ADDED.values() for probe in probes]

    assert sorted(added) == sorted(set(Probe) - UNPROMISED)
    assert frozenset({Probe.FORK, Probe.LOCAL_UDP}) == UNPROMISED


def test_the_documentation_promises_what_the_levels_promise():
    """Each thing that is tried, at each level."""
    levels = [level for level in IsolationLevel if promises(level)]
    words = {True: "kept from it", False: "open"}

    rows = [" | ".join([probe.attempt, *(words[probe in promises(level)] for level in levels)]) for probe in Probe]

    assert "\n".join(f"| {row} |" for row in rows) in DOCUMENTATION.read_text()


def test_every_probe_has_words():
    """What the table of ``doctor --isolation`` shows."""
    assert all(probe.attempt and probe == probe.value for probe in Probe)


@pytest.mark.parametrize("setting", ["isolation.level", "workspace.isolation"])
def test_of_two_levels_in_two_files_the_higher_one_counts(setting):
    """The configuration orders them as the rank does."""
    stricter = SETTING_RULES[setting]

    assert all(
        stricter(one, other) is max(one, other, key=lambda level: level.rank)
        for one in IsolationLevel
        for other in IsolationLevel
    )


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
