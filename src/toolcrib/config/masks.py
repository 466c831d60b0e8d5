"""Which values may be shown. In doubt a value is secret: a mask that was not needed harms nobody."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

MASK = "***"

ORDINARY_VARIABLES = frozenset(
    {
        "DISPLAY",
        "EDITOR",
        "HOME",
        "HOSTNAME",
        "LANG",
        "LANGUAGE",
        "LC_ALL",
        "LC_CTYPE",
        "LOGNAME",
        "NODE_ENV",
        "PATH",
        "PWD",
        "PYTHONPATH",
        "PYTHONUNBUFFERED",
        "SHELL",
        "TEMP",
        "TERM",
        "TMP",
        "TMPDIR",
        "TZ",
        "USER",
        "VIRTUAL_ENV",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_RUNTIME_DIR",
    }
)

_ORDINARY_NAMES = re.compile(
    r"accept(-.*)?|content-type|user-agent|.*(log|debug|level|mode|region|lang|locale|host|port|timeout|encoding|color)",
    re.IGNORECASE,
)
_SECRET_NAME = re.compile(
    r"key|token|secret|passw|passphrase|pwd|credential|auth|cookie|session|signature|private|dsn|webhook"
    r"|connection_?string|database_?url",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"(?:sk|pk|rk)[-_][\w-]{8,}|gh[pousr]_\w{8,}|github_pat_\w+|glpat-[\w-]+|xox[a-z]-[\w-]+|AKIA[0-9A-Z]{12,}"
    r"|AIza[\w-]{20,}|ya29\.[\w-]+|eyJ[\w-]+\.[\w-]+.*|hf_\w{10,}|npm_\w{20,}|-----BEGIN.*"
    r"|[0-9a-fA-F]{32,}|(?=[^\W_]*[a-z])(?=[^\W_]*[A-Z])(?=[^\W_]*\d)[A-Za-z0-9_-]{24,}",
    re.DOTALL,
)
_HARMLESS_VALUE = re.compile(r"|true|false|yes|no|on|off|none|\d{1,5}", re.IGNORECASE)
_REFERENCE = re.compile(r"(\$\{(?:env:)?\w+)(:-[^}]+)?\}")
_SCHEME = re.compile(r"(?:bearer|basic|token)?\s*", re.IGNORECASE)
_USERINFO = re.compile(r"(?<=://)[^/@\s]+@")
_QUERY = re.compile(r"([?&])([^=&#]+)=([^&#]*)")
_SEGMENT = re.compile(r"(?<=/)[^/?#]+")
_HEADER = re.compile(r"([A-Za-z][\w-]*:\s*)(\S.*)", re.DOTALL)
_ASSIGNED = re.compile(r"(-{0,2}[\w-]+)=(.+)", re.DOTALL)


def looks_secret(name: str, value: str) -> bool:
    """Whether a name sounds like a secret's, or a value is built like one."""
    return bool(_SECRET_NAME.search(name) or _SECRET_VALUE.fullmatch(value))


def is_ordinary_name(name: str) -> bool:
    """Whether a name is one of those whose values are no secrets: ``LOG_LEVEL``, ``REGION``, ``DB_HOST``."""
    return bool(_ORDINARY_NAMES.fullmatch(name))


def shown_entry(name: str, value: str) -> str:
    """A value of ``env`` or ``headers`` for the eye: references as they are, the rest masked unless it is harmless."""
    if _SCHEME.fullmatch(_REFERENCE.sub("", value)) and value:
        return _mask_defaults(value)
    harmless = _HARMLESS_VALUE.fullmatch(value) or name in ORDINARY_VARIABLES or _ORDINARY_NAMES.fullmatch(name)
    return value if harmless and not looks_secret(name, value) else MASK


def shown_url(url: str) -> str:
    """An address without passwords, secret parameters and secret path segments."""
    url = _USERINFO.sub(f"{MASK}@", url)
    url = _QUERY.sub(lambda match: f"{match[1]}{match[2]}={_unless_plain(match[2], match[3])}", url)
    return _SEGMENT.sub(lambda match: _unless_plain("", match.group()), url)


def shown_args(args: tuple[str, ...]) -> list[str]:
    """Arguments without the values of ``--api-key …``, ``--token=…`` and ``-e TOKEN=…``."""
    return [_shown_arg(before, arg) for before, arg in zip(("", *args), args, strict=False)]


def named_arguments(args: tuple[str, ...]) -> list[tuple[str, str]]:
    """Each argument's value with what it is the value of: the name in ``--token=…`` or the flag before it, if any."""
    pairs = zip(("", *args), args, strict=False)
    return [_assigned(arg) or (_named(before, arg), arg) for before, arg in pairs]


def written_secrets(fields: Mapping[str, Any]) -> Iterator[str]:
    """What looks secret and is written out in the fields of a server; a reference is none."""
    args, url = tuple(fields.get("args") or ()), fields.get("url") or ""
    yield from (arg for arg, shown in zip(args, shown_args(args), strict=True) if arg != shown)
    if shown_url(url) != url:
        yield url
    for key in ("env", "headers"):
        pairs = (fields.get(key) or {}).items()
        yield from (value for name, value in pairs if "${" not in value and looks_secret(name, value))


def shown_values(value: Any, name: str = "") -> Any:
    """Arguments of a call for the log: strings that look secret, by their name or their form, are masked."""
    if isinstance(value, str):
        return MASK if looks_secret(name, value) else value
    if isinstance(value, Mapping):
        return {key: shown_values(item, str(key)) for key, item in value.items()}
    return [shown_values(item, name) for item in value] if isinstance(value, list) else value


def _shown_arg(before: str, arg: str) -> str:
    if "://" in arg:
        return shown_url(arg)
    if pair := _assigned(arg):
        return f"{pair[0]}={_unless_plain(*pair)}"
    if match := _HEADER.fullmatch(arg):
        return f"{match[1]}{_masked_credential(match[2])}" if looks_secret(match[1], match[2]) else arg
    return _unless_plain(_named(before, arg), arg)


def _assigned(arg: str) -> tuple[str, str] | None:
    match = _ASSIGNED.fullmatch(arg)
    return None if match is None else (match[1], match[2])


def _named(before: str, arg: str) -> str:
    return before if before.startswith("-") and "=" not in before and not arg.startswith("-") else ""


def _masked_credential(value: str) -> str:
    return _mask_defaults(value) if _SCHEME.fullmatch(_REFERENCE.sub("", value)) else MASK


def _unless_plain(name: str, value: str) -> str:
    if _REFERENCE.fullmatch(value):
        return _mask_defaults(value)
    return MASK if looks_secret(name, value) else value


def _mask_defaults(value: str) -> str:
    return _REFERENCE.sub(lambda match: f"{match[1]}{f':-{MASK}' if match[2] else ''}}}", value)
