"""How a server stands, in every state there is."""

import asyncio
from dataclasses import replace

import pytest

from toolcrib.catalog.records import ServerShelf
from toolcrib.catalog.standing import failure_of, standing_of, standing_of_disabled
from toolcrib.config.lock import Failure, Record
from toolcrib.config.model import ServerConfig, config_hash
from toolcrib.core.errors import SourceUnavailable
from toolcrib.core.kinds import DiscoveryStatus, FailureKind, HoldReason, LinkState, ServerState, StepKind
from toolcrib.core.source import SourceStatus
from toolcrib.core.view import NextStep, Standing
from toolcrib.testing import FakeSource

CONFIG = ServerConfig("files", command="files")


def shelf_of(link: LinkState = LinkState.IDLE, *, failure: Failure | None = None, **known: object) -> ServerShelf:
    """A server whose last discovery failed so, or was never made."""
    source = FakeSource("files")
    source.state = SourceStatus(link, doing="npx fetches files", since=60.0, attempt=2)
    status = DiscoveryStatus.NEVER if failure is None else DiscoveryStatus.FAILED
    record = Record("files", status, config_hash=config_hash(CONFIG), failure=failure, last_discovery="yesterday")
    shelf = ServerShelf(CONFIG, source, record)
    for name, value in known.items():
        setattr(shelf, name, value)
    return shelf


async def on_its_way(link: LinkState) -> Standing:
    """A server nobody has heard of, being asked."""
    flight = asyncio.ensure_future(asyncio.Event().wait())
    try:
        return standing_of(shelf_of(link, flight=flight))
    finally:
        flight.cancel()


async def every_standing() -> list[Standing]:
    """One of each state."""
    passing = Failure(FailureKind.PASSING, "it is away")
    good = shelf_of(is_known=True)
    good.record = replace(good.record, status=DiscoveryStatus.SUCCESS)
    return [
        standing_of(good),
        standing_of(shelf_of(failure=passing)),
        standing_of(shelf_of(failure=passing, is_known=True)),
        standing_of(shelf_of(failure=Failure(FailureKind.SIGN_IN, "it wants a credential"))),
        await on_its_way(LinkState.INSTALLING),
        await on_its_way(LinkState.CONNECTING),
        await on_its_way(LinkState.CONNECTED),
        standing_of(shelf_of()),
        standing_of(shelf_of(barred=HoldReason.MOVED)),
        standing_of_disabled("files"),
    ]


async def test_every_state_has_a_cause_and_a_next_step_unless_it_is_in_order():
    """One word, one line, one step."""
    found = await every_standing()

    assert {one.state for one in found} == set(ServerState)
    for one in found:
        assert (one.state is ServerState.OK) == (one.cause is None) == (one.next is None)
        assert "\n" not in (one.cause or "")


async def test_a_server_that_is_installed_says_what_is_fetched_and_since_when():
    """And that there is nothing to do but to wait."""
    wait = NextStep(StepKind.WAIT, "wait: it goes on by itself", "")

    assert await on_its_way(LinkState.INSTALLING) == Standing(
        ServerState.INSTALLING, "npx fetches files", wait, "1970-01-01T00:01:00Z", 2, None
    )


@pytest.mark.parametrize(
    ("kind", "step", "command"),
    [
        (FailureKind.PASSING, StepKind.RETRY, "toolcrib servers refresh files"),
        (FailureKind.COMMAND, StepKind.INSTALL, "toolcrib servers refresh files"),
        (FailureKind.PACKAGE, StepKind.EDIT, "toolcrib servers logs files"),
        (FailureKind.CACHE, StepKind.REPAIR, "toolcrib servers refresh files"),
        (FailureKind.CREDENTIAL, StepKind.EDIT, "toolcrib servers logs files"),
        (FailureKind.SIGN_IN, StepKind.SIGN_IN, "toolcrib login files"),
        (FailureKind.CONFIGURATION, StepKind.EDIT, "toolcrib servers logs files"),
    ],
)
def test_the_kind_of_failure_decides_the_next_step(kind, step, command):
    """Only what passes by itself is worth trying again."""
    found = standing_of(shelf_of(failure=Failure(kind, "why")))

    assert found.next is not None
    assert (found.cause, found.next.kind, found.next.command) == ("why", step, command)
    assert kind.is_lasting == (kind is not FailureKind.PASSING)


def test_what_is_tried_again_by_itself_says_when():
    """Then the next step is to wait."""
    found = standing_of(shelf_of(failure=Failure(FailureKind.PASSING, "why"), retry_at=90.0))

    assert found.next is not None
    assert (found.next.kind, found.retry_at) == (StepKind.WAIT, "1970-01-01T00:01:30Z")


def test_a_failure_is_put_on_record_in_one_line():
    """What the error knows of its kind, its cause and what to do."""
    details = {"failure": FailureKind.PACKAGE, "cause": "npm does not\nknow it", "advice": "check the name."}

    assert failure_of(SourceUnavailable("long story", details=details)) == Failure(
        FailureKind.PACKAGE, "npm does not know it", "check the name"
    )
    assert failure_of(SourceUnavailable("It is away.", hint="Wait.")) == Failure(
        FailureKind.PASSING, "It is away", "Wait"
    )
