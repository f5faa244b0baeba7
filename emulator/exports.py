# SPDX-License-Identifier: GPL-2.0-or-later
"""Functions that libunicorn's interface lacks and its library exports, for boards."""

from __future__ import annotations

_OF_ALL = (  # in the order of struct uc_api in linux/board/uc.h
    *("tb_invalidate_phys_range", "qemu_ram_addr_from_host", "tb_gen_code"),
    *("tlb_set_page", "tcg_nb_tbs", "tcg_tb_foreach"),
)
_OF_ARCH = {  # in the order of the structures of each board
    "x86_64": ("helper_check_exit_request",),
    "aarch64": (
        *("arm_cpu_do_interrupt", "get_arm_cp_reginfo"),
        "arm_cpu_get_phys_page_attrs_debug",
    ),
    "riscv64": ("riscv_get_csr_ops", "riscv_set_csr_ops"),
}


def of_all(arch: str) -> list[str]:
    """Return the names, for an architecture, of what each board calls."""
    return [f"{name}_{arch}" for name in _OF_ALL]


def of_arch(arch: str) -> list[str]:
    """Return the names of what only its own board calls."""
    return [f"{name}_{arch}" for name in _OF_ARCH[arch]]
