"""What is kept beside the body of an entry, so that it can be found without looking into it."""

from collections.abc import Iterator, Sequence

import msgspec

SEPARATOR = "\x1e"
"""Stands in no JSON, so in no body."""
_UNFIT = str.maketrans({"\0": "�", SEPARATOR: "�"})


class Columns(msgspec.Struct, gc=False):
    """In the order of the table."""

    time: int = 0
    event: str = ""
    tool: str = ""
    caller: str = ""
    execution_id: str = ""
    decision: str = ""
    outcome: str = ""


_NONE = Columns()
_decode = msgspec.json.Decoder(Columns).decode


def columns_of(body: bytes | str) -> Columns:
    """Taken from the body; nothing if it is no entry."""
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _NONE


def row_of(body: str) -> tuple[int | str, ...]:
    """What the columns of a body hold in the table."""
    found = columns_of(body)
    return (found.time, *(value.translate(_UNFIT) for value in _texts(found)))


def joined_columns(bodies: Sequence[bytes]) -> list[bytes]:
    """The columns of a batch, each as one text."""
    found = [columns_of(body) for body in bodies]
    texts = zip(*map(_texts, found), strict=True)
    return [SEPARATOR.join([str(columns.time) for columns in found]).encode(), *_joined(texts, len(bodies))]


def _texts(found: Columns) -> tuple[str, ...]:
    return found.event, found.tool, found.caller, found.execution_id, found.decision, found.outcome


def _joined(columns: Iterator[tuple[str, ...]], count: int) -> Iterator[bytes]:
    for values in columns:
        text = SEPARATOR.join(values)
        if "\0" in text or text.count(SEPARATOR) != count - 1:
            text = SEPARATOR.join([value.translate(_UNFIT) for value in values])
        yield text.encode()
