# SPDX-License-Identifier: GPL-2.0-or-later
"""Other names of modules, looked up by patterns."""

from kpfs.linux.store.aliases import Aliases, normalized

TEXT = """\
crypto_sha256 sha256_ssse3
crypto_sha256 sha256_generic
pci:v00001AF4d*sv*sd*bc*sc*i* virtio_pci
usb:v[0-3]*d-* odd
* any
"""


def test_dashes_are_underscores():
    assert normalized("crc-t10dif") == "crc_t10dif"
    assert normalized("a-[0-9]-b") == "a_[0-9]_b"


def test_lookup():
    aliases = Aliases(TEXT.replace("* any\n", ""))
    assert aliases.lookup("crypto-sha256") == ["sha256_ssse3", "sha256_generic"]
    assert aliases.lookup("pci:v00001AF4d00001000sv0sd0bc0sc0i0") == ["virtio_pci"]
    assert aliases.lookup("pci:v00001AF5d00001000sv0sd0bc0sc0i0") == []
    assert aliases.lookup("crypto_sha") == []
    assert Aliases(TEXT).lookup("whatever") == ["any"]
