"""What the figure ``interaction`` makes of outcomes; the tests themselves are run by ``./dev bench interaction``."""

import json

from bench.interaction.verdicts import Cell, Expectation, Leg, compare, read_cells, read_expectations, stale, totals

LEG = Leg("streamable-http", "http", "stdio")


def line(cell, outcome="passed", reason="", when="call"):
    return json.dumps(
        {
            "cell": f"{cell}[streamable-http-2026-07-28]",
            "transport": "streamable-http",
            "version": "2026-07-28",
            "when": when,
            "outcome": outcome,
            "reason": reason,
        }
    )


def test_a_test_that_fails_while_it_is_torn_down_has_not_passed():
    cells = read_cells([line("a.py::one"), line("a.py::one", "failed", "left behind", "teardown")])

    assert cells == {"streamable-http": [Cell("a.py::one", "2026-07-28", "left behind")]}


def test_only_what_passes_directly_can_be_lost():
    direct = [Cell("a.py::one", "v", ""), Cell("a.py::two", "v", "no"), Cell("a.py::three", "v", "")]
    through = [Cell("a.py::one", "v", ""), Cell("a.py::two", "v", "no")]

    found = compare(LEG, direct, through, [])

    assert (found.direct, found.through) == (2, 1)
    assert [str(lost) for lost in found.lost] == ["http > stdio  v  a.py::three  NOT LISTED: was not run"]
    assert totals([found]) == {"direct": 2, "through": 1, "lost_pct": 50.0, "unlisted": 1}


def test_a_reason_counts_for_its_version_and_its_legs_only():
    direct = [Cell("a.py::one", "old", ""), Cell("a.py::one", "new", "")]
    through = [Cell("a.py::one", "old", "no"), Cell("a.py::one", "new", "no")]
    here = Expectation(("a.py::*",), "so it is", "new", ("http > stdio",))
    elsewhere = Expectation(("a.py::*",), "never", "", ("stdio > stdio",))

    found = compare(LEG, direct, through, [elsewhere, here])

    assert {lost.cell.version: lost.reason for lost in found.lost} == {"old": None, "new": "so it is"}
    assert found.unlisted == 1
    assert stale([elsewhere, here], found.lost) == ["a.py::*"]


def test_every_listed_reason_says_something():
    assert all(len(expected.reason.split()) > 3 and expected.tests for expected in read_expectations())
