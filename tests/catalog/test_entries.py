"""The catalogue as plain data."""

import msgspec

from toolcrib.catalog.entries import discovery_outcome, overall_health
from toolcrib.config.lock import Record
from toolcrib.core.kinds import DiscoveryStatus, Health
from toolcrib.core.view import ServerHealth

SHOWN = {"name": "echo", "inputSchema": {"type": "object"}}


def test_a_discovery_that_went_well_tells_what_was_registered():
    """The result counts the tools of all servers."""
    outcome = discovery_outcome(
        {"b": Record("b", DiscoveryStatus.SUCCESS, (SHOWN, SHOWN)), "a": Record("a", DiscoveryStatus.SUCCESS, (SHOWN,))}
    )

    assert outcome.success
    assert outcome.data == {
        "registered": 3,
        "servers": {
            "a": {"status": "success", "tools": 1, "error": None},
            "b": {"status": "success", "tools": 2, "error": None},
        },
    }


def test_a_discovery_with_a_failed_server_is_a_failed_result_that_still_tells_the_rest():
    """The caller gets a value with a code, never an exception."""
    outcome = discovery_outcome(
        {
            "a": Record("a", DiscoveryStatus.SUCCESS, (SHOWN,)),
            "b": Record("b", DiscoveryStatus.FAILED, error="It died."),
        }
    )

    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.message, outcome.error.retryable) == (
        "TOOL_UNAVAILABLE",
        "It died.",
        True,
    )
    assert outcome.error.details["registered"] == 1


def test_overall_health_is_that_of_all_servers_together():
    """One of several in trouble is degraded, all of them is unhealthy, none (or no server) is healthy."""
    well = ServerHealth(Health.HEALTHY, "", "", 0, False, "", "", "", 0, 0, "", 0.0, "")
    ill = msgspec.structs.replace(well, health=Health.UNHEALTHY)

    assert [overall_health(servers, {}) for servers in ({}, {"a": well}, {"a": well, "b": ill}, {"a": ill})] == [
        "healthy",
        "healthy",
        "degraded",
        "unhealthy",
    ]
    assert [overall_health(servers, {"store": "gone"}) for servers in ({}, {"a": well}, {"a": ill})] == [
        "degraded",
        "degraded",
        "unhealthy",
    ]
