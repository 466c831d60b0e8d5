"""What is known of a project from its files: read again only when they change, and nobody's code is run for it."""

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.fleet.engines import a_postgres

from toolcrib.catalog.recorded import Named
from toolcrib.config.lock import Lock, Record, write_lock
from toolcrib.config.model import Config, config_hash
from toolcrib.core.access import EVERYTHING, Caller, Grants
from toolcrib.core.errors import ConfigError
from toolcrib.core.kinds import DiscoveryStatus
from toolcrib.core.offers import SecurityLevel, Tool
from toolcrib.crib.builder import open_crib
from toolcrib.crib.loading import Loaded, load
from toolcrib.project.known import ProjectPlace, ProjectState, elsewhere, named_natives
from toolcrib.project.project import Project, project_id
from toolcrib.stores.paths import Environment
from toolcrib.stores.postgres.database import PgDatabase, StoreSettings
from toolcrib.stores.postgres.lock import PgLedger

AT = "2026-01-02T03:04:05Z"
OWNER = Caller("owner", "local", EVERYTHING)
READER = Caller("reader", "token", Grants(SecurityLevel.READ_ONLY, servers=("files",)))
WRITTEN = """
[servers.files]
command = "files"
args = ["--api-key", "sk-abcdefghijklmnop"]
env = { TOKEN = "very-secret" }
description = "Files."

[servers.mail]
url = "https://example.com/mcp?key=sekrit"

[servers.resting]
command = "resting"
enabled = false

[kb]
enabled = false
"""


def tool(name: str) -> dict[str, object]:
    return {"name": name, "inputSchema": {"type": "object"}}


def write_records(place: ProjectPlace, **tools: list[str]) -> None:
    servers = load(None, place.around).config.servers
    records = {
        name: Record(name, DiscoveryStatus.SUCCESS, tuple(map(tool, names)), AT, config_hash=config_hash(servers[name]))
        for name, names in tools.items()
    }
    (place.directory / "toolcrib.lock").write_text(write_lock(Lock(records)))


@pytest.fixture
def place(tmp_path: Path) -> ProjectPlace:
    directory = tmp_path / "mine"
    directory.mkdir()
    (directory / "toolcrib.toml").write_text(WRITTEN)
    place = ProjectPlace(directory, Environment(directory, {"HOME": str(tmp_path)}))
    write_records(place, files=["read_file", "write_file"], mail=["get_mail"])
    return place


async def told(dossier: ProjectState, caller: Caller | None = None) -> dict[str, Any]:
    document = msgspec.to_builtins((await dossier.read()).document(caller))
    return msgspec.json.decode(msgspec.json.encode(document))["configuration"]


async def test_a_rule_that_overrules_another_says_so(place: ProjectPlace):
    """The milder value with its place, as ``config show --origin`` does."""
    user = place.directory.parent / ".config" / "toolcrib" / "toolcrib.toml"
    user.parent.mkdir(parents=True)
    user.write_text('[security]\npolicy = "ask"\n')
    written = place.directory / "toolcrib.toml"
    written.write_text(f'{WRITTEN}\n[security]\npolicy = "allow"\n')

    configuration = await told(ProjectState(place))

    shown = next(one for one in configuration["settings"] if one["setting"] == "security.policy")
    assert (shown["value"], shown["origin"]) == ("ask", f"{user}:2")
    assert [text.startswith(f"allow ({written}:") for text in shown["overrules"]] == [True]
    assert shown["overruledBy"] is None


