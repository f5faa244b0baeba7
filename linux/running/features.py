# SPDX-License-Identifier: GPL-2.0-or-later
"""Find out what a Linux kernel can do for tracing, by asking the kernel itself.

Types of BPF programs and maps are tried by bpf(2), as ``bpftool feature`` does it.  The
names of these, of helpers and of kfuncs are those of the kernel's own types (BTF).
"""

from __future__ import annotations

import errno
import json
import os
import re
import resource
from collections.abc import Iterator
from typing import NamedTuple

from kpfs.base import syscall_numbers as nr
from kpfs.base.errors import KernelError
from kpfs.linux.errors import UnfitError
from kpfs.linux.memory.btf import read_btf
from kpfs.linux.package import config, options
from kpfs.linux.running.chosen import folder, kernel
from kpfs.linux.running.linux_kernel import LinuxKernel
from kpfs.linux.running.machine import Op, SlotOffset, writing
from kpfs.linux.store import image
from kpfs.linux.store.kept import KeptFile

YES, NO = "yes", "-"
_OFF = NO, "n"  # begin the values of what is not there
LONG = "BPF helper", "kfunc"  # groups of some hundred features
_TRACEFS = "/sys/kernel/tracing"
_FILES = (
    *(f"{_TRACEFS}/{name}" for name in (
        "kprobe_events", "uprobe_events", "dynamic_events", "synthetic_events",
        "error_log", "set_ftrace_filter", "set_graph_function", "kprobe_profile",
        "saved_cmdlines", "touched_functions", "osnoise/cpus", "user_events_data",
    )),
    "/sys/kernel/debug/kprobes/list", "/sys/kernel/debug/kprobes/blacklist",
    "/proc/sys/debug/kprobes-optimization", "/sys/kernel/btf/vmlinux",
    "/sys/kernel/security/lsm", "/sys/kernel/debug/error_injection/list",
)  # fmt: skip
# definitions of dynamic events, of which a kernel takes those that it knows
_DEFINITIONS = {
    "event probes (e:)": "e:{} syscalls/sys_enter_read fd=$fd",
    "function probes (f:)": "f:{} vfs_read",
    "lists of functions (f:)": "f:{} vfs_read,vfs_write:entry",
    "tracepoint probes (t:)": "t:{} sched_switch",
    "watch probes (w:)": "w:{} rw@jiffies:4",
    "$arg<N>": "p:{} vfs_read a=$arg1",
    "$arg*": "p:{} vfs_read $arg*",
    "$current": "p:{} {place} a=$current",
    "arguments by BTF names": "p:{} vfs_read file",
    "fields by BTF names (->)": "p:{} vfs_read file->f_flags",
    "typecasts ((struct)arg->field)": "p:{} {place} a=(task_struct)($current)->pid",
    "this_cpu_read()": "p:{} {place} a=this_cpu_read(@jiffies)",
    "user memory (+u, ustring)": "p:{} {place} a=+u0($stack0):ustring",
    "symstr": "p:{} {place} a=$stack0:symstr",
    "%pd, %pD": "p:{} {place} a=$stack0:%pD",
    "arrays": "p:{} {place} a=+0($stack0):u8[4]",
    "immediate strings": 'p:{} {place} a=\\"text"',
    "synthetic events": "s:synthetic/features_try u64 lat",
}
# where a probe may be on any architecture: some have none at ftrace sites
_PLACES = "vfs_read", "vfs_read+8", "vfs_read+12"
_TRIED = "kpfs/features_try"
# what README of tracefs says of other abilities
_ABILITIES = {
    "filters by CPU lists": "cpumask",
    "histograms": "hist:keys=",
    "onmatch()": "onmatch(",
    "onmax(), onchange()": "onchange(",
}
# files whose word in brackets holds
_CHOICES = {
    "lockdown": "/sys/kernel/security/lockdown",
    "preempt": "/sys/kernel/debug/sched/preempt",
}
_ATTACH = ("BPF_TRACE_KPROBE_MULTI", "BPF_TRACE_UPROBE_MULTI", "BPF_TRACE_FENTRY",
           "BPF_TRACE_KPROBE_SESSION", "BPF_LSM_MAC", "BPF_LSM_CGROUP",
           "BPF_TRACE_ITER", "BPF_SK_LOOKUP", "BPF_NETFILTER", "BPF_TCX_INGRESS",
           "BPF_STRUCT_OPS")  # fmt: skip
