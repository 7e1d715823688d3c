"""Classification of addresses: which ones a request to a host named by another program may use."""

from __future__ import annotations

import pytest

from mcptrio.http.client.address_kinds import AddressKind, address_kind, parse_address

__all__: list[str] = []

SPECIAL = """0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 100.127.255.255 127.0.0.1 127.255.255.254 169.254.169.254 172.16.0.1
172.31.255.255 192.0.0.1 192.0.0.192 192.0.2.1 192.88.99.1 192.168.1.1 198.18.0.1 198.19.255.255 198.51.100.1
203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 168.63.129.16 :: ::1 ::127.0.0.1 ::ffff:127.0.0.1
::ffff:169.254.169.254 ::ffff:0:7f00:1 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::1 64:ff9b:1::808:808 100::1
2001::1 2001:db8::1 2002:7f00:1:: 3fff::1 5f00::1 fc00::1 fd00:ec2::254 fe80::1 fe80::1%1 fec0::1 ff02::1"""
PUBLIC = """1.1.1.1 8.8.8.8 100.63.255.255 100.128.0.0 172.15.0.1 172.32.0.1 192.0.1.1 223.255.255.255 168.63.129.17
::ffff:8.8.8.8 64:ff9b::808:808 2001:4860:4860::8888 2606:4700:4700::1111 2a00:1450:4001:80b::200e"""


def test_special_addresses_are_not_public() -> None:
    assert [text for text in SPECIAL.split() if address_kind(parse_address(text)) is AddressKind.PUBLIC] == []


def test_public_addresses_are_public() -> None:
    assert [text for text in PUBLIC.split() if address_kind(parse_address(text)) is not AddressKind.PUBLIC] == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("127.0.0.1", AddressKind.LOOPBACK),
        ("::ffff:127.0.0.1", AddressKind.LOOPBACK),
        ("::1", AddressKind.LOOPBACK),
        ("64:ff9b::a00:1", AddressKind.PRIVATE),
        ("100.64.0.1", AddressKind.PRIVATE),
        ("fd00::1", AddressKind.PRIVATE),
        ("169.254.169.254", AddressKind.METADATA),
        ("::ffff:169.254.169.254", AddressKind.METADATA),
        ("168.63.129.16", AddressKind.METADATA),
        ("169.254.1.1", AddressKind.LINK_LOCAL),
        ("ff02::1", AddressKind.MULTICAST),
        ("2002:7f00:1::", AddressKind.OTHER),
        ("93.184.215.14", AddressKind.PUBLIC),
        ("2606:4700::1111", AddressKind.PUBLIC),
        ("::ffff:8.8.8.8", AddressKind.PUBLIC),
        ("64:ff9b::8.8.8.8", AddressKind.PUBLIC),
        ("64:ff9b:1::8.8.8.8", AddressKind.OTHER),
        ("172.32.0.1", AddressKind.PUBLIC),
        ("172.16.0.0", AddressKind.PRIVATE),
        ("100.127.255.255", AddressKind.PRIVATE),
        ("100.100.100.200", AddressKind.METADATA),
        ("fe80::1%eth0", AddressKind.LINK_LOCAL),
        ("fec0::1", AddressKind.PRIVATE),
        ("2001::1", AddressKind.OTHER),
        ("1fff::1", AddressKind.OTHER),
        ("4000::1", AddressKind.OTHER),
        ("192.0.2.1", AddressKind.OTHER),
    ],
)
def test_address_is_classified(text: str, kind: AddressKind) -> None:
    assert address_kind(parse_address(text)) is kind


@pytest.mark.parametrize("text", ["", "localhost", "127.1", "0x7f.1", "10.0.0.0/8", "[::1]"])
def test_malformed_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="does not appear to be"):
        parse_address(text)
