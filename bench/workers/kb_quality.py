"""``kb_quality.py DATA``: how well passages are found by words, by vectors, and by both; prints one JSON object."""

import json
import sys
import time
from pathlib import Path
from statistics import fmean, median
from typing import Any

from _quality import judgements, ndcg, recall, rows_of, sets_in

from toolcrib.search.hybrid import Entry, Searcher, Segment
from toolcrib.search.model import bundled

MODES = ("lexical", "vector", "hybrid")


def judge(folder: Path) -> dict[str, Any]:
    documents = rows_of(folder / "corpus.jsonl")
    relevant = judgements(folder / "qrels.tsv")
    queries = [query for query in rows_of(folder / "queries.jsonl") if query["_id"] in relevant]
    embedder = bundled()
    began = time.process_time()
    vectors = embedder.embed([f"{each.get('title', '')}. {each['text']}" for each in documents])
    segment = Segment.build([Entry({"title": d.get("title", ""), "text": d["text"]}) for d in documents], vectors)
    built_s = time.process_time() - began
    searcher = Searcher([(segment, None)], embedder)
    found: dict[str, Any] = {"documents": len(documents), "queries": len(queries), "build_s": built_s}
    for mode in MODES:
        gains, recalls, cpu_ms = [], [], []
        for query in queries:
            began = time.process_time()
            hits = searcher.search(query["text"], 100, mode=mode).hits
            cpu_ms.append((time.process_time() - began) * 1000)
            ranked = [documents[hit.position]["_id"] for hit in hits]
            gains.append(ndcg(ranked, relevant[query["_id"]]))
            recalls.append(recall(ranked, relevant[query["_id"]]))
        found[mode] = {"ndcg": fmean(gains), "recall": fmean(recalls), "cpu_ms": median(cpu_ms)}
    return found


def main() -> None:
    sets = sets_in(Path(sys.argv[1]), "corpus.jsonl")
    print(json.dumps({name: judge(folder) for name, folder in sets.items()}))


main()
