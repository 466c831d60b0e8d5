"""Charts: what goes in comes out as shapes, and text stays text."""

import xml.etree.ElementTree as ET

import pytest

from toolcrib.server.web import charts

EVIL = '"><script>alert(1)</script>'


@pytest.mark.parametrize(
    "made",
    [
        charts.columns([], EVIL),
        charts.columns([charts.ChartColumn(EVIL, 3, 1), charts.ChartColumn("b", 0)], EVIL),
        charts.bars([charts.Bar(EVIL, 3, EVIL, "/x?a=<b>"), charts.Bar("b", 0, "0")]),
    ],
)
def test_every_chart_is_well_formed_and_escaped(made):
    """Whatever its labels say, it parses, and has no script in it."""
    root = ET.fromstring(f"<div>{made}</div>")

    assert not [element for element in root.iter() if element.tag.endswith("script")]


def test_columns_are_as_tall_as_their_numbers_on_the_axis():
    """What failed stands on top of what went well; the axis ends at a round number."""
    made = charts.columns([charts.ChartColumn("a", 6, 2), charts.ChartColumn("b", 1)], "calls")
    root = ET.fromstring(f"<div>{made}</div>")
    rects = [
        (rect.get("class"), float(rect.get("y")), float(rect.get("height")))
        for rect in root.iter("rect")
        if rect.get("class") != "hit"
    ]

    assert rects == [("good", 56.0, 84.0), ("bad", 28.0, 28.0), ("good", 126.0, 14.0)]
    assert [item.text for item in root.iter("li")] == ["10", "5", "0"]


def test_the_numbers_of_a_chart_can_be_pointed_at_and_read_as_a_table():
    """Both without a script; what is zero is not in the table."""
    made = charts.columns([charts.ChartColumn("9:00", 6, 2), charts.ChartColumn("10:00", 0)], "calls")
    root = ET.fromstring(f"<div>{made}</div>")

    assert [title.text for title in root.iter("title")] == ["9:00: 8, 2 failed", "10:00: 0"]
    assert [[cell.text for cell in row] for row in root.iter("tr")][1:] == [["9:00", "8", "2"]]


@pytest.mark.parametrize(("largest", "top"), [(0, 2), (2, 2), (3, 4), (8, 10), (10, 10), (11, 20), (401, 1000)])
def test_an_axis_ends_at_a_round_number_that_has_a_half(largest: int, top: int):
    assert charts.nice_top(largest) == top
