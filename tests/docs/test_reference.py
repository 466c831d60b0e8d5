"""The reference says what the code says."""

from tests.docs.reference import stale

from toolcrib.cli.main import COMMANDS
from toolcrib.config.tables import SERVER_KEYS, SETTINGS
from toolcrib.server.rest.api import RESOURCES


def test_the_reference_is_current():
    assert sorted(stale()) == [], "Run ./dev docs: it writes them anew."


def test_nothing_is_left_out(tmp_path):
    pages = stale(tmp_path)
    routes = [route for resource in RESOURCES for route in resource.routes]

    assert [name for name in COMMANDS if f"# toolcrib {name}\n" not in pages["commands.md"]] == []
    assert [name for name in SERVER_KEYS if f"| `{name}` |" not in pages["configuration.md"]] == []
    for name in SETTINGS:
        section, _, key = name.rpartition(".")
        _, _, rest = pages["configuration.md"].partition(f"## `[{section}]`\n" if section else "## At the top\n")
        assert f"| `{key}` |" in rest.partition("\n## ")[0], name
    for route in routes:
        assert f"| `{route.method} {route.path.removeprefix('/api/v1')}` |" in pages["rest.md"]


def test_what_holds_without_a_file_is_what_is_written_there(tmp_path):
    page = stale(tmp_path)["configuration.md"]

    assert '| `timeout_total` | a duration | `"1h"` |' in page
    assert '| `limit` | a size | `"256KiB"` |' in page
    assert "| `enabled` | true or false | `true` | Rule. What comes from files is audited" in page
