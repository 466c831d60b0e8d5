"""Lookalikes: what imitates is flagged, what is merely called the same is not."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.catalog.catalog import Route
from toolcrib.catalog.lookalikes import MOST_NAMED, LookalikeIndex, find_lookalikes, new_pairs, pairs, skeleton
from toolcrib.core import events
from toolcrib.core.names import join_name
from toolcrib.core.offers import Tool
from toolcrib.testing import FakeSource, memory_crib


def route(server: str, name: str, title: str = "") -> Route:
    return Route(join_name(server, name), server, Tool(name, title=title), FakeSource(server))


@pytest.mark.parametrize(
    "imitation",
    [
        "Read_File",
        "read-file",
        "read.file",
        "read__file",
        "ｒｅａｄ_ｆｉｌｅ",
        "rеad_file",  # Cyrillic е
        "reαd_file",
        "read_fi1e",
        "read_fiIe",
        "réad_file",
        "𝐫𝐞𝐚𝐝_file",
    ],
)
def test_what_looks_like_a_name_has_its_skeleton(imitation):
    """Case, width, accents, separators and letters of other scripts make no difference."""
    assert skeleton(imitation) == skeleton("read_file")


@pytest.mark.parametrize(
    ("one", "other"),
    [("modern", "modem"), ("save_all", "saveall"), ("o0O", "000"), ("vvrite", "write"), ("lI1|", "llll")],
)
def test_letter_pairs_that_run_together_are_one(one, other):
    """Only separators that are there at all count as separators."""
    assert (skeleton(one) == skeleton(other)) is (one != "save_all")


def test_the_same_name_on_two_servers_is_normal():
    """Prefixes exist for that."""
    assert find_lookalikes([route("a", "search"), route("b", "search"), route("b", "research")]) == {}


def test_a_name_that_differs_only_in_looks_is_flagged_on_both_sides():
    """Across servers and within one."""
    found = find_lookalikes([route("a", "delete_all"), route("b", "deIete_all"), route("b", "delete-all")])

    assert found == {
        "a__delete_all": ("b__deIete_all", "b__delete-all"),
        "b__deIete_all": ("b__delete-all", "a__delete_all"),
        "b__delete-all": ("b__deIete_all", "a__delete_all"),
    }


def test_a_server_that_imitates_a_server_is_flagged():
    """The own names are the same, the whole names only look it."""
    found = find_lookalikes([route("github", "push"), route("g1thub", "push")])

    assert found == {"github__push": ("g1thub__push",), "g1thub__push": ("github__push",)}


def test_titles_are_compared_with_titles():
    """Their case means nothing; letters of another script do."""
    honest = [route("a", "x", "Send mail"), route("b", "y", "Send Mail")]
    imitation = route("c", "z", "Sеnd mail")

    assert find_lookalikes(honest) == {}
    assert find_lookalikes([*honest, imitation])["c__z"] == ("a__x", "b__y")


def test_a_thousand_spellings_make_no_million_pairs():
    """One server with every spelling of one name is told of briefly."""
    spellings = ["".join(letters) for letters in itertools.product(*((c, c.upper()) for c in "abcdefghij"))]

    found = find_lookalikes(route("a", spelling) for spelling in spellings)

    assert len(found) == len(spellings)
    assert max(map(len, found.values())) == MOST_NAMED
    assert len(pairs(found)) <= MOST_NAMED * len(spellings)


async def test_an_imitation_is_told_once_and_explained():
    """The event comes when the pair appears, not at every later change; `why` names the other."""
    files, fi1es = FakeSource("files", ["read"]), FakeSource("other", ["Read"])
    async with memory_crib(files, fi1es) as made:
        await made.crib.refresh()
        files.change("read", "write")
        await made.crib.refresh()
        told = [event.fields for event in made.events if event.name == events.TOOL_IMITATES]
        story = made.crib.explain("other__Read")

    assert told == [{"tool": "files__read", "resembles": "other__Read"}]
    assert "It resembles files__read: make sure which one is meant." in story.reasons


def compared_with_all(routes) -> dict[str, list[str]]:
    """What resembles what, found by holding each against every other."""

    def resembles(one: str, other: str) -> bool:
        return bool(one and other) and one != other and skeleton(one) == skeleton(other)

    spellings = (
        lambda route: route.name,
        lambda route: route.original_name,
        lambda route: route.tool.title.casefold(),
    )
    ordered = sorted(routes, key=lambda route: route.name)
    found = {
        route.name: {
            other.name for spelled in spellings for other in ordered if resembles(spelled(route), spelled(other))
        }
        for route in ordered
    }
    return {name: sorted(others) for name, others in found.items() if others}


ROUTES = [
    route(server, name, title)
    for server in ("a", "fi1es", "files")
    for name in ("read", "Read", "rеad")
    for title in ("", "Send mail", "Sеnd mail")
]


@given(st.lists(st.lists(st.sampled_from(ROUTES), max_size=8), max_size=5))
def test_an_index_that_follows_changes_finds_what_holding_all_against_all_finds(catalogs):
    """Names come, go, and change their titles; no name is told of more than a few others."""
    index, known = LookalikeIndex(), {}
    for routes in catalogs:
        new = {made.name: made for made in routes}
        found = index.follow(known, new)
        known = new

        expected = compared_with_all(new.values())
        assert found.keys() == expected.keys()
        assert all(set(others) <= set(expected[name]) for name, others in found.items())
        assert {name: len(others) for name, others in found.items()} == {
            name: min(MOST_NAMED, len(others)) for name, others in expected.items()
        }


def test_pairs_are_new_only_where_neither_name_was_said_to_resemble_the_other():
    """Of two names one may be told of the other only."""
    old = {"a": ("b",), "c": ("d",)}

    assert new_pairs(old, {"b": ("a",), "c": ("d", "e"), "x": ("a",)}) == [("a", "x"), ("c", "e")]
