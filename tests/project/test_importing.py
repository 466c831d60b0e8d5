"""From other programs' files to a toolcrib.toml, and what follows later changes."""

import json
import stat
from pathlib import Path

import pytest

from toolcrib.config.foreign.plan import ACTED_ON
from toolcrib.config.merge import merge
from toolcrib.config.model import ServerConfig, ToolConfig
from toolcrib.config.parse import parse_toml
from toolcrib.config.references import resolve_server
from toolcrib.core.errors import CallerError, ConfigError
from toolcrib.crib.loading import load
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
from toolcrib.stores.secrets import SecretStore

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
    names = {candidate.name for candidate in found.in_state(*ACTED_ON)}
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


def test_secrets_become_references_and_are_kept_by_toolcrib(around):
    """Nothing that is shown or written elsewhere has the value."""
    cursor(around, api={"command": "x", "args": ["--token", SECRET], "env": {"API_KEY": "other-0123", "LEVEL": "1"}})

    found = look(around)
    bring_in(around)

    assert SECRET not in json.dumps([candidate_document(candidate) for candidate in found.candidates])
    assert SECRET not in repr(found)
    assert written(around)["api"].env == {"API_KEY": "${API_KEY}", "LEVEL": "1"}
    assert written(around)["api"].args == ("--token", "${API_TOKEN}")
    assert resolve_server(written(around)["api"], around.variables).args == ("--token", SECRET)
    files = [path for path in Path(around.env["HOME"]).rglob("*") if path.is_file() and SECRET in path.read_text()]
    assert sorted(path.name for path in files) == ["mcp.json", "secrets.json"]
    assert stat.S_IMODE(SecretStore(around.env).path.stat().st_mode) == 0o600


def test_a_secret_gets_a_name_that_means_nothing_else_here(around):
    """Neither a variable of the environment nor what is kept already; the same value is kept once."""
    here = Environment(around.cwd, {**around.env, "GITHUB_TOKEN": "somebody-elses"})
    SecretStore(here.env).put({"MAIL_PASSWORD": "the-other-one"})
    entries = {"GITHUB_TOKEN": "ghp_0123456789", "MAIL_PASSWORD": "the-mail-one"}
    cursor(here, git={"command": "x", "env": entries}, hub={"command": "y", "env": {"GITHUB_TOKEN": "ghp_0123456789"}})

    bring_in(here)

    assert written(here)["git"].env == {"GITHUB_TOKEN": "${GITHUB_TOKEN_2}", "MAIL_PASSWORD": "${MAIL_PASSWORD_2}"}
    assert written(here)["hub"].env == {"GITHUB_TOKEN": "${GITHUB_TOKEN_2}"}
    assert resolve_server(written(here)["git"], here.variables).env == entries
    assert SecretStore(here.env).get("MAIL_PASSWORD") == "the-other-one"


def test_a_secret_that_changed_there_follows_under_its_name(around):
    """A token that was rotated; one that another server refers to, too, is not changed under its hands."""
    cursor(around, git={"command": "x", "env": {"GIT_TOKEN": SECRET}}, two={"command": "y", "env": {"KEY": SECRET}})
    bring_in(around)
    text = target(around).read_text().replace("${TWO_KEY}", "${SHARED}")
    target(around).write_text(text + '[servers.three]\ncommand = "z"\nenv = { K = "${SHARED}" }\n')
    SecretStore(around.env).put({"SHARED": SECRET})
    before = written(around)
    new = "sk-fedcba9876543210"
    cursor(around, git={"command": "x", "env": {"GIT_TOKEN": new}})

    assert bring_in(around, sync=True) == ["git"]

    assert written(around)["git"] == before["git"]
    assert resolve_server(written(around)["git"], around.variables).env == {"GIT_TOKEN": new}
    assert resolve_server(written(around)["three"], around.variables).env == {"K": SECRET}


def test_what_is_in_use_is_not_offered_as_new(around):
    """Under whatever name, and with whatever settings; who names it gets it all the same."""
    target(around).write_text('[servers.clock]\ncommand = "x"\nargs = ["--key", "${CLOCK_KEY}"]\n')
    cursor(
        around,
        time={"command": "x", "args": ["--key", SECRET]},
        other={"command": "x", "args": ["--keys", "all"]},
    )

    assert states(look(around)) == {"time": "used", "other": "new"}
    assert look(around).in_state("used")[0].twin == "clock"
    SecretStore(around.env).put({"CLOCK_KEY": SECRET})
    assert states(look(around)) == {"clock": "same", "other": "new"}


def test_the_same_server_of_two_programs_with_other_settings_is_offered_once(around):
    """Two of one program are two accounts."""
    cursor(around, mail={"command": "x", "env": {"BOX": "a"}}, post={"command": "x", "env": {"BOX": "b"}})
    claude = Path(around.env["HOME"]) / ".claude.json"
    claude.write_text(json.dumps({"mcpServers": {"mail": {"command": "x", "env": {"BOX": "c"}}}}))

    assert sorted(states(look(around)).values()) == ["new", "new", "used"]


def test_what_another_programs_file_has_in_use_comes_along(around):
    """A toolcrib.toml takes the place of `.mcp.json`: whoever imports one server loses none, and keeps their names."""
    path = around.cwd / ".mcp.json"
    path.write_text(json.dumps({"mcpServers": {"time": {"command": "x"}, "a-b": {"command": "y", "env": {"K": "v"}}}}))
    cursor(around, time={"command": "other"}, same={"command": "y", "env": {"K": "v"}})
    before = load(None, around).config.servers

    found = look(around)
    done = take_over(found, ["time_cursor"], target(around), around)

    assert states(found) == {"time": "same", "a_b": "same", "time_cursor": "new"}
    assert [one.name for one in done] == ["time_cursor", "time", "a_b"]
    after = load(None, around).config.servers
    assert {name: (one.command, one.env) for name, one in after.items() if name in before} == {
        name: (one.command, one.env) for name, one in before.items()
    }
    assert states(look(around, sync=True))["a_b"] == "same"


def test_what_is_in_use_stays_where_it_is_until_something_is_written(around):
    """Nothing new: nothing to do. Its own file named: that is the wish to bring it here."""
    path = around.cwd / ".mcp.json"
    path.write_text(json.dumps({"mcpServers": {"time": {"command": "x"}, "mail": {"command": "y"}}}))

    assert bring_in(around) == []
    assert not target(around).exists()
    named = look(around, ".mcp.json")
    assert states(named) == {"time": "new", "mail": "new"}
    assert [one.name for one in take_over(named, ["mail"], target(around), around)] == ["mail", "time"]


def test_what_a_project_has_in_use_is_still_new_for_everywhere(around):
    """The user's own file does not stand for a project's."""
    (around.cwd / ".mcp.json").write_text('{"mcpServers": {"time": {"command": "x"}}}')
    user = import_target(around, user=True)

    found = find_imports(around, ImportRequest(user))

    assert (states(found), found.along) == ({"time": "new"}, ())


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
