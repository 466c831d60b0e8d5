"""``kb_corpus.py DIR CHUNKS [DATA]``: documents, their passages, queries and all vectors, the same each time.

The words are real: sentences of Python's own documentation strings and language reference, or of the ``corpus.jsonl``
files below DATA. Each document is a new mixture of them, so that no two passages are the same.
"""

import ast
import json
import random
import re
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from toolcrib.core.knowledge import PassageSpan
from toolcrib.knowledge.chunk import chunk
from toolcrib.knowledge.indexing import fields_of
from toolcrib.knowledge.parse.reading import parse
from toolcrib.search.model import bundled
from toolcrib.search.tokens import STOP_WORDS

SLICES = 10
QUERIES = 400
PARAGRAPHS = 10
PARAGRAPH = 650  # characters, about
SENTENCE = re.compile(r"(?<=[.!?:])\s+(?=[A-Z\"'`(])|\n\s*\n")


def sentences(data: Path | None) -> list[str]:
    """Everything there is to say, in the order it was found."""
    texts = _from_sets(data) if data else _from_python()
    found = (" ".join(each.split()) for text in texts for each in SENTENCE.split(text))
    return [each for each in found if 30 <= len(each) <= 400 and len(re.findall(r"[A-Za-z]{2,}", each)) >= 5]


def _from_sets(data: Path) -> Iterator[str]:
    for path in sorted(data.rglob("corpus.jsonl")):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            yield f"{row.get('title', '')}\n\n{row['text']}"


def _from_python() -> Iterator[str]:
    library = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(library.rglob("*.py")):
        if not {"site-packages", "test", "tests", "lib2to3"} & set(path.relative_to(library).parts):
            yield from _docstrings(path.read_text(errors="replace"))
    from pydoc_data.topics import topics

    yield from (topics[name] for name in sorted(topics))


def _docstrings(source: str) -> Iterator[str]:
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def document(pool: Sequence[str], number: int) -> str:
    """A title, and paragraphs of sentences that begin at some place and go on from another now and then."""
    chance = random.Random(number)
    words = [word for word in chance.choice(pool).split() if word.isalpha() and word.lower() not in STOP_WORDS]
    paragraphs = [f"# {' '.join(words[:5]).capitalize()} {number}"]
    for _ in range(PARAGRAPHS):
        at, said = chance.randrange(len(pool)), ""
        while len(said) < PARAGRAPH:
            at = chance.randrange(len(pool)) if chance.random() < 0.4 else (at + 1) % len(pool)
            said += f"{pool[at]} "
        paragraphs.append(said.strip())
    return "\n\n".join(paragraphs) + "\n"


def query(pool: Sequence[str], number: int) -> str:
    """Every other one is short: some words; the rest are whole sentences."""
    chance = random.Random(f"query {number}")
    words = re.findall(r"[A-Za-z][\w.-]*\w", chance.choice(pool))
    if number % 2:
        return " ".join(words[:25])
    telling = [word for word in words if word.lower() not in STOP_WORDS] or words
    return " ".join(chance.sample(telling, min(len(telling), chance.randint(2, 4))))


def main() -> None:
    target, wanted = Path(sys.argv[1]), int(sys.argv[2])
    pool = sentences(Path(sys.argv[3]) if len(sys.argv) > 3 else None)
    embedder = bundled()
    (target / "vectors").mkdir(parents=True)
    number = 0
    for part in range(SLICES):
        rows: list[dict[str, object]] = []
        folder = target / "files" / f"{part:02}"
        folder.mkdir(parents=True)
        while len(rows) < wanted / SLICES:
            rows += _write(folder / f"d{number:07}.md", document(pool, number))
            number += 1
        np.save(target / "vectors" / f"{part:02}.npy", embedder.embed([str(row.pop("embedded")) for row in rows]))
        (target / f"{part:02}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    queries = [query(pool, at) for at in range(QUERIES)]
    np.save(target / "queries.npy", embedder.embed(queries))
    (target / "queries.json").write_text(json.dumps(queries))
    (target / "about.json").write_text(json.dumps({"sentences": len(pool), "documents": number}))


def _write(path: Path, content: str) -> list[dict[str, object]]:
    path.write_text(content)
    parsed = parse("markdown", content.encode())
    rows = []
    for ordinal, place in enumerate(chunk(parsed.text, parsed.outline)):
        rows.append(_row(path.stem, ordinal, place, fields_of(parsed.title, parsed.text, place)))
    return rows


def _row(stem: str, ordinal: int, place: PassageSpan, fields: dict[str, str]) -> dict[str, object]:
    return {
        "id": f"{stem}-{ordinal}",
        "text": fields["text"],
        "title": fields["title"],
        "source": f"{stem}.md",
        "ordinal": ordinal,
        "headings": " · ".join(place.headings),
        "embedded": f"{fields['title']}\n{fields['headings']}\n{fields['text']}",
    }


main()
