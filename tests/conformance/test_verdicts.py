"""The rules by which a run of the suite is judged."""

from pathlib import Path

from tests.conformance.verdicts import (
    Check,
    Expectation,
    Outcome,
    Run,
    judge,
    read_expectations,
    read_outcome,
    unmatched,
)

RUN = Run("server", "http", "2026-07-28")
PASSED = Check("first", "SUCCESS", "")
FAILED = Check("second", "FAILURE", "got 404")


def outcome(*checks, scenario="caching", run=RUN):
    return Outcome(run, scenario, checks)


def test_a_failure_nobody_foresaw_is_new():
    """It turns the verdict and keeps the suite's own words."""
    verdict = judge(outcome(PASSED, FAILED), [])

    assert verdict.new == (FAILED,)
    assert not verdict.is_good


def test_a_foreseen_failure_is_excused_with_its_reason():
    """The whole scenario may be named, or one check of it."""
    whole = Expectation("server", "caching", "not served")
    single = Expectation("server", "caching", "not served", check="second")

    for expectation in (whole, single):
        verdict = judge(outcome(PASSED, FAILED), [expectation])

        assert verdict.excused == ((FAILED, expectation),)
        assert verdict.is_good


def test_an_excuse_for_one_check_does_not_cover_another():
    """The rest of the scenario stays enforced."""
    verdict = judge(outcome(FAILED), [Expectation("server", "caching", "not served", check="first")])

    assert verdict.new == (FAILED,)


def test_a_foreseen_failure_that_passes_is_stale():
    """Whatever was fixed has to leave the table."""
    whole = Expectation("server", "caching", "not served")
    single = Expectation("server", "caching", "not served", check="first")

    assert judge(outcome(PASSED), [whole]).stale == (whole,)
    assert judge(outcome(PASSED, FAILED), [single]).stale == (single,)


def test_a_check_that_was_never_reached_is_not_stale():
    """A scenario that stops early says nothing about its later checks."""
    single = Expectation("server", "caching", "not served", check="third")

    assert judge(outcome(PASSED), [single]).stale == ()


def test_an_expectation_can_be_narrowed():
    """To one revision, and to one way the upstream is reached."""
    elsewhere = [
        Expectation("server", "caching", "not served", revisions=("2025-11-25",)),
        Expectation("server", "caching", "not served", targets=("stdio",)),
        Expectation("client", "caching", "not served"),
    ]

    assert judge(outcome(FAILED), elsewhere).new == (FAILED,)
    assert unmatched(elsewhere, [outcome(FAILED)]) == elsewhere


def test_a_pattern_stands_for_many_scenarios():
    """Each of them has to fail, or the entry is stale for it."""
    pattern = Expectation("server", "cach*", "not served")

    assert judge(outcome(FAILED), [pattern]).is_good
    assert judge(outcome(PASSED), [pattern]).stale == (pattern,)
    assert judge(outcome(FAILED, scenario="ping"), [pattern]).new == (FAILED,)


def test_a_scenario_that_checked_nothing_has_failed():
    """Silence is no proof."""
    assert read_outcome(RUN, "initialize", None).failures == [Check("nothing-checked", "FAILURE", "no check was made")]


def test_every_expectation_gives_a_reason():
    """The table is for people."""
    expectations = read_expectations(Path(__file__).parent / "expected.toml")

    assert expectations
    assert all(expectation.reason for expectation in expectations)
