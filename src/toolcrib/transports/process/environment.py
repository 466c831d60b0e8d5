"""What a child knows of the gateway, and what the gateway keeps from its children."""

import sys
from collections.abc import Mapping

_NAMES = frozenset({
    "HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LANGUAGE", "TZ", "TMPDIR",
    "XDG_CACHE_HOME", "XDG_CONFIG_DIRS", "XDG_CONFIG_HOME", "XDG_DATA_DIRS", "XDG_DATA_HOME", "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
    "SSL_CERT_DIR", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS",
    "ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "all_proxy", "http_proxy", "https_proxy", "no_proxy",
})  # fmt: skip
_PREFIXES = ("LC_", "npm_config_", "NPM_CONFIG_", "UV_", "PIP_")
_SECRET_WORDS = ("AUTH", "CREDENTIAL", "KEY", "PASSWORD", "SECRET", "TOKEN", "USERNAME")


def child_environment(declared: Mapping[str, str], base: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a child: what is harmless in ``base``, and over it what was ``declared`` for it."""
    inherited = {name: value for name, value in base.items() if is_inherited(name) and not _is_function(value)}
    return inherited | dict(declared)


def is_inherited(name: str) -> bool:
    """Whether a child gets this variable without its being declared."""
    if name in _NAMES:
        return True
    return name.startswith(_PREFIXES) and not any(word in name.upper() for word in _SECRET_WORDS)


def _is_function(value: str) -> bool:
    # An exported shell function: code that a shell below the child would take over.
    return value.startswith("()")


_PR_SET_DUMPABLE = 4


def forbid_inspection() -> bool:
    """Keep other processes of this user from reading our memory and environment or tracing us; whether it worked.

    Only Linux can. Children start afresh with ``exec`` and stay inspectable; a child that runs as root is not stopped.
    """
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    return bool(ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)
