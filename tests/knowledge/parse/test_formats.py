import codecs

import pytest
from tests.knowledge.documents import W, laughing_docx, make_docx, make_pdf, paragraph, zip_bomb

from toolcrib.core.errors import UnreadableSource
from toolcrib.core.knowledge import Heading
from toolcrib.knowledge.parse.docx import parse_docx
from toolcrib.knowledge.parse.html import parse_html
from toolcrib.knowledge.parse.mail import parse_email, parse_pdf
from toolcrib.knowledge.parse.parsed import to_utc, type_of
from toolcrib.knowledge.parse.tables import parse_csv, parse_json
from toolcrib.knowledge.parse.text import decode, parse_code, parse_markdown


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"plain", "plain"),
        ("Grüße 🌍".encode(), "Grüße 🌍"),
        (codecs.BOM_UTF8 + b"marked", "marked"),
        ("Grüße".encode("utf-16"), "Grüße"),
        (codecs.BOM_UTF16_BE + "Grüße".encode("utf-16-be"), "Grüße"),
        ("Grüße".encode("utf-32"), "Grüße"),
        ("Grüße – café".encode("cp1252"), "Grüße – café"),
        (b"\x81 latin", "\x81 latin"),
        (b"one\r\ntwo\rthree\0", "one\ntwo\nthree\ufffd"),
        (b"", ""),
    ],
)
def test_text_is_read_in_whatever_encoding_it_has(content, text):
    assert decode(content) == text


@pytest.mark.parametrize(
    ("name", "sample", "kind"),
    [
        ("a.md", b"# x", "markdown"),
        ("A.PDF", b"%PDF-1.4", "pdf"),
        ("no-ending", b"%PDF-1.4", "pdf"),
        ("x.docx", b"PK\x03\x04", "docx"),
        ("x.py", b"def f(): pass", "code"),
        ("Makefile", b"all:", "code"),
        ("notes", b"words", "text"),
        ("page", b"  <!DOCTYPE html><p>", "html"),
        ("x.txt", "é".encode("utf-16"), "text"),
    ],
)
def test_the_kind_of_a_file_is_seen_from_its_name_and_first_bytes(name, sample, kind):
    assert type_of(name, sample) == kind


@pytest.mark.parametrize(
    ("name", "sample", "reason"),
    [("x.zip", b"PK\x03\x04", "archive"), ("x.pdf", b"nothing", "none"), ("x.txt", b"a\0b", "not text")],
)
def test_what_is_no_document_is_refused_with_a_reason(name, sample, reason):
    with pytest.raises(UnreadableSource, match=reason):
        type_of(name, sample)


MARKDOWN = b"""---
title: "The handbook"  # shown
date: 2026-01-31
license: CC-BY-4.0
version: 2
tags: [red, blue]
authors:
  - Ada
  - Grace
draft: false
---
Before.

# One `code`

```
# not a heading
```

Two
---

### [Three](x.md) ###
"""


def test_markdown_gives_its_front_matter_and_headings():
    parsed = parse_markdown(MARKDOWN)

    assert (parsed.title, parsed.date, parsed.licence, parsed.version) == (
        "The handbook",
        "2026-01-31T00:00:00Z",
        "CC-BY-4.0",
        "2",
    )
    assert parsed.metadata == {"tags": ["red", "blue"], "authors": ["Ada", "Grace"], "draft": False}
    assert [(h.level, h.title, parsed.text[h.start :].split("\n")[0]) for h in parsed.outline.headings] == [
        (1, "One code", "# One `code`"),
        (2, "Two", "Two"),
        (3, "Three", "### [Three](x.md) ###"),
    ]
    assert parsed.text.startswith("Before.")


def test_markdown_without_front_matter_is_whole_and_called_by_its_first_heading():
    parsed = parse_markdown(b"---\n\nA rule, then text.\n\n# Top\n")

    assert parsed.text == "---\n\nA rule, then text.\n\n# Top\n"
    assert parsed.title == "Top"


def test_code_has_its_definitions_as_headings():
    text = '''import os

# about it
@cached
def outer(x):
    return x

class Thing:
    """A thing."""

    async def method(self):
        pass
'''
    found = [(h.level, h.title, text[h.start :].partition("\n")[0]) for h in parse_code(text.encode()).outline.headings]

    assert found == [
        (1, "def outer", "# about it"),
        (1, "class Thing", "class Thing:"),
        (3, "def method", "    async def method(self):"),
    ]


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("export default async function run() {}", "function run"),
        ("export const go = async (a) => {", "go"),
        ("pub(crate) fn make<T>() {}", "fn make"),
        ("func (s *Server) Serve() error {", "func Serve"),
        ("public static class Inner {", "class Inner"),
        ("CREATE TABLE people (", "people"),
    ],
)
def test_definitions_of_other_languages_are_found(line, title):
    assert [heading.title for heading in parse_code(line.encode()).outline.headings] == [title]


def test_a_table_is_read_with_its_header_beside_each_value():
    parsed = parse_csv(b'name;age;note\nAda;36;"first\nprogrammer"\nGrace;85;\n')

    assert parsed.text == "name, age, note\n\nname: Ada; age: 36; note: first programmer\nname: Grace; age: 85"
    assert parsed.metadata == {"columns": ["name", "age", "note"]}


def test_json_is_read_as_paths_and_values():
    parsed = parse_json(b'[{"a": {"b": [1, 2]}, "c": null}, {"a": "x", "d": [{"e": true}]}]')

    assert parsed.text == "a.b: 1, 2\nc: null\n\na: x\nd[0].e: true"


