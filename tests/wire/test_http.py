"""Headers of the stateless era: values survive the trip, and what disagrees with the body is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.wire import http
from toolcrib.wire.http import check_mirrors, check_params, declared_headers, decode_value, encode_value, param_headers
from toolcrib.wire.jsonrpc import HEADER_MISMATCH, RpcError

TEXT = st.text(st.characters(codec="utf-8"), max_size=40)


@given(TEXT)
def test_any_value_survives_the_trip(value):
    """What goes into a header comes out of it, and the header itself is plain ASCII without line breaks."""
    encoded = encode_value(value)

    assert decode_value(encoded) == value
    assert encoded == encoded.strip()
    assert all(0x20 <= byte <= 0x7E for byte in encoded)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        ("add", b"add"),
        ("", b""),
        ("two words", b"two words"),
        (" lead", b"=?base64?IGxlYWQ=?="),
        ("größe", b"=?base64?Z3LDtsOfZQ==?="),
        ("a\r\nb", b"=?base64?YQ0KYg==?="),
        ("=?base64?YQ==?=", b"=?base64?PT9iYXNlNjQ/WVE9PT89?="),
    ],
)
def test_only_what_would_not_survive_is_wrapped(value, encoded):
    """Plain text stays readable; a value that looks wrapped is wrapped once more."""
    assert encode_value(value) == encoded


@pytest.mark.parametrize(
    "value",
    [b"=?base64?***?=", b"=?base64?YQ?=", b"=?base64?/w==?=", b"=?base64?YR==?=", None],
)
def test_a_corrupt_wrapping_matches_nothing(value):
    """Bad base64, missing padding, bytes that are no text, and spare bits are no value at all."""
    assert decode_value(value) is None


def mirror(**stated: bytes) -> http.Header:
    """Request headers by their short names."""
    names = {"version": http.VERSION, "method": http.METHOD, "name": http.NAME}
    return {names[key]: value for key, value in stated.items()}.get


@pytest.mark.parametrize(
    ("method", "params", "header"),
    [
        ("tools/list", {}, mirror(version=b"v", method=b"tools/list")),
        ("tools/call", {"name": "add"}, mirror(version=b"v", method=b"tools/call", name=b"add")),
        ("tools/call", {"name": "ö"}, mirror(version=b"v", method=b"tools/call", name=encode_value("ö"))),
        ("resources/read", {"uri": "a:b"}, mirror(version=b"v", method=b"resources/read", name=b"a:b")),
        ("tools/call", {}, mirror(version=b"v", method=b"tools/call")),
    ],
)
def test_headers_that_mirror_the_body_pass(method, params, header):
    """Version, method, and the name where the method has one."""
    check_mirrors(header, "v", method, params)


@pytest.mark.parametrize(
    ("blamed", "header"),
    [
        ("MCP-Protocol-Version", mirror(method=b"tools/call", name=b"add")),
        ("MCP-Protocol-Version", mirror(version=b"w", method=b"tools/call", name=b"add")),
        ("Mcp-Method", mirror(version=b"v", name=b"add")),
        ("Mcp-Method", mirror(version=b"v", method=b"tools/list", name=b"add")),
        ("Mcp-Name", mirror(version=b"v", method=b"tools/call")),
        ("Mcp-Name", mirror(version=b"v", method=b"tools/call", name=b"sub")),
        ("Mcp-Name", mirror(version=b"v", method=b"tools/call", name=b"=?base64?***?=")),
    ],
)
def test_a_header_that_is_missing_or_differs_is_named(blamed, header):
    """The refusal says which header, with the code the protocol has for it."""
    with pytest.raises(RpcError, match=blamed) as refused:
        check_mirrors(header, "v", "tools/call", {"name": "add"})

    assert refused.value.code == HEADER_MISMATCH


def test_a_version_that_is_no_text_never_matches():
    """A number in the body is not what a header says."""
    with pytest.raises(RpcError):
        check_mirrors(mirror(version=b"5", method=b"ping"), 5, "ping", {})


SCHEMA = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "deep": {"type": "object", "properties": {"size": {"type": "integer", "x-mcp-header": "Size"}}},
        "dry": {"type": "boolean", "x-mcp-header": "Dry-Run"},
        "free": {"type": "string"},
    },
}
DECLARED = {("region",): "Region", ("deep", "size"): "Size", ("dry",): "Dry-Run"}


def test_declarations_are_found_at_any_depth_of_properties():
    """Each with the path to its argument."""
    assert declared_headers(SCHEMA) == DECLARED


@pytest.mark.parametrize(
    "schema", [True, None, 5, [], {}, {"properties": [1]}, {"allOf": 5}, {"$defs": 5}, {"type": "object"}]
)
def test_a_schema_without_declarations_has_none(schema):
    """Whatever it is."""
    assert declared_headers(schema) == {}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"x-mcp-header": "A", "type": "object"}, "only allowed on properties"),
        ({"properties": {"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}}}, "only allowed"),
        ({"anyOf": [{"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}]}, "only allowed"),
        ({"$defs": {"a": {"type": "string", "x-mcp-header": "A"}}}, "only allowed"),
        ({"properties": {"a": {"type": "string", "x-mcp-header": "no spaces"}}}, "not a header token"),
        ({"properties": {"a": {"type": "string", "x-mcp-header": ""}}}, "not a header token"),
        ({"properties": {"a": {"type": "string", "x-mcp-header": 5}}}, "not a header token"),
        ({"properties": {"a": {"type": "number", "x-mcp-header": "A"}}}, "needs a property of type"),
        ({"properties": {"a": {"x-mcp-header": "A"}}}, "needs a property of type"),
        (
            {
                "properties": {
                    "a": {"type": "string", "x-mcp-header": "A"},
                    "b": {"type": "string", "x-mcp-header": "a"},
                }
            },
            "declared twice",
        ),
    ],
)
def test_an_invalid_declaration_says_what_is_wrong(schema, reason):
    """The tool is refused by whoever asked, with a reason."""
    with pytest.raises(ValueError, match=reason):
        declared_headers(schema)


def test_arguments_become_headers():
    """Text as it is, numbers and booleans as JSON writes them, and nothing for what is not there."""
    arguments = {"region": "größe", "deep": {"size": 3}, "dry": True, "free": "x"}

    assert param_headers(DECLARED, arguments) == [
        (b"Mcp-Param-Region", b"=?base64?Z3LDtsOfZQ==?="),
        (b"Mcp-Param-Size", b"3"),
        (b"Mcp-Param-Dry-Run", b"true"),
    ]
    assert param_headers(DECLARED, {"deep": "not an object", "region": None}) == []


@given(TEXT, st.integers(-(2**70), 2**70) | st.integers(-9, 9).map(float), st.booleans())
def test_headers_made_from_arguments_agree_with_them(region, size, dry):
    """Both ends use the same rules."""
    arguments = {"region": region, "deep": {"size": size}, "dry": dry}
    sent = {name.lower(): value for name, value in param_headers(DECLARED, arguments)}

    check_params(DECLARED, arguments, sent.get)


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ({"region": "eu"}, {}),
        ({}, {b"mcp-param-region": b"eu"}),
        ({"region": "eu"}, {b"mcp-param-region": b"us"}),
        ({"region": None}, {b"mcp-param-region": b"None"}),
        ({"region": "eu"}, {b"mcp-param-region": b"=?base64?***?="}),
        ({"dry": True}, {b"mcp-param-dry-run": b"True"}),
        ({"dry": True}, {b"mcp-param-dry-run": b"1"}),
        ({"deep": {"size": 3}}, {b"mcp-param-size": b"4"}),
        ({"deep": {"size": 3}}, {b"mcp-param-size": b"three"}),
        ({"deep": {"size": 3}}, {b"mcp-param-size": b"9" * 6000}),
    ],
)
def test_headers_that_disagree_with_the_arguments_are_refused(arguments, sent):
    """On either side missing, different, corrupt or absurd."""
    with pytest.raises(RpcError, match="do not agree") as refused:
        check_params(DECLARED, arguments, sent.get)

    assert refused.value.code == HEADER_MISMATCH


@pytest.mark.parametrize("written", [b"3", b"3.0", b"3.000", b"03"])
def test_whole_numbers_agree_however_they_are_written(written):
    """Numbers are compared as numbers."""
    check_params(DECLARED, {"deep": {"size": 3}}, {b"mcp-param-size": written}.get)


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ({"region": "3"}, {b"mcp-param-region": b"3.0"}),
        ({"deep": {"size": 3.5}}, {b"mcp-param-size": b"3"}),
        ({"dry": True}, {b"mcp-param-dry-run": b"1"}),
        ({"deep": {"size": 4}}, {b"mcp-param-size": b"3.0"}),
    ],
)
def test_only_whole_numbers_are_compared_as_numbers(arguments, sent):
    """Texts, fractions and booleans say what they say."""
    with pytest.raises(RpcError):
        check_params(DECLARED, arguments, sent.get)


@pytest.mark.parametrize("keyword", ["enum", "examples", "default", "const", "required"])
def test_what_stands_in_data_is_no_declaration(keyword):
    data = {"x-mcp-header": "Region"}

    assert declared_headers({"type": "object", keyword: [data] if keyword != "default" else data}) == {}