async def test_the_configuration_tells_settings_servers_and_tools(place: ProjectPlace):
    """With where each setting came from, and without any secret."""
    configuration = await told(ProjectState(place))
    encoded = (await ProjectState(place).read()).encoded

    origins = {one["setting"]: one["origin"] for one in configuration["settings"]}
    assert origins["servers.files.command"] == f"{place.directory / 'toolcrib.toml'}:3"
    assert configuration["project"] == {
        "id": project_id(place.directory),
        "name": "mine",
        "isServed": False,
        "directory": str(place.directory),
        "files": [str(place.directory / "toolcrib.toml")],
    }
    assert [tool["name"] for tool in configuration["availableTools"]] == [
        "files__read_file",
        "files__write_file",
        "mail__get_mail",
    ]
    assert configuration["servers"][0] == {
        "name": "files",
        "description": "Files.",
        "enabled": True,
        "kind": "command",
        "tools": 2,
        "discoveryStatus": "success",
        "lastDiscovered": AT,
        "runs": "files --api-key ***",
        "error": None,
        "era": None,
        "origin": f"{place.directory / 'toolcrib.toml'}:2",
    }
    assert [(server["name"], server["enabled"]) for server in configuration["servers"]][1:] == [
        ("mail", True),
        ("resting", False),
    ]
    assert not [secret for secret in (b"very-secret", b"sk-abc", b"sekrit") if secret in encoded]


async def test_who_was_granted_little_is_told_little(place: ProjectPlace):
    """Only the servers and tools within the grants; neither settings nor places on the disk."""
    configuration = await told(ProjectState(place), READER)

    assert configuration == {
        "project": {"id": place.id, "name": "mine", "isServed": False, "directory": None, "files": []},
        "settings": [],
        "problems": [],
        "servers": [
            {
                "name": "files",
                "description": "Files.",
                "enabled": True,
                "kind": "command",
                "tools": 1,
                "discoveryStatus": "success",
                "lastDiscovered": AT,
                "runs": None,
                "error": None,
                "era": None,
                "origin": None,
            }
        ],
        "availableTools": configuration["availableTools"],
    }
    assert [tool["name"] for tool in configuration["availableTools"]] == ["files__read_file"]


async def test_nothing_is_put_together_again_while_the_files_are_the_same(place: ProjectPlace):
    """The very same snapshot; a changed lock or configuration makes a new one."""
    dossier = ProjectState(place)
    first, second = await dossier.read(), await dossier.read()

    write_records(place, files=["read_file"])
    third = await dossier.read()
    config = place.directory / "toolcrib.toml"
    config.write_text(WRITTEN + '\n[servers.new]\ncommand = "new"\n')
    fourth = await dossier.read()

    assert first is second
    assert [entry.name for entry in third.entries(None)] == ["files__read_file"]
    assert "new" in fourth.loaded.config.servers
    assert len({first.etag, third.etag, fourth.etag}) == 3


async def test_a_file_that_appears_counts(place: ProjectPlace):
    """The user's own file, which was not there before."""
    dossier = ProjectState(place)
    await dossier.read()
    user = Path(place.around.env["HOME"]) / ".config" / "toolcrib" / "toolcrib.toml"
    user.parent.mkdir(parents=True)
    user.write_text('[servers.mine]\ncommand = "mine"\n')

    assert "mine" in (await dossier.read()).loaded.config.servers


async def test_broken_files_are_an_error_or_leave_what_runs(place: ProjectPlace):
    """For a project that is served, what counts is what runs; the trouble is told beside it."""
    running = load(None, place.around)
    (place.directory / "toolcrib.toml").write_text("[servers.files\n")

    with pytest.raises(ConfigError):
        await ProjectState(place).read()
    async with open_crib(running, surroundings=place.around) as crib:
        snapshot = await ProjectState(place, running=Project(crib, running, around=place.around)).read()

    assert snapshot.entries(None)[0].name == "files__read_file"
    assert snapshot.document(OWNER).configuration.problems[0].startswith(str(place.directory / "toolcrib.toml"))


async def test_records_in_a_shared_database_are_followed_and_kept_while_it_is_away(place: ProjectPlace):
    """Another replica's finding counts at the next look; while nobody can be asked, the trouble stands beside it."""
    with a_postgres() as engine:
        url = engine.fresh_database()
        (place.directory / "toolcrib.toml").write_text(f'{WRITTEN}\n[store]\nurl = "{url}"\ntimeout = 1\n')
        database = PgDatabase(StoreSettings(url))
        files = load(None, place.around).config.servers["files"]
        found = Record("files", DiscoveryStatus.SUCCESS, (tool("read_file"),), AT, config_hash=config_hash(files))
        dossier = ProjectState(place)
        first, second = await dossier.read(), await dossier.read()
        await PgLedger(database).update("files", lambda _: found)
        third = await dossier.read()
        await database.close()
        engine.stop()
        fourth = await dossier.read()

    assert first is second
    assert first.entries(None) == []
    assert [entry.name for entry in third.entries(None)] == ["files__read_file"]
    assert fourth.recorded is third.recorded
    assert "shared database cannot be used" in fourth.problem


