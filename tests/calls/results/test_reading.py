"""Reading on: any part of a kept result, exactly, within the limit, with how to go on."""

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.calls.results.document import ResultDocument
from toolcrib.calls.results.reading import ReadRequest, answer
from toolcrib.core.errors import InvalidArguments

LIMIT = 4000
PEOPLE = {"total": 300, "people": [{"id": number, "name": f"name {number}"} for number in range(300)]}


def document(*texts: str, **more: Any) -> ResultDocument:
    return ResultDocument(msgspec.json.encode({"content": [{"type": "text", "text": text} for text in texts], **more}))


def ask(kept: ResultDocument, limit: int = LIMIT, **part: Any) -> list[str]:
    blocks = answer(kept, ReadRequest("r_1", **part), limit)
    assert len(msgspec.json.encode({"content": blocks})) <= limit
    return [block["text"] for block in blocks]


def follow(kept: ResultDocument, **part: Any) -> list[str]:
    """All parts, each asked for as the one before said."""
    parts: list[str] = []
    following: dict[str, Any] | None = part
    while following is not None:
        about, text = ask(kept, **following)
        parts.append(text)
        found = re.search(r"Next: (\{.*\})$", about)
        following = {key: value for key, value in json.loads(found[1]).items() if key != "handle"} if found else None
    return parts


@given(st.text(max_size=3000), st.integers(1, 5000))
def test_slices_add_up_to_the_text(text, length):
    """Whatever characters it is made of, and however much is asked for at once."""
    assert "".join(follow(document(text), length=length)) == text


@given(st.lists(st.text(alphabet="ab \x00é😀", max_size=300), min_size=1, max_size=60), st.integers(1, 40))
def test_lines_add_up_to_the_text(lines, count):
    """Lines are what newlines part."""
    assert "\n".join(follow(document("\n".join(lines)), line=1, count=count)) == "\n".join(lines)


def test_the_texts_of_a_result_are_one_text():
    """Those of embedded resources too."""
    blocks = [{"type": "text", "text": "one"}, {"type": "resource", "resource": {"uri": "a:b", "text": "two"}}, "junk"]

    assert ask(ResultDocument(msgspec.json.encode({"content": blocks})))[1] == "one\ntwo"


def test_what_is_no_result_is_read_as_the_text_it_is():
    """A number no value can hold, bytes that are no text."""
    assert ask(ResultDocument(b'{"content": \xff'))[1] == '{"content": \ufffd'


def test_beyond_the_end_there_is_a_word_about_where_that_is():
    """Characters count from 0, lines from 1."""
    assert ask(document("a\nb"), offset=10) == ["There are 3 characters, numbered from 0."]
    assert ask(document("a\nb"), line=10) == ["There are 2 lines, numbered from 1."]


def test_a_line_that_is_too_long_goes_on_by_characters():
    """The rest of it, and all that follows."""
    text = f"short\n{'x' * 9000}\nend"

    about, part = ask(document(text), line=2)

    assert about.startswith("The beginning of line 2, which is too long to show at once. Next: ")
    following = json.loads(about.partition("Next: ")[2])
    assert part + "".join(follow(document(text), offset=following["offset"])) == text.partition("\n")[2]


def test_search_shows_lines_with_their_numbers_and_neighbours():
    """Whatever the case."""
    text = "\n".join(["alpha", "beta", "gamma", "delta BETA"])

    assert ask(document(text), search="Beta") == [
        "Matches 1 to 2 of 2.",
        "1- alpha\n2: beta\n3- gamma\n--\n3- gamma\n4: delta BETA",
    ]


def test_search_in_one_long_line_shows_the_neighbourhood():
    """With the character it is at, to read on from."""
    text = "x" * 2_000_000 + "needle" + "y" * 1000

    assert ask(document(text), search="needle") == [
        "Matches 1 to 1 of 1.",
        f"1: (character 2000000) …{'x' * 120}needle{'y' * 120}…",
    ]


@pytest.mark.parametrize("place", [0, (1 << 20) - 3, 1 << 20, (1 << 21) - 1])
def test_a_match_is_found_once_wherever_it_is(place):
    """Also where one searched window ends and the next begins."""
    text = "x" * place + "needle"

    assert ask(document(text), search="needle")[0] == "Matches 1 to 1 of 1."


def test_more_matches_come_by_offset():
    """Each answer says where to go on."""
    kept = document("\n".join(f"match {number}" for number in range(500)))

    matches = [
        int(found) for part in follow(kept, search="match") for found in re.findall(r"^(\d+): ", part, re.MULTILINE)
    ]

    assert matches == list(range(1, 501))


def test_words_are_no_pattern():
    """They mean what they say."""
    assert ask(document("a.c\nabc"), search="a.c")[0] == "Matches 1 to 1 of 1."
    assert ask(document("a" * 40), search="(a+)+$") == ["No match."]


