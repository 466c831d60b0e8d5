"""Protocol revisions: the table is walked from every step with every outcome."""

import itertools

import pytest

from toolcrib.core.errors import ProtocolError
from toolcrib.wire import eras
from toolcrib.wire.eras import LEGAL, ProbeOutcome, ProbeStep, advance, agree_on_handshake, first_step, is_modern


@pytest.mark.parametrize(
    ("step", "outcome"), list(itertools.product(ProbeStep, ProbeOutcome)), ids=lambda part: part.name
)
def test_every_step_goes_on_or_says_why_not(step, outcome):
    """What the table knows leads to its entry; everything else is a protocol error that names both."""
    if outcome in LEGAL[step]:
        assert advance(step, outcome) is LEGAL[step][outcome]
    else:
        with pytest.raises(ProtocolError, match=f"{step.value}.*{outcome.value}"):
            advance(step, outcome)


def test_no_walk_goes_in_circles():
    """From every beginning, whatever comes back, the end is reached within three steps."""

    def longest(step: ProbeStep, seen: tuple[ProbeStep, ...] = ()) -> int:
        assert step not in seen
        return max((1 + longest(after, (*seen, step)) for after in LEGAL[step].values()), default=0)

    assert {step: longest(step) for step in (ProbeStep.DISCOVER, ProbeStep.INITIALIZE)} == {
        ProbeStep.DISCOVER: 3,
        ProbeStep.INITIALIZE: 2,
    }


@pytest.mark.parametrize(
    ("outcomes", "end"),
    [
        ([ProbeOutcome.ACCEPTED], ProbeStep.MODERN),
        ([ProbeOutcome.REFUSED, ProbeOutcome.ACCEPTED], ProbeStep.HANDSHAKE),
        ([ProbeOutcome.REFUSED_AS_MODERN, ProbeOutcome.ACCEPTED], ProbeStep.MODERN),
        ([ProbeOutcome.SILENT, ProbeOutcome.ACCEPTED], ProbeStep.HANDSHAKE),
        ([ProbeOutcome.SILENT, ProbeOutcome.REFUSED_AS_MODERN, ProbeOutcome.ACCEPTED], ProbeStep.MODERN),
        ([ProbeOutcome.REFUSED, ProbeOutcome.REFUSED, ProbeOutcome.ACCEPTED], ProbeStep.MODERN),
    ],
)
def test_an_unknown_server_is_found_out(outcomes, end):
    """Modern servers answer the first question, others the second, slow modern ones the third."""
    step = first_step("")
    for outcome in outcomes:
        step = advance(step, outcome)

    assert step is end


def test_a_remembered_era_is_asked_in_first():
    """A handshake server is not bothered with a question it does not know."""
    assert {version: first_step(version) for version in ("", *eras.KNOWN_VERSIONS, "1999-01-01")} == {
        "": ProbeStep.DISCOVER,
        "2024-11-05": ProbeStep.INITIALIZE,
        "2025-03-26": ProbeStep.INITIALIZE,
        "2025-06-18": ProbeStep.INITIALIZE,
        "2025-11-25": ProbeStep.INITIALIZE,
        "2026-07-28": ProbeStep.DISCOVER,
        "1999-01-01": ProbeStep.DISCOVER,
    }


@pytest.mark.parametrize("requested", eras.HANDSHAKE_VERSIONS)
def test_a_known_handshake_revision_is_agreed_to(requested):
    """The client gets what it asked for."""
    assert agree_on_handshake(requested) == requested


@pytest.mark.parametrize("requested", ["2026-07-28", "1999-01-01", "", None, 5, ["2025-06-18"], {}])
def test_any_other_request_is_answered_with_the_newest_handshake(requested):
    """As the protocol demands of a server that does not know the revision."""
    assert agree_on_handshake(requested) == "2025-11-25"


def test_only_the_stateless_revisions_are_modern():
    """The two eras share no revision."""
    assert [version for version in eras.KNOWN_VERSIONS if is_modern(version)] == ["2026-07-28"]


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"supportedVersions": ["2026-07-28"]}, ProbeOutcome.ACCEPTED),
        ({"supportedVersions": ["2099-01-01", "2026-07-28"]}, ProbeOutcome.ACCEPTED),
        ({"supportedVersions": ["2099-01-01"]}, ProbeOutcome.REFUSED),
        ({"supportedVersions": []}, ProbeOutcome.REFUSED),
        ({"supportedVersions": "2026-07-28"}, ProbeOutcome.REFUSED),
        ({"supportedVersions": [["2026-07-28"], None]}, ProbeOutcome.REFUSED),
        ({}, ProbeOutcome.REFUSED),
    ],
)
def test_a_discovery_counts_if_it_offers_a_revision_we_speak(result, expected):
    """Whatever shape the answer has."""
    assert eras.judge_discover(result) is expected


@pytest.mark.parametrize(
    ("code", "data", "expected"),
    [
        (-32022, {"supported": ["2026-07-28"]}, ProbeOutcome.REFUSED_AS_MODERN),
        (-32022, {"supported": ["2099-01-01"]}, ProbeOutcome.REFUSED),
        (-32601, {"supported": ["2026-07-28"]}, ProbeOutcome.REFUSED),
        (-32022, None, ProbeOutcome.REFUSED),
        (-32022, ["2026-07-28"], ProbeOutcome.REFUSED),
        (-32601, None, ProbeOutcome.REFUSED),
    ],
)
def test_a_refusal_tells_the_era_only_when_it_names_it(code, data, expected):
    """An error is a plain refusal unless it lists a modern revision."""
    assert eras.judge_refusal(code, data) is expected
