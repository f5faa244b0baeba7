# SPDX-License-Identifier: GPL-2.0-or-later
"""Functions that libunicorn's interface lacks and its library exports, for boards."""

from __future__ import annotations

_OF_ALL = (  # in the order of struct uc_api in linux/board/uc.h
    *("tb_invalidate_phys_range", "qemu_ram_addr_from_host", "tb_gen_code"),
    *("tlb_set_page", "tcg_nb_tbs", "tcg_tb_foreach", "helper_check_exit_request"),
)


def of_all(arch: str) -> list[str]:
    """Return the names, for an architecture, of what each board calls."""
    return [f"{name}_{arch}" for name in _OF_ALL]