def test_a_path_leads_into_structured_content():
    """Or into the text, if that is JSON."""
    for kept in (document("text", structuredContent=PEOPLE), document(json.dumps(PEOPLE))):
        assert ask(kept, path="people[7].name") == ["Characters 0 to 6 of 6. This is the end.", "name 7"]
        assert ask(kept, path="people[-1].id")[1] == ask(kept, path="/people/299/id")[1] == "299"
        assert ask(kept, path="total") == ["total:", "300"]


@pytest.mark.parametrize("length", [None, 1, 50, 1000])
@pytest.mark.parametrize("path", ["people", "people[*]"])
def test_arrays_are_read_by_rows(path, length):
    """Each answer is an array of its own; together they are the whole."""
    part = {} if length is None else {"length": length}

    parts = follow(document("", structuredContent=PEOPLE), path=path, **part)

    assert [row for part in parts for row in json.loads(part)] == PEOPLE["people"]


def test_one_field_of_every_row():
    """Rows without it are left out, and counted."""
    rows = [{"id": 1}, {"name": "x"}, {"id": 3}]

    assert ask(document("", structuredContent={"rows": rows}), path="rows[*].id") == [
        "Items 0 to 1 of 2, 1 without it left out. This is the end.",
        "[1,\n3]",
    ]


def test_rows_can_be_searched():
    """As they are read, not as they are written."""
    raw = b'{"content":[],"structuredContent":{"rows":[{"name":"Zo\\u00eb"},{"name":"Max"}]}}'

    assert ask(ResultDocument(raw), path="rows", search="ZOË") == ["Matches 1 to 1 of 1.", '[0]: {"name":"Zoë"}']


def test_what_is_too_large_is_shown_by_its_shape():
    """And a longer path leads into it."""
    kept = document("", structuredContent={"rows": [PEOPLE]})

    assert ask(kept, path="") == [
        "The root is too large to show at once. Go into it with a longer path; its shape is:",
        "{rows: [1 × {total: number, people: [300 × {id: number, name: string}]}]}",
    ]
    assert ask(kept, path="rows")[1] == "{total: number, people: [300 × {id: number, name: string}]}"


def test_the_whole_result_is_under_a_dollar_sign():
    """A small picture is given as a picture."""
    picture = {"type": "image", "mimeType": "image/png", "data": "AAAA"}
    kept = ResultDocument(msgspec.json.encode({"content": [picture]}))

    assert ask(kept, path="$.content[0].data")[1] == "AAAA"
    assert answer(kept, ReadRequest("r_1", path="$.content[0]"), LIMIT)[1] == picture


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("peple", "there is no 'peple' in the root. It has: total, people."),
        ("people.name", "there is no 'name' in people. people is an array of 300: go on with [0], or [*] for all."),
        ("people[300]", "there is no 300 in people. people is an array of 300"),
        ("people[0].nam", "there is no 'nam' in people[0]. It has: id, name."),
        ("people[*].nam", "there is no 'nam' in people[*]. It has: id, name."),
        ("total.x", "total is a number, there is nothing inside."),
        ("total[*]", "total is a number, it has no items."),
        ("people[x]", "cannot be read from '[x]' on. Write it like items[0].name"),
    ],
)
def test_a_path_that_leads_nowhere_says_what_there_is(path, says):
    """At the place where it ends."""
    with pytest.raises(InvalidArguments) as raised:
        ask(document("", structuredContent=PEOPLE), path=path)

    assert says in str(raised.value)


def test_text_that_is_no_json_has_no_paths():
    """It says what to do instead."""
    with pytest.raises(InvalidArguments, match="Read it by line or offset"):
        ask(document("plain words"), path="x")


def test_odd_keys_are_written_in_quotes():
    """Or as JSON pointers."""
    kept = document("", structuredContent={"a.b": {"c/d": 1}})

    assert ask(kept, path='["a.b"]["c/d"]')[1] == ask(kept, path="/a.b/c~1d")[1] == "1"


def test_questions_of_any_length_are_answered_within_the_limit():
    """Too long ones are refused."""
    with pytest.raises(InvalidArguments, match="too long"):
        ask(document("x"), search="x" * 2000)


@given(st.text(max_size=200), st.text(max_size=60), st.integers(-5, 5000), st.integers(-5, 5000))
def test_no_question_makes_an_answer_larger_than_the_limit(path, search, offset, length):
    """Refusals apart; whatever a model comes up with."""
    kept = document("é\x00\n" * 3000, structuredContent={path: [search * 100] * 50})
    try:
        for part in ({"path": path}, {"search": search or "x"}, {"path": path, "search": search}, {"line": offset}):
            ask(kept, offset=offset, length=length, count=length, **part)
    except InvalidArguments:
        pass
