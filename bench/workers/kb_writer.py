"""``kb_writer.py write|check DIR``: adds and changes documents until it is killed, or says what is there afterwards.

``write`` prints ``DOCUMENT VERSION`` once that version of a document was acknowledged. ``check`` prints JSON.
"""

import asyncio
import json
import os
import re
import sys
import time
from itertools import count
from pathlib import Path

from toolcrib.knowledge.index import Index
from toolcrib.knowledge.ingest import Ingest
from toolcrib.knowledge.library import refuse_foreign
from toolcrib.knowledge.retrieve import Retriever, Search
from toolcrib.knowledge.survey import Adding, SourceRoot
from toolcrib.stores.knowledge.store import SqliteKnowledge

DOCUMENTS = 40


async def write(home: Path, first: int) -> None:
    (home / "files").mkdir(exist_ok=True)
    ingest = Ingest(SqliteKnowledge(home / "kb.db"), None, refuse_foreign)
    for version in count(first):
        document = version % DOCUMENTS
        path = home / "files" / f"d{document}.md"
        path.write_text(f"# d{document}\n\nThis is version v{version} of it.\n\n" + "More words to index. " * 200)
        await ingest.add([SourceRoot(path)], Adding("crash"))
        os.write(1, b"%d %d\n" % (document, version))


async def check(home: Path) -> dict[str, object]:
    began = time.monotonic()
    store = SqliteKnowledge(home / "kb.db")
    documents = await store.documents("crash")
    reopened_s = time.monotonic() - began
    retriever = Retriever(store, Index(store, None))
    versions, unfound = {}, 0
    for document in documents:
        kept = await store.text(document.id)
        version = int(re.findall(r"version v(\d+)", kept.text)[0])
        versions[int(document.title[1:])] = version
        found = (await retriever.search(Search(f"v{version}", ("crash",), 3))).passages
        unfound += document.id not in {each.document.id for each in found}
    problems = await store.verify()
    await store.close()
    fault = "; ".join(problems) or (f"{unfound} documents are not found" if unfound else "")
    return {"reopened_s": reopened_s, "fault": fault, "versions": versions}


if __name__ == "__main__":
    command, home = sys.argv[1], Path(sys.argv[2])
    if command == "write":
        asyncio.run(write(home, int(sys.argv[3])))
    else:
        print(json.dumps(asyncio.run(check(home))))
