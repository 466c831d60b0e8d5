"""Looking for a pattern without ripgrep, in a process of its own: a pattern that never ends, ends with it."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from toolcrib.core.errors import ToolcribError
from toolcrib.workspace.root import WorkspaceRoot
from toolcrib.workspace.texts import SAMPLE, decoded_lines, sample_encoding


def perform(given: Mapping[str, Any]) -> bytes:
    """In the worker: the lines of each file that the pattern is in, until there are enough."""
    pattern = re.compile(given["pattern"], re.IGNORECASE if given["ignore_case"] else 0)
    root, left, found = WorkspaceRoot(Path(given["root"])), int(given["limit"]), []
    with root.hold():  # if it cannot be opened at all, that is worth an error
        pass
    for path in given["paths"]:
        lines = matching_lines(root, path, pattern, left)
        if lines:
            found.append((path, lines))
            left -= len(lines)
        if left <= 0:
            break
    return json.dumps(found).encode()


def matching_lines(root: WorkspaceRoot, path: str, pattern: "re.Pattern[str]", most: int) -> list[int]:
    """The numbers of the lines that fit; what cannot be read, or is not text, has none."""
    numbers: list[int] = []
    try:
        for number, line in enumerate(text_lines(root, path), 1):
            if pattern.search(line):
                numbers.append(number)
                if len(numbers) >= most:
                    break
    except (ToolcribError, OSError):
        return numbers
    return numbers


def text_lines(root: WorkspaceRoot, path: str) -> Iterator[str]:
    """The lines of a text file without their ends; none if it is something else."""
    with root.reading(path) as file:
        encoding = sample_encoding(file.read(SAMPLE))
        if encoding is None:
            return
        file.seek(0)
        for line in decoded_lines(file, encoding):
            yield line.removesuffix("\n").removesuffix("\r")
