# SPDX-License-Identifier: GPL-2.0-or-later
"""Functions that libunicorn's interface lacks and its library exports, for boards."""

from __future__ import annotations

_OF_ALL = (  # in the order of struct uc_api in linux/board/uc.h
    *("tb_invalidate_phys_range", "qemu_ram_addr_from_host", "tb_gen_code"),
    *("tlb_set_page", "tcg_nb_tbs", "tcg_tb_foreach", "helper_check_exit_request"),
)
_OF_ARCH = {  # in the order of the structures of each board
    "x86_64": (),
    "aarch64": (
        *("arm_cpu_do_interrupt_aarch64", "get_arm_cp_reginfo_aarch64"),
        *("arm_cpu_get_phys_page_attrs_debug_aarch64", "arm_rebuild_hflags_aarch64"),
        *("reg_read_aarch64", "reg_write_aarch64"),
    ),
    "riscv64": ("riscv_get_csr_ops_riscv64", "riscv_set_csr_ops_riscv64"),
    "s390x": (
        *("get_psw_mask", "s390_get_feat_block", "cpu_ldq_data_ra_s390x"),
        *("cpu_stq_data_ra_s390x", "tcg_s390_program_interrupt_s390x"),
        *("trigger_pgm_exception", "cpu_loop_exit_s390x"),
        *("cpu_loop_exit_restore_s390x", "helper_uc_s390x_exit_s390x"),
        *("tlb_flush_by_mmuidx_s390x", "mmu_translate", "mmu_translate_real"),
    ),
    "ppc64": (
        *("tlb_flush_by_mmuidx_ppc64", "tlb_flush_page_ppc64"),
        *("tlb_flush_page_by_mmuidx_ppc64", "raise_exception_err_ra_ppc64"),
    ),
    "mips64el": (
        *("mips_cpu_do_interrupt_mips64el", "cpu_restore_state_mips64el"),
        *("cpu_loop_exit_mips64el", "cpu_loop_exit_noexc_mips64el"),
    ),
}


def of_all(arch: str) -> list[str]:
    """Return the names, for an architecture, of what each board calls."""
    return [f"{name}_{arch}" for name in _OF_ALL]


def of_arch(arch: str) -> list[str]:
    """Return the names of what only its own board calls."""
    return [*_OF_ARCH[arch]]
