"""toolcrib goes into a client's file and out again: the file is as it was, byte for byte."""

import json
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from tests.config.test_jsonc_edit import documents

from toolcrib.config.foreign.connectors import CONNECTORS, Launch
from toolcrib.core.errors import ConfigError
from toolcrib.project.connecting import (
    ClientFile,
    client_here,
    connect,
    disconnect,
    other_entries,
    preview_connect,
    standings,
)
from toolcrib.stores.paths import Environment

STDIO = Launch(("/bin/toolcrib", "stdio"))
HTTP = Launch(url="http://127.0.0.1:7337/mcp")

JSON_FILES = {
    "empty": b"",
    "white space": b" \r\n\t\n",
    "nothing in it": b"{}",
    "nothing in it, spaced": b"{ \n }\n",
    "no final newline": b'{\n  "mcpServers": {"a": {"command": "x"}}\n}',
    "tabs": b'{\n\t"mcpServers": {\n\t\t"a": {"command": "x"}\n\t}\n}\n',
    "CRLF": b'{\r\n  "mcpServers": {\r\n    "a": {"command": "x"}\r\n  }\r\n}\r\n',
    "mixed line ends": b'{\r\n  "mcpServers": {\n    "a": 1\r\n  }\n}\n',
    "byte order mark": b'\xef\xbb\xbf{"mcpServers": {}}\n',
    "comments": b'// a\n{\n  /* b */ "mcpServers": { // c\n    "a": {"command": "x"} // d\n    // e\n  } // f\n}\n// g',
    "trailing commas": b'{\n  "mcpServers": {\n    "a": {"command": "x",},\n  },\n}\n',
    "minified": b'{"a":1,"mcpServers":{"b":{"command":"x"}},"c":[1,2]}',
    "only a comment": b"// nothing yet\n",
    "no servers": b'{\n    "theme": "dark"\n}\n',
    "other characters": '{"mcpServers": {"ü": {"command": "日本"}}, "x": "\\u00fc"}'.encode(),
}
TOML_FILES = {
    "empty": b"",
    "no final newline": b'model = "x"',
    "CRLF": b'# a\r\nmodel = "x"\r\n\r\n[mcp_servers.a]\r\ncommand = "y"\r\n',
    "comments": b"# a\n[mcp_servers.a] # b\ncommand = 'y' # c\n# d\n\n\n",
    "byte order mark": b"\xef\xbb\xbfmodel = 'x'\n",
}
FILES = [
    *(("cursor", name) for name in JSON_FILES),
    *(("vscode", name) for name in JSON_FILES),
    *(("codex", name) for name in TOML_FILES),
]


@pytest.fixture
def around(tmp_path: Path) -> Environment:
    (tmp_path / "project").mkdir()
    return Environment(tmp_path / "project", {"HOME": str(tmp_path)})


def put(client: ClientFile, content: bytes) -> None:
    client.path.parent.mkdir(parents=True, exist_ok=True)
    client.path.write_bytes(content)


def beside(client: ClientFile) -> list[str]:
    return sorted(path.name for path in client.path.parent.iterdir())


def entry(client: ClientFile) -> object:
    return json.loads(client.path.read_text())["mcpServers"]["toolcrib"]


@pytest.mark.parametrize(("name", "file"), FILES)
def test_a_file_is_the_same_afterwards_byte_for_byte(around, name, file):
    """However it is written; and nothing is left beside it."""
    client = client_here(name, around)
    content = (TOML_FILES if name == "codex" else JSON_FILES)[file]
    put(client, content)
    client.path.chmod(0o640)

    change = connect(client, STDIO, around)
    in_between = client.path.read_bytes()
    back = disconnect(client, around)

    assert change.kind == "connected"
    assert b"/bin/toolcrib" in in_between
    assert back.kind == "restored"
    assert client.path.read_bytes() == content
    assert stat.S_IMODE(client.path.stat().st_mode) == 0o640
    assert beside(client) == [client.path.name]


