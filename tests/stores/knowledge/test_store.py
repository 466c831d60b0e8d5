"""The file of the knowledge base: older formats are brought up to date, and several processes take turns."""

import apsw
from tests.contracts.test_knowledge import arrival

from toolcrib.core.knowledge import Collection, CollectionChange
from toolcrib.stores.knowledge.store import SqliteKnowledge
from toolcrib.stores.sqlite_file import read_sql


async def test_a_file_of_the_first_format_keeps_what_it_holds(tmp_path):
    connection = apsw.Connection(str(tmp_path / "kb.db"))
    connection.execute(read_sql("knowledge_1"))
    connection.execute("PRAGMA user_version = 1")
    connection.execute("INSERT INTO collection VALUES ('notes', 'Notes', '', '{}', 'words', 8, 'then')")
    connection.close()
    store = SqliteKnowledge(tmp_path / "kb.db")
    known = await store.collections()
    await store.apply(CollectionChange("notes", (arrival("a"),), segment=b"index"))
    held = await store.counts("notes")
    await store.close()

    assert known == [Collection("notes", "Notes", "", {}, "words", 8, "then")]
    assert (held.documents, held.waiting, held.lacking) == (1, 0, 0)


async def test_two_stores_of_one_file_take_turns_in_making_vectors(tmp_path):
    one, other = SqliteKnowledge(tmp_path / "kb.db"), SqliteKnowledge(tmp_path / "kb.db")
    turns = [await one.take_turn(), await other.take_turn()]
    await one.close()
    turns.append(await other.take_turn())
    await other.close()

    assert turns == [True, False, True]
