"""The knowledge base on the page, through its tools: collections, passages, answers and documents."""

import pytest
from tests.doors.web.site import opened
from tests.doors.web.workbench import open_bench


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    with open_bench(tmp_path_factory.mktemp("kb")) as found:
        yield found


def test_collections_are_shown_with_their_health(bench):
    """And why one is not well."""
    page = bench.owner.get("/kb").text

    assert "1,204" in page
    assert "healthy" in page
    assert "3 files unread" in page
    assert "<script>alert" not in page


def test_passages_are_found_with_the_words_marked_and_their_source(bench):
    """What stands in them stays text; only addresses of the web become links."""
    page = bench.owner.get("/kb?q=green+BUTTON&mode=search").text

    assert "<mark>green</mark> <mark>button</mark>" in page
    assert "&lt;b&gt;Do not" in page
    assert 'href="https://docs.example/handbook"' in page
    assert "CC-BY-4.0" in page
    assert 'href="javascript' not in page
    assert "/kb/document?id=doc_1&amp;passage=Turn" in page


def test_an_answer_shows_its_sources_and_which_sentences_they_support(bench):
    """A sentence without support is marked."""
    page = bench.owner.get("/kb?q=how&mode=ask").text

    assert '<a class="mark" href="#c-1">1</a>' in page
    assert 'id="c-1"' in page
    assert page.count("unsupported") == 1
    assert "1 sentence of 2 is not supported" in page


def test_a_document_is_shown_with_its_passage_marked(bench):
    """A document that is not there is said to be missing."""
    page = bench.owner.get("/kb/document?id=doc_1&passage=Turn+the+key").text

    assert '<mark id="passage">Turn the key</mark>' in page
    assert "<script>alert" not in page
    assert bench.owner.get("/kb/document?id=nope").status == 404


def test_nothing_found_is_said(bench):
    """With what to try."""
    assert "Nothing was found" in bench.owner.get("/kb?q=nothing").text


def test_without_the_tools_the_page_says_so(tiny):
    """It names them."""
    with opened(tiny) as owner:
        page = owner.get("/kb").text

        assert "not switched on" in page
        assert "kb.hybrid_search" in page


def test_an_empty_knowledge_base_teaches_how_to_begin(tmp_path):
    """With the line to copy."""
    with open_bench(tmp_path, native="kb_empty") as bench:
        assert "toolcrib kb add" in bench.owner.get("/kb?q=x").text