@pytest.mark.parametrize("name", CONNECTORS)
def test_a_file_that_was_not_there_is_gone_afterwards(around, name):
    """With the folders that were made for it."""
    client = client_here(name, around)
    before = sorted(Path(around.env["HOME"]).rglob("*"))

    connect(client, STDIO, around)
    is_there = client.path.is_file()
    disconnect(client, around)

    left = [path for path in Path(around.env["HOME"]).rglob("*") if ".local" not in path.parts]
    assert is_there
    assert sorted(left) == before


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(documents())
def test_any_document_survives(around, text):
    """Byte for byte, whatever stands in it."""
    client = client_here("cursor", around)
    put(client, text.encode())

    connect(client, STDIO, around)
    connect(client, HTTP, around)
    disconnect(client, around)

    assert client.path.read_bytes() == text.encode()


def test_connecting_twice_changes_nothing(around):
    """Neither the file nor what is kept of it."""
    client = client_here("cursor", around)
    put(client, JSON_FILES["comments"])
    connect(client, STDIO, around)
    once = client.path.read_bytes()

    again = connect(client, STDIO, around)

    assert again.kind == "already"
    assert client.path.read_bytes() == once
    assert beside(client) == ["mcp.json", "mcp.json.before-toolcrib"]


def test_connecting_in_another_way_replaces_the_entry(around):
    """There is one toolcrib in a client."""
    client = client_here("cursor", around)
    put(client, JSON_FILES["tabs"])
    connect(client, STDIO, around)

    connect(client, HTTP, around)

    assert entry(client) == {"url": "http://127.0.0.1:7337/mcp"}
    assert disconnect(client, around).kind == "restored"
    assert client.path.read_bytes() == JSON_FILES["tabs"]


def test_an_entry_somebody_wrote_by_hand_is_enough(around):
    """It is the same, so nothing is done."""
    client = client_here("cursor", around)
    content = b'{"mcpServers": {"toolcrib": {"command": "/bin/toolcrib", "args": ["stdio"]}}}'
    put(client, content)

    assert connect(client, STDIO, around).kind == "already"
    assert client.path.read_bytes() == content


def test_what_was_changed_since_stays_and_only_our_entry_goes(around):
    """A file with somebody's work in it is not rolled back."""
    client = client_here("cursor", around)
    put(client, JSON_FILES["tabs"])
    connect(client, STDIO, around)
    client.path.write_bytes(client.path.read_bytes().replace(b'"x"', b'"changed"'))

    back = disconnect(client, around)

    assert back.kind == "taken out"
    assert client.path.read_bytes() == JSON_FILES["tabs"].replace(b'"x"', b'"changed"')
    assert beside(client) == ["mcp.json"]


def test_codex_is_edited_since_too(around):
    """TOML, the same promise."""
    client = client_here("codex", around)
    put(client, TOML_FILES["CRLF"])
    connect(client, STDIO, around)
    client.path.write_bytes(client.path.read_bytes().replace(b'"y"', b'"z"'))

    assert disconnect(client, around).kind == "taken out"
    assert client.path.read_bytes() == TOML_FILES["CRLF"].replace(b'"y"', b'"z"')


@pytest.mark.parametrize(("file", "kind"), [("tabs", "restored"), ("nothing in it, spaced", "taken out")])
def test_a_lost_backup_costs_at_most_the_exactness(around, file, kind):
    """The entry still goes, and where it stood beside others that is the same."""
    client = client_here("cursor", around)
    put(client, JSON_FILES[file])
    change = connect(client, STDIO, around)
    assert change.backup is not None
    change.backup.unlink()

    assert disconnect(client, around).kind == kind
    assert (client.path.read_bytes() == JSON_FILES[file]) == (kind == "restored")
    assert b"toolcrib" not in client.path.read_bytes()


def test_who_is_not_connected_cannot_be_disconnected(around):
    """And nothing is touched."""
    client = client_here("cursor", around)
    put(client, b'{"mcpServers": {}}')

    assert disconnect(client, around).kind == "absent"
    assert disconnect(client_here("zed", around), around).kind == "absent"
    assert client.path.read_bytes() == b'{"mcpServers": {}}'


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"mcpServers": []}', b"\xff\xfe"])
def test_a_file_that_cannot_be_edited_is_left_as_it_is(around, content):
    """Rather no connection than a broken client."""
    client = client_here("cursor", around)
    put(client, content)

    with pytest.raises(ConfigError):
        connect(client, STDIO, around)

    assert client.path.read_bytes() == content
    assert beside(client) == ["mcp.json"]