async def test_a_damaged_lock_is_an_error(place: ProjectPlace):
    """With it every pin would be forgotten."""
    (place.directory / "toolcrib.lock").write_text("{")

    with pytest.raises(ConfigError, match="lock file cannot be read"):
        await ProjectState(place).read()


async def test_native_tools_are_known_by_name_until_somebody_imports_them(place: ProjectPlace, monkeypatch):
    """Reading runs nobody's code; once the module is there, its tools are told in full."""
    (place.directory / "dossier_tools.py").write_text(
        'from toolcrib import tool\n\n@tool(name="add_up")\ndef add(a: int) -> int:\n    """Add."""\n    return a\n'
    )
    monkeypatch.syspath_prepend(str(place.directory))
    (place.directory / "toolcrib.toml").write_text('native = ["dossier_tools:add"]\nkb.enabled = false\n')
    dossier = ProjectState(place)

    before = (await dossier.read()).entries(None)
    was_imported = "dossier_tools" in sys.modules
    __import__("dossier_tools")
    after = (await dossier.read()).entries(None)
    sys.modules.pop("dossier_tools")

    assert not was_imported
    assert [(entry.name, entry.discovery_status) for entry in before] == [("add", "never")]
    assert [(entry.name, entry.description) for entry in after] == [("add_up", "Add.")]


async def test_the_tools_of_the_knowledge_base_are_told_too(place: ProjectPlace):
    """Where they were asked for; nothing is opened for it."""
    (place.directory / "toolcrib.toml").write_text('[servers.files]\ncommand = "files"\n[kb]\nexpose = "always"\n')

    names = [entry.name for entry in (await ProjectState(place).read()).entries(None)]

    assert [name for name in names if name.startswith("kb_")] == sorted(
        f"kb_{name}"
        for name in (
            *("answer", "get_document", "hybrid_search", "list_collections", "list_documents"),
            *("resolve_citations", "stats", "add", "remove", "reindex", "export", "import"),
        )
    )


def test_the_builtin_tools_stand_in_where_nothing_is_configured():
    """As they do when it is served; a module that was never imported says nothing of its tools."""
    clock = Tool("clock")

    assert named_natives(Config(), [clock]) == Named((clock,))
    assert named_natives(Config(native=("never_imported",)), [clock]) == Named()


def test_the_users_file_is_read_whatever_file_is_named(tmp_path: Path):
    """With ``--config`` for its rules alone; with a variable that names a file, or none, for everything."""
    env = {"HOME": str(tmp_path)}
    user = tmp_path / ".config" / "toolcrib" / "toolcrib.toml"

    chosen = ProjectPlace(tmp_path, Environment(tmp_path, env), "mine.toml").files()
    by_variable = ProjectPlace(tmp_path, Environment(tmp_path, env | {"TOOLCRIB_CONFIG": "mine.toml"})).files()
    none = ProjectPlace(tmp_path, Environment(tmp_path, env)).files()

    assert chosen == (user, tmp_path / "mine.toml", tmp_path / "toolcrib.lock")
    assert by_variable == (user, tmp_path / "mine.toml", tmp_path / "toolcrib.lock")
    assert none == (user, user.with_name("toolcrib.lock"))


def test_another_directory_is_seen_as_if_toolcrib_were_run_there(tmp_path: Path):
    """Not with the file that was named for this one."""
    around = elsewhere(tmp_path / ".cursor", {"TOOLCRIB_CONFIG": "x.toml", "HOME": "/home"})

    assert around == Environment(tmp_path, {"HOME": "/home"}, elsewhere=True)
    assert Loaded(Config()).files == []
