import pytest

from toolcrib.config.foreign.connectors import insert_table, remove_table
from toolcrib.core.errors import ConfigError

PATH = ("mcp_servers", "toolcrib")
ENTRY = {"command": "toolcrib", "args": ["stdio"]}
BLOCK = '[mcp_servers.toolcrib]\ncommand = "toolcrib"\nargs = ["stdio"]\n'

WRITTEN = [
    "",
    'model = "x"\n',
    "# a\n[mcp_servers.a] # b\ncommand = 'y'\n",
    "a = 1\r\n\r\n[b]\r\nc = 2\r\n",
    "\ufeffa = 1\n",
]


@pytest.mark.parametrize("text", WRITTEN)
def test_a_table_that_goes_in_and_out_leaves_no_trace(text):
    """Comments, line ends and the byte order mark stay."""
    edited = insert_table(text, PATH, ENTRY, "x.toml")

    assert edited.startswith(text)
    assert edited.replace("\r\n", "\n").endswith(BLOCK)
    assert remove_table(edited, PATH, "x.toml") == text


def test_what_follows_a_removed_table_keeps_its_comment():
    """Also when the user wrote it after ours."""
    text = f"a = 1\n\n{BLOCK}\n[mcp_servers.toolcrib.env]\nX = '1'\n\n# mine\n[z]\nb = 2\n"

    assert remove_table(text, PATH, "x.toml") == "a = 1\n\n# mine\n[z]\nb = 2\n"


@pytest.mark.parametrize("text", ["mcp_servers = {}\n", "a =\n", "[mcp_servers.toolcrib]\n"])
def test_a_file_that_cannot_take_a_table_is_left_alone(text):
    """With a reason."""
    with pytest.raises(ConfigError):
        insert_table(text, PATH, ENTRY, "x.toml")