def test_a_link_stays_a_link(around, tmp_path):
    """Who keeps such files in a repository links to them."""
    client = client_here("cursor", around)
    kept = tmp_path / "dotfiles.json"
    kept.write_bytes(b"{}")
    client.path.parent.mkdir()
    client.path.symlink_to(kept)

    connect(client, STDIO, around)
    assert b"toolcrib" in kept.read_bytes()
    disconnect(client, around)

    assert client.path.is_symlink()
    assert kept.read_bytes() == b"{}"


def test_other_servers_can_be_replaced_and_come_back(around):
    """Also when it is done twice."""
    client = client_here("cursor", around)
    content = b'{\n  "mcpServers": {\n    "a": {"command": "x"}, // one\n    "b": {"command": "y"}\n  }\n}\n'
    put(client, content)

    for names in (["a", "b"], []):
        connect(client, STDIO, around, names)
        assert list(json.loads(client.path.read_text().replace("// one", ""))["mcpServers"]) == ["toolcrib"]
    disconnect(client, around)

    assert client.path.read_bytes() == content


def test_replaced_servers_stay_in_the_backup_when_the_file_was_changed_since(around):
    """They are in toolcrib, too, but nobody has to take our word for it."""
    client = client_here("cursor", around)
    put(client, b'{"mcpServers": {"a": {"command": "x"}}}')
    connect(client, STDIO, around, ["a"])
    client.path.write_bytes(client.path.read_bytes().replace(b"{", b'{"new": 1,', 1))

    back = disconnect(client, around)

    assert back.kind == "taken out"
    assert back.backup is not None
    assert b'"a"' in back.backup.read_bytes()


def test_only_what_toolcrib_can_take_over_is_replaceable(around):
    """The rest stays with the client."""
    client = client_here("cursor", around)
    put(client, b'{"mcpServers": {"A b": {"command": "x"}, "odd": {"type": "carrier-pigeon", "url": "https://x/"}}}')

    others = other_entries(client, around.cwd / "toolcrib.toml", around)

    assert (others.ready, others.twice, others.stays) == (("A b",), (), ("odd",))
    assert others.new_in(["A b"]) == ["a_b"]


def test_entries_that_toolcrib_serves_as_well_are_known(around):
    """The same program, under whatever name; one with other settings is not the same, but its tools are there twice."""
    toml = around.cwd / "toolcrib.toml"
    toml.write_text('[servers.clock]\ncommand = "x"\n[servers.mail]\ncommand = "m"\n')
    client = client_here("cursor", around)
    entries = {"A b": {"command": "x"}, "post": {"command": "m", "env": {"BOX": "2"}}, "new": {"command": "n"}}
    put(client, json.dumps({"mcpServers": entries}).encode())

    others = other_entries(client, toml, around)

    assert (others.ready, others.twice, others.stays) == (("A b", "new"), ("A b", "post"), ("post",))
    assert others.new_in(others.ready) == ["new"]


def test_what_a_project_serves_from_the_clients_own_file_is_taken_over_before_it_leaves_it(around):
    """toolcrib reads `.mcp.json` until it has a file of its own."""
    inside = client_here("claude-code", around, in_project=True)
    put(inside, b'{"mcpServers": {"time": {"command": "x"}}}')

    others = other_entries(inside, around.cwd / "toolcrib.toml", around)

    assert (others.ready, others.twice) == (("time",), ("time",))
    assert others.new_in(others.twice) == ["time"]


def test_a_preview_touches_nothing(around):
    """Not even the folder."""
    client = client_here("gemini", around)

    change = preview_connect(client, STDIO, around)

    assert change.kind == "connected"
    assert not client.path.parent.exists()


def test_a_project_has_files_of_its_own(around):
    """Where the client has such a file."""
    inside = client_here("vscode", around, in_project=True)
    connect(inside, STDIO, around)

    assert inside.path == around.cwd / ".vscode" / "mcp.json"
    assert [one.client for one in standings(around) if one.entry] == [inside]
    with pytest.raises(ConfigError, match="no file of its own in a project"):
        client_here("claude-desktop", around, in_project=True)
