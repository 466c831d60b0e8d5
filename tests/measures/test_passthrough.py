"""The page of what passes through gateways is what ``./dev bench passthrough`` writes."""

from pathlib import Path

import pytest
from bench.passthrough.page import NO, NOT_THERE, PAIRS, YES, Cell, Matrix, read, render

PAGE = Path(__file__).parent.parent.parent / "docs" / "passthrough.md"
FEWEST = 16


def test_what_is_written_can_be_read_back():
    """Every cell and every reason."""
    cells = {("a", pair, "ping"): Cell(YES) for pair in PAIRS}
    cells["a", PAIRS[1], "ping"] = Cell(NO, "a reason: with colons, and commas")
    matrix = Matrix(("ping",), ("a",), cells, "mcp 2.3.0")

    assert read(render(matrix)) == matrix


def test_the_page_has_the_form_that_the_command_writes():
    """Nobody edits it by hand."""
    text = PAGE.read_text()

    assert render(read(text)) == text


def test_the_page_compares_enough_with_enough_others():
    matrix = read(PAGE.read_text())

    assert matrix.contenders == ("toolcrib", "FastMCP proxy", "mcp-proxy", "mcp-remote", "supergateway")
    assert len(matrix.features) >= FEWEST
    assert {cell.said for cell in matrix.cells.values()} <= {YES, NO, NOT_THERE}


@pytest.mark.parametrize("pair", PAIRS, ids=" to ".join)
def test_toolcrib_has_no_empty_cell_without_a_reason(pair):
    matrix = read(PAGE.read_text())
    cells = {feature: matrix.cells["toolcrib", pair, feature] for feature in matrix.features}

    assert [feature for feature, cell in cells.items() if cell.said != YES and not cell.reason] == []
