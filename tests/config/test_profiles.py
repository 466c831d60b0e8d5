"""Profiles and exposure in a ``toolcrib.toml``: read strictly, merged by name, shown by ``config show``."""

import pytest

from toolcrib.config.explain import explain
from toolcrib.config.merge import merge
from toolcrib.config.parse import parse_toml
from toolcrib.config.sections import ExposeConfig, ProfileConfig, ProfileTool
from toolcrib.core.errors import ConfigError

TEXT = """\
[expose]
mode = "auto"
budget = 5000
pinned = ["time__*"]
clients = { "claude-*" = "all" }

[profiles.triage]
servers = ["github"]
tools = ["*issue*"]
without = ["*delete*"]
expose = "search"
budget = 900
pinned = ["report"]

[profiles.triage.change.github__create_issue]
name = "report"
description = "Report a bug."
fixed = { owner = "acme", labels = ["bug"], draft = true }
hidden = ["milestone"]
"""


def test_everything_that_can_be_written_is_read():
    """Values of fixed parameters as JSON has them."""
    config = merge(parse_toml(TEXT, "toolcrib.toml"))

    fixed = {"owner": "acme", "labels": ["bug"], "draft": True}
    assert config.expose == ExposeConfig("auto", 5000, ("time__*",), {"claude-*": "all"})
    assert config.profiles == {
        "triage": ProfileConfig(
            servers=("github",),
            tools=("*issue*",),
            without=("*delete*",),
            expose="search",
            budget=900,
            pinned=("report",),
            change={"github__create_issue": ProfileTool("report", "Report a bug.", fixed, ("milestone",))},
        )
    }


def test_a_stronger_file_replaces_a_profile_as_a_whole():
    """Others stay."""
    below = parse_toml('[profiles.a]\ntools = ["x"]\nservers = ["s"]\n[profiles.b]\n', "user.toml")
    above = parse_toml('[profiles.a]\ntools = ["y"]\n', "toolcrib.toml")

    assert merge(below, above).profiles == {"a": ProfileConfig(tools=("y",)), "b": ProfileConfig()}


def test_each_key_is_shown_with_the_line_it_stands_on():
    """Like all other settings."""
    found = {entry.setting: (entry.value, entry.origin) for entry in explain(merge(parse_toml(TEXT, "toolcrib.toml")))}

    assert found["expose.mode"] == ("auto", "toolcrib.toml:2")
    assert found["profiles.triage.tools"] == (["*issue*"], "toolcrib.toml:9")
    assert found["profiles.triage.change.github__create_issue.name"] == ("report", "toolcrib.toml:16")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[expose]\nmode = "some"', '"all", "search", "auto"'),
        ("[expose]\nbudget = 0", "a whole number from 1"),
        ("[profiles.a]\ntool = []", "Did you mean 'tools'"),
        ("[profiles.a.change.x]\nfix = {}", "Did you mean 'fixed'"),
        ("[profiles.A]", "cannot name a profile"),
        ('[profiles.a.change.x]\nname = "two words"', "a name of letters"),
        ('[profiles.a.change.x]\nname = "tools_call"', "that toolcrib does not use itself"),
        ("[profiles.a.change.x]\nfixed = { day = 2026-01-01 }", "a date as a string"),
        ('[profiles.a.change.x]\nfixed = { y = 1 }\nhidden = ["y"]', "in both fixed and hidden"),
        ("profiles = 5", "profiles must be a table"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_line(text, says):
    """And with what could be."""
    with pytest.raises(ConfigError) as raised:
        parse_toml(text, "toolcrib.toml")

    assert says in str(raised.value)
    assert "toolcrib.toml:" in str(raised.value)
