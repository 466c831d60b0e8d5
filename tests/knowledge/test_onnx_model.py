"""Models in ONNX's format run here: a real runtime, a real tokenizer, a tiny table for weights."""

import asyncio
import json
import subprocess
import sys

import numpy as np
import pytest
from tests.knowledge.onnx_files import write_export

from toolcrib.core.errors import EmbedderUnavailable
from toolcrib.knowledge.embedding import Prefixes
from toolcrib.knowledge.onnx_model import OnnxEmbedder

TABLE = [[9, 9, 9], [0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 2]]
WORDS = ["ants", "bees", "query"]


@pytest.fixture
def folder(tmp_path):
    return write_export(tmp_path / "tiny-model", WORDS, TABLE)


async def embedded(folder, texts, **said):
    made = OnnxEmbedder("tiny", folder, **({"prefixes": Prefixes()} | said))
    rows = await made.embed_documents(texts)
    await made.close()
    return rows.round(4).tolist(), made


async def test_tokens_are_averaged_without_padding_and_made_of_length_1(folder):
    rows, made = await embedded(folder, ["Ants", "ants bees", "ants ants bees bees bees", "bees"], batch=3)

    half, long = np.sqrt(0.5), np.asarray([2, 3]) / np.sqrt(13)
    assert np.allclose(rows, [[1, 0, 0], [half, half, 0], [*long, 0], [0, 1, 0]], atol=1e-3)
    assert (made.dimensions, made.name.startswith("onnx:tiny-model-")) == (3, True)


async def test_queries_and_documents_have_prefixes_of_their_own(folder):
    made = OnnxEmbedder("tiny", folder, Prefixes(query="query "))
    asked, document = await asyncio.gather(made.embed_query("ants"), made.embed_documents(["ants"]))
    await made.close()

    assert (asked[2] > 0, document[0].tolist()) == (True, [1, 0, 0])


async def test_a_model_that_takes_the_first_token_is_believed(folder):
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))

    assert (await embedded(folder, ["bees ants ants"]))[0] == [[0, 1, 0]]


async def test_long_texts_are_cut_where_the_model_says(folder):
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 2}))

    assert (await embedded(folder, ["ants ants bees bees bees"]))[0] == [[1, 0, 0]]


async def test_another_model_in_the_same_folder_has_another_name(folder, tmp_path):
    before = OnnxEmbedder("tiny", folder, Prefixes()).name
    write_export(folder, WORDS, np.asarray(TABLE) * 2)

    assert OnnxEmbedder("tiny", folder, Prefixes()).name != before


async def test_what_is_no_model_is_told_with_what_to_do(folder, tmp_path):
    with pytest.raises(EmbedderUnavailable, match=r"holds no model\.onnx with a tokenizer\.json"):
        OnnxEmbedder("tiny", tmp_path / "nowhere", Prefixes())
    (folder / "model.onnx").write_bytes(b"not a model")
    with pytest.raises(EmbedderUnavailable, match="it cannot be loaded"):
        await embedded(folder, ["ants"])
    with pytest.raises(EmbedderUnavailable, match="vectors of 3 numbers, but 7 are expected"):
        await embedded(write_export(folder, WORDS, TABLE), ["ants"], dimensions=7)


def test_without_the_runtime_the_install_command_is_named(folder):
    """In a process that cannot import it, as on a machine where it is not installed."""
    program = f"""
import asyncio, sys
from pathlib import Path
sys.modules["onnxruntime"] = None
from toolcrib.core.errors import EmbedderUnavailable
from toolcrib.knowledge.embedding import Prefixes
from toolcrib.knowledge.onnx_model import OnnxEmbedder
made = OnnxEmbedder("tiny", Path({str(folder)!r}), Prefixes())
try:
    asyncio.run(made.embed_documents(["ants"]))
except EmbedderUnavailable as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert "toolcrib extras add onnx" in done.stdout
