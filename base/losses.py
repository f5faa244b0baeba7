# SPDX-License-Identifier: GPL-2.0-or-later
"""Lines that tell what a kernel has lost, and why: one wording for all kernels."""

from __future__ import annotations


def many(count: int, what: str) -> str:
    """Return a number and its noun."""
    return f"{count} {what}{'s' * (count != 1)}"


NOT_COUNTED = "not counted, as this kernel has no BTF: "  # begins a line
UNCALLED_LSM = (
    "all hits of BPF programs of type LSM: this kernel was started without BPF's "
    "security module; NAME+lsm=bpf is one with it"
)


def missed_returns(name: str, count: int, maxactive: int, enough: int = 0) -> str:
    """Tell of a return probe.  enough: the maxactive that would do; 0: not known."""
    raised = f"maxactive={enough} would do" if enough else "raise it"
    return (
        f"return probe of {name}: {many(count, 'return')} missed: all instances were "
        f"in use (maxactive={maxactive}); {raised}"
    )


def skipped_hits(name: str, count: int) -> str:
    """Tell of a probe that was hit in the handler of one."""
    return (
        f"probe of {name}: {many(count, 'hit')} skipped: the handler of a probe ran on "
        "that processor"
    )


def unhit(name: str, count: int) -> str:
    """Tell of a probe whose function was called while ftrace was off."""
    return (
        f"probe of {name}: {many(count, 'hit')} missed: it needs ftrace, and "
        "kernel.ftrace_enabled was 0"
    )


def disarmed(count: int) -> str:
    """Tell of all probes together."""
    return f"all hits of {many(count, 'probe')}: kprobes/enabled is 0"


def overwritten(instance: str, count: int) -> str:
    """Tell of a ring.  instance: "" for the first one."""
    return f"{_ring(instance)}: {many(count, 'record')} overwritten: the ring was full"


def refused(instance: str, count: int) -> str:
    """Tell of a ring that keeps the oldest records."""
    return (
        f"{_ring(instance)}: {many(count, 'record')} refused: the ring was full, and "
        "its option overwrite is off"
    )


def left_in_pipe(instance: str, count: int) -> str:
    """Tell of a reader of trace_pipe."""
    return (
        f"{_ring(instance)}: {many(count, 'record')} lost: a reader of trace_pipe had "
        "taken them, and closed it before it read them"
    )


def _ring(instance: str) -> str:
    return f"instances/{instance}" if instance else "trace"
