"""Things for real servers to work on, made fresh for each session."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.fleet.servers import Launch, Remote


@dataclass(frozen=True)
class Workshop:
    """A folder of things for the real servers to work on, and the file that names those servers."""

    home: Path
    note: Path
    repository: Path
    config: Path
    launches: Mapping[str, Launch | Remote]
    in_python: Mapping[str, Launch]
    """Those of the servers that are slow to import."""


def make_repository(path: Path) -> Path:
    """A Git repository on branch ``main`` with one file nobody has added yet."""
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", str(path)], check=True)
    (path / "untracked.txt").write_text("not added yet\n")
    return path
