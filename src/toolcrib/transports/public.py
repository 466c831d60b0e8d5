"""Which addresses are out in the open. Asked of the address that is dialled, so that no name can point inwards."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

_CARRIES_IPV4 = (IPv6Network("2002::/16"), IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))


def is_public(address: str) -> bool:
    """Whether anybody on the internet could reach it; not this machine, its network, or a cloud's own services."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, IPv6Address):
        found = found.ipv4_mapped or found
    if isinstance(found, IPv4Address):
        return found.is_global and not found.is_multicast
    carries = any(found in network for network in _CARRIES_IPV4) or found.teredo is not None
    return found.is_global and not found.is_multicast and not carries
