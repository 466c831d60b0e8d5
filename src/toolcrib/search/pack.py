"""Arrays in one buffer: a versioned, checksummed frame that is read back without copying."""

import json
import zlib
from collections.abc import Mapping
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolcrib.core.errors import DamagedIndex

Buffer = bytes | memoryview
Arrays = Mapping[str, NDArray[Any]]

MAGIC = b"TCSEG"
VERSION = 1
PREFIX = len(MAGIC) + 1 + 4 + 4  # magic, version, checksum, length of the head
ALIGN = 16


def pack(kind: str, arrays: Arrays, about: Mapping[str, Any]) -> bytes:
    """One frame of ``kind`` with the arrays and a small description beside them."""
    table, parts, at = {}, list[Buffer](), 0
    for name, array in arrays.items():
        body = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        table[name] = [array.dtype.str, list(array.shape), at, len(body)]
        padding = -len(body) % ALIGN
        parts += [body.data, bytes(padding)]
        at += len(body) + padding
    head = json.dumps({"kind": kind, "about": dict(about), "arrays": table}).encode()
    head += b" " * (-(PREFIX + len(head)) % ALIGN)
    payload = [len(head).to_bytes(4, "little"), head, *parts]
    checksum = reduce(lambda before, part: zlib.crc32(part, before), payload, 0)
    return b"".join([MAGIC, bytes([VERSION]), checksum.to_bytes(4, "little"), *payload])  # copied here, and only here


def unpack(
    kind: str, buffer: bytes | memoryview, *, is_checked: bool = False
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays (views into ``buffer``) and the description; a frame that is not whole is refused.

    One that stands in a frame that was checked need not be checked again.
    """
    view = memoryview(buffer)
    if len(view) < PREFIX or bytes(view[: len(MAGIC)]) != MAGIC:
        raise DamagedIndex("does not begin like one")
    if view[len(MAGIC)] != VERSION:
        raise DamagedIndex(f"is of format {view[len(MAGIC)]}, and this build reads {VERSION}")
    if not is_checked and zlib.crc32(view[10:]) != int.from_bytes(view[6:10], "little"):
        raise DamagedIndex("has a wrong checksum")
    head_size = int.from_bytes(view[10:14], "little")
    head = json.loads(bytes(view[PREFIX : PREFIX + head_size]))
    if head["kind"] != kind:
        raise DamagedIndex(f"holds {head['kind']}, not {kind}")
    body = view[PREFIX + head_size :]
    arrays = {
        name: np.frombuffer(body[at : at + size], dtype=dtype).reshape(shape)
        for name, (dtype, shape, at, size) in head["arrays"].items()
    }
    return arrays, head["about"]
