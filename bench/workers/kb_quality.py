"""``kb_quality.py DATA``: how well passages are found by words, by vectors, and by both; prints one JSON object."""

import json
import sys
import time
from pathlib import Path
from statistics import fmean, median
from typing import Any

from _quality import Row, judgements, ndcg, recall, rows_of, sets_in

from toolcrib.search.hybrid import Fusion, Searcher, SearchSettings, Segment
from toolcrib.search.model import bundled

MODES = ("lexical", "vector", "hybrid")
CHOICES = [(vector, long) for vector in (0.15, 0.2, 0.25, 0.3, 0.35) for long in (8, 15, 30)]  # see Fusion


def ranking(searcher: Searcher, text: str, documents: list[Row]) -> list[str]:
    return [documents[hit.position]["_id"] for hit in searcher.search(text, 10).hits]


def judge(folder: Path) -> dict[str, Any]:
    documents = rows_of(folder / "corpus.jsonl")
    relevant = judgements(folder / "qrels.tsv")
    queries = [query for query in rows_of(folder / "queries.jsonl") if query["_id"] in relevant]
    embedder = bundled()
    began = time.process_time()
    vectors = embedder.embed([f"{each.get('title', '')}. {each['text']}" for each in documents])
    segment = Segment.build([{"title": d.get("title", ""), "text": d["text"]} for d in documents], vectors)
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
    fusions = [Fusion(vector=vector, long=long) for vector, long in CHOICES]
    searchers = [Searcher([(segment, None)], embedder, SearchSettings(fusion=fusion)) for fusion in fusions]
    found["choices"] = [
        fmean(ndcg(ranking(each, query["text"], documents), relevant[query["_id"]]) for query in queries)
        for each in searchers
    ]
    return found


def left_out(name: str, choices: dict[str, list[float]]) -> float:
    """The set's nDCG@10 with the weights that are best on the other sets."""
    others = [values for other, values in choices.items() if other != name] or [choices[name]]
    sums = [sum(column) for column in zip(*others, strict=True)]
    return choices[name][sums.index(max(sums))]


def main() -> None:
    sets = sets_in(Path(sys.argv[1]), "corpus.jsonl")
    found = {name: judge(folder) for name, folder in sets.items()}
    choices = {name: each.pop("choices") for name, each in found.items()}
    print(json.dumps({name: {**each, "left_out": left_out(name, choices)} for name, each in found.items()}))


main()
