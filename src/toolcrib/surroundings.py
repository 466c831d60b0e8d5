"""Where toolcrib runs."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where toolcrib runs; given as a value so that nothing reads it behind anybody's back."""

    cwd: Path = field(default_factory=Path.cwd)
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    elsewhere: bool = False
    """Whether ``cwd`` is not where this process is, so that servers must be told to start there."""
