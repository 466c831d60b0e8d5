"""toolcrib installed by each of the programs people use, and as an image, from an index in the place of the public one.

Nothing but that index can be reached, and nothing is cached.
"""

import functools
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fleet.install import FLEET, IMAGE_EXTRAS, env_python
from tests.test_deploy import dockerfile, goes_into_the_image, image_steps

ROOT = Path(__file__).resolve().parents[2]
BIN = env_python("installers").parent
STUCK_S = 300


class Index(http.server.BaseHTTPRequestHandler):
    """The pages of a package index (PEP 503) over folders of wheels."""

    folders: tuple[Path, ...] = ()

    def do_GET(self) -> None:
        files = {path.name: path for folder in self.folders for path in folder.glob("*.whl")}
        name = self.path.strip("/").rpartition("/")[2]
        if name in files:
            self.answer(files[name].read_bytes(), "application/octet-stream")
            return
        mine = [file for file in files if re.sub(r"[-_.]+", "-", file.split("-")[0]).lower() == name]
        links = "".join(f'<a href="/files/{file}">{file}</a>' for file in mine)
        self.answer(f"<!DOCTYPE html><html><body>{links}</body></html>".encode(), "text/html", 200 if mine else 404)

    def answer(self, body: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


def run(argv: list[str], env: dict[str, str], **more: object) -> str:
    done = subprocess.run(argv, env=env, check=False, capture_output=True, text=True, timeout=STUCK_S, **more)
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serves the wheel of this very tree, and what it needs."""
    built = tmp_path_factory.mktemp("built")
    run([str(BIN / "hatchling"), "build", "--target", "wheel", "--directory", str(built)], dict(os.environ), cwd=ROOT)
    handler = type("OurIndex", (Index,), {"folders": (built, FLEET / "packages", FLEET / "wheels-image")})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        serving = threading.Thread(target=functools.partial(server.serve_forever, poll_interval=0.01))
        serving.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/simple/"
        server.shutdown()
        serving.join()


@pytest.fixture
def machine(tmp_path: Path, index: str) -> dict[str, str]:
    """The environment of somebody who has installed nothing yet."""
    home = tmp_path / "home"
    home.mkdir()
    return {
        "HOME": str(home),
        "PATH": f"{home}/.local/bin:{BIN}:/usr/bin:/bin",
        "UV_DEFAULT_INDEX": index,
        "UV_PYTHON": sys.executable,
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_NO_CONFIG": "1",
        "PIP_INDEX_URL": index,
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIPX_DEFAULT_PYTHON": sys.executable,
    }


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The project's files, as far as they go into an image."""
    place = tmp_path / "src"
    for name in run(["git", "ls-files"], dict(os.environ), cwd=ROOT).splitlines():
        if goes_into_the_image(name):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, place / name)
    return place


def is_of_use(toolcrib: str, machine: dict[str, str]) -> None:
    """It calls a tool, tells what extras there are, and adds one in the way it was installed itself."""

    def has_yaml() -> bool:
        extras = json.loads(run([toolcrib, "extras", "ls", "--json"], machine, cwd=machine["HOME"]))
        return next(extra["is_installed"] for extra in extras if extra["name"] == "yaml")

    called = run([toolcrib, "call", "calculate", "expression=6 * 7"], machine, cwd=machine["HOME"])
    before = has_yaml()
    run([toolcrib, "extras", "add", "yaml"], machine, cwd=machine["HOME"])

    assert json.loads(called) == {"value": 42}
    assert (before, has_yaml()) == (False, True)


def test_uv_tool_install_is_all_it_takes(machine):
    run(["uv", "tool", "install", "toolcrib"], machine)

    is_of_use(f"{machine['HOME']}/.local/bin/toolcrib", machine)
    assert 'extras = ["yaml"]' in Path(machine["HOME"], ".local/share/uv/tools/toolcrib/uv-receipt.toml").read_text()


def test_pipx_install_is_all_it_takes(machine):
    run(["pipx", "install", "toolcrib"], machine)

    is_of_use(f"{machine['HOME']}/.local/bin/toolcrib", machine)


def test_pip_install_into_an_environment_is_all_it_takes(machine, tmp_path):
    run([sys.executable, "-m", "venv", str(tmp_path / "venv")], machine)
    run([f"{tmp_path}/venv/bin/python", "-m", "pip", "install", "--quiet", "toolcrib"], machine)

    is_of_use(f"{tmp_path}/venv/bin/toolcrib", machine)


def test_a_clone_that_uv_installed_as_a_tool_stays_one_when_an_extra_is_added(machine, clone):
    """What `./dev up` says to do for the command to be on the PATH."""
    run(["uv", "tool", "install", "--editable", str(clone)], machine)

    is_of_use(f"{machine['HOME']}/.local/bin/toolcrib", machine)
    receipt = Path(machine["HOME"], ".local/share/uv/tools/toolcrib/uv-receipt.toml").read_text()
    assert f'extras = ["yaml"], editable = "{clone}"' in receipt


def test_the_steps_of_the_container_image_make_a_toolcrib_with_its_extras(machine, tmp_path, clone):
    """In an environment instead of a system of its own, from what goes into the image and nothing else."""
    run([sys.executable, "-m", "venv", str(tmp_path / "image")], machine)
    python = tmp_path / "image/bin/python"
    for words in image_steps():
        if words[:2] == ["uv", "pip"]:
            here = [word.replace("/src[", f"{clone}[") for word in words if word != "--system"]
            run([*here, "--python", str(python)], machine)
        elif words[0] == "rm":
            shutil.rmtree(str(clone) if words[-1] == "/src" else "nothing else is removed")
    entry, command = dockerfile()["ENTRYPOINT"], dockerfile()["CMD"]
    program = str(tmp_path / "image/bin" / json.loads(entry)[0])
    extras = json.loads(run([program, "extras", "ls", "--json"], machine, cwd=machine["HOME"]))

    assert not clone.exists()
    assert {extra["name"] for extra in extras if extra["is_installed"]} >= set(IMAGE_EXTRAS)
    assert json.loads(run([program, "call", "calculate", "expression=6 * 7"], machine, cwd=machine["HOME"])) == {
        "value": 42
    }
    assert "--config" in run([program, json.loads(command)[0], "--help"], machine)
