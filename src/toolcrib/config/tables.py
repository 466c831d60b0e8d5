"""The keys of the configuration, collected from where they are declared; and how they are read."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from typing import Any

from toolcrib.config.keys import Key, keys_of
from toolcrib.config.model import Config, ServerConfig, ToolConfig
from toolcrib.config.positions import KeyPath, PlacedValues, dotted
from toolcrib.config.sections import (
    BUILT_IN_EMBEDDERS,
    EMBEDDER_KINDS,
    LIMIT_KEYS,
    EmbedderConfig,
    ProfileConfig,
    ProfileTool,
)
from toolcrib.config.values import Mismatch, Reader, kind, show
from toolcrib.core.errors import ConfigError, did_you_mean
from toolcrib.core.kinds import Transport

SERVER_KEYS: Mapping[str, Key] = keys_of(ServerConfig)
LOST_WITH: Mapping[str, tuple[str, ...]] = {
    kind: tuple(name for name, key in SERVER_KEYS.items() if other in (name, key.goes_with))
    for kind, other in (("url", "command"), ("command", "url"))
}
"""The keys of the other kind of server: they go when one gets a url, or a command."""
TOOL_KEYS = keys_of(ToolConfig)
EMBEDDER_KEYS = keys_of(EmbedderConfig)
PROFILE_KEYS = keys_of(ProfileConfig)
PROFILE_TOOL_KEYS = keys_of(ProfileTool)
SECTIONS: Mapping[str, type] = {field.name: field.type for field in fields(Config) if isinstance(field.type, type)}
"""Tables of the file that are values of their own: the name of the table, and of the field of ``Config``."""


def _settings() -> Iterator[tuple[str, Key]]:
    of_config = {key.field: (name, key) for name, key in keys_of(Config).items()}
    for field in fields(Config):
        if field.name in of_config:
            yield of_config[field.name]
        elif field.name in SECTIONS:
            yield from keys_of(SECTIONS[field.name], field.name).items() or LIMIT_KEYS.items()


SETTINGS: Mapping[str, Key] = dict(_settings())
"""What is no server and no profile, by table and key, in the order of ``Config``."""


def setting_of(config: Config, name: str) -> Any:
    """The value of a setting."""
    key = SETTINGS[name]
    return getattr(getattr(config, key.section) if key.section else config, key.field)


_REMOTE = ("model", "url", "api_key", "dimensions", "query_prefix", "document_prefix", "batch", "timeout")
EMBEDDER_FITS: Mapping[str, tuple[str, ...]] = {
    "bundled": (),
    "onnx": ("path", "dimensions", "query_prefix", "document_prefix", "batch"),
    "openai": _REMOTE,
    "ollama": _REMOTE,
}
"""Kind of embedder → the keys that mean something for it; the first must be there."""

_EVERY = (SETTINGS, SERVER_KEYS, TOOL_KEYS, EMBEDDER_KEYS, PROFILE_KEYS, PROFILE_TOOL_KEYS)
_SECRET_PLACES = frozenset(
    key.section if key.name == "url" else key.name for keys in _EVERY for key in keys.values() if key.is_secret
)
"""Where a wrong value is not repeated; a secret address may stand in place of its whole table."""


def check_table(written: PlacedValues, path: KeyPath, table: object) -> Mapping[str, Any]:
    """``table`` if it is one, whatever its keys are."""
    if not isinstance(table, Mapping):
        raise mismatch_error(written, path, Mismatch("a table", table))
    return table


def check_keys(written: PlacedValues, path: KeyPath, table: object, known: Collection[str]) -> Mapping[str, Any]:
    """``table`` if every key in it is known; otherwise an error with the nearest known key."""
    checked = check_table(written, path, table)
    for key in checked:
        if key not in known:
            place = f" in [{dotted(path)}]" if path else ""
            hint = did_you_mean(key, list(known)) or f"Known keys: {', '.join(known)}."
            raise written.error((*path, key), f"Unknown key {key!r}{place}.", hint)
    return checked


def read_keys(
    written: PlacedValues, path: KeyPath, table: Mapping[str, Any], keys: Mapping[str, Key]
) -> dict[str, Any]:
    """The fields that the known keys of a table fill."""
    return {
        key.field: read_value(written, (*path, name), table[name], key.read)
        for name, key in keys.items()
        if name in table
    }


def read_value(written: PlacedValues, path: KeyPath, value: object, read: Reader) -> Any:
    """One value; a wrong one is an error that says where, what was expected, and what was given."""
    try:
        return read(value)
    except Mismatch as mismatch:
        raise mismatch_error(written, path, mismatch) from None


def mismatch_error(written: PlacedValues, path: KeyPath, mismatch: Mismatch) -> ConfigError:
    """The complaint about a wrong value; what stands under ``env`` and ``headers`` is not repeated."""
    place = (*path, *mismatch.at)
    given = kind(mismatch.given) if _SECRET_PLACES & set(place) else show(mismatch.given)
    return written.error(place, f"{dotted(place) or 'The file'} must be {mismatch.expected}, but is {given}.")


def read_embedders(written: PlacedValues, path: KeyPath, tables: object) -> dict[str, EmbedderConfig]:
    """The embedders of ``[kb.embedders.NAME]``, each with the keys of its kind alone."""
    return {
        name: _embedder(written, (*path, name), entry) for name, entry in check_table(written, path, tables).items()
    }


def _embedder(written: PlacedValues, path: KeyPath, entry: object) -> EmbedderConfig:
    if path[-1] in BUILT_IN_EMBEDDERS:
        raise written.error(path, f"The embedder {path[-1]!r} is built in.", "Give this one another name.")
    checked = check_keys(written, path, entry, EMBEDDER_KEYS)
    fields = read_keys(written, path, checked, EMBEDDER_KEYS)
    if "kind" not in fields:
        raise written.error(path, f"The embedder {path[-1]!r} has no kind.", f"Write one of: {_words(EMBEDDER_KINDS)}.")
    fitting = EMBEDDER_FITS[fields["kind"]]
    for key in checked:
        if key not in ("kind", *fitting):
            hint = f"Keys that do: {_words(fitting)}." if fitting else "It takes no settings."
            raise written.error((*path, key), f"{dotted((*path, key))} means nothing for {fields['kind']!r}.", hint)
    if fitting and fitting[0] not in checked:
        raise written.error(path, f"The embedder {path[-1]!r} has no {fitting[0]}.", f'Write {fitting[0]} = "…".')
    return EmbedderConfig(**fields)


def _words(words: Collection[str]) -> str:
    return ", ".join(words)


def check_transport(written: PlacedValues, path: KeyPath, fields: dict[str, Any]) -> None:
    """Refuse a server with both a command and a url, and a ``type`` that does not fit; that of a command is known."""
    name, wanted = path[-1], fields.get("transport")
    if "command" in fields and "url" in fields:
        raise written.error((*path, "url"), f"Server {name!r} has both a command and a url.", "Keep one of them.")
    if wanted is None:
        return
    needed = "command" if wanted is Transport.STDIO else "url"
    if needed not in fields:
        raise written.error((*path, "type"), f"Server {name!r} is of type {wanted.value!r} but has no {needed}.")
    if wanted is Transport.STDIO:
        del fields["transport"]
