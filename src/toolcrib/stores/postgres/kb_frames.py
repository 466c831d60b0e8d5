"""Rows for ``COPY … (FORMAT BINARY)``: the quickest way in, https://www.postgresql.org/docs/current/sql-copy.html."""

import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from psycopg import Connection

HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
END = b"\xff\xff"
NULL = b"\xff\xff\xff\xff"
_LONG, _INT = struct.Struct(">iq"), struct.Struct(">ii")


def long(value: int) -> bytes:
    """A ``bigint``."""
    return _LONG.pack(8, value)


def integer(value: int | None) -> bytes:
    """An ``integer``, or nothing."""
    return NULL if value is None else _INT.pack(4, value)


def flag(value: bool) -> bytes:
    """A ``boolean``."""
    return b"\0\0\0\1\1" if value else b"\0\0\0\1\0"


def octets(value: bytes) -> bytes:
    """A ``bytea``."""
    return len(value).to_bytes(4, "big") + value


def text(value: str | None) -> bytes:
    """A ``text``, which cannot hold the character zero: it becomes the picture of it."""
    return NULL if value is None else octets(value.replace("\0", "␀").encode())


def row(*fields: bytes) -> bytes:
    """One row of fields."""
    return len(fields).to_bytes(2, "big") + b"".join(fields)


def vector_rows(fleet: str, number: int, owners: NDArray[np.int64], vectors: NDArray[np.float32]) -> bytes:
    """Rows of ``kb_vector`` for one set: (document, ordinal) of each passage, and its vector."""
    named, size = fleet.encode(), vectors.shape[1]
    layout = [
        ("fields", ">i2"), ("fleet_size", ">i4"), ("fleet", f"S{len(named)}"), ("set_size", ">i4"), ("set", ">i8"),
        ("document_size", ">i4"), ("document", ">i8"), ("ordinal_size", ">i4"), ("ordinal", ">i4"),
        ("vector_size", ">i4"), ("dimensions", ">i2"), ("unused", ">i2"), ("vector", ">f2", (size,)),
    ]  # fmt: skip
    rows = np.zeros(len(vectors), np.dtype(layout))
    fixed = {"fields": 5, "fleet_size": len(named), "fleet": named, "set_size": 8, "set": number, "document_size": 8}
    fixed |= {"ordinal_size": 4, "vector_size": 4 + 2 * size, "dimensions": size}
    for name, value in fixed.items():
        rows[name] = value
    rows["document"], rows["ordinal"], rows["vector"] = owners[:, 0], owners[:, 1], vectors
    return rows.tobytes()


def copy_in(connection: "Connection[Any]", table: str, columns: str, rows: Iterable[bytes]) -> None:
    """Bring rows in, in the order of the columns."""
    statement = f"COPY toolcrib.{table} ({columns}) FROM STDIN (FORMAT BINARY)"
    with connection.cursor().copy(statement.encode()) as copy:
        copy.write(b"".join((HEAD, *rows, END)))
