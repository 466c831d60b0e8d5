"""``ToolingManifest.json`` on this machine: where it is looked for, and what stands in it."""

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from toolcrib.config.jsonc import read_jsonc
from toolcrib.config.manifest import MANIFEST_NAME, ManifestEntry, listed_items, read_entries
from toolcrib.core.errors import ConfigError
from toolcrib.stores.files import read_text

NAME = MANIFEST_NAME
VARIABLE = "TOOLCRIB_MANIFEST"
_ROOT_MARKS = (".git", ".hg")


def _main_script() -> Path | None:
    main = getattr(sys.modules.get("__main__"), "__file__", None) or (sys.argv[0] if sys.argv else "")
    path = Path(main) if main else None
    return path if path is not None and path.is_file() else None


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where a program runs and where it is."""

    cwd: Path = field(default_factory=Path.cwd)
    script: Path | None = field(default_factory=_main_script)
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)


def places(around: Whereabouts) -> list[Path]:
    """Where the manifest is looked for, in this order: the working directory, those above it up to the repository's
    root, beside the main script."""
    beside = [around.script.absolute().parent] if around.script is not None else []
    return list(dict.fromkeys(directory / NAME for directory in (*_upwards(around.cwd.absolute()), *beside)))


def _upwards(start: Path) -> Iterator[Path]:
    """A directory, and those above it as far as the root of its repository; without one, it alone."""
    line = [start, *start.parents]
    root = next((index for index, place in enumerate(line) if any((place / mark).exists() for mark in _ROOT_MARKS)), 0)
    yield from line[: root + 1]


def find_manifest(around: Whereabouts, chosen: str = "") -> Path | None:
    """The manifest that was chosen, here or by the variable, else the first that is found, if any."""
    named = chosen or around.env.get(VARIABLE, "").strip()
    if not named:
        return next((path for path in places(around) if path.exists() and not path.is_dir()), None)
    path = around.cwd / Path(named).expanduser()
    if not path.exists():
        raise ConfigError(
            f"There is no manifest {str(path)!r}.", hint=f"Check `manifest` in [platform], or {VARIABLE}."
        )
    return path


def read_manifest(path: Path) -> tuple[ManifestEntry, ...]:
    """The servers of a manifest; one that is no JSON is an error with its line."""
    root = read_jsonc(read_text(path) or "", str(path)).root
    if listed_items(root) is None:
        raise ConfigError('There is no list "mcpServers" in it.', where=str(path), hint="See docs/platform.md.")
    return tuple(read_entries(root))
