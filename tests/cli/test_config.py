"""Looking at the configuration: ``config show path check``."""

import json


def test_show_origin_says_where_each_setting_came_from(tiny):
    """File and line, environment, or default; secrets masked."""
    tiny.write(tiny.tiny(more='env = { API_KEY = "verysecret" }'))

    settings = {entry["setting"]: entry for entry in tiny.json("config", "show", "--origin")}

    assert settings["connect.attempts"] == {
        "setting": "connect.attempts",
        "value": 1,
        "origin": f"{tiny.config}:2",
        "overrules": [],
        "overruledBy": None,
    }
    assert settings["serve.port"]["origin"] == "default"
    assert settings["servers.tiny.env.API_KEY"]["value"] == "***"


def test_show_is_a_table_for_people(tiny):
    """Without ``--origin`` only names and values."""
    lines = [line.split() for line in tiny.run("config", "show").stdout.splitlines()]

    assert ["SETTING", "VALUE"] in lines
    assert ["serve.port", "7337"] in lines


def test_path_shows_every_file_that_may_count(tiny):
    """Weakest first, and whether each exists."""
    files = [(file["kind"], file["exists"]) for file in tiny.json("config", "path")]

    assert files == [("user", False), ("project", True), ("lock", False)]


def test_check_of_a_good_configuration(tiny):
    """Exit code 0, and what was read; nothing is started."""
    result = tiny.run("config", "check")

    assert (result.returncode, result.stdout, tiny.starts) == (0, f"ok: 1 server from {tiny.config}\n", 0)


def test_check_of_a_broken_configuration_points_at_the_line(toolcrib):
    """Exit code 1, the place, and the nearest known key."""
    toolcrib.config.write_text('[servers.x]\ncommand = "x"\nargz = []\n')

    result = toolcrib.run("config", "check")

    assert result.returncode == 1
    assert f"{toolcrib.config}:3: Unknown key 'argz'" in result.stderr
    assert "Did you mean 'args'?" in result.stderr


def test_a_broken_configuration_is_json_for_programs(toolcrib):
    """With ``--json`` the complaint carries file and line as fields."""
    toolcrib.config.write_text("oops =\n")

    error = json.loads(toolcrib.run("config", "check", "--json").stderr)["error"]

    assert error["details"] == {"where": str(toolcrib.config), "line": 1}


def test_a_missing_file_is_named(toolcrib):
    """``--config`` of a file that is not there."""
    result = toolcrib.run("ls", "--config", "nowhere.toml")

    assert result.returncode == 1
    assert "'nowhere.toml'" in result.stderr
