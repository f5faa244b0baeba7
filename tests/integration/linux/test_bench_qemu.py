# SPDX-License-Identifier: GPL-2.0-or-later
"""The parser of QEMU's output in scripts/bench --kernel --against-qemu."""

import pytest

from bench import qemu_kernel
from bench.command import NotHereError

SAID = r"""#!/bin/sh
printf 'of before: @@@first_list\r\n@@@open_read_close 32840.3\r\n'
printf '@@@base 384.0\r\nnonsense 1\r\n@@@hits 300000\r\n@@@ftrace 1730.1\r\n'
"""


def ask(monkeypatch, tmp_path, script):
    program = tmp_path / "qemu"
    program.write_text(script)
    program.chmod(0o755)
    monkeypatch.setattr(qemu_kernel, "QEMU", str(program))
    return qemu_kernel._asked(tmp_path / "vmlinuz", tmp_path / "initrd")


def test_what_it_says(monkeypatch, tmp_path):
    took = ask(monkeypatch, tmp_path, SAID)
    assert 0 < took.pop("first_list") < qemu_kernel.TIMEOUT
    assert took.pop("hits")
    wanted = {"open_read_close": 32.8403, "base": 0.384, "ftrace": 1.7301}
    assert took == pytest.approx(wanted)


def test_one_that_does_not_start(monkeypatch, tmp_path):
    with pytest.raises(NotHereError, match="vmlinuz does not answer"):
        ask(monkeypatch, tmp_path, "#!/bin/sh\nexit 1\n")


def test_a_kernel_of_no_package():
    with pytest.raises(NotHereError):
        qemu_kernel.figures("mine")
