"""A model in ONNX's own format, written by hand: each token has a row of a table."""

import json

import numpy as np


def _varint(number):
    made = b""
    while number > 127:
        made += bytes([number & 127 | 128])
        number >>= 7
    return made + bytes([number])


def _number(field, value):
    return _varint(field << 3) + _varint(value)


def _bytes(field, value):
    encoded = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(encoded)) + encoded


def _value(name, kind, axes):
    shape = b"".join(_bytes(1, _bytes(2, axis) if isinstance(axis, str) else _number(1, axis)) for axis in axes)
    return _bytes(1, name) + _bytes(2, _bytes(1, _number(1, kind) + _bytes(2, shape)))


def make_model(table):
    """``input_ids`` → ``last_hidden_state``; ``attention_mask`` is taken and not used, as pooling does that."""
    table = np.asarray(table, np.float32)
    tensor = b"".join(_number(1, size) for size in table.shape) + _number(2, 1) + _bytes(8, "table")
    tensor += _bytes(9, table.tobytes())
    node = _bytes(1, "table") + _bytes(1, "input_ids") + _bytes(2, "last_hidden_state") + _bytes(4, "Gather")
    graph = _bytes(1, node) + _bytes(2, "tiny") + _bytes(5, tensor)
    graph += _bytes(11, _value("input_ids", 7, ["batch", "length"]))
    graph += _bytes(11, _value("attention_mask", 7, ["batch", "length"]))
    graph += _bytes(12, _value("last_hidden_state", 1, ["batch", "length", table.shape[1]]))
    return _number(1, 8) + _bytes(7, graph) + _bytes(8, _bytes(1, "") + _number(2, 13))


def write_export(folder, words, table):
    """A folder as sentence-transformers exports it; the first row is padding, the second what is unknown."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(make_model(table))
    vocabulary = {word: at for at, word in enumerate(["[PAD]", "[UNK]", *words])}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return folder
