"""The first hour of a new user: seven servers, nothing cached, a registry that takes its time; and what goes wrong."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.keyboard import Terminal
from tests.cli.program import Program
from tests.fleet.install import env_python, node
from tests.fleet.running import until
from tests.journeys.registry import Registry, registry

NPX, UVX = ("alpha", "bravo", "charlie"), ("delta", "echo-uv")
LIMIT_S = 20
"""What a server may take to answer; one is held back for longer than that."""


@pytest.fixture
def shop(tmp_path: Path, fleet: None) -> Iterator[Registry]:
    with registry(tmp_path / "diary") as made:
        for name in NPX:
            made.add_npm(name)
        for name in UVX:
            made.add_python(name)
        yield made


@pytest.fixture
def cold(tmp_path: Path, shop: Registry) -> Program:
    """A project of somebody with an empty home: three by npx, two by uvx, one that is broken, one to sign in at."""
    program = Program(tmp_path)
    program.project.mkdir()
    programs = f"{npx(tmp_path / 'bin')}:{node().parent}:{env_python('installers').parent}"
    program.env |= {
        **shop.env(tmp_path),
        "PATH": f"{programs}:/usr/bin:/bin",
        "UV_PYTHON": str(env_python("installers")),
    }
    tables = [f'[servers.{name}]\ncommand = "npx"\nargs = ["-y", "{name}"]' for name in NPX]
    tables += [f'[servers.{name.replace("-", "_")}]\ncommand = "uvx"\nargs = ["{name}"]' for name in UVX]
    tables = [f'{table}\ndiscovery_timeout = "{LIMIT_S}s"' for table in tables]
    signs = f'[servers.tracker]\nurl = "{shop.url}/mcp"'
    program.write("[serve]\nport = 0", *tables, program.broken(), signs)
    return program


def npx(folder: Path) -> Path:
    """A folder with the npx of the project's own Node.js: the wheel has it without a command that can be run."""
    folder.mkdir()
    script = folder / "npx"
    code = node().parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npx-cli.js"
    script.write_text(f'#!/bin/sh\nexec "{node()}" "{code}" "$@"\n')
    script.chmod(0o755)
    return folder


def standings(program: Program) -> dict[str, tuple[str, str | None, str | None]]:
    """What REST says of each server: its state, the cause, the next step."""
    return {view["name"]: told(view) for view in program.json("status")["servers"]}


def told(view: dict) -> tuple[str, str | None, str | None]:
    return view["state"], view["cause"], view["next"] and view["next"]["words"]


def agreed(program: Program) -> dict[str, tuple[str, str | None, str | None]]:
    """What ``servers ls`` says, at a moment when REST says the same before and after it."""
    listed: dict[str, tuple[str, str | None, str | None]] = {}

    def do_agree() -> bool:
        before = standings(program)
        listed.update({view["name"]: told(view) for view in program.json("servers", "ls")})
        return listed == before == standings(program)

    until(do_agree, deadline_s=150, what="a moment when nothing changes, and all say the same")
    return listed


@pytest.mark.timeout(900)
def test_a_cold_home_and_a_slow_registry_come_to_a_table_that_is_settled(cold: Program, shop: Registry, tmp_path: Path):
    """Nothing is killed however long it takes, one install per package manager at a time, and all say the same; then
    what is broken in a cache on purpose is repaired, and nothing else is touched."""
    with Terminal(cold, "up", columns=120) as terminal:
        terminal.wait_for(lambda text: text.count("installing") >= 5 and "failed" in text, "five installs")
        while_cold = agreed(cold)
        until(lambda: {"/npm/alpha", "/simple/delta/"} <= set(shop.asked), deadline_s=150, what="one of each manager")
        assert [while_cold[name][0] for name in ("alpha", "bravo", "delta", "broken", "tracker")] == [
            *["installing"] * 3,
            "failed",
            "sign_in",
        ]
        assert "npx fetches alpha" in str(while_cold["alpha"][1])
        assert while_cold["bravo"][1] == "waits: npx fetches alpha first"
        assert "installing: npx fetches alpha" in cold.run("ls").stderr
        assert "npx fetches alpha" in cold.run("why", "alpha__echo").stdout
        assert set(shop.asked) == {"/npm/alpha", "/simple/delta/"}

        terminal.wait_for(lambda text: seconds_of("alpha", text) > LIMIT_S + 5, "longer than anything else may take")
        shop.open_all()
        text = terminal.wait_for(lambda text: "toolcrib cost" in text, "a table that is settled")
        settled, rows = agreed(cold), {line.split()[0]: line.split() for line in text.splitlines() if line.strip()}

        assert {name: rows[name][3] for name in settled} == {name: state for name, (state, *_) in settled.items()}
        assert sorted(state for state, *_ in settled.values()) == ["failed", *["ok"] * 5, "sign_in"]
        assert sorted((tmp_path / "diary").read_text().split()[1::2]) == sorted([*NPX, *UVX])
        fetched = [path for path in shop.asked if path.endswith(".tgz")]
        assert sorted(fetched) == [f"/npm/{name}/-/{name}.tgz" for name in NPX]
        assert "repaired" not in cold.run("logs", "-n", "1000").stdout
        assert terminal.stop(signal.SIGINT) == 0

    untouched = damage(tmp_path)
    with Terminal(cold, "up", columns=120) as terminal:
        terminal.wait_for(lambda text: "toolcrib cost" in text, "the table")
        cold.run("servers", "refresh")
        assert sorted(state for state, *_ in agreed(cold).values()) == ["failed", *["ok"] * 5, "sign_in"]
        log = [json.loads(line) for line in cold.run("logs", "--json", "-n", "1000").stdout.splitlines()]
        assert terminal.stop(signal.SIGINT) == 0

    repaired = [line["server"] for line in log if line["event"] == "server.repaired"]
    assert sorted(repaired) == ["alpha", "delta"]
    assert {path: path.stat().st_ino for path in untouched} == untouched


def seconds_of(name: str, text: str) -> float:
    """How long the moving table says that a server is in its state."""
    words = next((line.split() for line in text.splitlines() if f" {name} " in line), [])
    return float(words[words.index("s") - 1]) if "s" in words else 0.0


def damage(home: Path) -> dict[Path, int]:
    """Take a file out of what npx and uv fetched for one server each; what nobody may touch, with its inodes."""
    (broken,) = home.glob("npm/_npx/*/node_modules/alpha")
    (broken / "tools.js").unlink()
    for module in home.glob("uv/archive-v*/**/delta/tools.py"):
        module.unlink()
    others = [*home.glob("npm/_npx/*/node_modules/bravo/tools.js"), *home.glob("uv/archive-v*/**/echo_uv/tools.py")]
    assert len(others) >= 3
    return {path: path.stat().st_ino for path in others}
