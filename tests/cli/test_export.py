"""``toolcrib export``: the servers in other programs' words."""

import json
import stat
import tomllib

import pytest

SECRET = "sk-0123456789abcdef"
TABLE = f'[servers.api]\ncommand = "x"\nenv = {{ API_KEY = "{SECRET}", REGION = "${{REGION}}" }}\npolicy = "ask"'


@pytest.fixture
def configured(toolcrib):
    toolcrib.write(TABLE)
    return toolcrib


def test_secrets_are_masked_and_references_stay(configured):
    """And both that and what got lost is said."""
    result = configured.run("export")

    assert json.loads(result.stdout) == {
        "mcpServers": {"api": {"command": "x", "env": {"API_KEY": "***", "REGION": "${REGION}"}}}
    }
    assert "--with-secrets" in result.stderr
    assert "no word for policy" in result.stderr
    assert SECRET not in result.stderr


def test_a_file_with_secrets_is_for_its_owner_alone(configured):
    """And no file is overwritten."""
    path = configured.project / "out.json"

    first, second = (configured.run("export", "--with-secrets", "-o", "out.json") for _ in range(2))

    assert first.returncode == 0, first.stderr
    assert json.loads(path.read_text())["mcpServers"]["api"]["env"]["API_KEY"] == SECRET
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert second.returncode == 2
    assert "already a file" in second.stderr


def test_codex_gets_toml(configured):
    """One server, by name."""
    result = configured.run("export", "--format", "codex", "--only", "api")

    assert tomllib.loads(result.stdout)["mcp_servers"]["api"]["env_vars"] == ["REGION"]
    assert configured.run("export", "--only", "apj").returncode == 7


def test_what_is_exported_can_be_imported_elsewhere(configured):
    """The round trip of a person who moves."""
    configured.run("export", "--with-secrets", "-o", "out.json")
    configured.config.unlink()

    configured.run("import", "out.json", "--yes")

    again = json.loads(configured.run("export", "--with-secrets").stdout)["mcpServers"]["api"]["env"]["API_KEY"]
    kept = configured.home / "state" / "toolcrib" / "secrets.json"
    assert (again, SECRET in configured.config.read_text(), SECRET in kept.read_text()) == ("${API_KEY}", False, True)
