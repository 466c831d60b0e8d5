"""``toolcrib import``: shown first, asked, written once, followed later."""

import json

import pytest
from tests.cli.keyboard import typed

SECRET = "sk-0123456789abcdef"


@pytest.fixture
def cursor(toolcrib):
    """Cursor with two servers, one of them with a secret written out."""

    def write(**servers):
        path = toolcrib.home / ".cursor" / "mcp.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"mcpServers": servers}))
        return path

    write(time={"command": "time-server"}, notes={"command": "notes-server", "env": {"API_KEY": SECRET}, "trust": True})
    return write


def test_a_dry_run_shows_everything_but_secrets_and_writes_nothing(toolcrib, cursor):
    """What would be added, from where, and what is not taken over."""
    result = toolcrib.run("import", "--dry-run")

    assert result.returncode == 0, result.stderr
    assert "+ time (Cursor)" in result.stdout
    assert "command = time-server" in result.stdout
    assert "env.API_KEY = ${NOTES_API_KEY}" in result.stdout
    assert "toolcrib keeps NOTES_API_KEY" in result.stdout
    assert toolcrib.json("secrets", "ls") == []
    assert "trust is not taken over" in result.stdout
    assert SECRET not in result.stdout + result.stderr
    assert "2 servers would be" in result.stderr
    assert not toolcrib.config.exists()


def test_yes_writes_without_asking(toolcrib, cursor):
    """And the servers are there."""
    result = toolcrib.run("import", "--yes")

    assert result.returncode == 0, result.stderr
    assert [entry["name"] for entry in toolcrib.json("servers", "ls")] == ["notes", "time"]
    assert "There is nothing to do." in toolcrib.run("import").stderr


def test_without_a_terminal_nothing_is_written_unasked(toolcrib, cursor):
    """The hint says what to add."""
    result = toolcrib.run("import")

    assert result.returncode == 2
    assert "--yes" in result.stderr
    assert not toolcrib.config.exists()


@pytest.mark.parametrize(
    ("answers", "names"),
    [
        ([("[Y/n/choose]", "")], {"time", "notes"}),
        ([("[Y/n/choose]", "n")], set()),
        ([("[Y/n/choose]", "\x04")], set()),
        ([("[Y/n/choose]", "choose"), ("time?", "n"), ("notes?", "y")], {"notes"}),
    ],
)
def test_a_person_is_asked(toolcrib, cursor, answers, names):
    """All, none, or one by one; closing the input is no yes."""
    said, _ = typed(toolcrib, "import", answers=answers)

    assert "Add 2 servers" in said
    written = toolcrib.config.read_text() if toolcrib.config.exists() else ""
    assert {name for name in ("time", "notes") if f"[servers.{name}]" in written} == names


def test_only_takes_the_named_servers(toolcrib, cursor):
    """A name that was not found is an error with the nearest one."""
    assert toolcrib.run("import", "--only", "time", "--yes").returncode == 0
    assert "notes" not in toolcrib.config.read_text()

    result = toolcrib.run("import", "--only", "note", "--yes")
    assert result.returncode == 7
    assert "Did you mean 'notes'?" in result.stderr


def test_global_writes_the_users_file(toolcrib, cursor):
    """For every project of this user."""
    toolcrib.run("import", "--yes", "--global")

    assert "[servers.time]" in (toolcrib.home / ".config" / "toolcrib" / "toolcrib.toml").read_text()
    assert not toolcrib.config.exists()


def test_json_tells_a_program_everything(toolcrib, cursor):
    """States, origins, notes; secrets masked; nothing written in a dry run."""
    shown = toolcrib.json("import", "--dry-run")

    assert shown["file"] == str(toolcrib.config)
    assert {server["name"]: server["state"] for server in shown["servers"]} == {"time": "new", "notes": "new"}
    assert shown["servers"][0]["origins"][0]["client"] == "cursor"
    assert shown["done"] == []
    assert SECRET not in json.dumps(shown)


def test_sync_follows_the_origin_and_keeps_what_was_edited(toolcrib, cursor):
    """One changed there only, one changed on both sides."""
    toolcrib.run("import", "--yes")
    toolcrib.config.write_text(toolcrib.config.read_text().replace("notes-server", "my-notes"))
    cursor(time={"command": "time-server", "args": ["--utc"]}, notes={"command": "other-notes"})

    plain, synced = toolcrib.run("import", "--yes"), toolcrib.run("import", "--sync", "--yes")

    assert "import --sync" in plain.stderr
    assert "~ time (Cursor) changed there" in synced.stdout
    assert "+ args = --utc" in synced.stdout
    assert "! notes (Cursor) yours stays: it changed there, but you changed it here, too" in synced.stdout
    assert "--utc" in toolcrib.config.read_text()
    assert "my-notes" in toolcrib.config.read_text()


def test_a_broken_file_is_reported_with_its_line_and_costs_only_itself(toolcrib, cursor):
    """Exit code 1 when somebody named it."""
    broken = toolcrib.project / ".mcp.json"
    broken.write_text('{\n  "mcpServers": {,}\n}')

    everything, named = toolcrib.run("import", "--dry-run"), toolcrib.run("import", str(broken), "--dry-run")

    assert everything.returncode == 0
    assert f"{broken}:2:" in everything.stderr
    assert "+ time" in everything.stdout
    assert named.returncode == 1


def test_yaml_without_its_package_says_what_to_install(toolcrib):
    """The rest works without."""
    (toolcrib.project / "librechat.yaml").write_text("mcpServers: {}")
    (toolcrib.home / "yaml.py").write_text("raise ImportError")

    result = toolcrib.run("import", "librechat.yaml", PYTHONPATH=str(toolcrib.home))

    assert "toolcrib extras add yaml" in result.stderr


def test_an_unknown_word_is_refused(toolcrib):
    """Neither a file nor a client."""
    result = toolcrib.run("import", "curser")

    assert result.returncode == 2
    assert "Did you mean 'cursor'?" in result.stderr


def test_what_strangers_wrote_cannot_drive_the_terminal(toolcrib, cursor):
    """Names and commands are shown without control characters."""
    cursor(**{"a\x1b[2J": {"command": "x\x1b[31m\ny"}})

    result = toolcrib.run("import", "--dry-run")

    assert "\x1b" not in result.stdout
    assert result.returncode == 0


def test_a_new_file_hides_none_of_the_servers_that_another_programs_file_had(toolcrib):
    """Without a toolcrib.toml, toolcrib had read them from there: they come along."""
    hidden = toolcrib.project / ".mcp.json"
    hidden.write_text('{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}}')

    some = toolcrib.run("import", ".mcp.json", "--yes", "--only", "a")

    assert some.returncode == 0, some.stderr
    assert [server["name"] for server in toolcrib.json("servers", "ls")] == ["a", "b"]
    assert f"toolcrib reads this file now instead of {hidden}, so b came along." in some.stderr
