"""Edits of another program's TOML as text: one table more at the end, or one less; the rest stays as it is."""

import re
import tomllib
from collections.abc import Mapping
from typing import Any

from toolcrib.config.jsonc_edit import BOM
from toolcrib.config.parse import read_toml
from toolcrib.config.positions import toml_headers
from toolcrib.config.written import KeyPath, dotted
from toolcrib.core.errors import ConfigError


def insert_table(text: str, path: KeyPath, values: Mapping[str, Any], where: str) -> str:
    """The file with one more table at its end."""
    import tomlkit

    read_toml(text.removeprefix(BOM), where)
    newline = "\r\n" if "\r\n" in text else "\n"
    block = f"[{dotted(path)}]\n{tomlkit.dumps(values)}".replace("\n", newline)
    lead = text if not text or text.endswith("\n") else text + newline
    return _checked(lead + (newline if lead.strip(BOM + "\r\n ") else "") + block, where)


def remove_table(text: str, path: KeyPath, where: str) -> str:
    """The file without a table and the tables below it, and without the empty line above them."""
    mark = BOM if text.startswith(BOM) else ""
    body = text.removeprefix(BOM)
    read_toml(body, where)
    lines = re.split(r"(?<=\n)", body)
    headers = toml_headers(body)
    ends = [*(line - 1 for _, line in headers), len(lines)][1:]
    for (found, line), end in reversed(list(zip(headers, ends, strict=True))):
        if found[: len(path)] == path:
            start = line - 1
            while start and not lines[start - 1].strip():
                start -= 1
            kept = _comments_below(lines[line:end])
            lines[start:end] = ["\n", *kept] if kept else []
    return mark + _checked("".join(lines), where)


def _comments_below(lines: list[str]) -> list[str]:
    """What stands at the end of a section as comment belongs to the next one."""
    kept: list[str] = []
    for line in reversed(lines):
        if line.strip() and not line.lstrip().startswith("#"):
            break
        kept.insert(0, line)
    return kept if any(line.strip() for line in kept) else []


def _checked(text: str, where: str) -> str:
    try:
        tomllib.loads(text.removeprefix(BOM))
    except tomllib.TOMLDecodeError:
        raise ConfigError(
            "This file is written in a way that cannot be edited.", where=where, hint="Edit it by hand."
        ) from None
    return text
