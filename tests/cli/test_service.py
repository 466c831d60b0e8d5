"""``toolcrib service``: the file is shown first, says what it must, and is read by the manager as it was meant."""

import json
import os
import plistlib
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.keyboard import typed
from tests.cli.program import Program

from toolcrib.cli.service_files import Service, launchd_plist, manager_of
from toolcrib.core.errors import ConfigError

ANALYZE = shutil.which("systemd-analyze")
SYSTEMD = ("--kind", "systemd")


def unit_of(program: Program) -> Path:
    return program.home / ".config" / "systemd" / "user" / "toolcrib-project.service"


def test_print_shows_the_unit_and_changes_nothing(tiny: Program):
    """It serves this project, from its directory, with the PATH that its servers are found by."""
    result = tiny.run("service", "install", *SYSTEMD, "--print", "--", "--port", "7400")
    lines = result.stdout.splitlines()

    assert result.returncode == 0
    assert f"WorkingDirectory={tiny.project}" in lines
    assert f"ExecStart={sys.executable} -P -m toolcrib serve --port 7400" in lines
    assert any(line.startswith(("Environment=PATH=", 'Environment="PATH=')) for line in lines)
    assert not unit_of(tiny).exists()


def test_a_service_is_shown_and_agreed_to_before_it_is_written(tiny: Program):
    said, _ = typed(
        tiny, "service", "install", *SYSTEMD, "--no-start", answers=[("start the service? [y/N]", "y")], until=""
    )

    assert said.index("ExecStart=") < said.index("[y/N]") < said.index("is written")
    assert "systemctl --user enable --now toolcrib-project.service" in said
    assert stat.S_IMODE(unit_of(tiny).stat().st_mode) == 0o600
    assert unit_of(tiny).read_text() == tiny.run("service", "install", *SYSTEMD, "--print").stdout


def test_who_says_no_or_cannot_be_asked_gets_nothing_written(tiny: Program):
    said, _ = typed(tiny, "service", "install", *SYSTEMD, answers=[("[y/N]", "")])
    unasked = tiny.run("service", "install", *SYSTEMD)

    assert "Nothing was changed" in said
    assert unasked.returncode == 2
    assert "--yes" in unasked.stderr
    assert not unit_of(tiny).exists()


def test_status_and_uninstall_know_what_is_there(tiny: Program):
    """Exit code 7 where there is none."""
    before, nothing = tiny.run("service", "status", *SYSTEMD), tiny.run("service", "uninstall", *SYSTEMD, "--yes")
    tiny.run("service", "install", *SYSTEMD, "--yes", "--no-start")
    there = tiny.run("service", "status", *SYSTEMD, "--json", PATH="/nowhere")
    gone = tiny.run("service", "uninstall", *SYSTEMD, "--yes", "--no-start")

    assert (before.returncode, nothing.returncode) == (7, 7)
    assert json.loads(there.stdout) == {"file": str(unit_of(tiny)), "isInstalled": True, "runs": False}
    assert "systemctl --user disable --now toolcrib-project.service" in gone.stderr
    assert not unit_of(tiny).exists()


def test_the_service_manager_is_told_and_its_refusals_are_passed_on(tiny: Program):
    """The commands that were shown are those that are run."""
    folder = tiny.home / "bin"
    folder.mkdir()
    systemctl, told = folder / "systemctl", tiny.home / "told"
    systemctl.write_text(f'#!/bin/sh\necho "$@" >> {told}\ncase "$*" in *refused*) echo no bus >&2; exit 1;; esac\n')
    systemctl.chmod(0o755)
    tiny.env["PATH"] = f"{folder}:{os.environ['PATH']}"
    good = tiny.run("service", "install", *SYSTEMD, "--yes")
    runs = tiny.json("service", "status", *SYSTEMD)["runs"]
    bad = tiny.run("service", "install", *SYSTEMD, "--yes", "--name", "refused")
    end = tiny.run("service", "uninstall", *SYSTEMD, "--yes")

    unit = "toolcrib-project.service"
    assert (good.returncode, runs, bad.returncode, end.returncode) == (0, True, 1, 0)
    assert "no bus" in bad.stderr
    assert [line for line in told.read_text().splitlines() if "refused" not in line] == [
        "--user daemon-reload",
        f"--user enable --now {unit}",
        f"--user is-active --quiet {unit}",
        "--user daemon-reload",
        f"--user disable --now {unit}",
        "--user daemon-reload",
    ]


