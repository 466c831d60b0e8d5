"""``toolcrib extras``: what there is to add, and by which program; the programs themselves run in a journey."""

from pathlib import Path

import pytest
from tests.cli.program import Program

from toolcrib.cli.commands.extras import Extra, Installation, _checkout
from toolcrib.core.errors import ConfigError
from toolcrib.version import VERSION

KB = Extra("kb", ("pypdfium2>=5.0", "selectolax>=0.3.30"), is_installed=False)
REDIS = Extra("redis", ("redis[hiredis]>=8.0",), is_installed=False)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with uv and pipx on it."""
    for name in ("uv", "pipx"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def installed(prefix: Path, **more: object) -> Installation:
    settings = {"python": "/p/python", "is_environment": True, "has_pip": True, "marker": prefix / "none"} | more
    return Installation(prefix, **settings)


@pytest.mark.parametrize(
    ("requirements", "words"),
    [
        ('[{ name = "toolcrib" }]', ["toolcrib[kb]"]),
        ('[{ name = "toolcrib", extras = ["redis"], specifier = "<2" }]', ["toolcrib[redis,kb]<2"]),
        ('[{ name = "toolcrib", path = "/w/t.whl" }]', ["toolcrib[kb] @ file:///w/t.whl"]),
        ('[{ name = "toolcrib", editable = "/src/toolcrib" }]', ["--editable", "/src/toolcrib[kb]"]),
        (
            '[{ name = "toolcrib" }, { name = "mine", extras = ["a"], editable = "/src/mine" }]',
            ["toolcrib[kb]", "--with-editable", "/src/mine[a]"],
        ),
        ('[{ name = "toolcrib", git = "https://git.example/t" }]', ["toolcrib[kb] @ git+https://git.example/t"]),
        (
            '[{ name = "toolcrib" }, { name = "rich", extras = ["a"], specifier = ">1" }]',
            ["toolcrib[kb]", "--with", "rich[a]>1"],
        ),
    ],
)
def test_uv_is_told_everything_again_that_it_was_told_before(programs, requirements, words):
    """It forgets what is not."""
    (programs / "uv-receipt.toml").write_text(f"[tool]\nrequirements = {requirements}\n")

    assert installed(programs).command_to_add([KB]) == [f"{programs}/uv", "tool", "install", *words]


def test_pipx_keeps_what_is_injected(programs):
    (programs / "pipx_metadata.json").write_text("{}")

    assert installed(programs).command_to_add([KB, REDIS]) == [
        f"{programs}/pipx",
        "inject",
        "toolcrib",
        *KB.needs,
        *REDIS.needs,
    ]


def test_a_clone_is_synchronised(programs):
    command = installed(programs, checkout=Path("/src/toolcrib")).command_to_add([KB, REDIS])

    assert command[1:] == [
        *("sync", "--inexact", "--no-dev", "--project", "/src/toolcrib"),
        *("--extra", "kb", "--extra", "redis"),
    ]


def test_a_clone_uses_the_uv_that_its_own_script_brought(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    uv = tmp_path / "clone/.cache/uv/bin/uv"
    uv.parent.mkdir(parents=True)
    uv.write_text("#!/bin/sh\n")
    uv.chmod(0o755)

    assert installed(tmp_path, checkout=tmp_path / "clone").command_to_add([KB])[:2] == [str(uv), "sync"]


@pytest.mark.parametrize(
    ("has_pip", "words"),
    [(True, ["/p/python", "-m", "pip", "install"]), (False, ["pip", "install", "--python", "/p/python"])],
)
def test_an_environment_gets_what_this_very_version_lacks(programs, has_pip, words):
    command = installed(programs, has_pip=has_pip).command_to_add([KB, REDIS])

    assert command[0 if has_pip else 1 :] == [*words, f"toolcrib[kb,redis]=={VERSION}"]


def test_the_systems_own_python_is_left_alone(programs):
    (programs / "EXTERNALLY-MANAGED").write_text("")
    system = installed(programs, is_environment=False, marker=programs / "EXTERNALLY-MANAGED")

    with pytest.raises(ConfigError, match=r"uv tool install 'toolcrib\[kb\]'"):
        system.command_to_add([KB])


def test_a_program_that_is_gone_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "pipx_metadata.json").write_text("{}")

    with pytest.raises(ConfigError, match="installed by pipx, which is not on the PATH"):
        installed(tmp_path).command_to_add([KB])


@pytest.mark.parametrize(
    ("told", "checkout"),
    [
        ('{"url": "file:///src/toolcrib", "dir_info": {"editable": true}}', Path("/src/toolcrib")),
        ('{"url": "file:///src/toolcrib", "dir_info": {}}', None),
        (None, None),
    ],
)
def test_only_a_clone_that_is_run_in_place_is_one(told, checkout):
    assert _checkout(told) == checkout


def test_an_extra_that_does_not_exist_is_refused_with_the_nearest(toolcrib: Program):
    done = toolcrib.run("extras", "add", "postgress")

    assert done.returncode == 7
    assert "Did you mean 'postgres'?" in done.stderr


def test_what_is_there_is_not_added_again(toolcrib: Program):
    assert toolcrib.run("extras", "add", "yaml").stdout == "Already installed.\n"
    assert {"name": "yaml", "needs": ["pyyaml>=6.0.2"], "is_installed": True} in toolcrib.json("extras", "ls")
