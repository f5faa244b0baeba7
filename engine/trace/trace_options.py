# SPDX-License-Identifier: GPL-2.0-or-later
"""The options of the file trace_options that have an effect here."""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection

from kpfs.base.errors import KernelError
from kpfs.base.typed import NamedTuple
from kpfs.engine.kstrtox import BLANKS

OPTION_BUF_SIZE = 64


class Option(NamedTuple):
    """One option.  Kernel: TRACE_FLAGS, struct tracer_opt."""

    name: str
    default: bool
    tracer: str = ""  # the tracer that it belongs to; "": to all
    refused: bool = False
    about: str = ""  # it exists only if there is this tracer


# in the order of trace_options
OPTIONS = (
    Option("print-parent", True),
    Option("sym-offset", False),
    Option("sym-addr", False),
    Option("annotate", True),
    Option("context-info", True),
    Option("overwrite", True),
    Option("disable_on_free", False),
    Option("irq-info", True),
    Option("markers", True),
    Option("event-fork", False),
    Option("pause-on-trace", False),
    Option("function-trace", True, about="function"),
    Option("function-fork", False, about="function"),
    Option("stacktrace", False),
    Option("func_stack_trace", False, "function"),
    Option("test_nop_accept", False, "nop"),
    Option("test_nop_refuse", False, "nop", refused=True),
)
# the options that a new instance does not take over
NOT_INHERITED = ("event-fork", "function-fork")


class Options:
    """The switches of one trace array."""

    def __init__(
        self, changed: Callable[[str, bool], None], tracers: Collection[str]
    ) -> None:
        """changed(name, on) is called after a change; tracers: all that there are."""
        self._changed = changed
        self._offered = [o for o in OPTIONS if not o.about or o.about in tracers]
        self.values = {option.name: option.default for option in OPTIONS}

    def __getitem__(self, name: str) -> bool:
        return self.values[name]

    def inherit(self, other: Options) -> None:
        """Take over the options of another array, as a new instance does."""
        for option in OPTIONS:
            if not option.tracer and option.name not in NOT_INHERITED:
                self.set(option.name, other[option.name])

    def text(self, tracer: str) -> str:
        """Return the text of trace_options while that tracer is the current one.

        Kernel: tracing_trace_options_show()
        """
        return "".join(
            f"{'' if self.values[o.name] else 'no'}{o.name}\n"
            for o in self._offered
            if o.tracer in ("", tracer)
        )

    def set(self, name: str, on: bool) -> None:
        """Set an option; EINVAL: the tracer refuses.  Kernel: set_tracer_flag()."""
        if self.values[name] == on:
            return
        if _option(name).refused:
            raise KernelError(errno.EINVAL, f"{name} is always refused")
        self.values[name] = on
        self._changed(name, on)

    def store(self, data: bytes, tracer: str) -> None:
        """Do what is written to the file; EINVAL.  Kernel: trace_set_options()."""
        if len(data) >= OPTION_BUF_SIZE:
            raise KernelError(errno.EINVAL, "too long for an option")
        word = data.partition(b"\0")[0].decode("latin-1").strip(BLANKS)
        on = not word.startswith("no")
        name = word.removeprefix("no")
        if not any(o.name == name and o.tracer in ("", tracer) for o in self._offered):
            raise KernelError(errno.EINVAL, f"no option {name!r}")
        if _option(name).refused:  # here even if it would stay as it is
            raise KernelError(errno.EINVAL, f"{name} is always refused")
        self.set(name, on)


def _option(name: str) -> Option:
    return next(option for option in OPTIONS if option.name == name)
