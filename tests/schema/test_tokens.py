"""Counting tokens: close to a real tokenizer without its vocabulary. The true counts are those of o200k_base."""

import pytest

from toolcrib.schema.signature import count_tokens

CREATE_ISSUE = (
    '{"name":"tracker__create_issue","description":"Create a new issue in a repository. Labels that do not exist are '
    'created, too.\\n\\nArgs:\\n  owner: who the repository belongs to","input_schema":{"type":"object","properties":'
    '{"owner":{"type":"string","description":"Repository owner (user or organisation)"},"repo":{"type":"string"},'
    '"title":{"type":"string","maxLength":256},"body":{"type":"string","description":"Markdown text, up to 65536 '
    'characters"},"labels":{"type":"array","items":{"type":"string"}},"priority":{"type":"string","enum":["low",'
    '"normal","high"],"default":"normal"}},"required":["owner","repo","title"],"additionalProperties":false}}'
)
READ_RANGE = (
    '{"name":"sheets__readCellRange","description":"Reads the values of a range such as A1:C10 from a worksheet and '
    'returns them as rows. Use `includeFormulas` to get the formulas instead of what they come to.","input_schema":'
    '{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"spreadsheetId":{"type":'
    '"string"},"range":{"type":"string","pattern":"^[A-Z]+[0-9]+:[A-Z]+[0-9]+$"},"includeFormulas":{"type":"boolean",'
    '"default":false},"maxRows":{"anyOf":[{"type":"integer","minimum":1},{"type":"null"}]}},"required":'
    '["spreadsheetId","range"]}}'
)
PROSE = (
    "A result of more than 256 KiB is not cut: it is kept whole, and the model gets a preview with a handle. With the "
    "tool `result_read` it reads on, as far as it wants to. Kept results are files that only you can read.\n"
)
LOG = "".join(
    f"2026-11-16T06:{n:02d}:11.{n:03d}Z INFO request id=ab{n:x} path=/api/v1/tools status=200\n" for n in range(50)
)
GERMAN = "Größere Ergebnisse werden zurückgelegt und können später gelesen werden. Öffnet die Datei für Änderungen."
CHINESE = "读取文件的内容并返回文本。搜索数据库中的记录。"


@pytest.mark.parametrize(
    ("text", "true"), [(CREATE_ISSUE, 152), (READ_RANGE, 155), (PROSE, 57), (LOG, 1557)], ids=["a", "b", "prose", "log"]
)
def test_definitions_prose_and_logs_are_counted_to_within_5_percent(text: str, true: int):
    """Each alone; in a list of tools what is too much here and too little there evens out."""
    assert count_tokens(text) == pytest.approx(true, rel=0.05)


def test_a_list_of_definitions_is_counted_more_closely_still():
    """Two definitions together."""
    assert count_tokens(f"{CREATE_ISSUE}{READ_RANGE}") == pytest.approx(307, rel=0.02)


@pytest.mark.parametrize(("text", "true"), [(GERMAN, 21), (CHINESE, 13)], ids=["german", "chinese"])
def test_other_languages_are_not_counted_too_low(text: str, true: int):
    """Nobody is surprised by a bill higher than the estimate, and none is twice as high."""
    assert true <= count_tokens(text) <= 1.5 * true


def test_nothing_costs_nothing():
    """And one sign is one token."""
    assert [count_tokens(text) for text in ("", "{", "a", " ", "7")] == [0, 1, 1, 1, 1]


@pytest.mark.parametrize("unit", ["a", "{", "é", "\n", " ", "'s", " _", "aB", "\ud800"])
def test_hostile_text_is_counted_in_time_that_grows_with_its_length(unit: str):
    """No way to cut it is tried twice: what grows with the square would take many minutes, and be ended as hanging."""
    assert 0 < count_tokens(unit * 500_000) <= 500_000 * len(unit.encode(errors="surrogatepass"))
