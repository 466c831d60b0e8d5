"""The preview: what it is and how to read on, for results of every make; binary stays out of it."""

import base64
import json
import random
from typing import Any

import msgspec
import pytest

from toolcrib.calls.results.document import ResultDocument
from toolcrib.calls.results.preview import Kept, preview_blocks
from toolcrib.calls.results.reading import ReadRequest, answer

LIMIT = 16_384
PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n" + random.Random(5).randbytes(30_000)).decode()
ROWS = [{"id": number, "name": f"user {number}"} for number in range(2_000)]


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def document(*content: Any, **more: Any) -> ResultDocument:
    return ResultDocument(msgspec.json.encode({"content": list(content), **more}))


def shown(found: ResultDocument) -> str:
    blocks = preview_blocks(found, Kept("r_1", "box__get", len(found.raw), LIMIT, 60))
    assert len(msgspec.json.encode(blocks)) < LIMIT
    return str(blocks[0]["text"])


def read(found: ResultDocument, **part: Any) -> list[dict[str, Any]]:
    return answer(found, ReadRequest("r_1", **part), LIMIT)


TEXTS = [text(json.dumps(row, indent=1)) for row in ROWS]
LINKS = [{"type": "resource_link", "uri": f"a:{number}", "name": "x" * 20} for number in range(900)]
CSV = "id,name\n" + "".join(f"{row['id']},{row['name']}\n" for row in ROWS)
LINES = "\n".join(map(json.dumps, ROWS))


@pytest.mark.parametrize(
    ("found", "kind", "first"),
    [
        (document(text(LINES)), "rows (JSON lines)", {"id": 7, "name": "user 7"}),
        (document(text(CSV)), "rows (CSV)", {"id": "7", "name": "user 7"}),
        (
            document(*(text(json.dumps(row, indent=1)) for row in ROWS)),
            "rows (JSON texts)",
            {"id": 7, "name": "user 7"},
        ),
        (document(text(json.dumps(ROWS))), "JSON", {"id": 7, "name": "user 7"}),
    ],
    ids=["json lines", "csv", "many texts", "json"],
)
def test_rows_are_read_by_path_whatever_they_are_written_in(found: ResultDocument, kind: str, first: dict[str, Any]):
    """The preview says so, and single rows, columns and searched rows can be had."""
    assert f"{kind} of the shape [2,000 × {{id: " in shown(found)
    assert json.loads(read(found, path="[7]")[1]["text"]) == first
    assert json.loads(read(found, path="[*].name", offset=5, length=2)[1]["text"]) == ["user 5", "user 6"]
    assert "user 1234" in read(found, path="", search="user 1234")[1]["text"]


@pytest.mark.parametrize(
    "found",
    [
        document(text(PICTURE)),
        document(text(f"Here: data:image/png;base64,{PICTURE}\nDone.")),
        document(text(json.dumps({"name": "a.png", "content": PICTURE}))),
        document(structuredContent={"content": PICTURE}),
    ],
    ids=["alone", "address", "in json", "structured"],
)
def test_base64_stays_out_of_the_preview(found: ResultDocument):
    """In its place it says what is there; the words around it stay."""
    preview = shown(found)

    assert PICTURE[100:200] not in preview
    assert "of base64, image/png, left out here]" in preview


def test_what_follows_a_blob_is_shown():
    """And nothing is left to read on but the blob itself."""
    assert shown(document(text(f"Here: data:image/png;base64,{PICTURE}\nDone."))).endswith("\nDone.")


def test_reading_on_begins_behind_what_was_shown():
    """Blobs count with their full length."""
    words = f"{PICTURE} " + "word " * 5_000
    preview = shown(document(text(words)))
    offset = int(preview.partition('"offset": ')[2].partition("}")[0])

    assert preview.endswith(f"[… {len(words) - offset:,} more characters]")
    assert offset > len(PICTURE)


def test_a_value_that_is_base64_is_described_and_given_only_when_its_characters_are_asked_for():
    """No model can read it."""
    found = document(text(json.dumps({"content": PICTURE})))

    described, characters = read(found, path="content"), read(found, path="content", offset=0, length=40)

    assert [block["text"] for block in described] == [
        "This is 30,008 bytes of image/png as base64, nothing to read as text. To have its characters all the same: "
        '{"handle": "r_1", "path": "content", "offset": 0, "length": 20000}'
    ]
    assert characters[1]["text"] == PICTURE[:40]


def test_a_large_picture_is_handed_over_as_a_picture():
    """At the path the preview names, whatever the limit on text."""
    picture = {"type": "image", "mimeType": "image/png", "data": PICTURE}
    found = document(text("Taken."), picture)

    assert "- image/png, 30.0 KB: path $.content[1] hands it over\nTaken." in shown(found)
    assert read(found, path="$.content[1]")[1] == picture


def test_an_embedded_text_is_no_picture():
    """It is read in parts like any other."""
    found = document({"type": "resource", "resource": {"uri": "a:b", "text": "line\n" * 10_000}})

    assert "too large to show at once" in read(found, path="$.content[0]")[0]["text"]


def test_links_are_not_said_to_be_nothing():
    """A result of neither text nor data still has a shape, and a way to read it."""
    preview = shown(
        document(*({"type": "resource_link", "uri": f"a:{number}", "name": "x" * 20} for number in range(900)))
    )

    assert "[900 × {type: string, uri: string, name: string}]" in preview
    assert '"path": "$.content"' in preview


def test_data_that_is_also_given_as_text_is_told_once():
    """The text adds nothing."""
    data = {"rows": ROWS}

    assert "text of" not in shown(document(text(json.dumps(data)), structuredContent=data))
    assert "text of 9 characters" in shown(document(text("2000 rows"), structuredContent=data))
