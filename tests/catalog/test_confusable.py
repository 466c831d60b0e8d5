"""Pairs that are easily confused: found by meaning, judged by the search, explained in words."""

from toolcrib.catalog.catalog import Route
from toolcrib.catalog.confusable import LOOKED_AT, find_confusable
from toolcrib.core.offers import Tool
from toolcrib.sources.native.source import NativeSource

SOURCE = NativeSource()


def route(name: str, description: str) -> Route:
    server, _, own = name.rpartition("__")
    return Route(name, server, Tool(own, description=description), SOURCE)


ROUTES = [
    route("github__create_issue", "Create a new issue in a repository."),
    route("gitlab__create_issue", "Create a new issue in a project."),
    route("redis__scan_keys", "Scan the keys of the database, a page at a time."),
    route("redis__scan_all_keys", "Scan all the keys of the database."),
    route("weather__forecast", "Tell the weather of the next days for a place."),
    route("files__read", "Read a text file."),
]


def test_near_copies_are_named_with_the_reason():
    """Two servers' tools of one name, and two of one server that a single word tells apart; nothing else."""
    pairs = find_confusable(ROUTES, 10)

    assert {(pair.first, pair.second): pair.why for pair in pairs} == {
        ("github__create_issue", "gitlab__create_issue"): "both are called create_issue",
        ("redis__scan_keys", "redis__scan_all_keys"): "both names say scan keys; only all tells them apart",
    }
    assert all(0.8 <= pair.score <= 1 for pair in pairs)


def test_the_worst_come_first_and_only_so_many():
    """Copies beat resemblance."""
    twins = [route("a__echo", "Give it back as it came."), route("b__echo", "Give it back as it came.")]

    worst = find_confusable([*ROUTES, *twins], 1)

    assert [(pair.first, pair.second) for pair in worst] == [("a__echo", "b__echo")]


def test_many_copies_are_no_flood():
    """A thousand tools that say the same make half a million pairs; few of them are looked at."""
    same = [route(f"s{number}__echo", "Give it back as it came.") for number in range(600)]

    assert 0 < len(find_confusable(same, 1_000)) <= LOOKED_AT


def test_few_tools_have_no_pairs():
    """None and one."""
    assert [find_confusable(ROUTES[:count], 5) for count in (0, 1)] == [[], []]
