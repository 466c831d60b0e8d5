"""What a key of the configuration is: declared once, in the annotation of the field that it fills.

``ttl_s: Annotated[float, prefer(readers.duration_s)] = 300.0`` is all there is to say of a key ``ttl``. How it is read,
merged, masked, shown and edited follows from that; ``tables`` collects the declarations.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum, auto
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Literal, get_args

from toolcrib.config.values import Reader
from toolcrib.core.kinds import AUTO, IsolationLevel, PinMode, Policy, Share
from toolcrib.core.limits import Rate
from toolcrib.core.offers import SecurityLevel

Stricter = Callable[[Any, Any], Any]
"""From two values to one that allows nothing that either of them forbids."""


class Secrecy(StrEnum):
    """What must not be seen of a value."""

    NONE = auto()
    ADDRESS = auto()
    """Passwords and secret parts of an address."""
    ARGS = auto()
    """The values of ``--token …`` and its kin."""
    ENTRIES = auto()
    """Each entry of a table that does not look harmless."""
    KEY = auto()
    """All but references."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a file: how it is read, and whether it is a rule.

    Of a rule the strictest value counts, whichever file says it. Of a preference the strongest layer's does.
    """

    read: Reader
    stricter: Stricter | None
    """What joins two values of a rule; ``None`` for a preference."""
    name: str = ""
    """In the file; empty: as the field, without its unit."""
    each: Stricter | None = None
    """For a rule that is a table: what joins two values of one entry; entries have places of their own."""
    goes_with: Literal["", "command", "url"] = ""
    """The only kind of server for which it means something."""
    is_grant: bool = False
    """Whether it is what one program needs to do its work: of no concern to another program of the same name."""
    is_live: bool = False
    """Whether a change of it needs no new connection."""
    is_secret: bool = False
    """Whether a wrong value is not repeated in the complaint."""
    mask: Secrecy = Secrecy.NONE
    http_level: SecurityLevel | None = None
    """The level that a caller needs to set it over HTTP; ``None``: nobody can."""
    field: str = ""
    type: Any = None
    """Of the field."""
    section: str = ""
    """The field of ``Config`` whose value has this one; empty: ``Config`` itself, or no setting."""


prefer = partial(Key, stricter=None)
_UNIT = re.compile(r"_(s|bytes)$")


def each(stricter: Stricter) -> dict[str, Stricter]:
    """For a rule that is a table: what both say of an entry is compared, what one says alone stays."""

    def join(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
        both = {key: stricter(one[key], other[key]) for key in one if key in other}
        return {**one, **other, **both}

    return {"stricter": join, "each": stricter}


def keys_of(declared: type, section: str = "") -> dict[str, Key]:
    """The keys that the fields of a dataclass declare, by their names in the file."""
    found = [
        replace(key, name=key.name or _UNIT.sub("", field.name), field=field.name, type=get_args(field.type)[0])
        for field in fields(declared)
        for key in getattr(field.type, "__metadata__", ())
    ]
    prefix = f"{section}." if section else ""
    return {f"{prefix}{key.name}": replace(key, section=section) for key in found}


def _ordered(*mildest_first: Any) -> Stricter:
    rank = {value: number for number, value in enumerate(mildest_first)}
    return lambda one, other: max(one, other, key=rank.__getitem__)


POLICY = _ordered(*Policy)
LEVEL = _ordered(*SecurityLevel)
LOWEST_LEVEL = _ordered(*reversed(SecurityLevel))
ISOLATION = _ordered(*IsolationLevel)
ISOLATION_OR_AUTO = _ordered(
    IsolationLevel.NONE, IsolationLevel.LIMITS, AUTO, IsolationLevel.CONFINED, IsolationLevel.ISOLATED
)
"""By what is sure: ``auto`` takes what there is, so anything that must be there is stricter."""
SHARE = _ordered(Share.ALL, AUTO, Share.USER, Share.SESSION)
"""By what is sure: ``auto`` may turn out to be any of them."""
PINS = _ordered(PinMode.OFF, PinMode.FIRST, PinMode.STRICT)
AUTH = _ordered("none", "auto", "required")
OAUTH = _ordered("builtin", "off")
OFF, ON = _ordered(True, False), _ordered(False, True)


def common(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    """What stands in both lists."""
    return tuple(item for item in one if item in other)


def union(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """What stands in either: for what a caller must have."""
    return tuple(dict.fromkeys((*one, *other)))


def within(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """Patterns that fit only names that both lists fit; two that merely overlap are left out, never widened."""
    inner = [narrow for narrow in one if any(_covers(wide, narrow) for wide in other)]
    return tuple(dict.fromkeys((*inner, *(narrow for narrow in other if any(_covers(wide, narrow) for wide in one)))))


def _covers(wide: str, narrow: str) -> bool:
    """Whether a pattern surely fits everything that another one fits."""
    if wide == narrow:
        return True
    is_name = not any(sign in narrow for sign in "*?[")
    return fnmatchcase(narrow, wide) and (is_name or not any(sign in wide for sign in "?["))


def rarer(one: Rate, other: Rate) -> Rate:
    """As few calls as the one allows, in as long a time as the other counts: this keeps both."""
    return Rate(min(one.count, other.count), max(one.window_s, other.window_s))


def as_first_said(one: Any, other: Any) -> Any:
    """For what cannot be compared: the user's own word stays, whatever comes after."""
    del other
    return one
