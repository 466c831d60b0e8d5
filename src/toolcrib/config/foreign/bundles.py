"""MCPB bundles: zip files with a ``manifest.json``. Only that one member is read; nothing is unpacked or run."""

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, BinaryIO

from toolcrib.config.foreign.entry import translate
from toolcrib.config.foreign.found import Dialect, ForeignServer
from toolcrib.config.written import Written
from toolcrib.core.errors import ConfigError

MANIFEST = "manifest.json"
MANIFEST_MAX = 1_000_000
SUFFIXES = (".mcpb", ".dxt")

_USUAL = {
    "node": ("node", "${__dirname}/"),
    "python": ("python3", "${__dirname}/"),
    "uv": ("uv", "run", "--directory", "${__dirname}", ""),
    "binary": ("${__dirname}/",),
}


def manifest_text(archive: BinaryIO, where: str) -> str:
    """The text of a bundle's manifest, as long as it is no larger than a manifest is."""
    try:
        with zipfile.ZipFile(archive) as bundle, bundle.open(MANIFEST) as member:
            text = member.read(MANIFEST_MAX + 1)
    except KeyError:
        raise ConfigError(f"There is no {MANIFEST} in this bundle.", where=where) from None
    except (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError, ValueError) as error:
        raise ConfigError(f"This bundle cannot be read: {error}.", where=where) from None
    if len(text) > MANIFEST_MAX:
        raise ConfigError(f"The {MANIFEST} of this bundle is larger than {MANIFEST_MAX:,} bytes.", where=where)
    return text.decode("utf-8-sig", errors="replace")


def is_bundle_manifest(root: object) -> bool:
    """Whether this is the manifest of a bundle."""
    return isinstance(root, Mapping) and isinstance(root.get("server"), Mapping) and "name" in root


def read_bundle(written: Written, dialect: Dialect) -> Iterator[ForeignServer]:
    """The one server of a bundle; what the bundle asks its user for becomes variables to set."""
    root = written.root
    if not is_bundle_manifest(root):
        raise ConfigError("This is not the manifest of a bundle.", where=written.where)
    asked = root.get("user_config")
    inputs = (
        {str(key): item for key, item in asked.items() if isinstance(item, Mapping)}
        if isinstance(asked, Mapping)
        else {}
    )
    entry = {**_config(root["server"], dialect.platform), "description": root.get("description")}
    yield translate(str(root["name"]), entry, replace(dialect, inputs=inputs))


def _config(server: Mapping[str, Any], platform: str) -> dict[str, Any]:
    written = server.get("mcp_config")
    config = dict(written) if isinstance(written, Mapping) else _usual(server)
    overrides = config.pop("platform_overrides", None)
    mine = overrides.get(platform) if isinstance(overrides, Mapping) else None
    return {**config, **mine} if isinstance(mine, Mapping) else config


def _usual(server: Mapping[str, Any]) -> dict[str, Any]:
    """How a bundle of its kind is started when it does not say."""
    *words, last = _USUAL.get(str(server.get("type")), _USUAL["binary"])
    command, *args = [*words, f"{last}{server.get('entry_point', '')}"]
    return {"command": command, "args": args}
