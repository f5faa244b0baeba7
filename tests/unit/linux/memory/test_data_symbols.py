# SPDX-License-Identifier: GPL-2.0-or-later
"""Places of data that symbols of functions alone lead to.

tests/integration/linux/test_explain.py judges kernels by them.
"""

from types import SimpleNamespace

import pytest

from kpfs.engine.arch.arches import TEXT_TOOLS
from kpfs.linux.memory.data_symbols import DataSymbols
from kpfs.linux.memory.symbols import CoreSymbols
from tests.there import stand_in

# mov $0xc1c50790, %edx; mov $0xc1c4d5e0, %eax; sub $0xc1c4d5e0, %edx; ret
EXCEPTIONS = "ba9007c5c1 b8e0d5c4c1 81eae0d5c4c1 c3"
# push $0xc1164bf0, which is in text; mov 0xc1ed6e78, %ebx; ret
LOOKUP = "68f04b16c1 8b1d786eedc1 c3"
SYMBOLS = """\
c1000000 T search_kernel_exception_table
c1000020 t lookup_rec
c1000040 t find_bug
c1000060 T other
c1900000 T _etext
c1d00000 D nr_cpu_ids
"""


@pytest.fixture
def data(tmp_path):
    (tmp_path / "symbols").write_text(SYMBOLS)
    codes = {0xC1000000: EXCEPTIONS, 0xC1000020: LOOKUP, 0xC1000040: "b8e0d5c4c1"}

    def read(addr, size):
        return bytes.fromhex(codes[addr])[:size]

    def made(arch):
        symbols = CoreSymbols(str(tmp_path / "symbols"))
        memory = stand_in(SimpleNamespace(read=read))
        return DataSymbols(memory, symbols, TEXT_TOOLS[arch]().named_addresses)

    return made


@pytest.mark.parametrize(
    ("name", "addr"),
    [
        ("__start___ex_table", 0xC1C4D5E0),
        ("__stop___ex_table", 0xC1C50790),
        ("ftrace_pages_start", 0xC1ED6E78),
        ("__start___bug_table", 0),  # its function names but one address
        ("kprobe_blacklist", 0),  # there is no such function
        ("nr_cpu_ids", 0xC1D00000),
        ("init_task", 0),
    ],
)
def test_addresses(data, name, addr):
    assert data("i386").address(name) == addr


def test_instructions_of_others_are_not_read(data):
    assert not data("s390x").address("ftrace_pages_start")
