"""Which addresses are out in the open. Asked of the address that is dialled, so that no name can point inwards."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

_UNICAST = IPv6Network("2000::/3")
"""The only part of IPv6 that was ever given out for use between strangers."""
_CARRIES_IPV4 = IPv6Network("2002::/16")
_NOT_FOR_USE = (IPv6Network("3fff::/20"), IPv4Network("192.88.99.0/24"), IPv4Network("192.0.0.0/24"))
"""For documents, for relays to IPv6, for protocols: the standard library takes them for global, at least in part."""


def is_public(address: str) -> bool:
    """Whether anybody on the internet could reach it; not this machine, its network, or a cloud's own services."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, IPv6Address):
        found = found.ipv4_mapped or found
    if not found.is_global or found.is_multicast or any(found in network for network in _NOT_FOR_USE):
        return False
    return isinstance(found, IPv4Address) or (found in _UNICAST and found not in _CARRIES_IPV4 and found.teredo is None)
