"""Each program's file, as it writes it, means what it says in toolcrib's words."""

from pathlib import Path

import pytest

from toolcrib.config.foreign.clients import CLIENTS, UNKNOWN, client_of, read_servers
from toolcrib.config.foreign.references import ForeignDialect, ForeignServer
from toolcrib.config.model import ServerConfig, ToolConfig
from toolcrib.config.positions import PlacedValues
from toolcrib.core.errors import ConfigError
from toolcrib.core.kinds import Transport
from toolcrib.stores.foreign import read_document

FIXTURES = Path(__file__).parent / "fixtures"
OFF, ON = ToolConfig(policy="disable"), ToolConfig(policy="allow")


def read(name: str, client: str = "", folder: str = "") -> dict[str, ForeignServer]:
    path = FIXTURES / name
    chosen = CLIENTS[client] if client else UNKNOWN
    dialect = ForeignDialect(chosen.dialect.timeout_unit_s, chosen.dialect.shell_references, folder) if client else None
    found = read_servers(read_document(path.read_text(), str(path)), chosen, dialect)
    return {server.name: server for server in found}


def configs(found: dict[str, ForeignServer]) -> dict[str, ServerConfig | None]:
    return {name: server.server for name, server in found.items()}


def notes(found: dict[str, ForeignServer], name: str) -> str:
    return " ".join(found[name].notes)


def test_claude_desktop():
    """A secret that is written out is read as it is; whoever writes it elsewhere puts it away first."""
    found = read("claude_desktop_config.json", "claude-desktop")

    assert configs(found) == {
        "Notes Archive": ServerConfig(
            "notes_archive",
            command="npx",
            args=("-y", "@example/notes-server", "/srv/notes"),
            env={"NOTES_API_KEY": "sk-notes-0123456789abcdef"},
        )
    }
    assert found["Notes Archive"].line == 4
    assert found["Notes Archive"].notes == ()


def test_claude_code():
    """The user's servers and a project's; what runs a command is not taken over; the transport is."""
    found = read("claude.json", "claude-code")

    assert configs(found) == {
        "clock": ServerConfig("clock", command="uvx", args=("clock-server",)),
        "tickets": ServerConfig(
            "tickets", url="https://tickets.example/mcp", headers={"Authorization": "Bearer ${TICKETS_TOKEN}"}
        ),
        "legacy": ServerConfig("legacy", url="https://legacy.example/sse", transport=Transport.SSE),
        "pages": ServerConfig("pages", command="node", args=("/work/site/pages.js",), enabled=False),
    }
    assert found["pages"].scope == "/work/site"
    assert "headersHelper runs a command" in notes(found, "tickets")


def test_cursor():
    """Its references become ours; the project's folder is filled in."""
    found = read("cursor.json", "cursor", folder="/work/site")

    assert configs(found) == {
        "search": ServerConfig(
            "search",
            command="npx",
            args=("-y", "search-server", "--root", "/work/site"),
            env={"SEARCH_KEY": "${SEARCH_KEY}", "CACHE": "${HOME}/cache"},
        ),
        "wiki": ServerConfig("wiki", url="https://wiki.example/mcp", headers={"X-Team": "docs"}),
    }
    assert "envFile is not read" in notes(found, "search")


def test_a_folder_that_is_not_known_keeps_a_server_switched_off():
    """It is imported, but could not be started as it is."""
    found = read("cursor.json", "cursor")["search"]

    assert found.server is not None
    assert not found.server.enabled
    assert "stays switched off until you replace ${workspaceFolder}" in " ".join(found.notes)


def test_vscode():
    """What VS Code asks its user for becomes a variable, with the words it asks with; no command is run."""
    found = read("vscode.json", "vscode")

    assert configs(found) == {
        "tracker": ServerConfig(
            "tracker",
            command="npx",
            args=("-y", "tracker-server", "--region=${REGION:-eu}"),
            env={"TRACKER_KEY": "${TRACKER_KEY}"},
        ),
        "vault": ServerConfig(
            "vault",
            url="https://vault.example/mcp",
            headers={"X-Session": "${SESSION}", "X-User": "${VAULT_USER}"},
        ),
    }
    assert found["tracker"].notes == ("Set REGION: Region.", "Set TRACKER_KEY: Key of the tracker.")
    assert found["vault"].notes == (
        "SESSION came from a command, which toolcrib does not run. Set it yourself: Session of the vault.",
    )


