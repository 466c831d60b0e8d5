"""From other programs' files to a toolcrib.toml, and what follows later changes."""

import json
import stat
from pathlib import Path

import pytest

from toolcrib.config.merge import merge
from toolcrib.config.model import ServerConfig, ToolConfig
from toolcrib.config.parse import parse_toml
from toolcrib.core.errors import CallerError, ConfigError
from toolcrib.project.importing import (
    ImportPlan,
    ImportRequest,
    candidate_document,
    find_imports,
    forget_origin,
    import_target,
    take_over,
)
from toolcrib.stores.paths import Environment

SECRET = "sk-0123456789abcdef"


@pytest.fixture
def around(tmp_path: Path) -> Environment:
    (tmp_path / "project").mkdir()
    return Environment(tmp_path / "project", {"HOME": str(tmp_path)})


def cursor(around: Environment, **servers: object) -> Path:
    path = Path(around.env["HOME"]) / ".cursor" / "mcp.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"mcpServers": servers}))
    return path


def target(around: Environment) -> Path:
    return around.cwd / "toolcrib.toml"


def look(around: Environment, *words: str, sync: bool = False) -> ImportPlan:
    return find_imports(around, ImportRequest(target(around), words, sync))


def states(found: ImportPlan) -> dict[str, str]:
    return {candidate.name: candidate.state for candidate in found.candidates}


def bring_in(around: Environment, *, sync: bool = False) -> list[str]:
    found = look(around, sync=sync)
    names = {candidate.name for candidate in found.candidates}
    return [candidate.name for candidate in take_over(found, names, target(around), around)]


def written(around: Environment) -> dict[str, ServerConfig]:
    return dict(merge(parse_toml(target(around).read_text(), "toolcrib.toml")).servers)


def test_what_is_found_is_written_once(around):
    """The second time it is already here."""
    cursor(around, time={"command": "x"})

    assert bring_in(around) == ["time"]
    assert written(around) == {"time": ServerConfig("time", command="x")}
    assert states(look(around)) == {"time": "same"}
    assert bring_in(around) == []


def test_what_a_person_wrote_stays(around):
    """Comments, order, and a server of the same name, which keeps it."""
    target(around).write_text("# mine\n[servers.time] # clock\ncommand = 'y'\n")
    cursor(around, time={"command": "x"})

    assert bring_in(around) == ["time_cursor"]
    assert target(around).read_text().startswith("# mine\n[servers.time] # clock\ncommand = 'y'\n")


def test_a_broken_file_costs_only_itself(around):
    """It is reported with its line; the others are read."""
    cursor(around, time={"command": "x"})
    (around.cwd / ".mcp.json").write_text('{\n"mcpServers": }')

    found = look(around)

    assert states(found) == {"time": "new"}
    assert len(found.problems) == 1
    assert f"{around.cwd / '.mcp.json'}:2: This is not JSON" in found.problems[0]


def test_changes_at_the_origin_follow_when_asked(around):
    """Changed, added and removed there; one step each."""
    cursor(around, time={"command": "x"}, gone={"command": "y"})
    bring_in(around)
    cursor(around, time={"command": "x", "args": ["-v"]}, more={"command": "z"})

    assert states(look(around, sync=True)) == {"time": "changed", "gone": "removed", "more": "new"}
    assert sorted(bring_in(around, sync=True)) == ["gone", "more", "time"]
    assert written(around) == {
        "time": ServerConfig("time", command="x", args=("-v",)),
        "more": ServerConfig("more", command="z"),
    }
    assert bring_in(around, sync=True) == []


def test_what_was_changed_by_hand_is_not_overwritten(around):
    """Neither by a change nor by a removal there."""
    cursor(around, time={"command": "x"}, gone={"command": "y"})
    bring_in(around)
    text = target(around).read_text().replace('command = "x"', 'command = "mine"').replace('"y"', '"mine too"')
    target(around).write_text(text)
    cursor(around, time={"command": "new"})

    assert states(look(around, sync=True)) == {"time": "edited", "gone": "edited"}
    assert bring_in(around, sync=True) == []
    assert target(around).read_text() == text


def test_a_sync_looks_only_where_servers_came_from(around):
    """A client that was never imported from is not imported by the way."""
    cursor(around, time={"command": "x"})
    bring_in(around)
    (around.cwd / ".mcp.json").write_text('{"mcpServers": {"other": {"command": "o"}}}')

    assert states(look(around, sync=True)) == {"time": "same"}
    assert states(look(around)) == {"time": "same", "other": "new"}


def test_a_file_that_is_gone_removes_nothing(around):
    """Who uninstalls a client keeps the servers."""
    path = cursor(around, time={"command": "x"})
    bring_in(around)
    path.unlink()

    assert bring_in(around, sync=True) == []


