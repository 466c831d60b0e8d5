"""The shape of JSON in one line: keys, kinds and counts, as deep as it helps."""

from msgspec import Raw

from toolcrib.calls.results.paths import NAME_MAX, items, kind_of, members

KEYS_SHOWN = 20
DEPTH_SHOWN = 4
LONG_STRING = 200


def shape_of(raw: Raw, depth: int = DEPTH_SHOWN) -> str:
    """For example ``{total: number, rows: [1200 × {id: number, name: string}]}``; of arrays, the first item tells."""
    kind = kind_of(raw)
    if kind == "object":
        return _object(raw, depth)
    if kind == "array":
        return _array(raw, depth)
    size = memoryview(raw).nbytes - 2
    return f"string of {size:,} bytes" if kind == "string" and size > LONG_STRING else kind


def _object(raw: Raw, depth: int) -> str:
    held = members(raw)
    if depth == 0:
        return f"{{{len(held)} keys}}"
    shown = [f"{name[:NAME_MAX]}: {shape_of(value, depth - 1)}" for name, value in list(held.items())[:KEYS_SHOWN]]
    more = [f"… {len(held) - KEYS_SHOWN} more"] if len(held) > KEYS_SHOWN else []
    return "{" + ", ".join([*shown, *more]) + "}"


def _array(raw: Raw, depth: int) -> str:
    held = items(raw)
    inside = shape_of(held[0], depth - 1) if held and depth > 0 else ""
    return f"[{len(held):,} × {inside}]" if inside else f"[{len(held):,} items]"
