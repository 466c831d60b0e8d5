"""Servers as packages: MCPB bundles and ``server.json`` of the MCP registry."""

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, BinaryIO

from toolcrib.config.foreign.entry import translate
from toolcrib.config.foreign.references import ForeignDialect, ForeignServer
from toolcrib.config.positions import PlacedValues
from toolcrib.core.errors import ConfigError

_STARTED_BY = {
    "npm": ("npx", "-y"),
    "pypi": ("uvx",),
    "oci": ("docker", "run", "-i", "--rm"),
    "docker": ("docker", "run", "-i", "--rm"),
    "nuget": ("dnx", "--yes"),
}
_IMAGES = ("oci", "docker")

Part = Mapping[str, Any]


def is_registry_entry(root: object) -> bool:
    """Whether this is a ``server.json``."""
    if not isinstance(root, Mapping) or not isinstance(root.get("name"), str):
        return False
    return bool({"packages", "remotes"} & root.keys())


def read_registry(written: PlacedValues, dialect: ForeignDialect) -> Iterator[ForeignServer]:
    """The first way of running it that can be used; the others are named in a note."""
    if not is_registry_entry(written.root):
        raise ConfigError("This is not a server.json of the registry.", where=written.where)
    ways = list(_ways(written.root, dialect))
    usable = [found for _, found in ways if found.server is not None]
    if not usable:
        yield from (found for _, found in ways[:1])
        return
    chosen = usable[0]
    others = [kind for kind, found in ways if found is not chosen]
    more = (f"Also offered as: {', '.join(others)}.",) if others else ()
    yield replace(chosen, notes=(*chosen.notes, *more))


def _ways(root: Part, dialect: ForeignDialect) -> Iterator[tuple[str, ForeignServer]]:
    name = root["name"].rpartition("/")[2]
    for package in _parts(root, "packages"):
        kind = str(_either(package, "registryType", "registry_type", "registry_name") or "package")
        yield kind, _package(name, kind, package, replace(dialect, inputs=_inputs(package)))
    for remote in _parts(root, "remotes"):
        kind = str(_either(remote, "type", "transport_type") or "http")
        url = _filled(str(remote.get("url", "")), remote)
        entry = {"type": kind, "url": url, "headers": _values(remote, "headers")}
        yield kind, translate(name, entry, replace(dialect, inputs=_inputs(remote)))


def _package(name: str, kind: str, package: Part, dialect: ForeignDialect) -> ForeignServer:
    if kind not in _STARTED_BY:
        return ForeignServer(name, left_out=f"toolcrib cannot start a package of type {kind!r}")
    command, *before = _STARTED_BY[kind]
    env = _values(package, "environmentVariables", "environment_variables")
    if kind in _IMAGES:
        before += [word for variable in env for word in ("-e", variable)]
    args = [*before, *_argv(package, "runtimeArguments", "runtime_arguments"), _identifier(kind, package)]
    args += _argv(package, "packageArguments", "package_arguments")
    hint = _either(package, "runtimeHint", "runtime_hint") or command
    return translate(name, {"command": hint, "args": args, "env": env}, dialect)


def _identifier(kind: str, package: Part) -> str:
    name, version = str(_either(package, "identifier", "name") or ""), package.get("version")
    if not version or (kind in _IMAGES and ":" in name.rpartition("/")[2]):
        return name
    return f"{name}:{version}" if kind in _IMAGES else f"{name}@{version}"


def _argv(package: Part, *keys: str) -> list[str]:
    words: list[str] = []
    for part in _parts(package, *keys):
        value = part.get("value") or part.get("default")
        if value is None and _either(part, "isRequired", "is_required"):
            value = f"${{input:{_either(part, 'valueHint', 'value_hint') or part.get('name', 'argument')}}}"
        if part.get("type") == "named":
            words.append(str(part.get("name", "")))
        words += [] if value is None else [str(value)]
    return words


def _values(part: Part, *keys: str) -> dict[str, str]:
    """Name → what it is set to, or a question for it; what is neither required nor preset is left away."""
    values = {}
    for item in _parts(part, *keys):
        preset = item.get("value") or item.get("default")
        if preset is not None:
            values[str(item.get("name"))] = str(preset)
        elif _either(item, "isRequired", "is_required"):
            values[str(item.get("name"))] = f"${{input:{item.get('name')}}}"
    return values


def _inputs(part: Part) -> dict[str, Part]:
    keys = ("environmentVariables", "environment_variables", "headers", "packageArguments", "package_arguments")
    items = [item for key in keys for item in _parts(part, key)]
    return {str(_either(item, "valueHint", "name")): item for item in items}


def _filled(url: str, remote: Part) -> str:
    """``{tenant}`` of an address as a question."""
    variables = remote.get("variables")
    for name in variables if isinstance(variables, Mapping) else ():
        url = url.replace(f"{{{name}}}", f"${{input:{name}}}")
    return url


def _parts(part: Part, *keys: str) -> list[Part]:
    found = _either(part, *keys)
    return [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []


def _either(part: Part, *keys: str) -> Any:
    return next((part[key] for key in keys if part.get(key)), None)


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


def read_bundle(written: PlacedValues, dialect: ForeignDialect) -> Iterator[ForeignServer]:
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
