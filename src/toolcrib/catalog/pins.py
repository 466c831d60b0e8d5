"""Pins: what a tool looked like when it was accepted, and what is in quarantine because it looks different now.

The hash covers everything a model can see. Order and white space do not count: keys, properties and ``required`` may
be written in any order, and texts may be wrapped anew. A pin may know of more that does not count, as
``catalog/disorder`` says: lists of words that were seen in different orders, and fields that a person trusts.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_never

import msgspec

from toolcrib.catalog.disorder import disorder_between, relieve
from toolcrib.config.lock import Pin, Record
from toolcrib.config.manifest import LISTED_IN_MANIFEST
from toolcrib.config.model import ServerConfig, identity_hash
from toolcrib.core.kinds import HoldReason, PinMode
from toolcrib.core.offers import OfferKind, offer_key

PINS_MAX = 2_500
"""Of one server, unless a person accepts more: one that never lists the same would fill the lock without end. No pin is
given up for another, or a server could have its tools forgotten and come back with others."""

_UNSEEN = frozenset({"_meta"})
_TEXTS = frozenset({"title", "description"})
_SETS = frozenset({"required", "enum", "type"})
_VALUES = frozenset({"default", "const", "examples"})
"""What stands under these is data, in which every character counts."""
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Under these, keys are names of the author's choice, not words of JSON Schema."""
_EMPTY: tuple[object, ...] = ("", {}, [], None)

Definition = Mapping[str, Any]


def fingerprint(definition: Definition) -> str:
    """The hash of one tool in MCP's shape."""
    seen = {key: value for key, value in definition.items() if key not in _UNSEEN and value not in _EMPTY}
    return hashlib.sha256(msgspec.json.encode(_canonical(seen), order="sorted")).hexdigest()


def pinned_hash(pin: Pin, definition: Definition) -> str:
    """The hash of an offer as its pin wants it compared: without what does not count by that pin."""
    if not pin.disorder and not pin.trusted:
        return fingerprint(definition)
    return fingerprint(relieve(definition, pin.disorder, pin.trusted))


def _canonical(value: Any, key: str = "") -> Any:
    """The value in a canonical form: without differences that mean nothing."""
    if key in _VALUES:
        return _exact(value)
    if isinstance(value, str):
        return " ".join(value.split()) if key in _TEXTS else value
    if isinstance(value, Mapping):
        if key in _NAMED:
            return {name: _canonical(item) for name, item in value.items()}
        return {name: _canonical(item, name) for name, item in value.items() if not (name == "required" and item == [])}
    if isinstance(value, list | tuple):
        items = [_exact(item) if key == "enum" else _canonical(item) for item in value]
        return sorted(items, key=_sort_key) if key in _SETS else items
    return _exact(value)


