"""kb_add, kb_remove and kb_reindex as a caller meets them: through a Crib, bounded, told of progress, written down."""

import os

import msgspec
import pytest

from toolcrib import open_crib
from toolcrib.config.model import AuditConfig, Config
from toolcrib.config.sections import KbConfig, SecurityConfig
from toolcrib.core.access import Caller, Grants
from toolcrib.core.offers import SecurityLevel
from toolcrib.core.requests import SilentChannel
from toolcrib.stores.audit.file import AuditFile
from toolcrib.stores.audit.log import AuditQuery, ask, latest

AGENT = Caller("token:1", "token", Grants(SecurityLevel.WRITE))


class Told(SilentChannel):
    """Keeps what it is told."""

    wants_progress = True

    def __init__(self):
        self.heard = []

    def notify(self, method, params):
        self.heard.append((method, msgspec.json.decode(params)))


@pytest.fixture
def open_kb(tmp_path, files):
    """A Crib whose callers may add what is below ``files/open``."""
    root = files(open__ants_dot_md="# Ants\n\nAnts carry leaves.", open__bees_dot_md="# Bees\n\nBees dance.")
    files(secret__key_dot_txt="The key is 42.")
    (root / "open" / ".private").mkdir()
    (root / "open" / ".private" / "notes.md").write_text("# Private")

    def opened(**more):
        allowed = more.pop("add_from", (str(root / "open"),))
        kb = KbConfig(enabled=True, path=str(tmp_path / "kb.db"), docs=False, embedder="none", add_from=allowed)
        audit = AuditConfig(enabled=True, path=str(tmp_path / "audit.db"))
        return open_crib(Config(kb=kb, audit=audit, **more))

    return root, opened


async def call(crib, tool, caller=AGENT, **arguments):
    result = await crib.call(f"kb.{tool}", arguments, caller=caller)
    return result.structured if result.error is None else result.error


async def test_what_is_added_is_found_listed_and_taken_out_again(open_kb):
    root, opened = open_kb
    source = str(root / "open")
    async with opened() as crib:
        added = await call(crib, "add", sources=[source], collection_id="animals", license="CC0")
        again = await call(crib, "add", sources=[source], collection_id="animals")
        found = await call(crib, "hybrid_search", query="leaves", collection_ids=["animals"])
        first = await call(crib, "list_documents", collection_id="animals", limit=1)
        rest = await call(crib, "list_documents", collection_id="animals", after=first["next"])
        by_source = await call(crib, "get_document", document_id=f"{source}/ants.md")
        removed = await call(crib, "remove", collection_id="animals", documents=[f"{source}/ants.md"])
        whole = await call(crib, "remove", collection_id="animals", whole_collection=True)
        left = await call(crib, "list_collections")

    assert (added["collection_id"], added["added"], added["skipped"]) == ("animals", 2, [])
    assert (again["added"], again["unchanged"]) == (0, 2)
    assert found["results"][0]["citation"]["license"] == "CC0"
    assert [entry["title"] for entry in first["documents"] + rest["documents"]] == ["Ants", "Bees"]
    assert rest["next"] is None
    assert by_source["content"].startswith("# Ants")
    assert (removed["removed"], whole["removed"], left["collections"]) == (1, 1, [])
    assert (root / "open" / "ants.md").exists()


@pytest.mark.parametrize(
    "path",
    ["secret", "secret/key.txt", "nothing/there", "", "open/../secret", "open/.private", "open/.private/notes.md",
     "open/link", "a\0b", "/etc/hostname"],
)  # fmt: skip
@pytest.mark.parametrize("caller", [AGENT, Caller("owner", "token", Grants(SecurityLevel.SYSTEM))])
async def test_nobody_adds_files_from_elsewhere_nor_learns_which_exist(open_kb, path, caller):
    root, opened = open_kb
    (root / "open" / "link").symlink_to(root / "secret")
    async with opened() as crib:
        refused = await call(crib, "add", caller, sources=[os.path.join(root, path)], collection_id="loot")
        left = await call(crib, "list_collections")

    assert (refused.code, left["collections"]) == ("TOOL_PERMISSION_DENIED", [])
    assert "is not below a folder that documents may be added from." in refused.message


