"""The contenders' environments: built under ``.cache/bench`` when first needed, rebuilt when their pins change."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
CACHE = ROOT / ".cache" / "bench"
PROJECT_PYTHON = "BENCH_PROJECT_PYTHON"  # names the interpreter that has toolcrib, across the change of interpreter
STAMP = "bench-pins"
QUIET = {  # no banners, no questions to the outside
    "DO_NOT_TRACK": "1",
    "FASTMCP_CHECK_FOR_UPDATES": "off",
    "FASTMCP_LOG_LEVEL": "WARNING",
    "FASTMCP_SHOW_SERVER_BANNER": "false",
    "NO_COLOR": "1",
    "SCARF_ANALYTICS": "false",
}


class MissingEnvironmentError(RuntimeError):
    """A contender's environment could not be built; the message is the installer's own."""


def place(name: str) -> Path:
    return CACHE / name


def ready(name: str) -> Path:
    """The virtual environment pinned by ``envs/NAME.txt``."""
    pins = HERE / "envs" / f"{name}.txt"
    home = place(name)
    if not _is_current(home, pins):
        print(f"installing {name} ({', '.join(pinned(pins.name))})", file=sys.stderr, flush=True)
        _run(["uv", "venv", "--quiet", "--clear", "--python", sys.executable, str(home)])
        _run(
            [
                "uv",
                "pip",
                "install",
                "--quiet",
                "--compile-bytecode",
                "--python",
                str(home / "bin" / "python"),
                "-r",
                str(pins),
            ]
        )
        shutil.copy(pins, home / STAMP)
    return home


def ready_node() -> Path:
    """The folder of Node packages pinned by ``envs/package.json``."""
    pins = HERE / "envs" / "package.json"
    home = place("npm")
    if not _is_current(home, pins):
        print("installing the Node contenders", file=sys.stderr, flush=True)
        home.mkdir(parents=True, exist_ok=True)
        shutil.copy(pins, home / "package.json")
        _run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(home)])
        shutil.copy(pins, home / STAMP)
    return home


def project_python() -> Path:
    """The interpreter that has toolcrib installed."""
    return Path(os.environ.get(PROJECT_PYTHON) or ROOT / ".venv" / "bin" / "python")


def toolcrib_program() -> Path:
    program = project_python().parent / "toolcrib"
    if not program.exists():
        raise MissingEnvironmentError(f"{program} does not exist; run `uv sync`")
    return program


def variables(home: Path) -> dict[str, str]:
    """The same environment variables for every contender, with a home that holds nobody's settings."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TZ") if name in os.environ}
    return {**kept, **QUIET, "HOME": str(home), "XDG_STATE_HOME": str(home)}


def pinned(file: str) -> list[str]:
    """What a file of ``envs/`` pins, to be named beside the figures."""
    text = (HERE / "envs" / file).read_text()
    if file.endswith(".json"):
        return [f"{name} {version}" for name, version in json.loads(text)["dependencies"].items()]
    return [line.replace("==", " ") for line in text.splitlines() if line and not line.startswith("#")]


def _is_current(home: Path, pins: Path) -> bool:
    stamp = home / STAMP
    return stamp.exists() and stamp.read_bytes() == pins.read_bytes()


def _run(argv: Sequence[str]) -> None:
    try:
        subprocess.run(argv, check=True, capture_output=True, text=True, timeout=600)
    except FileNotFoundError:
        raise MissingEnvironmentError(f"{argv[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise MissingEnvironmentError(f"{argv[0]} did not finish in 600 s") from None
    except subprocess.CalledProcessError as failed:
        raise MissingEnvironmentError(f"{argv[0]} failed: {failed.stderr.strip()[-800:]}") from None
