"""Which statements answer a question: from real passages, through a real index."""

import pytest

from toolcrib.knowledge.answer import WeightedQuestion, extract

ANTS = """# Ants

Ants carry leaves many times their own weight. They bring them home. Nothing else matters here.

# Feeding

Feed the ants once a day, with the command for it:

```sh
ants feed --leaves 3
ants sleep
```

| time | food |
|---|---|
| morning | mushrooms grown on compost |
"""
COPY = "# Ants elsewhere\n\nAnts carry leaves many times their own weight.\n"


@pytest.fixture
async def answer(base, files):
    await base.add(files(ants_dot_md=ANTS, copy_dot_md=COPY, bees_dot_csv="name,food\nbee,nectar of clover\n"))

    async def asked(question):
        findings = await base.search(question)
        return [quote.text for quote in extract(WeightedQuestion.read(question, findings.rarity), findings)]

    return asked


async def test_the_same_thing_is_said_once(answer):
    assert (await answer("What do ants carry?")).count("Ants carry leaves many times their own weight.") == 1


async def test_a_command_comes_with_its_sentence_if_the_question_asks_how(answer):
    assert await answer("How do I feed the ants?") == [
        "Feed the ants once a day, with the command for it: `ants feed --leaves 3`."
    ]


async def test_a_command_is_left_out_if_the_question_does_not_ask_for_one(answer):
    assert not any("`" in said for said in await answer("Who should feed the ants?"))


async def test_a_row_of_a_table_answers_only_what_no_sentence_does(answer):
    assert await answer("mushrooms on compost in the morning?") == ["morning: mushrooms grown on compost"]


async def test_a_record_can_be_quoted(answer):
    assert any("clover" in said for said in await answer("Which nectar does a bee eat?"))


async def test_nothing_is_quoted_for_words_that_stand_nowhere(answer):
    assert await answer("Do ants vote in parliament elections?") == []


def test_words_a_question_is_put_with_count_little():
    question = WeightedQuestion.read("How long do you use a token?", {"long": 2.0, "use": 2.0, "token": 2.0})

    assert question.is_how is False
    assert question.share("the token") > 0.6 > question.share("use it long")


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("What is a pin?", {"pin"}),
        ("what are pins", {"pin"}),
        ("How do I pin?", set()),
        ("What's quarantine?", {"quarantin"}),
    ],
)
def test_a_question_for_a_definition_has_a_subject(text, subject):
    assert WeightedQuestion.read(text, {}).subject == subject
