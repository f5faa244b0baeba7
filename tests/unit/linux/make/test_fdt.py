# SPDX-License-Identifier: GPL-2.0-or-later
"""Device trees, byte by byte."""

import shutil
import subprocess

import pytest

from kpfs.linux.make.fdt import device_tree, u64

TREE = f"""/ {{
    compatible = "kpfs,test"; #size-cells = <2>;
    memory@0 {{ reg = <{u64(0, 1 << 33)}>; flag; names = "a", [6263 00]; }};
}};"""
SOURCE = """/dts-v1/;

/ {
\tcompatible = "kpfs,test";
\t#size-cells = <0x02>;

\tmemory@0 {
\t\treg = <0x00 0x00 0x02 0x00>;
\t\tflag;
\t\tnames = "a\\0bc";
\t};
};
"""


def test_its_head_says_where_the_parts_are():
    raw = device_tree(TREE)
    words = [int.from_bytes(raw[at : at + 4], "big") for at in range(0, 40, 4)]
    magic, size, structure, strings, reserved, version, oldest, cpu = words[:8]
    assert (magic, size, version, oldest, cpu) == (0xD00DFEED, len(raw), 17, 16, 0)
    assert reserved == 40
    assert structure == reserved + 16
    assert strings == structure + words[9]
    assert size == strings + words[8]
    assert raw[strings:].split(b"\0")[:2] == [b"compatible", b"#size-cells"]


def test_dtc_reads_it():
    if not shutil.which("dtc"):
        pytest.skip("dtc is missing (Debian: device-tree-compiler)")
    command = ["dtc", "-q", "-I", "dtb", "-O", "dts"]
    done = subprocess.run(command, input=device_tree(TREE), stdout=-1, check=True)
    assert done.stdout.decode() == SOURCE


@pytest.mark.parametrize("source", ["/ { a = <1> }", "/ { a; b }", "/ { a b; };"])
def test_what_is_no_source(source):
    with pytest.raises(ValueError, match=source[-3:]):
        device_tree(source)
