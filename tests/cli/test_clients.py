import pytest

from toolcrib.cli.clients import Mask


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('+      "command": "npx",', '+      "command": "npx",'),
        (' "env": {"API_KEY": "hush", "MODE": "x y"}', ' "env": {"API_KEY": "***", "MODE": "x y"}'),
        ('-"args": ["-y", "--token=hush", "--key", "hush"]', '-"args": ["-y", "--token=***", "--key", "***"]'),
        ('+bearer_token_env_var = "TOOLCRIB_TOKEN"', '+bearer_token_env_var = "TOOLCRIB_TOKEN"'),
        ("-API_KEY = 'hush'", '-API_KEY = "***"'),
        (' "url": "https://me:hush@x.example/mcp?key=hush"', ' "url": "https://***@x.example/mcp?key=***"'),
        (' "Authorization": "Bearer ${TOKEN}"', ' "Authorization": "Bearer ${TOKEN}"'),
        ('-"a\\"b": "c\\"hush"', '-"a\\"b": "***"'),
    ],
)
def test_a_line_of_a_strangers_file_is_shown_without_its_secrets(line, expected):
    """What a line changes can be seen, what it holds cannot."""
    assert Mask().applied(line) == expected


def test_a_secret_on_the_line_after_its_option_is_masked():
    """Arrays are often written one word a line."""
    mask = Mask()

    assert [mask.applied(line) for line in (' "--api-key",', ' "hush"')] == [' "--api-key",', ' "***"']
