"""Markdown of strangers: what people read, and nothing that runs."""

import re
import xml.etree.ElementTree as ET

from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.server.web.markdown import render_markdown

OURS = {"div", "p", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "pre", "code", "strong", "em", "a", "hr"}
OURS |= {"table", "thead", "tbody", "tr", "th", "td", "blockquote"}
TEXT = """# Guide

Some **bold** and *leaning* words with `code <b>` and a [link](https://docs.example/a?b=1&c=2).
Not [this](javascript:alert(1)), nor ![a picture](https://evil.example/p.png).

- one
- two

1. first

```sh
echo "<script>alert(1)</script>"
```

| a | b |
|---|---|
| 1 | 2 |

> said <i>somebody</i>
"""


def test_what_people_write_is_shown_as_they_meant_it():
    shown = str(render_markdown(TEXT))

    assert "<h2>Guide</h2>" in shown
    assert "<strong>bold</strong> and <em>leaning</em>" in shown
    assert "<code>code &lt;b&gt;</code>" in shown
    assert '<a href="https://docs.example/a?b=1&amp;c=2" rel="noreferrer">link</a>' in shown
    assert "<ul><li>one</li><li>two</li></ul>" in shown
    assert "<ol><li>first</li></ol>" in shown
    assert "<th>a</th>" in shown
    assert "<blockquote><p>said &lt;i&gt;somebody&lt;/i&gt;</p></blockquote>" in shown


def test_nothing_in_it_runs_or_asks_another_host():
    shown = str(render_markdown(TEXT))

    assert "<script" not in shown
    assert 'href="javascript' not in shown
    assert "<img" not in shown


def test_the_passage_somebody_came_for_is_marked():
    """Once with its name, however many blocks it spans."""
    shown = str(render_markdown("first\n\nsecond\n\nthird\n\nfourth", (8, 20)))

    assert shown.count('id="passage"') == 1
    assert re.findall(r'class="marked"[^>]*><p>(\w+)', shown) == ["second", "third"]


@settings(deadline=None)
@given(st.text(st.sampled_from("ab *_`[]()<>&\"'#-|>\n1.!~:/"), max_size=200), st.integers(0, 200), st.integers(0, 200))
def test_whatever_is_written_is_well_formed_and_has_only_our_tags(text: str, start: int, end: int):
    root = ET.fromstring(f"<div>{render_markdown(text, (start, end))}</div>")

    assert {element.tag for element in root.iter()} <= OURS