def test_json_lines_are_records():
    assert parse_json(b'{"a": 1}\n{"a": 2}\n').text == "a: 1\n\na: 2"


@pytest.mark.parametrize("content", [b"{", b"[" * 5000 + b"]" * 5000])
def test_json_that_is_none_or_too_deep_is_refused(content):
    with pytest.raises(UnreadableSource):
        parse_json(content)


HTML = b"""<html><head><title>A page</title><meta name="author" content="Ada"><meta name="date" content="2026-02-01">
<link rel="license" href="https://creativecommons.org/licenses/by/4.0/"><style>p {}</style></head>
<body><nav>Home | About</nav><h1>Top <b>bold</b></h1><p>First &amp; second<br>line.</p><script>evil()</script>
<h2>Sub</h2><ul><li>one<li>two <i>x</i></ul><pre>a
  b</pre><table><tr><th>k<th>v<tr><td>1<td>2</table></body></html>"""


def test_a_page_gives_its_text_without_its_furniture():
    parsed = parse_html(HTML)

    assert parsed.text == "Top bold\n\nFirst & second line.\n\nSub\n\n- one\n\n- two x\n\na\n  b\n\nk | v\n\n1 | 2"
    assert parsed.outline.headings == (Heading(0, 1, "Top bold"), Heading(parsed.text.index("Sub"), 2, "Sub"))
    assert (parsed.title, parsed.date, parsed.licence) == (
        "A page",
        "2026-02-01T00:00:00Z",
        "https://creativecommons.org/licenses/by/4.0/",
    )
    assert parsed.metadata == {"author": "Ada"}


def test_a_page_nested_without_end_is_read():
    parsed = parse_html(b"<div>" * 20_000 + b"deep" + b"</div>" * 20_000)

    assert parsed.text == "deep"


def test_a_pdf_gives_its_pages():
    parsed = parse_pdf(make_pdf("First page.\nIts second line.", "Second page.", title="A paper"))

    assert [parsed.text[start:].split("\n")[0].strip() for start in parsed.outline.pages] == [
        "First page.",
        "Second page.",
    ]
    assert (parsed.title, parsed.date, parsed.metadata) == ("A paper", "2026-01-31T00:00:00Z", {"pages": 2})


@pytest.mark.parametrize("content", [b"%PDF-1.4 nothing more", make_pdf("cut off")[:300], make_pdf("")])
def test_a_broken_or_empty_pdf_is_refused(content):
    with pytest.raises(UnreadableSource):
        parse_pdf(content)


def test_a_word_document_gives_headings_paragraphs_and_tables():
    table = f"<w:tbl><w:tr><w:tc>{paragraph('k')}</w:tc><w:tc>{paragraph('v')}</w:tc></w:tr></w:tbl>"
    styles = f'<w:styles {W}><w:style w:styleId="b1"><w:name w:val="heading 2"/></w:style></w:styles>'.encode()
    core = b"<c><title>Report</title><creator>Ada</creator><modified>2026-03-04T05:06:07Z</modified></c>"
    body = paragraph("Top", "Heading1") + paragraph("Text &amp; more") + paragraph("Sub", "b1") + table
    parsed = parse_docx(make_docx(body, word__styles=styles, docProps__core=core))

    assert parsed.text == "Top\n\nText & more\n\nSub\n\nk | v"
    assert [(heading.level, heading.title) for heading in parsed.outline.headings] == [(1, "Top"), (2, "Sub")]
    assert (parsed.title, parsed.date, parsed.metadata) == ("Report", "2026-03-04T05:06:07Z", {"author": "Ada"})


@pytest.mark.parametrize("content", [zip_bomb(), laughing_docx(), b"PK\x03\x04 broken", make_docx("<w:p>")])
def test_a_word_document_that_is_a_bomb_or_broken_is_refused(content):
    with pytest.raises(UnreadableSource):
        parse_docx(content)


MAIL = """From: Ada <ada@example.org>
To: grace@example.org
Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=
Date: Sat, 31 Jan 2026 12:00:00 +0100
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=b

--b
Content-Type: text/plain; charset=utf-8

Hello there.
--b
Content-Type: text/plain
Content-Disposition: attachment; filename="notes.txt"

secret
--b--
""".replace("\n", "\r\n").encode()


def test_an_email_gives_its_headers_text_and_attachments_names():
    parsed = parse_email(MAIL)

    assert parsed.text == (
        "From: Ada <ada@example.org>\nTo: grace@example.org\nDate: Sat, 31 Jan 2026 12:00:00 +0100\nSubject: Grüße"
        "\n\nHello there.\n\nAttached: notes.txt"
    )
    assert (parsed.title, parsed.date) == ("Grüße", "2026-01-31T11:00:00Z")


def test_an_email_in_html_only_gives_its_text():
    mail = b"From: a@b.c\r\nSubject: x\r\nContent-Type: text/html; charset=nonsense\r\n\r\n<p>Only <b>this</b></p>"

    assert parse_email(mail).text.endswith("Only this")


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("2026-01-31", "2026-01-31T00:00:00Z"),
        ("2026-01-31T12:00:00+02:00", "2026-01-31T10:00:00Z"),
        ("Sat, 31 Jan 2026 12:00:00 +0000", "2026-01-31T12:00:00Z"),
        (0, "1970-01-01T00:00:00Z"),
        ("tomorrow", ""),
        (None, ""),
        ("9" * 100, ""),
    ],
)
def test_dates_of_any_form_become_one(given, shown):
    assert to_utc(given) == shown
