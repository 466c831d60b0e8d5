"""What can be quoted of a passage: whole sentences, and commands with the words that introduce them."""

import pytest

from toolcrib.knowledge.statements import Command, plain, sentences_of, statements


def texts(passage, **how):
    return [statement.text for statement in statements(passage, **how)]


@pytest.mark.parametrize(
    ("passage", "quoted"),
    [
        ("Ants carry\nleaves home. Bees\ndance a lot.", ["Ants carry leaves home.", "Bees dance a lot."]),
        ("# Ants\n\nAnts carry leaves.", ["Ants carry leaves."]),
        ("A Title Line\nAnts carry leaves.\n", ["A Title Line", "Ants carry leaves."]),
        ("- Ants carry leaves.\n- Bees dance\n  in the air.", ["Ants carry leaves.", "Bees dance in the air."]),
        ("See [the tokens page](tokens.md) for **all** of it.", ["See the tokens page for all of it."]),
        ("Some insects, e.g. ants, carry leaves.", ["Some insects, e.g. ants, carry leaves."]),
        ("What do ants carry? Ants carry leaves.", ["Ants carry leaves."]),
        ("Ants carry leaves [1]. Bees dance there. [2]", ["Ants carry leaves .", "Bees dance there."]),
        ("host = 1\nport = 2\n\nAnts carry leaves.", ["Ants carry leaves."]),
        ("x = 1\n```\n\nAnts carry leaves.", ["Ants carry leaves."]),
        ("Short.", []),
        ("{'a': [1, 2], 'b': {'c': $d}}", []),
        (
            "蚂蚁搬运树叶回家给大家吃。蜜蜂跳舞告诉大家花在哪里。",
            ["蚂蚁搬运树叶回家给大家吃。", "蜜蜂跳舞告诉大家花在哪里。"],
        ),
    ],
)
def test_a_passage_gives_its_sentences_as_they_are_read(passage, quoted):
    assert texts(passage) == quoted


def test_commands_belong_to_the_sentence_that_introduces_them():
    (found,) = statements("Add a server like this:\n\n```sh\ncrib add a  # one\n\n# a remark\ncrib ls\n```\n")

    assert (found.text, found.commands) == (
        "Add a server like this:",
        (Command("crib add a", "one"), Command("crib ls")),
    )
    assert str(found.commands[0]) == "`crib add a` (one)"


def test_a_command_that_goes_on_in_the_next_line_is_one_command():
    (said,) = statements(
        "Run it:\n\n```bash\ndocker run --detach \\\n    --name crib crib  # in the background\nls\n```\n"
    )

    assert [str(command) for command in said.commands] == [
        "`docker run --detach --name crib crib` (in the background)",
        "`ls`",
    ]


def test_commands_that_nothing_introduces_stand_alone():
    said, alone = statements("Ants carry leaves.\n\n```console\n$ crib ls\nants\n```\n")

    assert (said.commands, alone.text, alone.commands) == ((), "", (Command("crib ls"),))


def test_settings_know_their_table_and_programs_are_no_commands():
    block = '```toml\n[servers.a]\nrate = "3/m"   # slow\n```\n\nOr so, in a program:\n\n```python\nprint(1)\n```'
    setting, program = statements(f"Write the rate:\n\n{block}")

    assert setting.commands == (Command('rate = "3/m"', "slow", "servers.a"),)
    assert str(setting.commands[0]) == '`rate = "3/m"` under `[servers.a]` (slow)'
    assert program.commands == ()


def test_a_sentence_that_means_the_one_before_knows_it():
    found = statements("Ants carry leaves. They are strong. When that changes, all is over.\n\nIt begins with nothing.")

    assert [(each.text[:5], each.leans) for each in found] == [("Ants ", False), ("They ", True), ("When ", True)]


def test_rows_of_tables_are_told_apart():
    found = statements("| key | meaning |\n|---|---|\n| `level` | how far it **reaches** |\n")

    assert [(each.text, each.is_row) for each in found] == [("`level`: how far it reaches", True)]


def test_rows_belong_to_no_paragraph():
    said, row = statements(
        "What it says is said here.\n\n| cause | do |\n|---|---|\n| it is away | start it once more |\n"
    )

    assert (said.paragraph, row.paragraph) == (1, 0)


def test_records_are_one_to_a_line():
    assert texts("name: ant, legs: six\nname: bee, legs: six", by_line=True) == [
        "name: ant, legs: six",
        "name: bee, legs: six",
    ]


@pytest.mark.parametrize(
    "text", ["[" * 50_000, "(" * 50_000, "a. " * 30_000, "**" * 30_000, "`" * 50_000, "|" * 50_000]
)
def test_odd_texts_are_read_in_no_time(text):
    assert len(statements(text)) < 50_000
    assert len(list(sentences_of(text))) <= 30_001
    assert len(plain(text)) <= len(text)
