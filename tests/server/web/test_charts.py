"""Charts: what goes in comes out as shapes, and text stays text."""

import xml.etree.ElementTree as ET

import pytest

from toolcrib.server.web import charts

EVIL = '"><script>alert(1)</script>'


@pytest.mark.parametrize(
    "made",
    [
        charts.columns([], [], EVIL),
        charts.columns([3, 0, 2], [0, 0, 1], EVIL),
        charts.histogram([1, 0, 4], [EVIL, "b", "c"], EVIL),
        charts.bars([charts.Bar(EVIL, 3, EVIL, "/x?a=<b>"), charts.Bar("b", 0, "0")]),
        charts.donut([charts.Slice("a", 3, "good"), charts.Slice("b", 1, "bad")], EVIL, EVIL),
        charts.donut([], "0", "nothing"),
    ],
)
def test_every_chart_is_well_formed_and_escaped(made):
    """Whatever its labels say, it parses, and has no script in it."""
    root = ET.fromstring(made)

    assert not [element for element in root.iter() if element.tag.endswith("script")]


def test_columns_are_as_tall_as_their_numbers():
    """The highest sum fills the chart; what failed stands on top of what went well."""
    root = ET.fromstring(charts.columns([6, 1], [2, 0], "calls"))
    rects = [(rect.get("class"), float(rect.get("y")), float(rect.get("height"))) for rect in root]

    assert rects == [("good", 35.0, 105.0), ("bad", 0.0, 35.0), ("good", 122.5, 17.5)]
