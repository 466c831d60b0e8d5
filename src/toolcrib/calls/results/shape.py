"""The shape of JSON in one line: keys, kinds and counts, as deep as it helps."""

from msgspec import Raw

from toolcrib.calls.results.blobs import SHORTEST, find_blob
from toolcrib.calls.results.paths import NAME_MAX, items, kind_of, members

KEYS_SHOWN = 20
DEPTH_SHOWN = 6
PARTS_SHOWN = 200
LONG_STRING = 200


def shape_of(raw: Raw) -> str:
    """For example ``{total: number, rows: [1200 × {id: number, name: string}]}``; of arrays, the first item tells."""
    return _Sketch().draw(raw, DEPTH_SHOWN)


class _Sketch:
    """One drawing; wide and deep data is drawn only so far."""

    def __init__(self) -> None:
        self._left = PARTS_SHOWN

    def draw(self, raw: Raw, depth: int) -> str:
        self._left -= 1
        kind = kind_of(raw)
        if kind == "object":
            return self._draw_object(raw, depth)
        if kind == "array":
            return self._draw_array(raw, depth)
        size = memoryview(raw).nbytes - 2
        if kind != "string" or size <= LONG_STRING:
            return kind
        blob = find_blob(bytes(memoryview(raw)[1 : 2 * SHORTEST]).decode(errors="replace"), 0, 1)
        return f"string of {size:,} bytes" + (f", {blob.kind} in base64" if blob else "")

    def _draw_object(self, raw: Raw, depth: int) -> str:
        held = members(raw)
        if depth == 0 or self._left < 0:
            return f"{{{len(held)} keys}}"
        first = list(held.items())[:KEYS_SHOWN]
        shown = [f"{name[:NAME_MAX]}: {self.draw(value, depth - 1)}" for name, value in first]
        more = [f"… {len(held) - KEYS_SHOWN} more"] if len(held) > KEYS_SHOWN else []
        return "{" + ", ".join([*shown, *more]) + "}"

    def _draw_array(self, raw: Raw, depth: int) -> str:
        held = items(raw)
        inside = self.draw(held[0], depth - 1) if held and depth > 0 and self._left > 0 else ""
        return f"[{len(held):,} × {inside}]" if inside else f"[{len(held):,} items]"
