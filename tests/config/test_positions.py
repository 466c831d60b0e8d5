import tomllib

from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.config.positions import toml_headers, toml_lines, toml_places

TEXT = '''\
# a comment with [servers.fake]
native = [
  "a:b",  # ] not the end
]

[servers.time]
command = "uvx"
args = ["x", {y = 1}]
env = { TOKEN = "a = b", "odd key" = 'it''s' }
description = """
[servers.inside]
text = "not a key"
"""

[ servers . "quoted.name" ]
tools.now.policy = "ask"
cwd = \'\'\'
[servers.literal]\'\'\'
url = 'https://example.org/#not-a-comment'
[[lists]]
n = 1979-05-27T07:32:00Z
'''.replace("'it''s'", "'its'")


def test_every_key_has_its_line():
    """Comments, long strings, lists and inline tables do not lead the count astray."""
    assert toml_lines(TEXT) == {
        ("native",): 2,
        ("servers",): 6,
        ("servers", "time"): 6,
        ("servers", "time", "command"): 7,
        ("servers", "time", "args"): 8,
        ("servers", "time", "env"): 9,
        ("servers", "time", "env", "TOKEN"): 9,
        ("servers", "time", "env", "odd key"): 9,
        ("servers", "time", "description"): 10,
        ("servers", "quoted.name"): 15,
        ("servers", "quoted.name", "tools"): 16,
        ("servers", "quoted.name", "tools", "now"): 16,
        ("servers", "quoted.name", "tools", "now", "policy"): 16,
        ("servers", "quoted.name", "cwd"): 17,
        ("servers", "quoted.name", "url"): 19,
        ("lists",): 20,
        ("lists", "n"): 21,
    }
    tomllib.loads(TEXT)


def test_headers_are_told_from_keys():
    """What can be cut out of a file are its sections."""
    assert toml_headers(TEXT) == [(("servers", "time"), 6), (("servers", "quoted.name"), 15), (("lists",), 20)]


def test_a_text_that_breaks_off_does_not_stop_the_walk():
    """Positions are also looked up for texts that turned out to be wrong."""
    for end in range(len(TEXT)):
        toml_places(TEXT[:end].replace('"odd key"', "odd"))


keys = st.text("abcXYZ019_-", min_size=1, max_size=4) | st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters='"\\\u2028\u2029\x85'),
    min_size=1,
    max_size=4,
).map(lambda key: f'"{key}"')
scalars = st.sampled_from(
    [
        "1",
        "-1.5e3",
        "true",
        "1979-05-27T07:32:00Z",
        '"[x]"',
        "'k = 1'",
        '"""\n[a]\nb = 1\n"""',
        "'''\n\"\n'''",
        '""""quoted"""""',
        "[]",
    ]
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3).map(lambda items: "[ # [\n" + ", # ]\n".join(items) + "]"),
    max_leaves=3,
)
gaps = st.sampled_from(["", "\n", "# note = [\n", "  \n\n"])


@settings(deadline=None)
@given(st.lists(st.tuples(gaps, keys, values), unique_by=lambda pair: pair[1].strip('"'), max_size=6), st.booleans())
def test_each_line_found_is_the_line_of_its_key(pairs, with_header):
    """Whatever stands between them, the walk finds exactly the keys that TOML finds, each on the line it is on."""
    text, expected = ("[table]\n" if with_header else ""), {}
    prefix = ("table",) if with_header else ()
    for gap, key, value in pairs:
        text += gap
        expected[(*prefix, key.strip('"'))] = text.count("\n") + 1
        text += f"{key} = {value}\n"
    if with_header:
        expected[prefix] = 1

    tomllib.loads(text)

    assert toml_lines(text) == expected