async def test_without_a_configured_folder_nothing_of_this_machine_is_added(open_kb):
    root, opened = open_kb
    async with opened(add_from=()) as crib:
        by_agent = await call(crib, "add", sources=[str(root / "open")])
        by_library = await crib.call("kb_add", {"sources": [str(root / "open")]})

    assert (by_agent.code, by_library.error.code) == ("TOOL_PERMISSION_DENIED",) * 2


async def test_addresses_inside_this_network_are_skipped_whoever_asks(open_kb):
    _, opened = open_kb
    async with opened() as crib:
        added = await call(crib, "add", sources=["http://127.0.0.1:1/secret"], collection_id="web")

    assert (added["added"], "inside this machine or network" in added["skipped"][0]["reason"]) == (0, True)


async def test_who_asks_for_it_is_told_how_far_an_addition_is(open_kb):
    root, opened = open_kb
    told = Told()
    async with opened() as crib:
        await crib.call("kb_add", {"sources": [str(root / "open")]}, caller=AGENT, channel=told)

    methods, params = zip(*told.heard, strict=True)
    assert set(methods) == {"notifications/progress"}
    assert params[-1]["progress"] == params[-1]["total"] == 2
    assert "2/2 files" in params[-1]["message"]
    assert [each["progress"] for each in params] == sorted({each["progress"] for each in params})


async def test_changes_need_the_level_write_obey_the_policies_and_are_written_down(open_kb, tmp_path):
    root, opened = open_kb
    reader = Caller("token:2", "token", Grants(SecurityLevel.READ_ONLY))
    async with opened() as crib:
        hidden = await call(crib, "add", reader, sources=[str(root / "open")])
        await call(crib, "add", sources=[str(root / "open")])
    async with opened(security=SecurityConfig(policies={"kb_remove": "deny"})) as crib:
        denied = await call(crib, "remove", collection_id="default", whole_collection=True)

    entries = ask(AuditFile(tmp_path / "audit.db"), lambda log: latest(log, AuditQuery()))
    assert (hidden.code, denied.code) == ("TOOL_PERMISSION_DENIED",) * 2
    assert {(entry.tool, entry.caller, entry.outcome) for entry in entries} >= {
        ("kb_add", "token:1", "success"),
        ("kb_add", "token:2", "TOOL_PERMISSION_DENIED"),
    }


@pytest.mark.parametrize("arguments", [{}, {"documents": ["x"], "whole_collection": True}])
async def test_a_collection_is_not_taken_out_by_mistake(open_kb, arguments):
    root, opened = open_kb
    async with opened() as crib:
        await call(crib, "add", sources=[str(root / "open")])
        refused = await call(crib, "remove", collection_id="default", **arguments)
        left = await call(crib, "list_documents", collection_id="default")

    assert (refused.code, len(left["documents"])) == ("TOOL_INVALID_INPUT", 2)


async def test_an_index_is_built_anew_and_vectors_are_made_and_given_up(open_kb):
    root, opened = open_kb
    async with opened() as crib:
        await call(crib, "add", sources=[str(root / "open")])
        made = await call(crib, "reindex", collection_ids=["default"], vectors_only=True, embedder="bundled")
        anew = await call(crib, "reindex")
        none = await call(crib, "reindex", collection_ids=["default"], embedder="none")
        found = await call(crib, "hybrid_search", query="leaves", collection_ids=["default"])
        unknown = await call(crib, "reindex", collection_ids=["defualt"])

    (made,), (anew,), (none,) = made["collections"], anew["collections"], none["collections"]
    assert (made["embedder_name"], made["passages"], made["waiting_for_vectors"]) == ("bundled", 2, 0)
    assert (anew["dimensions"], anew["waiting_for_vectors"]) == (made["dimensions"], 0)
    assert (none["embedder"], found["results"][0]["title"]) == ("", "Ants")
    assert "Did you mean 'default'?" in unknown.message