def test_what_was_taken_out_on_purpose_does_not_count_as_removed(around):
    """After ``connect --replace`` the client's file no longer has the servers."""
    path = cursor(around, time={"command": "x"})
    bring_in(around)
    forget_origin(target(around), path, around)
    cursor(around)

    assert bring_in(around, sync=True) == []
    assert "time" in written(around)


def test_a_list_of_wanted_tools_never_lifts_a_policy(around):
    """Tools that are on get what the user's own policies say, not ``allow``."""
    target(around).write_text('[security]\npolicy = "ask"\npolicies = { "*__drop_*" = "deny" }\n')
    cursor(around, db={"command": "x", "enabled_tools": ["read", "drop_all"]})

    bring_in(around)

    assert written(around)["db"].policy == "disable"
    assert written(around)["db"].tools == {"read": ToolConfig(policy="ask"), "drop_all": ToolConfig(policy="deny")}


def test_toolcrib_is_never_imported_into_itself(around):
    """Neither by its command nor by the address it serves at."""
    target(around).write_text("[serve]\nport = 9123\n")
    cursor(around, a={"command": "/x/toolcrib", "args": ["stdio"]}, b={"url": "http://localhost:9123/mcp"})

    assert states(look(around)) == {}


def test_a_project_of_claude_code_is_imported_in_its_own_folder_only(around):
    """Elsewhere it is named and left out."""
    entry = {"mcpServers": {"pages": {"command": "x"}}}
    path = Path(around.env["HOME"]) / ".claude.json"
    path.write_text(
        json.dumps({"projects": {str(around.cwd): entry, "/elsewhere": {"mcpServers": {"far": {"command": "y"}}}}})
    )

    found = look(around)

    assert states(found) == {"pages": "new", "far": "left out"}
    assert "for the project /elsewhere only" in found.in_state("left out")[0].reason


def test_secrets_are_written_but_never_shown(around):
    """A new file that holds one is for its owner alone."""
    cursor(around, api={"command": "x", "args": ["--token", SECRET], "env": {"API_KEY": SECRET}})

    found = look(around)
    bring_in(around)

    assert SECRET not in json.dumps([candidate_document(candidate) for candidate in found.candidates])
    assert written(around)["api"].env == {"API_KEY": SECRET}
    assert stat.S_IMODE(target(around).stat().st_mode) == 0o600
    assert SECRET not in (Path(around.env["HOME"]) / ".local/state/toolcrib/imports.json").read_text()


def test_open_webui_is_read_from_the_environment(around):
    """It keeps its connections in a variable."""
    text = json.dumps([{"url": "https://m.example/mcp", "type": "mcp", "info": {"id": "meals"}}])
    here = Environment(around.cwd, {**around.env, "TOOL_SERVER_CONNECTIONS": text})

    assert states(look(here)) == {"meals": "new"}


def test_a_word_names_a_client_a_file_or_nothing(around, tmp_path):
    """What is nothing is refused with the nearest client."""
    cursor(around, time={"command": "x"})
    (around.cwd / "any.json").write_text('{"mcpServers": {"other": {"command": "o"}}}')

    assert states(look(around, "cursor")) == {"time": "new"}
    assert states(look(around, "any.json")) == {"other": "new"}
    assert states(look(around, "VS Code")) == {}
    with pytest.raises(CallerError, match="Did you mean 'cursor'"):
        look(around, "curser")


def test_imports_go_into_a_file_of_toolcribs_own(around, tmp_path):
    """The closest toolcrib.toml; never the file of another program that stands in for one."""
    (around.cwd / ".mcp.json").write_text('{"mcpServers": {}}')

    assert import_target(around) == target(around)
    assert import_target(around, user=True) == tmp_path / ".config" / "toolcrib" / "toolcrib.toml"
    (tmp_path / "toolcrib.toml").write_text("")
    assert import_target(around) == tmp_path / "toolcrib.toml"
    with pytest.raises(ConfigError, match="not a file of toolcrib's own"):
        import_target(around, ".mcp.json")


def test_what_the_users_file_has_is_not_repeated_in_the_project(around, tmp_path):
    """It counts everywhere already."""
    user = tmp_path / ".config" / "toolcrib" / "toolcrib.toml"
    user.parent.mkdir(parents=True)
    user.write_text('[servers.clock]\ncommand = "x"\n')
    cursor(around, time={"command": "x"})

    assert states(look(around)) == {"clock": "same"}


def test_an_entry_that_only_adjusts_does_not_stand_in_the_way(around):
    """Its server may be declared by the environment."""
    target(around).write_text("[servers.far]\nenabled = false\n")
    cursor(around, time={"command": "x"})

    assert bring_in(around) == ["time"]