# those that a kernel's configuration may lack though its types name them
_MULTI = "BPF_TRACE_KPROBE_MULTI", "BPF_TRACE_KPROBE_SESSION"
# union bpf_attr, and what programs of some types want besides
_MAP_CREATE, _PROG_LOAD, _LINK_CREATE, _ATTR_SIZE, _LOG_SIZE = 0, 5, 28, 144, 4096
_KPROBE = 2  # BPF_PROG_TYPE_KPROBE
_ATTACH_TYPES = {
    "BPF_PROG_TYPE_CGROUP_SOCK_ADDR": "BPF_CGROUP_INET4_CONNECT",
    "BPF_PROG_TYPE_CGROUP_SOCKOPT": "BPF_CGROUP_GETSOCKOPT",
    "BPF_PROG_TYPE_SK_LOOKUP": "BPF_SK_LOOKUP",
    "BPF_PROG_TYPE_NETFILTER": "BPF_NETFILTER",
    "BPF_PROG_TYPE_TRACING": "BPF_TRACE_FENTRY",
    "BPF_PROG_TYPE_LSM": "BPF_LSM_MAC",
}
_SLEEPABLE = 1 << 4
_NO_PREALLOC = 1
_RETURN_0 = "BxhiBxhi", 0xB7, 0, 0, 0x95, 0, 0
_CODE_SIZE = 16
_LOG = _ATTR_SIZE + _CODE_SIZE + 8  # where the verifier's log is
# key, value, entries and flags of maps, one of which suits each type
_MAPS = (
    (4, 4, 1, 0), (4, 8, 1, 0), (0, 4, 1, 0), (0, 0, 4096, 0), (8, 8, 1, _NO_PREALLOC),
    (16, 8, 0, 0), (4, 4, 0, _NO_PREALLOC), (0, 0, 4096, 1 << 10),
)  # fmt: skip


# by group: a kind of the features of which linux.package.options knows what they need
_KINDS = {
    "file": options.FILE,
    "BPF program": options.PROGRAM,
    "BPF map": options.MAP,
    "BPF attachment": options.ATTACHMENT,
}


class Feature(NamedTuple):
    """One thing that a kernel can do, or cannot."""

    group: str
    name: str
    value: str  # YES, NO, or more of it


def is_there(value: str) -> bool:
    """Return True if this is the value of a feature that is there."""
    return value.split(" ")[0] not in _OFF


def features(name: str) -> list[Feature]:
    """Return the features of a kernel that was made, in order.

    They are kept beside the image if nothing else is set.  Raises UnfitError.
    """
    if kernel(name).sysctls:
        return [*map(Feature._make, _asked(name))]
    where = folder(name)
    kept = KeptFile(where, "features", image.read_meta(where))
    (piece,) = kept.get(lambda: [json.dumps(_asked(name)).encode()])
    return [*map(Feature._make, json.loads(bytes(piece)))]


def _asked(name: str) -> list[Feature]:
    try:
        linux = LinuxKernel(name, quiet=True, callers=False)
        try:
            linux.start()
            with linux.lock:
                asked = _Asked(linux)
                return [asked.with_option(feature) for feature in asked.all()]
        finally:
            linux.stop()
    except KernelError as error:
        raise UnfitError(f"{name}: {error}") from None


