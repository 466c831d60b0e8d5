"""The links that results speak of: read by whoever was handed them, however many others there are."""

import pytest

from toolcrib.core.names import URI_MAX
from toolcrib.core.source import HandedLinks


@pytest.mark.parametrize(("prefix", "name"), [(True, "lib__memo://a"), (False, "memo://a")])
def test_a_link_belongs_to_the_caller_it_was_handed_to(prefix, name):
    """And to the server that handed it out."""
    links = HandedLinks(prefix=prefix)
    links.hand_out("ann", "lib", "memo://a")

    assert [links.owner(caller, name) for caller in ("ann", "bob")] == ["lib", ""]


def test_a_server_that_hands_out_too_many_links_forgets_its_own():
    """The oldest first; those of other servers, and of other callers, stay."""
    links = HandedLinks()
    links.hand_out("ann", "good", "memo://a")
    links.hand_out("bob", "bad", "memo://a")
    for number in range(HandedLinks.ROOM // 100):
        links.hand_out("ann", "bad", f"memo://{number:0200}")

    kept = [links.owner("ann", f"bad__memo://{number:0200}") for number in (0, HandedLinks.ROOM // 100 - 1)]
    assert (links.owner("ann", "good__memo://a"), links.owner("bob", "bad__memo://a"), kept) == (
        "good",
        "bad",
        ["", "bad"],
    )


def test_a_link_handed_out_again_takes_room_once():
    """And is the newest again."""
    links = HandedLinks()
    for _ in range(HandedLinks.ROOM):
        links.hand_out("ann", "lib", "memo://a")
    links.hand_out("ann", "lib", "memo://b")

    assert [links.owner("ann", f"lib__memo://{name}") for name in "ab"] == ["lib", "lib"]


def test_what_is_too_long_for_a_uri_is_not_noted():
    """Nobody could ask for it."""
    links = HandedLinks()
    links.hand_out("ann", "lib", "x" * (URI_MAX + 1))

    assert links.owner("ann", "lib__" + "x" * (URI_MAX + 1)) == ""


def test_the_callers_that_were_handed_nothing_for_longest_are_forgotten():
    """There may be many of them."""
    links = HandedLinks()
    for number in range(HandedLinks.ROOMS + 1):
        links.hand_out(f"caller {number}", "lib", "memo://a")

    assert [links.owner(f"caller {number}", "lib__memo://a") for number in (0, 1)] == ["", "lib"]