def test_vscode_settings_of_older_versions():
    """Servers and inputs one level down."""
    assert configs(read("vscode_settings.json", "vscode")) == {
        "old": ServerConfig("old", command="old-server", env={"K": "${K}"})
    }


def test_windsurf():
    """``serverUrl``; disabled tools stay disabled; trust is not taken over; a secret in a file is not read."""
    found = read("windsurf.json", "windsurf")

    assert configs(found) == {
        "boards": ServerConfig(
            "boards",
            url="https://boards.example/mcp",
            headers={"Authorization": "Bearer ${BOARDS_TOKEN}"},
            tools={"delete_board": OFF},
        ),
        "files": ServerConfig("files", command="files-server", env={"TOKEN": "${file:/run/token}"}, enabled=False),
    }
    assert "alwaysAllow is not taken over" in notes(found, "boards")
    assert "replace ${file:/run/token}" in notes(found, "files")


def test_zed():
    """Seconds; the older form; what belongs to an extension is left out."""
    found = read("zed.json", "zed")

    assert configs(found) == {
        "graph": ServerConfig("graph", command="graph-server", args=("--stdio",), call_timeout_s=120.0),
        "older": ServerConfig("older", command="older-server", args=("-v",), env={"MODE": "quick"}),
        "remote": ServerConfig("remote", url="https://remote.example/mcp", enabled=False),
        "extension": None,
    }
    assert "Zed extension" in found["extension"].left_out


def test_codex():
    """TOML, ``*_sec``, tokens by variable, lists of tools."""
    found = read("codex.toml", "codex")

    assert configs(found) == {
        "builder": ServerConfig(
            "builder",
            command="npx",
            args=("-y", "builder-server"),
            env={"BUILDER_HOME": "${BUILDER_HOME}", "LEVEL": "info"},
            discovery_timeout_s=20.0,
            call_timeout_s=1.5,
            policy="disable",
            tools={"build": ON, "status": OFF},
        ),
        "deploys": ServerConfig(
            "deploys",
            url="https://deploys.example/mcp",
            headers={
                "X-Region": "eu",
                "X-Account": "${DEPLOYS_ACCOUNT}",
                "Authorization": "Bearer ${DEPLOYS_TOKEN}",
            },
            enabled=False,
        ),
    }
    assert found["builder"].notes == ("Of its tools these are on: build. All others are disabled.",)
    assert found["builder"].line == 3


def test_gemini():
    """Milliseconds, ``httpUrl``, ``$X`` and ``%X%`` anywhere; ``trust`` is not taken over."""
    found = read("gemini.json", "gemini")

    assert configs(found) == {
        "maps": ServerConfig(
            "maps",
            url="https://maps.example/mcp",
            headers={"X-Key": "${MAPS_KEY}"},
            call_timeout_s=5.0,
            policy="disable",
            tools={"route": ON, "search": OFF},
        ),
        "shell": ServerConfig(
            "shell", command="sh-server", args=("--home=${HOME}",), env={"T": "${TEMP}"}, cwd="./tools"
        ),
        "idle": ServerConfig("idle", command="idle-server", enabled=False),
    }
    assert "trust is not taken over" in notes(found, "maps")


def test_goose():
    """YAML, seconds, ``cmd``, ``uri``; what is part of Goose is left out; an empty list of tools means all."""
    found = read("goose.yaml", "goose")

    assert configs(found) == {
        "developer": None,
        "fetcher": ServerConfig(
            "fetcher",
            command="uvx",
            args=("fetch-server",),
            env={"FETCH_TOKEN": "${FETCH_TOKEN}", "MODE": "fast"},
            call_timeout_s=300.0,
        ),
        "news": ServerConfig(
            "news", url="https://news.example/mcp", headers={"X-Plan": "free"}, call_timeout_s=60.0, enabled=False
        ),
    }


def test_librechat():
    """YAML, milliseconds; what only LibreChat can fill in keeps a server off; WebSocket is left out."""
    found = read("librechat.yaml", "librechat")

    assert configs(found) == {
        "calendar": ServerConfig(
            "calendar",
            url="https://calendar.example/mcp",
            headers={"X-User": "{{LIBRECHAT_USER_ID}}", "Authorization": "Bearer ${CALENDAR_TOKEN}"},
            call_timeout_s=60.0,
            discovery_timeout_s=15.0,
            enabled=False,
        ),
        "sockets": None,
        "plain": ServerConfig("plain", command="plain-server", args=("--port", "8080"), env={"VERBOSE": "true"}),
    }
    assert "Not taken over: serverInstructions." in notes(found, "calendar")
    assert "WebSocket" in found["sockets"].left_out


