"""The knowledge base on the page, through its tools: collections, passages, answers and documents."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.program import Program
from tests.server.web.site import opened
from tests.server.web.workbench import Bench, open_bench

from toolcrib.server.web import kb_page

FIELDS = [
    "collections",
    "collection_id",
    "reasons",
    "status",
    "results",
    "content",
    "place",
    "start",
    "end",
    "citation",
]
FIELDS += ["highlights", "citations", "support", "sentence", "score", "marker", "chunk_id", "document_id", "next"]


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    with open_bench(tmp_path_factory.mktemp("kb")) as found:
        yield found


def test_collections_are_shown_with_their_health(bench):
    """And why one is not well."""
    page = bench.owner.get("/kb").text

    assert "1,204" in page
    assert "healthy" in page
    assert "in 50 pieces" in page
    assert "<script>alert" not in page


def test_passages_are_found_with_the_words_marked_and_their_source(bench):
    """What stands in them stays text; only addresses of the web become links."""
    page = bench.owner.get("/kb?q=green+BUTTON&mode=search").text

    assert "the <mark>green</mark> button" in page
    assert "Machines › Starting, page 3" in page
    assert "&lt;b&gt;Do not" in page
    assert 'href="https://docs.example/handbook"' in page
    assert "CC-BY-4.0" in page
    assert 'href="javascript' not in page
    assert "/kb/document?id=doc_1&amp;start=9&amp;end=" in page


def test_an_answer_shows_its_sources_and_which_sentences_they_support(bench):
    """A sentence without support is marked."""
    page = bench.owner.get("/kb?q=how&mode=ask").text

    assert '<a class="mark" href="#c-1">1</a>' in page
    assert 'id="c-1"' in page
    assert "/kb/document?chunk=doc_1-0-abc" in page
    assert page.count("unsupported") == 1
    assert "1 sentence of 2 is not supported" in page


def test_a_document_is_shown_with_its_passage_marked(bench):
    """Found by its place or by the passage; one that is not there is said to be missing."""
    by_place = bench.owner.get("/kb/document?id=doc_1&start=9&end=21").text
    by_passage = bench.owner.get("/kb/document?chunk=doc_1-0-abc").text
    further = bench.owner.get("/kb/document?id=doc_1&from=20").text

    for page in (by_place, by_passage):
        assert "Turn the key to the left" in page.partition('class="marked" id="passage"')[2]
    assert "Read on" in by_place
    assert "Read from the beginning" in further
    assert "<script>alert" not in by_place
    assert bench.owner.get("/kb/document?id=nope").status == 404
    assert bench.owner.get("/kb/document?chunk=nope").status == 404


def test_nothing_found_is_said(bench):
    """With what to try."""
    assert "Nothing was found" in bench.owner.get("/kb?q=nothing").text


def test_without_the_tools_the_page_says_so(tiny):
    """It names them."""
    with opened(tiny) as owner:
        page = owner.get("/kb").text

        assert "not switched on" in page
        assert "kb_hybrid_search" in page


def test_an_empty_knowledge_base_teaches_how_to_begin(tmp_path):
    """With the line to copy."""
    with open_bench(tmp_path, native="kb_empty") as bench:
        assert "toolcrib kb add" in bench.owner.get("/kb?q=x").text


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """A knowledge base of its own, to which the page may add what is below ``docs``."""
    program = Program(tmp_path_factory.mktemp("real"))
    docs = program.project / "docs"
    docs.mkdir(parents=True)
    (docs / "ants.md").write_text("# Ants\n\nAnts carry leaves.\n")
    program.config.write_text("[kb]\ndocs = false\nembedder = 'none'\nadd_from = ['docs']\n")
    token = program.json("tokens", "create", "guest", "--level", "read_only")["token"]
    with opened(program) as owner:
        yield Bench(program, owner, token)


def test_documents_are_added_indexed_anew_and_removed_without_scripts(real):
    owner, docs = real.owner, str(real.program.project / "docs")
    assert 'action="/kb/add"' in owner.get("/kb").text
    added = owner.post("/kb/add", sources=f"\n{docs}\n", collection="animals & co")
    shown, page = owner.get(added.place).text, owner.get("/kb?q=leaves").text
    indexed = owner.post("/kb/reindex", collection="animals & co")
    asked = owner.get("/kb/remove?collection=animals+%26+co").text
    removed = owner.post("/kb/remove", collection="animals & co")

    assert (added.status, indexed.status, removed.status) == (303, 303, 303)
    assert "animals &amp; co is up to date." in shown
    assert "/kb/collection?id=animals+%26+co" in shown or "/kb/collection?id=animals%20%26%20co" in shown
    assert "carry <mark>leaves</mark>" in page
    assert 'name="collection" value="animals &amp; co"' in asked
    assert "Nothing to search yet" in owner.get(removed.place).text


def test_documents_are_exported_and_taken_in_again(real):
    """By whoever may read documents, and by whoever may change them."""
    owner, guest, docs = real.owner, real.guest(), real.program.project / "docs"
    owner.post("/kb/add", sources=str(docs / "ants.md"), collection="carried")
    exported, by_guest = owner.get("/kb/export?collection=carried"), guest.get("/kb/export?collection=carried")
    (docs / "backup.jsonl").write_text(exported.text)
    owner.post("/kb/remove", collection="carried")
    refused = guest.post("/kb/import", source=str(docs / "backup.jsonl"))
    taken = owner.post("/kb/import", source=str(docs / "backup.jsonl"))
    page = owner.get("/kb/collection?id=carried").text
    gone = owner.get("/kb/export?collection=nothing")

    assert [line[:13] for line in exported.text.splitlines()] == ['{"collection"', '{"document":{']
    assert "Ants carry leaves" in by_guest.text
    assert (refused.status, taken.status, gone.status) == (422, 303, 404)
    assert "/kb/export?collection=carried" in page
    owner.post("/kb/remove", collection="carried")
    (docs / "backup.jsonl").unlink()


@pytest.mark.parametrize(
    ("source", "says"),
    [("/etc/hostname", "is not below a folder"), ("http://127.0.0.1:1/x", "inside this machine or network")],
)
def test_what_may_not_be_added_is_said_and_what_was_entered_stays(real, source, says):
    refused = real.owner.post("/kb/add", sources=source, collection="loot")

    assert refused.status == 422
    assert says in refused.text
    assert f"\n{source}</textarea>" in refused.text


def test_changes_are_refused_to_guests_and_to_foreign_pages(real):
    guest = real.guest()
    wanted = {"sources": str(real.program.project / "docs"), "collection": "g"}
    by_guest, forged = guest.post("/kb/add", **wanted), real.owner.forge("/kb/add", **wanted)
    nothing = real.owner.post("/kb/remove", collection="nothing")

    assert 'action="/kb/add"' not in guest.get("/kb").text
    assert (by_guest.status, forged.status, nothing.status) == (422, 403, 422)
    assert "No collection named" in nothing.text


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=6),
    max_leaves=15,
)


@given(ODD, ODD)
def test_whatever_the_tools_say_can_be_read(answer, other):
    """A gap, not an error."""
    kb_page.collections(answer, other)
    kb_page.health(answer)
    kb_page.results(answer)
    kb_page.answered(answer)
    kb_page.skipped(answer)
    kb_page.document(answer, kb_page.reading_of(other))


def test_files_are_uploaded_and_their_collection_opens(real):
    """What a file calls itself leads nowhere else; one document is taken out alone."""
    owner = real.owner
    owner.get("/kb")
    body = MULTIPART.format(csrf=owner.csrf).replace("\n", "\r\n")
    sent = {"origin": f"http://{owner.host}", "content_type": "multipart/form-data; boundary=cut"}
    done = owner.send("POST", "/kb/upload", body, **sent)
    forged = owner.send("POST", "/kb/upload", body.replace(owner.csrf, "0" * 32), **sent)
    page = owner.get("/kb/collection?id=given").text
    document = page.partition('href="/kb/document?id=')[2].partition('"')[0]
    shown = owner.get(f"/kb/document?id={document}").text
    owner.post("/kb/remove", collection="given", document=document)

    assert (done.status, done.place) == (303, "/kb?done=kb_added&name=given")
    assert forged.status == 403
    assert "Bees" in page
    assert "<strong>honey</strong>" in shown
    assert not list(real.program.home.rglob("passwd.md"))[1:]
    assert "uploads" in str(next(real.program.home.rglob("passwd.md")))
    assert "Bees" not in owner.get("/kb/collection?id=given").text
    assert owner.get("/kb/collection?id=nothing").status == 404


MULTIPART = """--cut
Content-Disposition: form-data; name="csrf"

{csrf}
--cut
Content-Disposition: form-data; name="collection"

given
--cut
Content-Disposition: form-data; name="files"; filename="../../passwd.md"
Content-Type: text/markdown

# Bees

They make **honey**.
--cut--
"""
