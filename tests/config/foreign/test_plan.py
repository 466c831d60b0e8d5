"""Three sides: what the program has, what toolcrib's file says, what was remembered."""

import pytest

from toolcrib.config.foreign.plan import FoundAt, FoundServer, ImportCandidate, Sides, digest, plan, remember
from toolcrib.config.model import ServerConfig

PLACE = FoundAt("cursor", "/mcp.json", "Time")
OLD, NEW, MINE = (ServerConfig("time", command="x", args=(word,)) for word in ("old", "new", "mine"))
MEMORY = {"time": remember(ImportCandidate("time", "new", OLD, (PLACE,)), OLD)}


def states(there: ServerConfig | None, here: ServerConfig | None, *, sync: bool = True) -> list[tuple[str, str]]:
    gathered = [] if there is None else [FoundServer(there, (PLACE,))]
    sides = Sides({} if here is None else {"time": here}, {}, MEMORY, frozenset({"/mcp.json"}), sync)
    return [(candidate.name, candidate.state) for candidate in plan(gathered, sides)]


@pytest.mark.parametrize(
    ("there", "here", "state"),
    [
        (OLD, OLD, "same"),
        (OLD, MINE, "same"),
        (NEW, OLD, "changed"),
        (NEW, NEW, "same"),
        (NEW, MINE, "edited"),
        (None, OLD, "removed"),
        (None, MINE, "edited"),
        (NEW, None, "left out"),
    ],
)
def test_only_what_the_user_left_alone_follows_its_origin(there, here, state):
    """What was changed by hand stays."""
    assert states(there, here) == [("time", state)]


def test_a_plain_import_offers_again_what_was_removed_here():
    """And never removes."""
    assert states(OLD, None, sync=False) == [("time", "new")]
    assert states(None, OLD, sync=False) == []


def test_a_file_that_could_not_be_read_removes_nothing():
    """Its servers are not gone, they are unknown."""
    assert plan([], Sides({"time": OLD}, {}, MEMORY, frozenset(), is_sync=True)) == []


def test_a_server_that_is_already_here_under_any_name_is_not_added():
    """What counts is what is started or reached."""
    gathered = [FoundServer(OLD, (PLACE,))]

    assert [(c.name, c.state) for c in plan(gathered, Sides(here={"clock": OLD}))] == [("clock", "same")]
    assert [(c.name, c.state) for c in plan(gathered, Sides(elsewhere={"clock": OLD}))] == [("clock", "same")]


def test_clashing_names_are_told_apart_by_client_then_by_number():
    """Nothing that exists is renamed."""
    long = "a" * 40
    gathered = [
        FoundServer(OLD, (PLACE,)),
        FoundServer(NEW, (FoundAt("cursor", "/other.json", "TIME"),)),
        FoundServer(ServerConfig("x", command="y"), (FoundAt("zed", "/z", long),)),
        FoundServer(ServerConfig("x", command="z"), (FoundAt("zed", "/z", long + "b"),)),
    ]

    names = [candidate.name for candidate in plan(gathered, Sides(here={"time": MINE}))]

    assert names == ["time_cursor", "time_2", "a" * 32, "a" * 28 + "_zed"]


def test_a_digest_forgets_the_name_and_nothing_else():
    """The same server under two names is the same."""
    assert digest(ServerConfig("a", command="x")) == digest(ServerConfig("b", command="x", line=3))
    assert digest(ServerConfig("a", command="x")) != digest(ServerConfig("a", command="x", enabled=False))