def _exact(value: Any) -> Any:
    """The value as it is; only that 1.0 is 1."""
    if isinstance(value, Mapping):
        return {name: _exact(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_exact(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _sort_key(item: Any) -> bytes:
    return msgspec.json.encode(item, order="sorted")


def is_alike(known: object, found: object) -> bool:
    """Whether definitions that compare equal are written the same, too: to Python 1 is true, to a model it is not."""
    return msgspec.json.encode(known, order="sorted") == msgspec.json.encode(found, order="sorted")


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a tool is compared with, and what counts as accepted."""

    identity: str
    mode: PinMode
    now: str


def comparison(server: ServerConfig, mode: PinMode, now: str) -> Comparison:
    """What the tools of a server are compared with."""
    return Comparison(identity_hash(server), mode, now)


def settle(record: Record, offers: Mapping[str, Definition], how: Comparison) -> dict[str, Pin]:
    """The pins of a server after a discovery: what was accepted stays as it was, what is new is pinned at first sight.

    A pin whose offer looks different now, or is gone, keeps the accepted definition; one that looks as before has none.
    """
    pins = keep_definitions(record)
    for name, shown in offers.items():
        pin = pins.get(name)
        if pin is None:
            if how.mode == PinMode.FIRST and len(pins) < PINS_MAX:
                pins[name] = Pin(fingerprint(shown), how.identity, how.now)
        elif pin.hash == pinned_hash(pin, shown):
            pins[name] = replace(pin, definition=None)
        elif pin.definition is None or pin.definition == shown:  # a lock in which pin and offer do not fit
            pins[name] = replace(pin, definition={"name": name})
        else:
            pins[name] = _disordered(pin, pin.definition, shown) or pin
    return pins


def _disordered(pin: Pin, accepted: Definition, shown: Definition) -> Pin | None:
    """The pin of an offer in which only the order of words is another than was accepted; ``None`` if more is."""
    found = disorder_between(accepted, shown)
    if not found or pin.hash != pinned_hash(pin, accepted):
        return None
    wider = replace(pin, definition=None, disorder=tuple(sorted({*pin.disorder, *found})))
    now = pinned_hash(wider, shown)
    return replace(wider, hash=now) if now == pinned_hash(wider, accepted) else None


def keep_definitions(record: Record) -> dict[str, Pin]:
    """The pins of a record that is about to be dropped, each with what was accepted."""
    known = by_key(record)
    return {
        name: pin if pin.definition is not None or name not in known else replace(pin, definition=known[name])
        for name, pin in record.pins.items()
    }


def held_tools(record: Record, how: Comparison) -> dict[str, HoldReason]:
    """The tools of a record that are in quarantine, and why."""
    match how.mode:
        case PinMode.OFF:
            return {}
        case PinMode.STRICT:
            unpinned: HoldReason | None = HoldReason.NEW
        case PinMode.FIRST:
            unpinned = HoldReason.TOO_MANY if len(record.pins) >= PINS_MAX else None
        case _:
            assert_never(how.mode)
    found = {name: _why_held(record.pins.get(name), unpinned, how) for name in by_key(record)}
    return {_held_as(name, found): reason for name, reason in found.items() if reason is not None}


def _held_as(name: str, known: Mapping[str, object]) -> str:
    """An app is held by the resource it is read by, if that is listed."""
    resource = offer_key(OfferKind.RESOURCE, name.removeprefix(_APP))
    return resource if name.startswith(_APP) and resource in known else name


def why_barred(server: ServerConfig, record: Record, others: Mapping[str, Record]) -> HoldReason | None:
    """Why a server that a platform lists must not be connected to: the list says something else of it than what was
    accepted, or it has joined a manifest of which others were accepted before. ``None`` if nothing is wrong."""
    if record.entry:
        return HoldReason.MOVED if server.entry and record.entry != server.entry else None
    if not server.entry.startswith(LISTED_IN_MANIFEST):
        return None
    return HoldReason.NEW if any(other.entry.startswith(LISTED_IN_MANIFEST) for other in others.values()) else None


def by_key(record: Record) -> dict[str, Definition]:
    """What a record knows to be offered; the lock is a file that gets edited, so tools may have lost their name."""
    return {**{tool["name"]: tool for tool in record.tools if isinstance(tool.get("name"), str)}, **record.others}


def _why_held(pin: Pin | None, unpinned: HoldReason | None, how: Comparison) -> HoldReason | None:
    if pin is None:
        return unpinned
    if pin.definition is not None:
        return HoldReason.CHANGED
    return HoldReason.MOVED if pin.identity != how.identity else None


@dataclass(frozen=True, slots=True)
class FieldTrust:
    """Fields whose changes shall not count any more, and those whose changes shall again."""

    more: tuple[str, ...] = ()
    fewer: tuple[str, ...] = ()

    def of(self, pin: Pin | None) -> tuple[str, ...]:
        """The fields that are trusted then."""
        known = () if pin is None else pin.trusted
        return tuple(sorted({*known, *self.more}.difference(self.fewer)))


NO_TRUST = FieldTrust()


APP_SCHEME = "ui://"
APPS_MAX = 100
"""Of one server; it could make up others without end."""
APP_TEXT_MAX = 32_768
"""Characters of an app that are kept to be compared by people; its hash is of all of it."""
_APP = "app "


def app_key(uri: str) -> str:
    """The key of what a server gives for an app, beside the key of the resource that it is read by."""
    return f"{_APP}{uri}"


def apps_of(record: Record) -> dict[str, Definition]:
    """What is known of a server's apps, by key."""
    return {key: shown for key, shown in record.others.items() if key.startswith(_APP)}


def app_definition(contents: Sequence[Any]) -> Definition:
    """What a person is shown of an app, and what its pin is of: the page, its type, and what it may reach."""
    parts = [{key: one.get(key) for key in _SEEN_OF_APP} for one in contents if isinstance(one, Mapping)]
    whole = msgspec.json.encode(parts, order="sorted")
    text = "\n".join(str(one["text"]) for one in parts if one["text"] is not None)
    return {
        "mimeType": ", ".join(str(one["mimeType"]) for one in parts),
        "meta": [one["_meta"] for one in parts if one["_meta"] is not None],
        "bytes": len(whole),
        "sha256": hashlib.sha256(whole).hexdigest(),
        "text": text[:APP_TEXT_MAX].splitlines(),
    }


_SEEN_OF_APP = ("mimeType", "text", "blob", "_meta")


def settle_app(record: Record, uri: str, shown: Definition, how: Comparison) -> Record | None:
    """The record after an app was read: pinned at first sight, held if it is another than was accepted; ``None`` where
    a server has too many to pin one more."""
    key = app_key(uri)
    known, pin = apps_of(record), record.pins.get(key)
    if pin is None and (len(known) >= APPS_MAX or len(record.pins) >= PINS_MAX):
        return None
    alone = Record(record.server, pins={} if pin is None else {key: pin}, others=known)
    others = {**record.others, key: shown}
    return replace(record, others=others, pins={**record.pins, **settle(alone, {key: shown}, how)})


def accept(record: Record, names: Sequence[str], how: Comparison, trust: FieldTrust = NO_TRUST) -> Record:
    """The record with these tools accepted as they are now; what does not count in them stays so, unless ``trust``
    says otherwise."""
    tools = by_key(record)
    apps = [app_key(name.partition(" ")[2]) for name in names]  # whoever accepts a resource accepts the app in it
    known = [name for name in (*names, *apps) if name in tools]
    accepted = {name: _accepted(record.pins.get(name), tools[name], how, trust) for name in known}
    return replace(record, pins={**record.pins, **accepted})


def _accepted(before: Pin | None, shown: Definition, how: Comparison, trust: FieldTrust) -> Pin:
    disorder = () if before is None else before.disorder
    pin = Pin("", how.identity, how.now, disorder=disorder, trusted=trust.of(before))
    return replace(pin, hash=pinned_hash(pin, shown))


def join_pins(stored: Record | None, ours: Record, how: Comparison) -> Record:
    """Our record with what another process accepted meanwhile; whether that is what we see is looked at anew."""
    if stored is None:
        return ours
    others = {name: pin for name, pin in stored.pins.items() if not _is_same(pin, ours.pins.get(name))}
    offers = {name: shown for name, shown in by_key(ours).items() if name in others}
    seen = settle(replace(stored, pins=others), offers, how) if others else {}
    asks = ours.asks or (stored.asks and stored.config_hash == ours.config_hash)
    return replace(ours, pins={**ours.pins, **seen}, entry=stored.entry or ours.entry, asks=asks)


def _is_same(stored: Pin, ours: Pin | None) -> bool:
    return ours is not None and _kept(ours) == _kept(stored)


def _kept(pin: Pin) -> tuple[object, ...]:
    return pin.hash, pin.identity, pin.disorder, pin.trusted
