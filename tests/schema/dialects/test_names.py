"""Names: legal for every provider, short enough, and each leads back to one original."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.schema.dialects.names import PARAMETER_NAMES, TOOL_NAMES, NameTable

LEGAL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]*")
ODD = st.text("aA_.-/é1", min_size=1, max_size=90) | st.text(min_size=1, max_size=20)
SETS = st.lists(ODD, max_size=40)
LIMITS = st.sampled_from([16, 46, 64])


@given(SETS, LIMITS)
def test_every_name_is_legal_and_leads_back_to_its_original(names, limit):
    """No two names are called the same."""
    table = NameTable.of(names, TOOL_NAMES.within(limit))

    assert all(LEGAL.fullmatch(alias) and len(alias) <= limit for alias in table.aliases.values())
    assert [table.original(table.alias(name)) for name in names] == names


@given(SETS, st.randoms(), LIMITS)
def test_the_order_of_arrival_changes_nothing(names, random, limit):
    """Nor does a name that comes twice."""
    shuffled = [*names, *names]
    random.shuffle(shuffled)

    assert NameTable.of(shuffled, TOOL_NAMES.within(limit)) == NameTable.of(names, TOOL_NAMES.within(limit))


@given(SETS, LIMITS)
def test_names_that_went_out_stay_what_they_are(names, limit):
    """Offered a second time, as by one toolcrib behind another, they do not change again."""
    rule = TOOL_NAMES.within(limit)

    assert NameTable.of(NameTable.of(names, rule).aliases.values(), rule).is_plain


def test_what_is_legal_stays_and_what_is_not_is_spelled_so():
    """Whoever has the plain name keeps it; others that would look the same get a hash."""
    table = NameTable.of(["kb_search", "kb.search", "github__create-issue", "1st", "ü", "mail/send"])

    assert table.alias("kb_search") == "kb_search"
    assert table.alias("github__create-issue") == "github__create-issue"
    assert (table.alias("mail/send"), table.alias("1st"), table.alias("ü")) == ("mail_send", "t_1st", "_")
    assert re.fullmatch("kb_search_[0-9a-f]{8}", table.alias("kb.search"))


def test_long_names_that_begin_alike_stay_apart():
    """Cut, with a hash of the whole."""
    first, second = "server__" + "x" * 100, "server__" + "x" * 99 + "y"
    table = NameTable.of([first, second], TOOL_NAMES.within(46))

    assert len({table.alias(first), table.alias(second)}) == 2
    assert {len(table.alias(first)), len(table.alias(second))} == {46}


def test_a_name_that_looks_like_a_hash_is_not_taken_for_one():
    """Even a tool that is called what another would be called."""
    taken = NameTable.of(["a.b", "a_b"]).alias("a.b")
    table = NameTable.of(["a.b", "a_b", taken])

    assert table.alias(taken) == taken
    assert len(set(table.aliases.values())) == 3


@pytest.mark.parametrize("name", ["filter[id]", "$top", "@odata.type", "x" * 70, "ä ö"])
def test_names_of_parameters_may_have_dots_but_no_brackets(name):
    """What Anthropic wants of them."""
    table = NameTable.of([name, "projects.any"], PARAMETER_NAMES)

    assert re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", table.alias(name))
    assert table.alias("projects.any") == "projects.any"


def test_a_name_nobody_gave_out_stays_what_it_is():
    """It is refused where it is used, with the names that are near."""
    assert NameTable.of(["a.b"]).original("invented") == "invented"
