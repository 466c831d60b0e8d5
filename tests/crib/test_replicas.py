"""A replica among others: it follows their edits, and knows whether what they share can be reached."""

import asyncio
import json
from typing import Any

import pytest
from tests.doubles.coordination import MemoryHub
from tests.doubles.replicas import Common, replica, so

from toolcrib.config.model import Config
from toolcrib.core.access import LOCAL_USER
from toolcrib.core.audit import AuditStatus
from toolcrib.core.errors import StoreUnavailable
from toolcrib.core.events import Event
from toolcrib.crib.crib import Crib
from toolcrib.crib.replicas import Fleet, SharedEngine, join_fleet
from toolcrib.server.app import probe_routes, readiness
from toolcrib.stores.local import Backend
from toolcrib.stores.paths import Environment
from toolcrib.stores.shared import agree_on_secret

GOOD = AuditStatus(enabled=True, opened=True)


async def test_an_edit_at_one_replica_is_read_by_the_others():
    common, read = Common(), asyncio.Event()

    async def reload() -> None:
        read.set()

    async with replica(common, "a") as a, replica(common, "b") as b:
        b.fleet.on_config = reload
        a.fleet.tell_config()
        await asyncio.wait_for(read.wait(), 150)


async def test_an_engine_that_goes_and_comes_back_is_told_once_each_time():
    told: list[Event] = []
    away = [False]

    async def look() -> None:
        if away[0]:
            raise StoreUnavailable("The shared database cannot be used: it does not answer.")

    engine = SharedEngine("store", "postgresql", look)
    for away[0] in (False, True, True, False, False):
        await engine.check(told.append)

    assert [event.name for event in told] == ["store.away", "store.back"]
    assert engine.to_dict() == {"engine": "postgresql", "problem": "", "awaySince": None}


async def test_health_says_which_replica_this_is_and_what_is_away():
    common = Common()
    async with replica(common, "a") as a:
        a.fleet.engines = [SharedEngine("store", "postgresql", asyncio.Event().wait, "gone", 5.0)]
        health = a.made.crib.health()
        told = health.fleet
        page = probe(a.made.crib, "/healthz")

    assert (health.status, health.away) == ("degraded", {"store": "gone"})
    assert (page["status"], page["away"]) == ("degraded", ["store"])
    assert (told["replica"], told["engine"]) == ("a", "memory")
    assert told["engines"] == {"store": {"engine": "postgresql", "problem": "gone", "awaySince": 5.0}}


def probe(crib: Crib, path: str) -> dict[str, Any]:
    """What a probe says, without a socket."""
    told: list[bytes] = []

    class Exchange:
        def answer(self, status: int, body: bytes, kind: bytes) -> None:
            told.append(body)

    class Request:
        method = b"GET"

    probe_routes(crib, LOCAL_USER)[path](Request(), Exchange())
    return json.loads(told[0])


def fleet(**problems: str) -> Fleet:
    engines = [SharedEngine(name, "", asyncio.Event().wait, problem) for name, problem in problems.items()]
    return Fleet("r1", MemoryHub().join("r1"), None, engines)


@pytest.mark.parametrize(
    ("audit", "shared", "draining", "ready"),
    [
        (GOOD, {"store": "", "coordination": ""}, False, True),
        (GOOD, {"store": "away", "coordination": "away"}, False, True),
        (AuditStatus(enabled=True, opened=True, problem="full"), {"store": "away"}, False, True),
        (AuditStatus(enabled=True, opened=True, problem="full"), {"coordination": ""}, False, False),
        (GOOD, {"store": ""}, True, False),
    ],
)
async def test_what_all_replicas_lack_is_no_reason_to_go_to_another(audit, shared, draining, ready):
    """What this one lacks is."""
    told = readiness(audit, fleet(**shared), is_draining=draining)

    assert (told["ready"], bool(told["reasons"])) == (ready, not ready)
    assert {name: told["parts"][name] for name in shared} == {name: why or "ok" for name, why in shared.items()}


async def test_without_anything_shared_there_is_no_fleet():
    assert await join_fleet(Backend(Config(), Environment()), "a", lambda event: None) is None


async def test_replicas_without_a_database_agree_on_what_only_they_know():
    hub = MemoryHub()
    members = [hub.join(str(number)) for number in range(4)]

    found = await asyncio.gather(*(agree_on_secret(member, "seal") for member in members))

    assert (len(set(found)), len(found[0])) == (1, 32)


async def test_a_replica_that_comes_and_goes_leaves_no_listeners():
    common = Common()
    async with replica(common, "a") as a:
        async with replica(common, "b"):
            pass
        a.fleet.tell_config()
        await so(lambda: len(common.hub.members) == 1)