def test_open_webui():
    """Only connections of type ``mcp``; a key becomes a header."""
    found = read("open_webui.json", "open-webui")

    assert configs(found) == {
        "meals": ServerConfig(
            "meals",
            url="https://meals.example/mcp",
            headers={"Authorization": "Bearer meals-key-123456"},
            description="What to cook",
        ),
        "Stock": None,
        "signed": ServerConfig("signed", url="https://oauth.example/mcp", enabled=False),
    }
    assert "OpenAPI" in found["Stock"].left_out
    assert "auth_type oauth_2.1" in notes(found, "signed")
    assert "meals-key" not in notes(found, "meals")


def test_copilot():
    """``local``; ``tools`` of a star is no list."""
    assert configs(read("copilot.json", "copilot")) == {
        "issues": ServerConfig("issues", command="npx", args=("-y", "issues-server")),
        "quiet": ServerConfig("quiet", url="https://quiet.example/mcp", policy="disable", tools={"look": ON}),
    }


def test_cline_and_roo():
    """Seconds; approvals are not taken over."""
    cline, roo = read("cline.json", "cline"), read("roo.json", "roo")

    assert configs(cline | roo) == {
        "weather": ServerConfig("weather", command="node", args=("weather.js",), enabled=False, call_timeout_s=60.0),
        "pets": ServerConfig("pets", command="pets-server", call_timeout_s=90.0, tools={"sell": OFF}),
    }
    assert "autoApprove is not taken over" in notes(cline, "weather")
    assert "alwaysAllow is not taken over" in notes(roo, "pets")


def test_opencode():
    """A command is a list; newer versions put the servers one level down and split the timeout."""
    newer = {"mcp": {"servers": {"m": {"type": "local", "command": ["a", "b"], "timeout": {"startup": 5000}}}}}

    assert configs(read("opencode.jsonc", "opencode")) == {
        "local": ServerConfig(
            "local",
            command="bun",
            args=("x", "local-server"),
            env={"KEY": "${LOCAL_KEY}"},
            enabled=False,
            call_timeout_s=10.0,
        ),
        "far": ServerConfig("far", url="https://far.example/mcp"),
    }
    assert [server.server for server in read_servers(PlacedValues("x", newer), UNKNOWN)] == [
        ServerConfig("m", command="a", args=("b",), discovery_timeout_s=5.0)
    ]


def test_a_bundle():
    """It is not unpacked, so its server stays off until somebody does; a sensitive value gets no default."""
    found = read("bundle_manifest.json", "mcpb")

    assert configs(found) == {
        "paper-desk": ServerConfig(
            "paper_desk",
            command="node",
            args=("${PAPER_DESK_DIR}/server/index.js", "--folder=${FOLDER}"),
            env={"API_KEY": "${API_KEY}"},
            description="Papers on a desk",
            enabled=False,
        )
    }
    assert "unpack the bundle and set PAPER_DESK_DIR" in notes(found, "paper-desk")
    assert "Set API_KEY: Key of the desk." in notes(found, "paper-desk")


def test_a_registry_entry():
    """The first way of running it that can be used; what it requires becomes variables to set."""
    found = read("server.json", "registry")

    assert configs(found) == {
        "rain": ServerConfig(
            "rain",
            command="npx",
            args=("-y", "@example/rain@1.0.2", "${CITY}", "--unit", "mm"),
            env={"RAIN_KEY": "${RAIN_KEY}"},
        )
    }
    assert found["rain"].notes == (
        "Set CITY: City to watch.",
        "Set RAIN_KEY: Key of the rain service.",
        "Also offered as: mcpb, oci, streamable-http.",
    )


