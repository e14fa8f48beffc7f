"""Where webhooks may go: every spelling of an address that is not public is the same to the guard."""

from __future__ import annotations

import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.delivery.sinks.addresses import (
    AddressRefused,
    checked_addresses,
    is_known_private,
    is_public,
)

PRIVATE = [
    "127.0.0.1", "127.255.255.254", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
    "169.254.169.254", "100.64.0.1", "192.0.0.8", "198.18.0.1", "192.0.2.1", "203.0.113.9", "224.0.0.1",
    "239.1.2.3", "240.0.0.1", "255.255.255.255", "168.63.129.16",
    "::", "::1", "fe80::1", "fe80::1%lo", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1",
    "::ffff:10.0.0.1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "64:ff9b::10.0.0.1",
    "64:ff9b:1::8.8.8.8", "2002:7f00:1::", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "3fff::1", "100::1",
]  # fmt: skip
PUBLIC = ["8.8.8.8", "1.1.1.1", "172.32.0.1", "2606:4700:4700::1111", "64:ff9b::8.8.8.8"]


@pytest.mark.parametrize("ip", PRIVATE)
def test_an_address_that_is_not_on_the_public_internet_is_refused(ip):
    assert not is_public(ip)


@pytest.mark.parametrize("ip", PUBLIC)
def test_an_address_of_the_public_internet_is_taken(ip):
    assert is_public(ip)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "localhost", "LOCALHOST",
        "localhost.", "::1", "0:0:0:0:0:0:0:1", "::ffff:10.0.0.1", "::ffff:a00:1", "10.0.0.1", "167772161",
        "0", "①②⑦.⓪.⓪.①",
    ],
)  # fmt: skip
def test_however_it_is_written_it_is_judged_by_what_it_resolves_to(host):
    with pytest.raises((AddressRefused, OSError)) as refused:
        checked_addresses(host, 80, allow_private=False)
    if not isinstance(refused.value, AddressRefused):
        assert isinstance(refused.value, socket.gaierror), host  # this resolver does not take it at all


def test_a_name_is_refused_if_only_one_of_its_addresses_is_not_public():
    def resolve(host: str, port: int):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port)) for ip in ("8.8.8.8", "10.0.0.7")]

    with pytest.raises(AddressRefused, match=r"10\.0\.0\.7"):
        checked_addresses("evil.example", 443, allow_private=False, resolve=resolve)
    taken = checked_addresses("evil.example", 443, allow_private=True, resolve=resolve)
    assert [address.place for address in taken] == [("8.8.8.8", 443), ("10.0.0.7", 443)]


@pytest.mark.parametrize(
    ("host", "is_known"),
    [
        ("127.1", True), ("2130706433", True), ("0x7f.1", True), ("::1", True), ("localhost", True),
        ("db.localhost", True), ("10.1.2.3", True), ("8.8.8.8", False), ("example.com", False),
        ("2606:4700:4700::1111", False),
    ],
)  # fmt: skip
def test_what_needs_no_look_up_is_known_at_once(host, is_known):
    assert is_known_private(host) is is_known


@given(st.ip_addresses(v=4).filter(lambda ip: not is_public(str(ip))))
def test_an_address_wrapped_into_another_is_no_way_round(ip):
    number = int(ip)
    for wrapped in (
        f"::ffff:{ip}",
        f"64:ff9b::{ip}",
        str(ipaddress.IPv6Address((0x2002 << 112) | (number << 80))),
        f"::{ip}",
    ):
        assert not is_public(wrapped), wrapped