def test_a_token_never_stands_in_the_file(tiny: Program):
    result = tiny.run("service", "install", *SYSTEMD, "--print", "--", "--token", "a-token-of-my-own-choosing")

    assert (result.returncode, result.stdout) == (2, "")
    assert "TOOLCRIB_TOKEN" in result.stderr
    assert "my-own-choosing" not in result.stderr


def test_options_that_serve_does_not_take_are_refused(tiny: Program):
    result = tiny.run("service", "install", *SYSTEMD, "--print", "--", "--prot", "1")

    assert result.returncode == 2
    assert "--port" in result.stderr


def test_variables_the_service_will_lack_are_named(toolcrib: Program):
    toolcrib.write(toolcrib.tiny(more='env = { WORD = "${SECRET_WORD}" }'))
    result = toolcrib.run("service", "install", *SYSTEMD, "--yes", "--no-start", SECRET_WORD="hush")

    assert "SECRET_WORD" in result.stderr
    assert "service.env" in result.stderr
    assert "hush" not in result.stderr + unit_of(toolcrib).read_text()


def service_in(directory: str, *words: str) -> Service:
    argv = ["/usr/bin/env", "serve", *words]
    return Service("odd", Path(directory), argv, {"PATH": "/usr/bin"}, Path("/home/ada/service.env"), Path("/x.log"))


@pytest.mark.skipif(ANALYZE is None, reason="systemd is not here to read it")
def test_systemd_reads_the_unit_without_a_complaint(tmp_path):
    """Also with what it might take for a variable, a specifier or the end of a word."""
    directory = tmp_path / 'a "b" $HOME %h \\ c'
    directory.mkdir()
    manager = manager_of("systemd", service_in(str(directory), "--config", str(directory / "x")), {}, 1)
    unit = tmp_path / manager.place.name
    unit.write_text(manager.text)
    done = subprocess.run(
        [str(ANALYZE), "verify", "--user", "--man=no", str(unit)],
        env={"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, [line for line in done.stderr.splitlines() if unit.name in line]) == (0, [])


def test_the_unit_escapes_what_systemd_would_take_for_something_else():
    text = manager_of("systemd", service_in("/a b/50%", "--only", 'x "$y" %z \\'), {"HOME": "/h"}, 1).text

    assert "WorkingDirectory=/a b/50%%\n" in text
    assert 'ExecStart=/usr/bin/env serve --only "x \\"$$y\\" %%z \\\\"\n' in text


@given(st.lists(st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=20), max_size=3))
def test_launchd_reads_what_was_written(words):
    """Whatever words there are."""
    read = plistlib.loads(launchd_plist(service_in("/a b", *words), "dev.toolcrib.odd").encode())

    assert read["ProgramArguments"] == ["/usr/bin/env", "serve", *words]
    assert read["WorkingDirectory"] == "/a b"
    assert (read["RunAtLoad"], read["KeepAlive"], read["Label"]) == (
        True,
        {"SuccessfulExit": False},
        "dev.toolcrib.odd",
    )


@pytest.mark.parametrize("kind", ["systemd", "launchd"])
def test_line_breaks_are_refused(kind):
    """They would begin another setting."""
    with pytest.raises(ConfigError, match="cannot stand in a service file"):
        manager_of(kind, service_in("/a\nExecStartPre=/bin/evil"), {}, 1)