READER = Caller("token:2", "token", Grants(SecurityLevel.READ_ONLY))
OWNER = Caller("owner", "token", Grants(SecurityLevel.SYSTEM))


async def test_an_export_comes_in_parts_and_is_taken_in_again_as_it_was(open_kb):
    root, opened = open_kb
    async with opened() as crib:
        for name in ("one", "two"):
            await call(crib, "add", sources=[str(root / "open")], collection_id=name)
        whole = await call(crib, "export", OWNER)
        parts, after = [], None
        while after != "":
            given = {"after": after} if after else {}
            parts.append(await call(crib, "export", OWNER, max_characters=1000, **given))
            after = parts[-1]["next"] or ""
        some = await call(crib, "export", OWNER, collection_ids=["two"])
        (root / "open" / "backup.jsonl").write_text("\n".join(whole["lines"]))
        for name in ("one", "two"):
            await call(crib, "remove", collection_id=name, whole_collection=True)
        told = Told()
        taken = await crib.call("kb_import", {"source": str(root / "open" / "backup.jsonl")}, channel=told)
        again = await call(crib, "export", OWNER)

    assert (whole["documents"], whole["next"], len(whole["lines"])) == (4, None, 6)
    assert [line for part in parts for line in part["lines"]] == whole["lines"]
    assert [part["documents"] for part in parts] == [2, 2]
    assert some["lines"] == whole["lines"][3:]
    assert taken.structured == {"documents": 4, "collection_ids": ["one", "two"], "vectors_missing": None}
    assert told.heard[-1][1]["message"] == "4 documents"
    assert again["lines"] == whole["lines"]


async def test_an_export_is_for_those_who_may_read_documents_and_an_import_for_those_who_may_write(open_kb):
    """A token for searching alone gets no document whole, and nobody brings in files from elsewhere."""
    root, opened = open_kb
    searcher = Caller("token:3", "token", Grants(SecurityLevel.SYSTEM, tools=("kb_hybrid_search",)))
    lines = root / "secret" / "key.txt"
    async with opened() as crib:
        await call(crib, "add", sources=[str(root / "open")])
        found = await call(crib, "hybrid_search", searcher, query="leaves", collection_ids=["default"])
        refused = [
            await call(crib, "export", searcher),
            await call(crib, "import", READER, source=str(root / "open" / "ants.md")),
            await call(crib, "import", source=str(lines)),
            await call(crib, "import", source=str(root / "open" / ".private" / "notes.md")),
        ]
        unknown = await call(crib, "export", collection_ids=["defualt"])
        astray = await call(crib, "export", after="somewhere")

    assert found["results"]
    assert [error.code for error in refused] == ["TOOL_PERMISSION_DENIED"] * 4
    assert "Did you mean 'default'?" in unknown.message
    assert astray.code == "TOOL_INVALID_INPUT"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("# Ants", "Line 1 is no exported document"),
        ('{"document": {"id": "a"}}', "Line 1 is no exported document"),
        ('\n{"collection": {"id": "a"}}\n{"colour": 1}', "Line 3 is no exported document"),
        ("[" * 100_000, "Line 1 is no exported document"),
        ("DOCUMENT", "Line 1 is a document of no collection"),
        ('{"collection": {"id": "a"}}\nDOCUMENT', "Line 2 has an outline that is not that of its text"),
    ],
)
async def test_what_is_no_export_is_refused_by_its_line(open_kb, text, says):
    root, opened = open_kb
    info = {"id": "d", "collection": "a", "source": "s", "title": "t", "type": "text", "stamp": {"hash": "h"}}
    line = {"document": info, "text": "Ants.", "outline": {"pages": [0, 900]} if "collection" in text else {}}
    file = root / "open" / "broken.jsonl"
    file.write_text(text.replace("DOCUMENT", msgspec.json.encode(line).decode()))
    async with opened() as crib:
        refused = await call(crib, "import", source=str(file))
        folder = await call(crib, "import", source=str(root / "open"))

    assert (refused.code, says in refused.message) == ("TOOL_EXECUTION_FAILED", True), refused.message
    assert "is a folder" in folder.message
