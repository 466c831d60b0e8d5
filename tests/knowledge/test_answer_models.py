"""Answers written by a model, which is a server on loopback that says what it is told to."""

import pytest
from tests.doubles.llm import LlmDouble, Step

from toolcrib.knowledge.answer import NOTHING, Answerer
from toolcrib.knowledge.library import Library
from toolcrib.knowledge.retrieve import Search
from toolcrib.models.api import ModelSettings
from toolcrib.models.http_model import HttpModel
from toolcrib.stores.knowledge.store import SqliteKnowledge


@pytest.fixture
async def library(base, files, tmp_path):
    await base.add(
        files(
            ants_dot_md="# Ants\n\nAnts carry leaves that weigh 50 times as much as they do.",
            bees_dot_md="# Bees\n\nBees dance to tell each other where flowers are.",
        )
    )
    made = Library(SqliteKnowledge(base.path), lambda: base.embedder)
    yield made
    await made.close()


async def ask(library, provider, text, question="How much do ants carry?"):
    with LlmDouble(Step(text)) as llm:
        model = HttpModel(ModelSettings(provider, "small", llm.url, "sk-very-secret", 10.0))
        answered = await Answerer(model).answer(library, Search(question, ("notes",)))
    return answered, llm.asked


async def test_a_generated_answer_is_cited_and_checked_sentence_by_sentence(library):
    text = "Ants carry leaves of 50 times their weight [1]. They also drive small cars [1]. Nobody knows why."
    answered, asked = await ask(library, "openai", text)
    shown = answered.to_json()

    assert shown["mode"] == "generated"
    assert shown["model"] == "openai:small"
    assert [citation["marker"] for citation in shown["citations"]] == ["[1]"]
    assert shown["citations"][0]["content"].startswith("# Ants")
    assert [entry["supported"] for entry in shown["support"]] == [True, False, False]
    assert "[1] Ants › Ants\n# Ants" in asked[0]["messages"][1]["content"]


async def test_a_number_that_is_not_in_the_source_is_not_supported(library):
    answered, _ = await ask(library, "openai", "Ants carry leaves of 70 times their weight [1].")

    assert [each.is_supported for each in answered.support] == [False]


async def test_markers_that_mean_nothing_are_no_citations(library):
    answered, _ = await ask(library, "ollama", "Ants carry leaves [9].")

    assert (answered.numbers, [each.is_supported for each in answered.support]) == ((), [False])


async def test_a_model_that_finds_no_answer_is_believed(library):
    answered, _ = await ask(library, "anthropic", NOTHING)

    assert (answered.text, answered.mode, answered.numbers) == (NOTHING, "none", ())


async def test_a_model_is_not_asked_when_nothing_was_found(library):
    answered, asked = await ask(library, "openai", "Made up.", "Who invented quantum chromodynamics?")

    assert (answered.text, answered.mode, asked) == (NOTHING, "none", [])


async def test_without_its_model_an_answer_is_quoted_and_says_why(library):
    """The model is away: what the documents say is still an answer, with a note instead of a failure."""
    with LlmDouble(Step("never asked")) as llm:
        gone = llm.url
    model = HttpModel(ModelSettings("openai", "small", gone, "sk-very-secret", 10.0))

    shown = (await Answerer(model).answer(library, Search("How much do ants carry?", ("notes",)))).to_json()

    assert (shown["mode"], shown["model"]) == ("extractive", None)
    assert "50 times" in shown["answer"]
    assert [entry["marker"] for entry in shown["citations"]] == ["[1]"]
    (note,) = shown["warnings"]
    assert note.startswith("The model did not answer, so this is quoted from the documents. ")
    assert "openai:small" in note
    assert "sk-very-secret" not in note
