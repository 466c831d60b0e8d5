"""Where the page lives. A cookie goes to every port of its host, so on this machine the host must be the page's alone.

Browsers take every name under ``localhost`` for this machine. Each person gets a name of their own that nobody can
guess, and a cookie counts only at the name it was made for: a server on another port of 127.0.0.1 never sees it.
"""

import hashlib
import hmac
from collections.abc import Callable, Iterable
from typing import Protocol
from urllib.parse import urlsplit

from toolcrib.core.access import Caller

LABEL_DIGITS = 32
MOST_NAMES = 1_000
NEAR = ("localhost", "127.0.0.1", "[::1]")
DEFAULT_PORTS = {"http": ":80", "https": ":443"}

Admit = Callable[[Iterable[str]], None]
"""Has the server answer for these hosts as well, in place of those it was told before."""


class PageAddress(Protocol):
    """Where each person finds the page."""

    is_secure: bool
    """Whether it is reached over TLS."""

    def base(self, caller: Caller) -> str:
        """Scheme and host of the page as ``caller`` sees it, without a slash at the end."""

    def leads_from(self, host: str) -> bool:
        """Whether a browser that reached ``host`` can be sent there and finds this server."""


class OwnNames:
    """The page on this machine: for each caller a name under ``localhost`` that stays the same."""

    is_secure = False

    def __init__(self, key: str, port: int, admit: Admit) -> None:
        self._key, self._port, self._admit = key.encode(), port, admit
        self._hosts: dict[str, None] = {}

    def base(self, caller: Caller) -> str:
        """The caller's own name; the server answers for it from now on."""
        label = hmac.new(self._key, f"{self._port} {caller.id}".encode(), hashlib.sha256).hexdigest()[:LABEL_DIGITS]
        host = f"{label}.localhost" if self._port == 80 else f"{label}.localhost:{self._port}"
        if host not in self._hosts:
            self._remember(host)
        return f"http://{host}"

    def leads_from(self, host: str) -> bool:
        """A browser on another machine would look for the name at home."""
        name = host.rpartition(":")[0] or host
        return name in NEAR or name.endswith(".localhost")

    def _remember(self, host: str) -> None:
        """The first one is the owner's and stays; of the others, the oldest goes."""
        if len(self._hosts) >= MOST_NAMES:
            self._hosts.pop(list(self._hosts)[1])
        self._hosts[host] = None
        self._admit(tuple(self._hosts))


class PublicAddress:
    """The page at the address that was configured for it."""

    def __init__(self, url: str) -> None:
        self._base = url.rstrip("/")
        self.is_secure = url.startswith("https://")

    def base(self, caller: Caller) -> str:  # noqa: ARG002 - the same for everybody
        """The address."""
        return self._base

    def leads_from(self, host: str) -> bool:  # noqa: ARG002 - the same for everybody
        """It leads here from everywhere."""
        return True


def host_of(base: str) -> str:
    """What a browser sends as ``Host`` to an address."""
    parts = urlsplit(base.lower())
    return parts.netloc.removesuffix(DEFAULT_PORTS.get(parts.scheme, ":"))
