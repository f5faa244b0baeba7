# SPDX-License-Identifier: GPL-2.0-or-later
"""Hides from probes what kpfs's own tasks do in a kernel.

Kernel: the functions by which probes, tracers, events of system calls and BPF programs
are entered.  Other events stay: a switch from such a task is one to another's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kpfs.base import abi
from kpfs.linux.board.own import set_hidden, show
from kpfs.linux.running.machine import AGENT

if TYPE_CHECKING:
    from kpfs.linux.running.kernel_on_board import KernelOnBoard

# without a value
_ENTERED = (
    *("kprobe_ftrace_handler", "optimized_callback", "fprobe_ftrace_entry"),
    *("fprobe_handler", "fprobe_kprobe_handler", "aggr_post_handler"),
    *("function_trace_call", "function_stack_trace_call", "function_args_trace_call"),
    *("function_no_repeats_trace_call", "function_stack_no_repeats_trace_call"),
    *("ftrace_syscall_enter", "ftrace_syscall_exit"),
    *("perf_syscall_enter", "perf_syscall_exit"),
    *("trace_event_raw_event_sys_enter", "trace_event_raw_event_sys_exit"),
    *("perf_trace_sys_enter", "perf_trace_sys_exit"),
    *("__bpf_prog_exit", "__bpf_prog_exit_recur", "__bpf_prog_exit_sleepable"),
    "__bpf_prog_exit_sleepable_recur",
)
# they return 0: no handler is needed, or a program is not to run
_REFUSING = (
    *("aggr_pre_handler", "kprobe_dispatcher", "pre_handler_kretprobe"),
    *("fprobe_fgraph_entry", "trace_graph_entry", "trace_graph_entry_watchdog"),
    "function_profile_call",
    *("__bpf_prog_enter", "__bpf_prog_enter_recur", "__bpf_prog_enter_sleepable"),
    "__bpf_prog_enter_sleepable_recur",
)


def hide_own_tasks(kernel: KernelOnBoard, *, stand_for_processes: bool) -> None:
    """Begin to hide them.  Context: lock held.

    stand_for_processes: the tasks make system calls for programs, but for the agent.
    """
    board, symbols = kernel.machine.board, kernel.symbols
    functions = [
        (symbol.addr, value)
        for names, value in ((_ENTERED, abi.NEVER), (_REFUSING, 0))
        for name in names
        for symbol in symbols.lookup_name(name)[:1]
    ]
    size = kernel.structures["pt_regs"].size or kernel.arch.regs_size
    set_hidden(board, functions, kernel.arch.regs_room(size))
    for slot in range(abi.NR_SLOTS):
        show(board, slot, seen=stand_for_processes and slot != AGENT)
