"""``docs/passthrough.md``: written from what was measured, and read back from what is written."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

ERAS = ("handshake", "stateless")
PAIRS = tuple((client, server) for client in ERAS for server in ERAS)
YES, NO, NOT_THERE = "yes", "no", "n.a."
Pair = tuple[str, str]  # the client's era, the server's


def why_not_there(feature: str, pair: Pair) -> str:
    """Why there is nothing to pass; empty if there is."""
    client, server = pair
    if feature == "ping" and client == "stateless":
        return "the stateless era has no ping"
    return "the extension is of the stateless era" if feature == "skills" and server == "handshake" else ""


@dataclass(frozen=True)
class Cell:
    """Whether one feature passed, and why not."""

    said: str
    reason: str = ""


@dataclass(frozen=True)
class Matrix:
    """Everything that was asked of everybody."""

    features: tuple[str, ...]
    contenders: tuple[str, ...]
    cells: Mapping[tuple[str, Pair, str], Cell]  # by contender, pair, feature
    versions: str

    def count(self, contender: str, pair: Pair) -> tuple[int, int]:
        """How many features pass, of those there are."""
        cells = [self.cells[contender, pair, feature] for feature in self.features]
        return sum(cell.said == YES for cell in cells), sum(cell.said != NOT_THERE for cell in cells)


HEAD = """# What passes through a gateway

A client and a server that speak the same revision of MCP understand each other in everything. Put a gateway between
them, or let one of them be of the other era, and features get lost. These tables say which, for toolcrib and four
other programs that stand between clients and servers. **handshake** is MCP 2024-11-05 to 2025-11-25 (a session that
begins with `initialize`), **stateless** is MCP 2026-07-28.

`./dev bench passthrough` makes this page: one server for each era offers every feature, a client of each era (both
made with the official Python SDK) asks for it, and each cell is the outcome of one exchange within eight seconds.
Without a gateway every feature of an era passes that exchange. Each program runs with its documented way of standing
in front of one server: toolcrib and FastMCP's proxy over HTTP to HTTP, mcp-proxy and supergateway over HTTP to stdio,
mcp-remote over stdio to HTTP with `--protocol auto`.
"""


def render(matrix: Matrix) -> str:
    parts = [HEAD, f"Versions: {matrix.versions}.\n", "## In short\n", _summary(matrix)]
    for pair in PAIRS:
        parts += [f"## {_title(pair)}\n", _table(matrix, pair)]
    parts += ["## Why not\n", _reasons(matrix)]
    return "\n".join(parts)


def _title(pair: Pair) -> str:
    return f"A {pair[0]} client and a {pair[1]} server"


def _summary(matrix: Matrix) -> str:
    rows = [["features that pass", *(f"{client} client, {server} server" for client, server in PAIRS)]]
    for contender in matrix.contenders:
        counts = [matrix.count(contender, pair) for pair in PAIRS]
        rows.append([contender, *(f"{passed} of {all_}" for passed, all_ in counts)])
    return _lines(rows)


def _table(matrix: Matrix, pair: Pair) -> str:
    rows = [
        [feature, *(matrix.cells[name, pair, feature].said for name in matrix.contenders)]
        for feature in matrix.features
    ]
    return _lines([["feature", *matrix.contenders], *rows])


def _lines(rows: Sequence[Sequence[str]]) -> str:
    head, *rest = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, f"|{'---|' * len(rows[0])}", *rest, ""])


def _reasons(matrix: Matrix) -> str:
    lines = []
    for (contender, pair, feature), cell in matrix.cells.items():
        if cell.said != YES:
            lines.append(f"- {contender}, {pair[0]} client, {pair[1]} server, {feature}: {cell.reason}")
    return "\n".join(lines) + "\n"


_REASON = re.compile(
    r"^- (.+?), (handshake|stateless) client, (handshake|stateless) server, (.+?): (.*)$", re.MULTILINE
)


def read(text: str) -> Matrix:
    """The matrix that a page was written from."""
    reasons = {(found[1], (found[2], found[3]), found[4]): found[5] for found in _REASON.finditer(text)}
    cells: dict[tuple[str, Pair, str], Cell] = {}
    contenders: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    for pair in PAIRS:
        (_, *names), *rows = _rows(text.partition(f"## {_title(pair)}\n")[2].partition("\n## ")[0])
        contenders, features = tuple(names), tuple(row[0] for row in rows)
        for feature, *said in rows:
            for name, word in zip(names, said, strict=True):
                cells[name, pair, feature] = Cell(word, reasons.get((name, pair, feature), ""))
    versions = re.search(r"^Versions: (.*)\.$", text, re.MULTILINE)
    ordered = {
        (name, pair, each): cells[name, pair, each] for name in contenders for pair in PAIRS for each in features
    }
    return Matrix(features, contenders, ordered, versions[1] if versions else "")


def _rows(table: str) -> Iterator[list[str]]:
    for line in table.splitlines():
        if line.startswith("| "):
            yield [cell.strip() for cell in line.strip("|").split("|")]
