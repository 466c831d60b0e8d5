import asyncio
import os

import pytest
from tests.knowledge.conftest import Base

from toolcrib.core.errors import UnreadableSource
from toolcrib.knowledge import ingest
from toolcrib.knowledge.embedding import Embedders
from toolcrib.knowledge.fill import fill
from toolcrib.knowledge.ingest import Ingest
from toolcrib.knowledge.survey import Adding, SourceRoot

ANTS = "# Ants\n\nAnts carry leaves many times their own weight.\n"
BEES = "# Bees\n\nBees dance to tell each other where flowers are.\n"


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    return tmp_path / "kb.db" if request.param == "sqlite" else request.getfixturevalue("store_settings")


async def test_added_files_are_found(base, files):
    report = await base.add(files(ants_dot_md=ANTS, bees_dot_md=BEES))

    assert (report.added, report.passages, report.skipped) == (2, 2, [])
    assert await base.found("how do bees tell where flowers are", top_k=1) == ["bees.md"]


async def test_unchanged_files_are_not_read_again(base, files):
    root = files(ants_dot_md=ANTS, bees_dot_md=BEES)
    await base.add(root)
    generation = await base.store.generation()
    files(ants_dot_md=ANTS.replace("leaves", "stones"))  # the same size at the same time: only reading would tell
    report = await base.add(root)

    assert (report.added, report.changed, report.unchanged, report.skipped) == (0, 0, 2, [])
    assert await base.store.generation() == generation


async def test_a_touched_file_is_read_but_not_indexed_again(base, files):
    root = files(ants_dot_md=ANTS)
    await base.add(root)
    generation = await base.store.generation()
    os.utime(root / "ants.md", (1_600_000_000, 1_600_000_000))
    report = await base.add(root)
    stamp = (await base.store.stamps("notes"))[str(root / "ants.md")][1]

    assert (report.changed, report.unchanged) == (0, 1)
    assert await base.store.generation() == generation
    assert stamp.mtime_ns == 1_600_000_000_000_000_000


async def test_a_file_written_just_now_is_not_trusted_by_its_time(base, files):
    root = files()
    (root / "new.md").write_text(ANTS)
    status = os.stat(root / "new.md")
    await base.add(root)
    (root / "new.md").write_text(ANTS.replace("leaves", "sheets"))
    os.utime(root / "new.md", ns=(status.st_atime_ns, status.st_mtime_ns))
    report = await base.add(root)

    assert report.changed == 1


async def test_only_the_changed_file_is_indexed_again(base, files):
    root = files(ants_dot_md=ANTS, bees_dot_md=BEES)
    await base.add(root)
    bees = await base.store.document((await base.store.stamps("notes"))[str(root / "bees.md")][0])
    files(ants_dot_md="# Ants\n\nAnts farm mushrooms.\n")
    report = await base.add(root)

    assert (report.added, report.changed, report.unchanged) == (0, 1, 1)
    assert await base.store.document(bees.id) == bees
    assert await base.found("mushrooms", top_k=1) == ["ants.md"]
    assert all("leaves" not in found.text for found in (await base.search("leaves weight")).passages)


async def test_a_deleted_file_leaves(base, files):
    root = files(ants_dot_md=ANTS, bees_dot_md=BEES, sub__x_dot_md="# Other\n\nSomething else.")
    await base.add(root)
    (root / "bees.md").unlink()
    report = await base.add(root)

    assert report.removed == 1
    assert "bees.md" not in await base.found("bees dance flowers")
    assert await base.store.verify() == []


async def test_adding_one_folder_leaves_others_alone(base, files):
    root = files(a__x_dot_md=ANTS, ab__y_dot_md=BEES)
    await base.add(root / "a")
    await base.add(root / "ab")
    report = await base.add(root / "a")

    assert report.removed == 0
    assert len(await base.store.documents("notes")) == 2


async def test_what_is_said_when_adding_counts_more_and_stays(base, files):
    root = files(ants_dot_md="---\nlicense: MIT\ntitle: Theirs\nteam: x\n---\n" + ANTS)
    await base.add(root, licence="CC0", version="7", metadata={"team": "y"})
    files(ants_dot_md="---\ntitle: Theirs\n---\n" + ANTS + "More.")
    await base.add(root)
    (document,) = await base.store.documents("notes")

    assert (document.title, document.licence, document.version) == ("Theirs", "CC0", "7")


async def test_saying_something_new_of_an_unchanged_file_updates_it(base, files):
    root = files(ants_dot_md=ANTS)
    await base.add(root)
    report = await base.add(root, licence="CC0")
    again = await base.add(root, licence="CC0")
    (document,) = await base.store.documents("notes")

    assert (report.changed, again.changed, again.unchanged) == (1, 0, 1)
    assert document.licence == "CC0"


