# SPDX-License-Identifier: GPL-2.0-or-later
"""Has BPF and perf lose a number of events, without any library.

Arguments: a kind and a number.  Kinds: guard (a program is skipped), multi (likewise,
by kprobe_multi), ring (BPF's ring buffer is full), perf (perf's is).
"""

import ctypes
import mmap
import struct
import sys

BPF, PERF_EVENT_OPEN, IOCTL, GETPPID = 321, 298, 16, 110
MAP_CREATE, MAP_UPDATE, PROG_LOAD, LINK_CREATE = 0, 2, 5, 28
KPROBE_MULTI = 42
ARRAY, RINGBUF, KPROBE = 2, 27, 2
RINGBUF_OUTPUT = 130
ENABLE, SET_BPF = 0x2400, 0x40042408
KPROBE_TYPE = "/sys/bus/event_source/devices/kprobe/type"
GETPPID_FUNCTION = b"__x64_sys_getppid"
kept: list[object] = []  # what the kernel has addresses of


def syscall(*words):
    done = ctypes.CDLL(None, use_errno=True).syscall(*words)
    if done < 0:
        raise OSError(ctypes.get_errno(), f"system call {words[0]}")
    return done


def address(raw):
    buffer = ctypes.create_string_buffer(raw, len(raw))
    kept.append(buffer)
    return ctypes.addressof(buffer)


def bpf(command, attributes):
    raw = attributes.ljust(128, b"\0")
    return syscall(BPF, command, ctypes.c_void_p(address(raw)), len(raw))


def make_map(kind, key, value, entries, name):
    return bpf(
        MAP_CREATE, struct.pack("<7I16s", kind, key, value, entries, 0, 0, 0, name)
    )


def load(code, name, attach_type=0):
    words = b"".join(struct.pack("<BBhi", *each) for each in code)
    head = struct.pack("<IIQQ", KPROBE, len(code), address(words), address(b"GPL\0"))
    rest = struct.pack("<IIQII16sII", 0, 0, 0, 0, 0, name, 0, attach_type)
    return bpf(PROG_LOAD, head + rest)


def probe(function, period=0):
    """Return an event of perf at a function's entry."""
    with open(KPROBE_TYPE) as file:
        kind = int(file.read())
    place = address(function + b"\0")
    raw = struct.pack("<IIQQQQQIIQQ", kind, 112, 0, period, 0, 0, 0, 0, 0, place, 0)
    at = ctypes.c_void_p(address(raw.ljust(112, b"\0")))
    return syscall(PERF_EVENT_OPEN, at, 0, -1, -1, 0)


def attach(program, function):
    event = probe(function)
    syscall(IOCTL, event, SET_BPF, program)
    syscall(IOCTL, event, ENABLE, 0)


def main(kind, count):
    end = [(0xB7, 0, 0, 0), (0x95, 0, 0, 0)]  # return 0
    if kind in ("guard", "multi"):
        function = b"array_map_update_elem"
        if kind == "guard":
            attach(load(end, b"skipped"), function)
        else:
            program = load(end, b"skipped", KPROBE_MULTI)
            names = address(struct.pack("<Q", address(function + b"\0")))
            what = program, 0, KPROBE_MULTI, 0, 0, 1, names
            bpf(LINK_CREATE, struct.pack("<6IQ", *what))
        numbers = make_map(ARRAY, 4, 4, 1, b"numbers")
        pair = address(bytes(4)), address(bytes(4))
        for _ in range(count):
            bpf(MAP_UPDATE, struct.pack("<I4xQQQ", numbers, *pair, 0))
    elif kind == "ring":
        ring = make_map(RINGBUF, 0, 0, 4096, b"records")
        code = [
            (0x7A, 10, -8, 0),  # a word on the stack
            (0x18 , 1 | 1 << 4, 0, ring), (0, 0, 0, 0),
            (0xBF, 2 | 10 << 4, 0, 0), (0x07, 2, 0, -8),
            (0xB7, 3, 0, 8), (0xB7, 4, 0, 0),
            (0x85, 0, 0, RINGBUF_OUTPUT), *end,
        ]  # fmt: skip
        attach(load(code, b"writer"), GETPPID_FUNCTION)
        for _ in range(256 + count):
            syscall(GETPPID)
    else:
        event = probe(GETPPID_FUNCTION, period=1)
        kept.append(mmap.mmap(event, 2 * mmap.PAGESIZE))
        syscall(IOCTL, event, ENABLE, 0)
        for _ in range(mmap.PAGESIZE // 8 + count):
            syscall(GETPPID)


main(sys.argv[1], int(sys.argv[2]))