def test_a_tooling_manifest_as_list_and_as_table():
    """Without an address it is reached through the gateway."""
    expected = {
        "mail": ServerConfig(
            "mail",
            url="${MCP_PLATFORM_ENDPOINT:-https://agent365.svc.cloud.microsoft}/agents/servers/mail",
        ),
        "people": ServerConfig("people", url="https://people.example/", headers={"X-Org": "1"}),
    }
    table = {"mcpServers": {"m": {"mcpServerName": "mail"}, "p": {"mcpServerUniqueName": "people"}}}

    assert configs(read("ToolingManifest.json", "manifest")) == expected
    assert "audience" in notes(read("ToolingManifest.json", "manifest"), "mail")
    assert [found.name for found in read_servers(PlacedValues("x", table), UNKNOWN)] == ["mail", "people"]


@pytest.mark.parametrize(
    ("fixture", "client"),
    [
        ("claude.json", "claude-code"),
        ("vscode.json", "vscode"),
        ("vscode_settings.json", "vscode"),
        ("zed.json", "zed"),
        ("codex.toml", "codex"),
        ("goose.yaml", "goose"),
        ("open_webui.json", "open-webui"),
        ("opencode.jsonc", "opencode"),
        ("bundle_manifest.json", "mcpb"),
        ("server.json", "registry"),
        ("ToolingManifest.json", "manifest"),
        ("windsurf.json", "windsurf"),
        ("copilot.json", "copilot"),
    ],
)
def test_a_file_of_any_name_is_known_by_its_shape(fixture, client):
    """Whoever names a file need not say whose it is."""
    assert read(fixture) == read(fixture, client)


@pytest.mark.parametrize(
    ("path", "client"),
    [
        ("/home/x/.cursor/mcp.json", "cursor"),
        ("/home/x/.gemini/settings.json", "gemini"),
        ("cline_mcp_settings.json", "cline"),
        ("/x/.mcp.json", "claude-code"),
        ("/x/anything.json", "file"),
    ],
)
def test_a_file_is_known_by_its_name(path, client):
    """Names decide what a bare timeout means."""
    assert client_of(Path(path)).id == client


@pytest.mark.parametrize(("written", "seconds"), [(60, 60.0), (60000, 60.0), (1.5, 1.5)])
def test_a_timeout_of_an_unknown_program_is_guessed(written, seconds):
    """Nobody waits a thousand seconds."""
    root = {"mcpServers": {"a": {"command": "x", "timeout": written}}}

    assert [found.server for found in read_servers(PlacedValues("x", root), UNKNOWN)] == [
        ServerConfig("a", command="x", call_timeout_s=seconds)
    ]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("text", "its entry is not a table"),
        ({}, "it has neither a command nor an address"),
        ({"command": " "}, "it has neither a command nor an address"),
        ({"command": "x", "args": {"a": 1}}, "its args are not a list of words"),
        ({"url": "ftp://x"}, "its address does not begin with http:// or https://"),
        ({"url": "wss://x"}, "toolcrib does not speak WebSocket; use stdio or Streamable HTTP"),
        ({"tcp": "localhost:1"}, "toolcrib does not speak WebSocket; use stdio or Streamable HTTP"),
        ({"command": "x", "type": "inprocess"}, "toolcrib does not know the transport 'inprocess'"),
    ],
)
def test_what_cannot_be_used_is_left_out_with_its_reason(entry, reason):
    """One bad entry costs only itself."""
    root = {"mcpServers": {"bad": entry, "good": {"command": "x"}}}

    bad, good = read_servers(PlacedValues("x", root), UNKNOWN)

    assert (bad.server, bad.left_out) == (None, reason)
    assert good.server == ServerConfig("good", command="x")


def test_a_file_without_servers_says_what_was_looked_for():
    """Not silently nothing, when somebody named the file."""
    with pytest.raises(ConfigError, match="There are no MCP servers in this file"):
        read_servers(PlacedValues("x.json", {"a": 1}), UNKNOWN)


def test_a_shell_line_as_command_is_said():
    """It could not be started as it is."""
    found = read_servers(PlacedValues("x", {"mcpServers": {"a": {"command": "npx -y thing"}}}), UNKNOWN)

    assert found[0].notes == ("Its command holds spaces; if it is a whole line, move the rest to args.",)


def test_a_list_of_named_entries_counts_as_a_table():
    """As managed installations of Claude Desktop have it."""
    root = {"mcpServers": [{"name": "n", "transport": "stdio", "command": "x"}, "odd"]}

    assert [found.server for found in read_servers(PlacedValues("x", root), CLIENTS["claude-desktop"])] == [
        ServerConfig("n", command="x")
    ]