async def test_saying_the_same_again_reads_nothing(base, files):
    root = files(ants_dot_md=ANTS)
    await base.add(root, licence="CC0")
    files(ants_dot_md=ANTS.replace("leaves", "stones"))
    report = await base.add(root, licence="CC0")

    assert (report.changed, report.unchanged) == (0, 1)


async def test_what_cannot_be_read_is_told_and_the_rest_is_added(base, files):
    root = files(ants_dot_md=ANTS, empty_dot_md=" \n", page_dot_html="<p>x</p>", broken_dot_json="{")
    (root / "picture.png").write_bytes(b"\x89PNG\0\0")
    report = await base.add(root)

    assert report.added == 1
    assert {skipped.source.rpartition("/")[2]: skipped.reason.partition(":")[0] for skipped in report.skipped} == {
        "empty.md": "there is no text in it",
        "page.html": "html is not read in this test",
        "broken.json": "it is not JSON",
        "picture.png": "it is not text",
    }


async def test_a_path_that_is_not_there_is_an_error(base, tmp_path):
    with pytest.raises(UnreadableSource, match="nowhere"):
        await base.add(tmp_path / "nowhere")


async def test_progress_counts_up_to_the_end(base, files):
    root = files(**{f"f{n}_dot_md": f"# {n}\n\ntext {n}" for n in range(7)})
    seen = []
    await base.ingest.add([SourceRoot(root)], Adding("notes"), seen.append)

    assert [progress.done for progress in seen] == [1, 2, 3, 4, 5, 6, 7]
    assert {progress.total for progress in seen} == {7}


async def test_an_interrupted_addition_keeps_what_it_stored_and_goes_on_later(base, files, monkeypatch):
    monkeypatch.setattr(ingest, "PASSAGES_AT_ONCE", 500)
    long = "\n\n".join(f"Paragraph {n} about nothing much. " * 30 for n in range(300))
    root = files(**{f"f{n}_dot_md": f"{n} {long}" for n in range(4)})

    class Stop(Exception):
        pass

    def give_up(progress):
        if progress.done == 3:
            raise Stop

    with pytest.raises(Stop):
        await base.ingest.add([SourceRoot(root)], Adding("notes"), give_up)
    kept = len(await base.store.documents("notes"))
    report = await base.add(root)

    assert 0 < kept < 4
    assert report.added == 4 - kept
    assert await base.store.verify() == []


async def test_many_small_additions_end_up_in_few_segments(base, files):
    for number in range(20):
        root = files(**{f"f{number}_dot_md": f"# {number}\n\nWords number{number} here."})
        await base.add(root / f"f{number}.md")

    records = await base.store.segments(["notes"])
    assert sorted(record.level for record in records) == [0, 0, 0, 0, 1, 1]
    assert await base.found("number13", top_k=1) == ["f13.md"]


async def test_the_dead_leave_the_index(base, files):
    root = files(**{f"f{number}_dot_md": f"# {number}\n\nWords number{number} here." for number in range(6)})
    await base.add(root)
    for number in range(5):
        (root / f"f{number}.md").unlink()
    await base.add(root)

    assert (await base.store.counts("notes")).dead_passages == 0
    assert await base.found("number5", top_k=1) == ["f5.md"]


async def test_another_embedder_makes_the_vectors_anew_without_the_files(base, files, embedder):
    plain = Base(base.path, None)
    root = files(ants_dot_md=ANTS, bees_dot_md=BEES)
    await plain.add(root)
    (root / "ants.md").unlink()
    await base.add(root / "bees.md", embedder="words")
    await fill(base.store, Embedders.of(embedder), "notes")
    (collection,) = await base.store.collections()

    assert (collection.embedder, collection.dimensions) == (embedder.name, embedder.dimensions)
    hit = (await base.search("ants carry")).passages[0]
    assert (hit.document.source.endswith("ants.md"), hit.vector > 0) == (True, True)
    await plain.store.close()


async def test_two_additions_at_once_lose_nothing(base, files, embedder):
    other = Ingest(Base(base.path, embedder).store, embedder, None)
    root = files(**{f"{side}__f{n}_dot_md": f"# {side} {n}\n\nabout {side}{n}" for side in "ab" for n in range(10)})
    await asyncio.gather(base.add(root / "a"), other.add([SourceRoot(root / "b")], Adding("notes")))

    assert len(await base.store.documents("notes")) == 20
    assert await base.store.verify() == []
    await other.store.close()
