"""The way out as an environment describes it: through which proxy, around it to which hosts, whose certificates.

The variables are those that curl and Python know: ``HTTP_PROXY``, ``HTTPS_PROXY``, ``ALL_PROXY``, ``NO_PROXY``, in
small letters too, which then count; ``SSL_CERT_FILE`` and ``SSL_CERT_DIR``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

PROXY_VARIABLES = frozenset({"http_proxy", "https_proxy", "all_proxy"})
"""Their names in small letters."""
PROXY_LOOPBACK = "TOOLCRIB_PROXY_LOOPBACK"
"""Set to anything: what is on this machine is reached through the proxy, too."""


@dataclass(frozen=True, slots=True)
class Network:
    """What the environment says of the way out; nothing of it is checked before it is needed."""

    http_proxy: str = field(default="", repr=False)
    """For ``http`` URLs; empty: none."""
    https_proxy: str = field(default="", repr=False)
    no_proxy: tuple[str, ...] = ()
    """Hosts that are reached directly: names with all below them, addresses, networks, each with or without a port."""
    proxies_loopback: bool = False
    """Whether what is on this machine is reached through the proxy, too."""
    ca_file: str = ""
    """Empty: the system's own."""
    ca_dir: str = ""

    @classmethod
    def of(cls, env: Mapping[str, str]) -> "Network":
        """The way out that an environment describes."""
        every = _read(env, "all_proxy")
        # A CGI program's HTTP_PROXY is what a stranger sent as the header Proxy: (CVE-2016-5385).
        http = env.get("http_proxy", "").strip() if "REQUEST_METHOD" in env else _read(env, "http_proxy")
        return cls(
            http or every,
            _read(env, "https_proxy") or every,
            tuple(_read(env, "no_proxy").lower().replace(",", " ").split()),
            bool(env.get(PROXY_LOOPBACK)),
            env.get("SSL_CERT_FILE", ""),
            env.get("SSL_CERT_DIR", ""),
        )

    def proxy_url(self, host: str, port: int, *, tls: bool) -> str:
        """Through what a host is reached; empty if directly."""
        url = self.https_proxy if tls else self.http_proxy
        return "" if not url or self._is_direct(host.rstrip(".").lower(), port) else url

    def _is_direct(self, host: str, port: int) -> bool:
        if _is_loopback(host):
            return not self.proxies_loopback
        return any(_covers(entry, host, port) for entry in self.no_proxy)


def _read(env: Mapping[str, str], name: str) -> str:
    """A variable in small letters if it is set at all, and be it to nothing; otherwise in capitals."""
    small = env.get(name)
    return (env.get(name.upper(), "") if small is None else small).strip()


def _is_loopback(host: str) -> bool:
    address = _address(host)
    if address is None:
        return host == "localhost" or host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified


def _covers(entry: str, host: str, port: int) -> bool:
    """Whether an entry of ``NO_PROXY`` stands for a host."""
    name, only = _without_port(entry)
    if only not in (None, port):
        return False
    if name == "*":
        return True
    address = _address(host)
    if address is None:
        name = name.removeprefix("*").strip(".")
        return host == name or host.endswith(f".{name}")
    try:
        return address in ip_network(name, strict=False)
    except ValueError:
        return False


def _without_port(entry: str) -> tuple[str, int | None]:
    name, colon, port = entry.rpartition(":")
    if colon and port.isdecimal() and (":" not in name or name.endswith("]")):
        return name.strip("[]"), int(port)
    return entry.strip("[]"), None


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        found = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found
