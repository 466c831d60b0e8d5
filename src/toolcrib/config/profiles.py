"""The profiles of a ``toolcrib.toml``: named parts of the catalogue, read as strictly as everything else."""

import re

from toolcrib.config.exposing import ProfileConfig, ProfileTool
from toolcrib.config.tables import PROFILE_KEYS, PROFILE_TOOL_KEYS, check_keys, check_table, read_keys
from toolcrib.config.written import KeyPath, Written, dotted

_NAME = re.compile(r"[a-z][a-z0-9]*(?:[_-][a-z0-9]+)*")
_LONGEST = 32


def read_profiles(written: Written, table: object) -> dict[str, ProfileConfig]:
    """Every profile by its name."""
    found = check_table(written, ("profiles",), table)
    return {name: _profile(written, ("profiles", name), found[name]) for name in sorted(found)}


def _profile(written: Written, path: KeyPath, table: object) -> ProfileConfig:
    if len(path[-1]) > _LONGEST or not _NAME.fullmatch(path[-1]):
        hint = f"Use small letters, digits, - and _, at most {_LONGEST} characters: it becomes part of an address."
        raise written.error(path, f"{path[-1]!r} cannot name a profile.", hint)
    checked = check_keys(written, path, table, (*PROFILE_KEYS, "change"))
    place = (*path, "change")
    changes = check_table(written, place, checked.get("change", {}))
    change = {name: _tool(written, (*place, name), changes[name]) for name in sorted(changes)}
    return ProfileConfig(**read_keys(written, path, checked, PROFILE_KEYS), change=change)


def _tool(written: Written, path: KeyPath, table: object) -> ProfileTool:
    checked = check_keys(written, path, table, PROFILE_TOOL_KEYS)
    found = ProfileTool(**read_keys(written, path, checked, PROFILE_TOOL_KEYS))
    both = sorted({*found.fixed} & {*found.hidden})
    if both:
        hint = "What is fixed is hidden anyway; keep it in fixed."
        raise written.error((*path, "hidden"), f"{dotted(path)} has {both[0]!r} in both fixed and hidden.", hint)
    return found
