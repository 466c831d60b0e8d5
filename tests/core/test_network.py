"""Which way out an environment describes."""

import pytest

from toolcrib.core.network import Network

PROXY = "http://proxy.example:3128"


def way(env, host, port=443, *, tls=True):
    return Network.of(env).proxy_url(host, port, tls=tls)


@pytest.mark.parametrize(
    ("env", "https", "http"),
    [
        ({}, "", ""),
        ({"HTTPS_PROXY": "s"}, "s", ""),
        ({"HTTP_PROXY": "p"}, "", "p"),
        ({"https_proxy": "s", "http_proxy": "p"}, "s", "p"),
        ({"ALL_PROXY": "a", "HTTP_PROXY": "p"}, "a", "p"),
        ({"all_proxy": "a"}, "a", "a"),
        ({"https_proxy": "small", "HTTPS_PROXY": "LARGE"}, "small", ""),
        ({"https_proxy": "", "HTTPS_PROXY": "LARGE"}, "", ""),
        ({"HTTPS_PROXY": "  s "}, "s", ""),
        ({"HTTP_PROXY": "from a header", "REQUEST_METHOD": "GET"}, "", ""),
        ({"http_proxy": "p", "REQUEST_METHOD": "GET"}, "", "p"),
    ],
)
def test_the_variable_of_the_scheme_counts_then_the_one_for_all(env, https, http):
    """In small letters before capitals, also when it is set to nothing."""
    assert (way(env, "example.com"), way(env, "example.com", 80, tls=False)) == (https, http)


@pytest.mark.parametrize("host", ["localhost", "a.localhost", "127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "LOCALHOST."])
def test_what_is_on_this_machine_is_reached_directly_unless_asked(host):
    assert way({"ALL_PROXY": PROXY}, host) == ""
    assert way({"ALL_PROXY": PROXY, "TOOLCRIB_PROXY_LOOPBACK": "1"}, host) == PROXY


@pytest.mark.parametrize(
    ("entries", "host"),
    [
        ("example.com", "example.com"),
        ("example.com", "EXAMPLE.com."),
        ("example.com", "a.example.com"),
        (".example.com", "a.b.example.com"),
        (".example.com", "example.com"),
        ("*.example.com", "a.example.com"),
        ("other, Example.COM", "example.com"),
        ("other example.com", "example.com"),
        ("*", "anything"),
        ("example.com:443", "example.com"),
        ("10.0.0.0/8", "10.200.3.4"),
        ("10.1.2.3", "10.1.2.3"),
        ("10.1.2.3:443", "10.1.2.3"),
        ("10.1.2.3", "::ffff:10.1.2.3"),
        ("fd00::/8", "fd12::1"),
        ("[fd12::1]", "fd12::1"),
        ("[fd12::1]:443", "fd12::1"),
        ("fd12::1", "fd12::1"),
    ],
)
def test_an_exempted_host_is_reached_directly(entries, host):
    assert way({"ALL_PROXY": PROXY, "NO_PROXY": entries}, host) == ""


@pytest.mark.parametrize(
    ("entries", "host"),
    [
        ("example.com", "badexample.com"),
        ("example.com", "example.com.evil.net"),
        ("a.example.com", "example.com"),
        ("example.com:8443", "example.com"),
        ("10.0.0.0/8", "11.0.0.1"),
        ("10.0.0.0/8", "10.example.com"),
        ("10.1.2.3:80", "10.1.2.3"),
        ("[fd12::1]:80", "fd12::1"),
        ("not/an/address", "10.0.0.1"),
        (".", "example.com"),
        ("", "example.com"),
    ],
)
def test_any_other_host_goes_through_the_proxy(entries, host):
    assert way({"ALL_PROXY": PROXY, "NO_PROXY": entries}, host) == PROXY


def test_a_password_is_not_shown():
    network = Network.of({"HTTPS_PROXY": "http://me:hidden@proxy", "HTTP_PROXY": "http://me:hidden@proxy"})

    assert "hidden" not in repr(network)