class _Asked:
    """A kernel that is asked.  Context: lock held."""

    def __init__(self, linux: LinuxKernel) -> None:
        self._linux = linux
        self._btf = read_btf(linux.memory, linux.symbols)
        self._built_with = image.read_config(linux.folder)

    def _pack(self, form: str, *values: int | bytes) -> bytes:
        return self._linux.arch.model.struct(form).pack(*values)

    def all(self) -> Iterator[Feature]:
        # kernels before 5.11 count programs and maps as the agent's locked memory
        none = self._pack("qq", resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        limit = Op(nr.PRLIMIT64, (0, resource.RLIMIT_MEMLOCK, none, 0))
        self._linux.tasks.attempt(self._linux.tasks.agent, [limit])
        yield Feature("kernel", "release", self._linux.meta.release)
        yield Feature("kernel", "architecture", self._linux.meta.arch)
        yield from self._choices()
        yield from self._files()
        yield from self._tracers()
        yield from self._dynamic_events()
        yield from self._programs()
        yield from self._maps()
        yield from self._of_types()
        yield from self._config()

    def with_option(self, feature: Feature) -> Feature:
        """Return a feature that is not there with the option that it lacks."""
        kind = _KINDS.get(feature.group, "")
        if feature.value == YES or not kind:
            return feature
        name = feature.name.rpartition("/")[2]
        option = options.lacking_for(self._built_with, kind, name)
        return feature._replace(value=f"{NO} no {option}") if option else feature

    def _files(self) -> Iterator[Feature]:
        for path in _FILES:
            found = Op(nr.ACCESS, (path.encode() + b"\0", os.F_OK))
            there = self._linux.tasks.attempt(self._linux.tasks.agent, [found]) == [0]
            yield Feature("file", path, YES if there else NO)

    def _tracers(self) -> Iterator[Feature]:
        for name in self._text(f"{_TRACEFS}/available_tracers").split():
            yield Feature("tracer", name, YES)

    def _choices(self) -> Iterator[Feature]:
        for name, path in _CHOICES.items():
            found = re.search(r"[\[(](\w+)[\])]", self._text(path))
            yield Feature("kernel", name, found[1] if found else NO)

    def _dynamic_events(self) -> Iterator[Feature]:
        told = self._text(f"{_TRACEFS}/README")
        for name, words in _DEFINITIONS.items():
            places = _PLACES if "{place}" in words else _PLACES[:1]
            made = any(self._takes(words.format(_TRIED, place=at)) for at in places)
            yield Feature("dynamic events", name, YES if made else NO)
        for name, words in _ABILITIES.items():
            yield Feature("triggers", name, YES if words in told else NO)

    def _takes(self, definition: str) -> bool:
        """Define an event, and remove it; return True if the kernel has taken it."""
        if self._write(f"{_TRACEFS}/dynamic_events", definition) < 0:
            return False
        event = definition.split()[0].partition(":")[2]
        self._write(f"{_TRACEFS}/dynamic_events", f"-:{event}")
        return True

    def _write(self, path: str, words: str) -> int:
        """Append words to a file; return what write(2) returns, or another error."""
        tasks, calls = self._linux.tasks, writing(path, words, os.O_APPEND)
        opened, written, _ = tasks.attempt(tasks.agent, calls)
        return min(opened, written)

    def _text(self, path: str) -> str:
        try:
            return self._linux.tasks.read_file(path).decode("utf-8", "replace")
        except KernelError:
            return ""

    # ---- BPF
    def _programs(self) -> Iterator[Feature]:
        for value, name in self._enumerators("bpf_prog_type"):
            if value:
                wanted = _ATTACH_TYPES.get(name, "")
                attach = self._attach_types().get(wanted, 0)
                tried = [self._load(value, attach, flags) for flags in (0, _SLEEPABLE)]
                known = any(tried)
                yield Feature("BPF program", name, YES if known else NO)

    def _load(self, kind: int, attach: int, flags: int) -> bool:
        """Load a program; return True if the kernel has got as far as to look at it."""
        result = self._bpf(_PROG_LOAD, self._program(kind, attach, flags))
        if result >= 0:
            self._close(result)
        memory = self._linux.machine.memory(self._linux.tasks.agent.slot)
        said = bytes(memory[_LOG : _LOG + 1])
        return result >= 0 or said != b"\0"

    def _program(self, kind: int, attach: int, flags: int) -> bytes:
        """Return what bpf(2) loads a program with: attributes, code, licence, log."""
        code, gpl = _ATTR_SIZE, _ATTR_SIZE + _CODE_SIZE
        slot = self._linux.tasks.agent.slot
        at = [self._linux.machine.address(slot, offset) for offset in (code, gpl, _LOG)]
        attr = self._pack(
            "IIQQIIQII16sIIII",
            *(kind, _CODE_SIZE // 8, at[0], at[1], 1, _LOG_SIZE, at[2]),
            *(self._version(), flags, b"kpfs", 0, attach, 0, 0),
        )
        attr = attr.ljust(_ATTR_SIZE, b"\0") + self._pack(*_RETURN_0)
        return attr + b"GPL".ljust(8, b"\0") + bytes(_LOG_SIZE)

    def _attach(self, attach: int) -> str:
        """Attach a program to a list of functions; return YES or the refusal."""
        program = self._bpf(_PROG_LOAD, self._program(_KPROBE, attach, 0))
        if program < 0:
            return _refused(program)
        names = self._linux.machine.address(self._linux.tasks.agent.slot, _ATTR_SIZE)
        attr = self._pack("IIIIIIQQQ", program, 0, attach, 0, 0, 1, names, 0, 0)
        memory = self._pack(f"{_ATTR_SIZE}sQ", attr, names + 8) + b"vfs_read\0"
        link = self._bpf(_LINK_CREATE, memory)
        for opened in (program, link):
            if opened >= 0:
                self._close(opened)
        return YES if link >= 0 else _refused(link)

    def _version(self) -> int:
        """Return LINUX_VERSION_CODE, which old kernels check."""
        numbers = image.version(self._linux.meta.release)
        major, minor, patch = [*numbers, 0, 0][:3]
        return major << 16 | minor << 8 | min(patch, 255)

    def _maps(self) -> Iterator[Feature]:
        for value, name in self._enumerators("bpf_map_type"):
            if not value:
                continue
            results = []
            for key, size, entries, flags in _MAPS:
                attr = self._pack("IIIII", value, key, size, entries, flags)
                results.append(self._bpf(_MAP_CREATE, attr.ljust(_ATTR_SIZE, b"\0")))
                if results[-1] >= 0:
                    self._close(results[-1])
                    break
            made = results[-1] >= 0
            # a type that is there may want what no plain call gives
            yield Feature("BPF map", name, YES if made else _refused(*results))

    def _bpf(self, command: int, memory: bytes) -> int:
        linux, agent = self._linux, self._linux.tasks.agent
        op = Op(nr.BPF, (command, SlotOffset(0), _ATTR_SIZE))
        (result,) = linux.tasks.attempt(agent, [op], memory)
        return result

    def _close(self, fd: int) -> None:
        self._linux.tasks.attempt(self._linux.tasks.agent, [Op(nr.CLOSE, (fd,))])

    def _of_types(self) -> Iterator[Feature]:
        """Return what the kernel's types tell: helpers, kinds of attachment, kfuncs."""
        yield Feature("BPF", "types (BTF)", YES if self._btf else NO)
        for name in _ATTACH:
            attach = self._attach_types().get(name)
            there = NO if attach is None else YES
            tried = self._attach(attach) if attach and name in _MULTI else there
            yield Feature("BPF attachment", name, tried)
        for value, name in self._enumerators("bpf_func_id"):
            if value and not name.startswith("__"):
                yield Feature("BPF helper", name.removeprefix("BPF_FUNC_"), YES)
        for name in self._btf.tagged("bpf_kfunc") if self._btf else ():
            yield Feature("kfunc", name, YES)

    def _attach_types(self) -> dict[str, int]:
        return {name: value for value, name in self._enumerators("bpf_attach_type")}

    def _enumerators(self, enum: str) -> list[tuple[int, str]]:
        found = self._btf.enumerators(enum) if self._btf else {}
        return sorted(
            (value, name)
            for value, name in found.items()
            if not re.search(r"(^__|_MAX)", name)
        )

    # ---- configuration
    def _config(self) -> Iterator[Feature]:
        for name, value in config.options(self._built_with).items():
            yield Feature("config", name, value)


def _refused(*results: int) -> str:
    """Return words about calls that failed: those errors that tell most."""
    told = {errno.errorcode.get(-result, f"{-result}") for result in results}
    return f"refused: {', '.join(sorted(told - {'EINVAL'} or told))}"
