"""Sentence-transformers models that were exported to ONNX, run in this process beside the event loop.

Needs ``onnxruntime`` and ``tokenizers`` (the extra ``onnx``), which are imported when the model is first used.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from toolcrib.core.errors import EmbedderUnavailable
from toolcrib.knowledge.embedding import Prefixes, check_dimensions, to_unit
from toolcrib.knowledge.endpoints import model_name
from toolcrib.search.vectors import Floats

BATCH = 16
TOKENS_MAX = 512
READ_FOR_MARK = 65_536
INSTALL = "`toolcrib extras add onnx`"
POOLED = "sentence_embedding"
"""The output of exports that pool themselves."""


class OnnxEmbedder:
    """A model in a folder: ``model.onnx`` (or ``onnx/model.onnx``) and ``tokenizer.json``."""

    def __init__(self, name: str, folder: Path, prefixes: Prefixes, batch: int = 0, dimensions: int = 0) -> None:
        self._shown, self._folder, self._prefixes = name, folder, prefixes
        self._model = _model_file(name, folder)
        self._thread = ThreadPoolExecutor(1, "toolcrib-onnx")
        self._loaded: _Loaded | None = None
        self.name = model_name("onnx", f"{folder.name}-{_mark(self._model)}", prefixes)
        self.dimensions = dimensions
        self.batch = batch or BATCH

    async def embed_documents(self, texts: Sequence[str]) -> Floats:
        """One row for each text."""
        return await self._embed([self._prefixes.document + text for text in texts])

    async def embed_query(self, text: str) -> Floats:
        """The vector of a query."""
        vector: Floats = (await self._embed([self._prefixes.query + text]))[0]
        return vector

    async def _embed(self, texts: Sequence[str]) -> Floats:
        rows = await asyncio.get_running_loop().run_in_executor(self._thread, self._run, texts)
        check_dimensions(self._shown, rows.shape[1], self.dimensions)
        self.dimensions = rows.shape[1]
        return rows

    def _run(self, texts: Sequence[str]) -> Floats:
        if self._loaded is None:
            self._loaded = _Loaded(self._shown, self._folder, self._model)
        parts = [texts[at : at + self.batch] for at in range(0, len(texts), self.batch)]
        try:
            rows = [self._loaded.embed(part) for part in parts]
        except Exception as error:  # the edge of a foreign library: whatever the model does is told in our words
            raise _unusable(self._shown, f"the model failed ({type(error).__name__}: {str(error)[:200]})") from error
        made = np.concatenate(rows) if rows else np.zeros((0, self.dimensions), np.float32)
        return to_unit(made, self._shown)

    async def close(self) -> None:
        """Let go of the model."""
        self._loaded = None
        self._thread.shutdown(wait=False)


class _Loaded:
    """Tokenizer and session; used by one thread."""

    def __init__(self, name: str, folder: Path, model: Path) -> None:
        try:
            import onnxruntime
            from tokenizers import Tokenizer
        except ImportError:
            raise EmbedderUnavailable(
                f"The embedder {name!r} needs onnxruntime and tokenizers.", hint=f"Install them: {INSTALL}"
            ) from None
        try:
            onnxruntime.set_default_logger_severity(3)
            self._session: Any = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
            self._tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # the edge of a foreign library: what it cannot load is told in our words
            raise _unusable(name, f"it cannot be loaded ({str(error)[:200]})") from error
        self._tokenizer.enable_truncation(_tokens_max(folder))
        self._tokenizer.enable_padding(**(self._tokenizer.padding or {}) | {"length": None})
        self._takes = {each.name for each in self._session.get_inputs()}
        outputs = [each.name for each in self._session.get_outputs()]
        self._output = POOLED if POOLED in outputs else outputs[0]
        self._is_first_token = _pools_first_token(folder)

    def embed(self, texts: Sequence[str]) -> Floats:
        cut = self._tokenizer.encode_batch(list(texts))
        given = {
            "input_ids": np.asarray([each.ids for each in cut], np.int64),
            "attention_mask": np.asarray([each.attention_mask for each in cut], np.int64),
            "token_type_ids": np.asarray([each.type_ids for each in cut], np.int64),
        }
        wanted = {name: values for name, values in given.items() if name in self._takes}
        (found,) = self._session.run([self._output], wanted)
        rows: Floats = np.asarray(found, np.float32)
        if rows.ndim == 2:
            return rows
        if self._is_first_token:
            return rows[:, 0]
        mask = given["attention_mask"][:, :, None].astype(np.float32)
        mean: Floats = (rows * mask).sum(axis=1) / np.maximum(mask.sum(axis=1), 1e-9)
        return mean


def _model_file(name: str, folder: Path) -> Path:
    found = next((path for path in (folder / "model.onnx", folder / "onnx" / "model.onnx") if path.is_file()), None)
    if found is None or not (folder / "tokenizer.json").is_file():
        raise _unusable(name, f"{folder} holds no model.onnx with a tokenizer.json")
    return found


def _mark(model: Path) -> str:
    """A short hash of a model's size and its first and last bytes, so that another model is noticed quickly."""
    with model.open("rb") as file:
        first = file.read(READ_FOR_MARK)
        size = file.seek(0, 2)
        file.seek(max(size - READ_FOR_MARK, 0))
        last = file.read()
    return hashlib.sha256(b"%d\0%b%b" % (size, first, last)).hexdigest()[:8]


def _tokens_max(folder: Path) -> int:
    return int(_settings(folder / "sentence_bert_config.json").get("max_seq_length") or TOKENS_MAX)


def _pools_first_token(folder: Path) -> bool:
    return bool(_settings(folder / "1_Pooling" / "config.json").get("pooling_mode_cls_token"))


def _settings(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError):
        return {}


def _unusable(name: str, why: str) -> EmbedderUnavailable:
    hint = f"Point path at a sentence-transformers export for ONNX. See [kb.embedders.{name}]."
    return EmbedderUnavailable(f"The embedder {name!r}: {why}.", hint=hint)
