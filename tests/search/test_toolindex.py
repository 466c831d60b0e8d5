"""Tools are found by what they are for, and each server changes on its own."""

import pytest

from toolcrib.search.model import bundled
from toolcrib.search.toolindex import ToolIndex, ToolText, clauses_of, fields_of

MAIL = [
    ToolText("mail__send", "send_message", "Send an e-mail to somebody.", server="mail"),
    ToolText("mail__list", "listMessages", "List the e-mails in a folder.", server="mail"),
]
FILES = [
    ToolText("files__remove", "delete_file", "Delete a file from disk.", server="files"),
    ToolText("files__read", "read_file", "Read the content of a file.", server="files"),
]
SCHEMA = {
    "properties": {
        "unit": {"enum": ["celsius", "kelvin"], "description": "How to count degrees"},
        "places": {"items": {"properties": {"zip_code": {"description": "Postal code"}}}},
        "odd": True,
    }
}
WEATHER = [ToolText("weather__forecast", "forecast", "What the weather will be.", SCHEMA, "weather")]


@pytest.fixture(scope="module")
def embedder():
    return bundled()


@pytest.fixture
def index(embedder):
    index = ToolIndex(embedder)
    index.put_all({"mail": MAIL, "files": FILES, "weather": WEATHER})
    return index


def ids(found):
    return [id_ for id_, _ in found]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("send a mail", "mail__send"),
        ("list_messages", "mail__list"),
        ("erase documents", "files__remove"),
        ("kelvin", "weather__forecast"),
        ("postal code", "weather__forecast"),
    ],
)
def test_a_tool_is_found_by_its_words_and_by_its_meaning(index, query, expected):
    """Names, descriptions, parameters and values count; so does what means the same."""
    assert ids(index.find(query, 3))[0] == expected


def test_a_changed_server_changes_alone(index):
    """Its old tools are gone, its new ones there, the others as before."""
    index.put("mail", [ToolText("mail__archive", "archive", "Put e-mails into the archive.", server="mail")])

    assert len(index) == 4
    assert set(ids(index.find("e-mails message", 10))) & {"mail__send", "mail__list"} == set()
    assert ids(index.find("archive e-mails", 1)) == ["mail__archive"]
    assert ids(index.find("delete file", 1)) == ["files__remove"]


def test_a_server_that_is_gone_is_not_found(index):
    """Its tools leave with it."""
    index.drop("files")

    assert len(index) == 3
    assert "files__read" not in ids(index.find("read file", 10))


def test_many_changes_leave_the_index_as_if_built_at_once(embedder):
    """Servers that came, changed and went, in whatever order, end in the same answers with the same scores."""
    one_by_one, at_once = ToolIndex(embedder), ToolIndex(embedder)
    servers = {f"s{at}": [ToolText(f"s{at}__t", f"tool_{at}", f"Does the task number {at}.")] for at in range(20)}
    one_by_one.put_all({name: [*MAIL, *FILES] for name in servers} | {"mail": MAIL})
    for name in reversed(servers):
        one_by_one.put(name, servers[name])
    one_by_one.drop("mail")
    at_once.put_all(servers)

    assert one_by_one.find("task number 7", 15) == at_once.find("task number 7", 15)


def test_only_wanted_tools_are_found(index):
    """What a caller may not see does not take a place."""
    assert ids(index.find("send a mail", 3, wanted={"mail__list"})) == ["mail__list"]


def test_a_wanted_tool_is_found_by_its_meaning_however_many_others_are_nearer(embedder):
    """Others take no place among the candidates either."""
    index = ToolIndex(embedder)
    nearer = [ToolText(f"trash__{at}", f"erase_{at}", "Erase documents and papers.") for at in range(700)]
    index.put_all({"trash": nearer, "files": FILES})

    assert ids(index.find("erase documents", 3, wanted={"files__remove"})) == ["files__remove"]


def test_each_need_of_a_long_query_is_answered(index):
    """Several needs in one query bring up a tool for each."""
    query = (
        "First tell me the weather forecast for the coming weekend in Paris. After that delete the file "
        "with the old travel plan from my disk, and finally send an e-mail message to my sister about it."
    )

    assert len(clauses_of(query)) > 1
    assert {"weather__forecast", "files__remove", "mail__send"} <= set(ids(index.find(query, 4)))


def test_scores_fall_and_stay_on_the_scale(index):
    """0 to 1, best first."""
    scores = [score for _, score in index.find("read or delete a file", 10)]

    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)


def test_an_empty_index_finds_nothing(embedder):
    """No tools, no answers, no error."""
    assert ToolIndex(embedder).find("anything", 5) == []


def test_hostile_schemas_are_read_without_harm():
    """A schema is whatever a server sends."""
    nested = {"properties": {"a": {"properties": {"a": {"properties": {"a": {"properties": {"deep": {}}}}}}}}}
    strange = {"properties": {"x": {"enum": "no list", "description": ["no text"]}, "y": None}}

    assert fields_of(ToolText("t", "t", schema=nested))["parameters"] == "a a a deep"
    assert fields_of(ToolText("t", "t", schema=strange))["parameters"] == "x"
    assert fields_of(ToolText("t", "t", schema={"properties": []}))["parameters"] == ""
