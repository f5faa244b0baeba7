# SPDX-License-Identifier: GPL-2.0-or-later
"""The structures and constants of the C in engine/runtime and guest.

Made by scripts/asm-offsets, which scripts/build-guest runs: change the headers instead.
In the class of a structure each field has its offset in bytes, SIZE is that of all, and
STRUCT packs the fields in their order, without those that are called pad, and LAYOUT is
for kpfs.base.structures.  __slots__ is empty, so that the classes of
engine/runtime/records.py can inherit the offsets.
"""

from struct import Struct

# guest/include/kpfs/abi.h
NR_CPUS = 16
TEXT_BASE = 0xFFFF_FFFF_8100_0000
MODULE_BASE = 0xFFFF_FFFF_C000_0000
DIRECT_MAP = 0xFFFF_8880_0000_0000
STACK_BASE = 0xFFFF_C900_0000_0000
STACK_STRIDE = 0x8000
STACK_SIZE = 0x4000
STACKS = 1024
STACKS_DF = 16
USER_BASE = 0x7F00_0000_0000
USER_SIZE = 0x1_0000
USER_SLOTS = 512
USER_BUFFER = 0x4000
USER_BUFFER_SIZE = 0xC000
CS = 0x10
DS = 0x18
HC_IDLE = 0x10
HC_YIELD = 0x11
HC_HOST_OP = 0x13
HC_PANIC = 0x14
HC_EXIT = 0x17
HC_CLOCK = 0x18
HC_API = 0x60
API_FLAGS = 3
CLOCK_READ = 0
CLOCK_STEP = 1
REQ_NONE = 0
REQ_SYSCALL = 1
REQ_CALL = 2
REQ_SYSCALLS = 3
HOST_OPEN = 1
HOST_READ = 2
HOST_WRITE = 3
HOST_RELEASE = 4
HOST_DATA_SIZE = 4096
HOST_NO_PWRITE = 0x1_0000_0000
HOST_NOT_INHERITED = 0x2_0000_0000
CONFIG_PREEMPTION = 1
CONFIG_MODULES = 2
CONFIG_MODULE_UNLOAD = 4
CONFIG_LEGACY_SYMBOLS = 8
WAKEUPS_MAX = 24


class KpfsRequest:  # struct kpfs_request
    SIZE, __slots__ = 80, ()
    STRUCT = Struct("<9Qq")
    kind, nr, args, ret = 0, 8, 16, 72


class KpfsHostOp:  # struct kpfs_host_op
    SIZE, __slots__ = 72, ()
    STRUCT = Struct("<5Qq2Qq")
    kind, cookie, flags, mode, count, pos, data, path = 0, 8, 16, 24, 32, 40, 48, 56
    ret = 64


class KpfsLogRecord:  # struct kpfs_log_record
    SIZE, __slots__ = 24, ()
    STRUCT = Struct("<2Q2H2B2x")
    ts_nsec, seq, len, text_len, facility, level, text = 0, 8, 16, 18, 20, 21, 24


class KpfsLog:  # struct kpfs_log
    SIZE, __slots__ = 48, ()
    STRUCT = Struct("<6Q")
    buf, size, first_seq, first_idx, next_seq, next_idx = 0, 8, 16, 24, 32, 40


class KpfsCloneArgs:  # struct kpfs_clone_args
    SIZE, __slots__ = 104, ()
    STRUCT = Struct("<12Q2I")
    flags, pidfd, child_tid, parent_tid, exit_signal, stack = 0, 8, 16, 24, 32, 40
    stack_size, tls, set_tid, set_tid_size, cgroup, comm = 48, 56, 64, 72, 80, 88
    uid, gid = 96, 100


class KpfsPcpu:  # struct kpfs_pcpu
    SIZE, __slots__ = 184, ()
    self, current_task, cpu_number, preempt_count, need_resched = 0, 8, 16, 20, 24
    credit, next_deadline, irq_stack_top, api, this_cpu_off = 28, 32, 40, 48, 112
    dr, dr6, dr7, debug_stack_top, debug_off = 120, 152, 160, 168, 176


class KpfsBootParams:  # struct kpfs_boot_params
    SIZE, __slots__ = 72, ()
    STRUCT = Struct("<9Q")
    nr_cpus, free_start, free_end, quiet, workload, clock = 0, 8, 16, 24, 32, 40
    wakeups, boot_time, config = 48, 56, 64


class KpfsGuestInfo:  # struct kpfs_guest_info
    SIZE, __slots__ = 104, ()
    STRUCT = Struct("<Q16I4Q")
    magic, task_pid, task_uid, task_comm, task_req = 0, 8, 12, 16, 20
    task_user_base, task_cpu, task_next, task_rethooks = 24, 28, 32, 36
    task_untouched, task_size, task_nested, task_host_op = 40, 44, 48, 52
    task_on_rq, task_quiescent, task_files, files_id, percpu_base = 56, 60, 64, 68, 72
    percpu_size, log, init_task = 80, 88, 96


# guest/include/kpfs/control.h
CTL_KPROBES = 0x0
CTL_KRETPROBES = 0x10
CTL_JPROBES = 0x20
CTL_REGISTER = 0
CTL_UNREGISTER = 1
CTL_ENABLE = 2
CTL_DISABLE = 3
CTL_GET_KPROBE = 0x30
CTL_KPROBE_RUNNING = 0x31
CTL_KPROBES_HANDLED = 0x33
CTL_KPROBE_CTLBLK = 0x34
CTL_TRACE_GET_FILE = 0x40
CTL_TRACE_PUT_FILE = 0x41
CTL_TRACE_SET_CLR = 0x42
CTL_SYNTH_COMMAND = 0x43
CTL_SYNTH_DELETE = 0x44
CTL_SYNTH_SIZE = 0x45
CTL_TRACE_DIR = 0x48
CTL_MODULE_LOAD = 0x100
CTL_MODULE_STATE = 0x101
CTL_MODULE_FREE_INIT = 0x102
CTL_MODULE_FREE = 0x103
CTL_SYMBOL_FIND = 0x108
CTL_PERCPU_ALLOC = 0x109
CTL_PERCPU_FREE = 0x10A
CTL_DEBUGFS_ADD = 0x110
CTL_DEBUGFS_REMOVE = 0x111
CTL_JUMP_LABEL = 0x210
CTL_TRACEPOINT = 0x212
CTL_DEBUGREG = 0x211
CTL_STACK_TRACE = 0x200


class KpfsStackTrace:  # struct kpfs_stack_trace
    SIZE, __slots__ = 40, ()
    STRUCT = Struct("<5Q")
    store, size, skip, regs, unsure = 0, 8, 16, 24, 32


class KpfsSymbol:  # struct kpfs_symbol
    SIZE, __slots__ = 32, ()
    name, addr, gpl, owner = 0, 8, 16, 24


class KpfsSetClr:  # struct kpfs_set_clr
    SIZE, __slots__ = 32, ()
    STRUCT = Struct("<4Q")
    tr, system, event, enable = 0, 8, 16, 24


class KpfsTraceDir:  # struct kpfs_trace_dir
    SIZE, __slots__ = 96, ()
    STRUCT = Struct("<4Q64s")
    made, remove, parent, call, name = 0, 8, 16, 24, 32


class KpfsDebugfs:  # struct kpfs_debugfs
    SIZE, __slots__ = 32, ()
    STRUCT = Struct("<4Q")
    dentry, parent, mode, name = 0, 8, 16, 24


# engine/runtime/runtime.h
HC_PY_HANDLER = 0x20
HC_PY_POST = 0x21
HC_PY_ENTRY = 0x22
HC_PY_RETURN = 0x23
HC_PY_BREAK = 0x25
HC_ORPHAN = 0x24
HC_TRIGGER = 0x31
HC_STACK = 0x32
HC_FN_PROBE = 0x33
HC_FOLLOW_FORK = 0x34
TRAP_ENTRY = 0x81
KP_CS = 0x10
KP_SS = 0x18
LITE_SITE = 1
LITE_DATA = 2
LITE_ADDR = 3
LITE_CONT = 4
LITE_REL = 5
LITE_HANDLER = 6
LITE_MARK = 0x6B71_0000
SITE_SINGLESTEP = 1
SITE_POST = 2
SITE_AGGR = 4
HANDLER_DISABLED = 1
KP_HIT_ACTIVE = 1
KP_HIT_SS = 2
EVENT_RECORD = 1
EVENT_RETURN = 2
EVENT_SYSCALL = 4
EVENT_SIMPLE = 0x8000_0000_0000_0000
KP_HASH_MULTIPLIER = 0x9E37_79B9_7F4A_7C15
TRIGGER_POST = 1
FILE_RECORD = 1
FILE_TRIGGER_COND = 2
ARRAY_STACKTRACE = 1
ARRAY_FUNC_STACKTRACE = 2
RETHOOK_DISABLED = 1
KP_IDLE = 0
KP_REENTER = 4
KP_HIT_SSDONE = 8
KP_STACK_MAX = 128
RING_SLOW_CLOCK = 2
RING_FAR = 4
KP_FIXUP_MARK = 0x6B70_0000


class PtRegs:  # struct pt_regs
    SIZE, __slots__ = 168, ()
    STRUCT = Struct("<21Q")
    r15, r14, r13, r12, bp, bx, r11, r10, r9, r8 = 0, 8, 16, 24, 32, 40, 48, 56, 64, 72
    ax, cx, dx, si, di, orig_ax, ip, cs = 80, 88, 96, 104, 112, 120, 128, 136
    flags, sp, ss = 144, 152, 160


class KpConfig:  # struct kp_config
    SIZE, __slots__ = 64, ()
    STRUCT = Struct("<10I3Q")
    gs_current, gs_cpu, gs_preempt, gs_resched, task_pid = 0, 4, 8, 12, 16
    task_comm, task_rethooks, task_untouched, clock_step = 20, 24, 28, 32
    cmdline_mask, clock, cpus, cmdlines = 36, 40, 48, 56


class KpSite:  # struct kp_site
    SIZE, __slots__ = 64, ()
    addr, cont, flags, first, hits, id = 0, 8, 16, 24, 32, 48


class KpHandler:  # struct kp_handler
    SIZE, __slots__ = 128, ()
    next, fn, flags, nmissed, data, kp, id, post_fn = 0, 8, 16, 24, 40, 48, 56, 64
    arg, user, break_fn, fault_fn = 72, 80, 88, 104


class KpEvent:  # struct kp_event
    SIZE, __slots__ = 64, ()
    flags, type, nhit, size, prog, filter, files = 0, 8, 16, 24, 32, 40, 48


class KpHash:  # struct kp_hash
    SIZE, __slots__ = 8, ()
    STRUCT = Struct("<Q")
    mask, key = 0, 8


class KpTrigger:  # struct kp_trigger
    SIZE, __slots__ = 64, ()
    next, filter, flags, id = 0, 8, 16, 24


class KpFile:  # struct kp_file
    SIZE, __slots__ = 64, ()
    next, flags, array, filter, triggers, event, begin = 0, 8, 16, 24, 32, 40, 48
    commit = 56


class KpArray:  # struct kp_array
    SIZE, __slots__ = 256, ()
    ring, flags, pids, no_pids, fn_next, fn_hash, fn_pids = 0, 64, 72, 80, 88, 96, 104
    fn_no_pids, fn_probes, fn_probe_next = 112, 120, 128


class KpRethook:  # struct kp_rethook
    SIZE, __slots__ = 128, ()
    free, entry_fn, ret_fn, nmissed, data, flags, kp, id = 0, 8, 16, 24, 32, 40, 48, 56
    event, site, long_way, maxactive = 64, 72, 96, 104


class KpRethookNode:  # struct kp_rethook_node
    SIZE, __slots__ = 56, ()
    STRUCT = Struct("<7Q")
    next, rethook, ret_addr, frame, task, func, rp, data = 0, 8, 16, 24, 32, 40, 48, 56


class KpJprobe:  # struct kp_jprobe
    SIZE, __slots__ = 240, ()
    STRUCT = Struct("<168s9Q")
    regs, size, stack = 0, 168, 176


class KpCpu:  # struct kp_cpu
    SIZE, __slots__ = 256, ()
    current_kprobe, status, prev_kprobe, prev_status, mail = 0, 8, 16, 24, 32
    mail_ret, ring, orphan_returns, instance, kind, jprobe = 64, 72, 80, 88, 96, 104
    declined, in_fault, stack, regs = 112, 120, 128, 136


class KpPage:  # struct kp_page
    SIZE, __slots__ = 4096, ()
    STRUCT = Struct("<2Q")
    time_stamp, commit = 0, 8


class KpRing:  # struct kp_ring
    SIZE, __slots__ = 152, ()
    pages, nr_pages, head, read, tail, last_ts, entries = 0, 8, 16, 24, 32, 40, 48
    overrun, consumed, bytes, on, overwrite, dropped = 56, 64, 72, 80, 88, 96
    scratch, counter, quantum, place, offset, full = 104, 112, 120, 128, 136, 144
    page_entries = 152


class KpCmdline:  # struct kp_cmdline
    SIZE, __slots__ = 24, ()
    pid, comm = 0, 8


# emulator/blocks.h
MAX_RUN_STEP = 256


class BranchSite:  # struct branch_site
    SIZE, __slots__ = 24, ()
    STRUCT = Struct("<3Q")
    caller, age, from_ = 0, 8, 16


class BlockCounter:  # struct block_counter
    SIZE, __slots__ = 200, ()
    LAYOUT = """
        left P end Q look Q at_look P argument P leave P at_block P at_code P
        code_shared Q own i set_dr P read_msr P hooks_need_no_pc Q branches P branch_of
        P at_branch P may_use_port P length Q engine P emu_stop P run_end Q run_ticks Q
        run_since Q run_step Q early Q
    """
    left, end, look, at_look, argument, leave, at_block = 0, 8, 16, 24, 32, 40, 48
    at_code, code_shared, own, set_dr, read_msr = 56, 64, 72, 80, 88
    hooks_need_no_pc, branches, branch_of, at_branch = 96, 104, 112, 120
    may_use_port, length, engine, emu_stop, run_end = 128, 136, 144, 152, 160
    run_ticks, run_since, run_step, early = 168, 176, 184, 192


# emulator/coverage.h
class CoveredText:  # struct covered_text
    SIZE, __slots__ = 32, ()
    LAYOUT = "first Q size Q changes P all P"
    first, size, changes, all = 0, 8, 16, 24


class Coverage:  # struct coverage
    SIZE, __slots__ = 32, ()
    LAYOUT = "changes P first Q end Q origin Q"
    changes, first, end, origin = 0, 8, 16, 24


# emulator/layout.h
ENGINE_PROCESSOR = 0x1B8
ENGINE_QUIET = 0x7F2
PROCESSOR_STATE = 0x128
PROCESSOR_EXCEPTION = 0x81A0
MORE_ON_AARCH64 = 0x70


class Segment:  # struct segment
    SIZE, __slots__ = 24, ()
    selector, base, limit, flags = 0, 8, 16, 20


class X86State:  # struct x86_state
    SIZE, __slots__ = 5504, ()
    regs, hflags, segs, idt, cr = 0, 176, 184, 400, 424


# emulator/layout_arm64.h
ARM64_STATE_R = 0x0
ARM64_STATE_X = 0x40
ARM64_STATE_PC = 0x140
ARM64_STATE_IS_64 = 0x14C
ARM64_STATE_CPSR = 0x154
ARM64_STATE_CARRY = 0x208
ARM64_STATE_OVERFLOW = 0x20C
ARM64_STATE_NEGATIVE = 0x210
ARM64_STATE_NOT_ZERO = 0x214
ARM64_STATE_THUMB = 0x220
ARM64_STATE_DAIF = 0x230
ARM64_STATE_SP_EL0 = 0x258
ARM64_STATE_TTBR0 = 0x308
ARM64_STATE_TTBR1 = 0x328
ARM64_STATE_MPIDR = 0xB10
ARM64_STATE_SYNDROME = 0xBD0
ARM64_STATE_TARGET = 0xBE0
ARM64_REGISTERS = 0x31C0


# emulator/layout_riscv64.h
RISCV64_FP = 0x601


class Riscv64State:  # struct riscv64_state
    SIZE, __slots__ = 1536, ()
    x, f, pc, reserved, frm, fault, priv, mstatus = 0, 256, 512, 520, 536, 544, 592, 624
    satp, stval, stvec, sepc, scause, board = 672, 680, 704, 712, 720, 840
    scounteren, sscratch, engine = 952, 968, 1528


# emulator/layout_s390x.h
class S390xState:  # struct s390x_state
    SIZE, __slots__ = 1216, ()
    r, v, a, fpc, cc_op, mask, addr, executed = 0, 128, 640, 756, 760, 784, 792, 824
    prefix, pgm_code, pgm_length, svc_number, svc_length = 840, 848, 852, 856, 860
    cr, board, breaking_event, number, id, engine = 880, 1032, 1056, 1188, 1192, 1208


# emulator/layout_ppc64.h
class Ppc64State:  # struct ppc64_state
    SIZE, __slots__ = 80040, ()
    gpr, lr, ctr, crf, xer, so, ov, ca = 0, 512, 520, 528, 568, 576, 584, 592
    reserve_addr, msr, board, nip, need_flush, spr = 616, 640, 648, 680, 2836, 2840
    access, floats, msr_mask, error_code, hflags = 11032, 76568, 77680, 77728, 78616
    hflags_more, code_mode, data_mode, engine = 78624, 78632, 78636, 80032


# emulator/layout_mips64.h
MIPS64_TLB_ENTRIES = 64
MIPS64_TLB_SIZE = 5120


class Mips64State:  # struct mips64_state
    SIZE, __slots__ = 16120, ()
    gpr, pc, hi, lo, fpr, fcr31, context = 0, 256, 264, 296, 824, 1352, 1480
    wired, hwrena, badvaddr, compare, status, cause = 1552, 1600, 1608, 1672, 1676, 1692
    epc, id, ebase, coherence, config, reserved = 1696, 1704, 1712, 1728, 1736, 1920
    error_code, hflags, tlb, board, engine = 15936, 15940, 16000, 16016, 16112


# emulator/stops.h
STOPPED_AT_PLACE = 1
STOPPED_BY_STEP = 2
STOPPED_BY_ACCESS = 3
STOPPED_AT_TARGET = 4


class Stops:  # struct stops
    SIZE, __slots__ = 112, ()
    LAYOUT = """
        emu_stop P counter P leave P stepping Q why Q address Q block Q resumed Q
        accessed Q watch Q target Q target_block Q before Q before_block Q
    """
    emu_stop, counter, leave, stepping, why, address, block = 0, 8, 16, 24, 32, 40, 48
    resumed, accessed, watch, target, target_block, before = 56, 64, 72, 80, 88, 96
    before_block = 104


class Place:  # struct place
    SIZE, __slots__ = 16, ()
    LAYOUT = "stops P enabled Q"
    stops, enabled = 0, 8


class Watch:  # struct watch
    SIZE, __slots__ = 32, ()
    LAYOUT = "stops P number Q first Q last Q"
    stops, number, first, last = 0, 8, 16, 24


# guest/emu/hypercalls.h
HYPERCALL_SERVE = 0
HYPERCALL_END = 1
HYPERCALL_CLOCK = 2


class Hypercalls:  # struct hypercalls
    SIZE, __slots__ = 344, ()
    LAYOUT = """
        serve P emu_stop P clock_gettime P counter P clock P origin Q step Q moves Q
        limit Q ended Q value Q ways 256B
    """
    serve, emu_stop, clock_gettime, counter, clock, origin = 0, 8, 16, 24, 32, 40
    step, moves, limit, ended, value, ways = 48, 56, 64, 72, 80, 88


# guest/emu/idle_turn.h
IDLE_TURN_REFUSED = 0
IDLE_TURN_BEGUN = 1
IDLE_TURN_HOST_OP = 2
IDLE_TURN_DONE = 3
IDLE_TURN_STILL = 4


class IdleTurnWord:  # struct idle_turn_word
    SIZE, __slots__ = 16, ()
    LAYOUT = "at P value Q"
    at, value = 0, 8


class IdleTurn:  # struct idle_turn
    SIZE, __slots__ = 144, ()
    LAYOUT = """
        emu_start P reg_read P reg_write P engine P hypercalls P wakeups P credit P
        turn_credit i err i frame P cs Q ss Q sp Q top Q entry Q blocks Q idle Q host_op
        Q words P
    """
    emu_start, reg_read, reg_write, engine, hypercalls, wakeups = 0, 8, 16, 24, 32, 40
    credit, turn_credit, err, frame, cs, ss, sp, top = 48, 56, 60, 64, 72, 80, 88, 96
    entry, blocks, idle, host_op, words = 104, 112, 120, 128, 136


# engine/runtime/trace_entry.h
TRACE_FLAG_IRQS_OFF = 0x1
TRACE_FLAG_NEED_RESCHED = 0x4
TRACE_FLAG_HARDIRQ = 0x8
TRACE_FLAG_SOFTIRQ = 0x10
TRACE_FLAG_PREEMPT_RESCHED = 0x20
TRACE_FLAG_NMI = 0x40
TRACE_FLAG_BH_OFF = 0x80


# engine/runtime/ring.h
DELTA_BITS = 27
TYPE_TIME_EXTEND = 30
MAX_SMALL_DATA = 112


# engine/runtime/fetch.h
HC_SYMBOL = 0x30
FILTER_ACCEPT = 0xFFFF
FILTER_REJECT = 0xFFFE
PRED_SIGNED = 1
PRED_NOT = 2
OP_END, OP_REG, OP_STACK, OP_IMM, OP_COMM, OP_DEREF, OP_UDEREF = 0, 1, 2, 3, 4, 5, 6
OP_ST_RAW, OP_ST_MEM, OP_ST_UMEM, OP_ST_STRING, OP_ST_USTRING = 7, 8, 9, 10, 11
OP_ST_SYMSTR = 12
OP_MOD_BF, OP_LP_ARRAY = 13, 14
PRED_EQ, PRED_NE, PRED_LT, PRED_LE, PRED_GT, PRED_GE, PRED_BAND = 0, 1, 2, 3, 4, 5, 6
PRED_FULL, PRED_FRONT, PRED_MIDDLE, PRED_END, PRED_GLOB = 7, 8, 9, 10, 11
FROM_RECORD, FROM_DYNAMIC, FROM_RELATIVE, FROM_CPU, FROM_COMM = 0, 1, 2, 3, 4
FROM_KERNEL, FROM_USER = 5, 6


class KpProg:  # struct kp_prog
    SIZE, __slots__ = 16, ()
    STRUCT = Struct("<4I")
    nr_args, size, start, dynamic = 0, 4, 8, 12


class KpInsn:  # struct kp_insn
    SIZE, __slots__ = 16, ()
    STRUCT = Struct("<2BH2B2xQ")
    op, size, count, lshift, rshift, value = 0, 1, 2, 4, 5, 8


class KpArg:  # struct kp_arg
    SIZE, __slots__ = 8, ()
    STRUCT = Struct("<I2H")
    offset, nr_insns, dynamic, insns = 0, 4, 6, 8


class KpPred:  # struct kp_pred
    SIZE, __slots__ = 24, ()
    STRUCT = Struct("<3Bx2HI2HQ")
    op, from_, flags, yes, no, offset, size, length = 0, 1, 2, 4, 6, 8, 12, 14
    value = 16


# engine/runtime/trace.c
class KpFnTable:  # struct kp_fn_table
    SIZE, __slots__ = 8, ()
    STRUCT = Struct("<Q")
    mask, fn = 0, 8


# guest/include/asm/kprobes.h
class ArchSpecificInsn:  # struct arch_specific_insn
    SIZE, __slots__ = 16, ()
    STRUCT = Struct("<QiB3x")
    insn, boostable, size = 0, 8, 12


# guest/include/linux/kprobes.h
KPROBE_FLAG_GONE = 1
KPROBE_FLAG_DISABLED = 2
KPROBE_FLAG_OPTIMIZED = 4
KPROBE_FLAG_FTRACE = 8
KPROBE_FLAG_ON_FUNC_ENTRY = 16
KRETPROBE_MAX_DATA_SIZE = 4096


class Kprobe:  # struct kprobe
    SIZE, __slots__ = 128, ()
    STRUCT = Struct("<16s3QI4x4QB7x16sI")
    list, nmissed, addr, symbol_name, offset, pre_handler = 16, 32, 40, 48, 56, 64
    post_handler, fault_handler, break_handler, opcode, ainsn = 72, 80, 88, 96, 104
    flags = 120


class Kretprobe:  # struct kretprobe
    SIZE, __slots__ = 160, ()
    STRUCT = Struct("<2Q2iQ")
    handler, entry_handler, maxactive, nmissed, data_size = 128, 136, 144, 148, 152


class Jprobe:  # struct jprobe
    SIZE, __slots__ = 136, ()
    entry = 128


# guest/include/linux/module.h
MODULE_NAME_LEN = 56
MODULE_STATE_LIVE, MODULE_STATE_COMING, MODULE_STATE_GOING = 0, 1, 2
MODULE_STATE_UNFORMED = 3


class ModuleSymbol:  # struct module_symbol
    SIZE, __slots__ = 24, ()
    STRUCT = Struct("<3Q")
    addr, size, name = 0, 8, 16


class ModuleLayout:  # struct module_layout
    SIZE, __slots__ = 24, ()
    STRUCT = Struct("<3Q")
    base, size, text_size = 0, 8, 16


class Module:  # struct module
    SIZE, __slots__ = 256, ()
    state, list, name, init, exit, kp, num_kp = 0, 8, 24, 80, 88, 96, 104
    core_layout, init_layout, extable, num_exentries = 112, 136, 160, 168
    bug_table, num_bugs, trace_events, num_trace_events = 176, 184, 192, 200
    symtab, num_symtab, refcnt, nr_users, args, taints = 208, 216, 224, 232, 240, 248


# guest/include/linux/moduleparam.h
class KernelParamOps:  # struct kernel_param_ops
    SIZE, __slots__ = 32, ()
    set, get = 8, 16


class KernelParam:  # struct kernel_param
    SIZE, __slots__ = 40, ()
    name, ops, perm = 0, 16, 24


# guest/include/linux/panic.h
TAINT_PROPRIETARY_MODULE = 0
TAINT_OOT_MODULE = 12


# guest/include/linux/sched.h
TASK_COMM_LEN = 16


# guest/include/linux/bug.h
class BugEntry:  # struct bug_entry
    SIZE, __slots__ = 12, ()
    STRUCT = Struct("<2i2H")
    bug_addr_disp, file_disp, line, flags = 0, 4, 8, 10


# guest/include/linux/jump_label.h
class JumpEntry:  # struct jump_entry
    SIZE, __slots__ = 16, ()
    STRUCT = Struct("<2iq")
    code, target, key = 0, 4, 8


# guest/include/linux/tracepoint.h
class Tracepoint:  # struct tracepoint
    SIZE, __slots__ = 40, ()
    key, regfunc, unregfunc, funcs, name = 0, 8, 16, 24, 32


# guest/include/linux/static_call.h
class StaticCallSite:  # struct static_call_site
    SIZE, __slots__ = 8, ()
    STRUCT = Struct("<2i")
    addr, key = 0, 4


# guest/include/linux/trace_events.h
class TraceEventField:  # struct trace_event_field
    SIZE, __slots__ = 24, ()
    STRUCT = Struct("<2Q4H")
    type, name, offset, size, is_signed, align = 0, 8, 16, 18, 20, 22


class TraceEvalMap:  # struct trace_eval_map
    SIZE, __slots__ = 32, ()
    STRUCT = Struct("<2Qq8x")
    system, name, value = 0, 8, 16


class TraceEventCall:  # struct trace_event_call
    SIZE, __slots__ = 64, ()
    STRUCT = Struct("<7Q8x")
    system, name, tp, event, fields, nr_fields, print_fmt = 0, 8, 16, 24, 32, 40, 48


# guest/include/asm/extable.h
class ExceptionTableEntry:  # struct exception_table_entry
    SIZE, __slots__ = 12, ()
    STRUCT = Struct("<3i")
    insn, fixup, data = 0, 4, 8


# guest/include/kpfs/mirror.h
MIRROR_MAX_FD = 4096
MIRROR_BUSY = -1024


class MirrorCall:  # struct mirror_call
    SIZE, __slots__ = 168, ()
    LAYOUT = """
        nr Q args 6Q count Q cwd Q paths Q link Q mount Q untouched_from Q untouched_to
        Q wait Q fd 2i fd_mode 2I spare_fd i new_fd 2i components 2I name_mode 2I
    """
    nr, args, count, cwd, paths, link, mount = 0, 8, 56, 64, 72, 80, 88
    untouched_from, untouched_to, wait, fd, fd_mode = 96, 104, 112, 120, 128
    spare_fd, new_fd, components, name_mode = 136, 140, 148, 156


# guest/src/fs/mirror.c
MIRROR_MET_FILE = 1
MIRROR_MET_PIPE = 2


class MirrorFd:  # struct mirror_fd
    SIZE, __slots__ = 48, ()
    STRUCT = Struct("<i3I4Q")
    fd, mode, flags, met, file, pipe, name, mount = 0, 4, 8, 12, 16, 24, 32, 40


# kpfs/mirror/plan.h
PLAN_PATH_MAX = 4096
PLAN_DATA_MAX = 4096
PLAN_MEMORY = 0xD000
F_DUPFD = 0
F_SETFD = 2
F_DUPFD_CLOEXEC = 1030
PLAN_OTHER, PLAN_NUMBER, PLAN_TEXT, PLAN_OUT, PLAN_CWD_OUT, PLAN_AT = 0, 1, 2, 3, 4, 5
PLAN_PATH, PLAN_LINK_PATH, PLAN_OLD_PATH, PLAN_READ_LINK, PLAN_ENTRY = 6, 7, 8, 9, 10
PLAN_FD, PLAN_DIR_FD, PLAN_CWD_FD, PLAN_SEEK_FD, PLAN_READ_FD = 11, 12, 13, 14, 15
PLAN_WRITE_FD, PLAN_READV_FD, PLAN_WRITEV_FD, PLAN_CLOSED = 16, 17, 18, 19
PLAN_REPLACED, PLAN_DATA = 20, 21


class PlanRow:  # struct plan_row
    SIZE, __slots__ = 20, ()
    LAYOUT = "kinds 6B nr_args B new_fds B tree B flags B unused 2B nofollow I create I"
    kinds, nr_args, new_fds, tree, flags, unused, nofollow = 0, 6, 7, 8, 9, 10, 12
    create = 16


class PlanHost:  # struct plan_host
    SIZE, __slots__ = 40, ()
    LAYOUT = "syscall P errno_location P proc Q devices P trees P"
    syscall, errno_location, proc, devices, trees = 0, 8, 16, 24, 32


class PlanQuestion:  # struct plan_question
    SIZE, __slots__ = 112, ()
    STRUCT = Struct("<6i11Q")
    pid, memory, fds, info, pages, again, row, count = 0, 4, 8, 12, 16, 20, 24, 32
    nr, args, buffer, host = 40, 48, 96, 104


class Plan:  # struct plan
    SIZE, __slots__ = 61664, ()
    LAYOUT = """
        pointers I size I nr_fds I nr_new I nr_names I text_at i text_size i fd_size 2Q
        left_to_mount B of_mount B failed B unknown B cwd_text 4097b link_text 4097b
        contents 53248b
    """
    call, pointers, size, nr_fds, nr_new, nr_names = 0, 168, 172, 176, 180, 184
    text_at, text_size, fd_size, left_to_mount, of_mount = 188, 192, 200, 216, 217
    failed, unknown, cwd_text, link_text, contents = 218, 219, 220, 4317, 8414


# kpfs/mirror/fast_path.c
FAST_PATH_PIDS = 64
FAST_PATH_CALLS = 512
WAY_ASK, WAY_GO, WAY_EXIT, WAY_PATH = 0, 1, 2, 3
FAST_PATH_RECEIVED, FAST_PATH_LATE = 0, 1


class Slot:  # struct slot
    SIZE, __slots__ = 24, ()
    STRUCT = Struct("<3Q")
    report, begin, received = 0, 8, 16


class FastPath:  # struct fast_path
    SIZE, __slots__ = 1176, ()
    LAYOUT = """
        ioctl P process_vm_readv P clock_gettime P errno_location P syscall P slots P
        nr_slots Q names P turns P opened Q pids 64I ends 64B ways 512B nr_ended I ended
        64I
    """
    ioctl, process_vm_readv, clock_gettime, errno_location, syscall = 0, 8, 16, 24, 32
    slots, nr_slots, names, turns, opened, pids, ends = 40, 48, 56, 64, 72, 80, 336
    ways, nr_ended, ended = 400, 912, 916


# guest/src/kernel/trace_events.c
class SyscallEvent:  # struct syscall_event
    SIZE, __slots__ = 16, ()
    event, nr_args = 0, 8


# linux/board/board.h
NEVER = 0xFFFF_FFFF_FFFF_FFFF
SPACE_PROGRAM = 1
SPACE_AGENT = 2
FAILED = 0xFFFF_FFFF_FFFF_FFFD
HOLE_BASE = 0x8000_0000
MAX_CPUS = 4
CONSOLE_SIZE = 0x1_0000
NR_CALLS = 48
NR_HIDDEN = 96
NR_SEEN = 8
NR_LOSSES = 64
NR_LOST = 256
NR_PENDING = 128
NR_HOLDERS = 64
NS_PER_BLOCK = 20
TURN_BLOCKS = 0x10_0000
LOOK_BLOCKS = 256
PATIENCE = 0x98_9680
STOP_TURN = 0
STOP_PAUSE = 1
STOP_BREAK = 2
STOP_LOCKUP = 3
STOP_CALL = 7
STOP_HALTED = 8
STOP_FAULT = 9
STOP_ERROR = 10
STOP_LOST = 11
STOP_HOOK = 13
STOP_HIDE = 14
LOSS_NONE = 0
LOSS_ALWAYS = 1
LOSS_GUARD = 2
LOSS_GUARD_OF = 3
LOSS_ZERO = 4
LOSS_FAILED = 5
LOSS_GROWN = 6
LOSS_RETURN = 7
CPU_RUNS = 0
CPU_HALTED = 1
CPU_OFF = 3


class Cpu:  # struct cpu
    SIZE, __slots__ = 5440, ()
    state, context, start, argument, since, called, late = 0, 8, 16, 24, 32, 40, 48
    timer, own = 56, 64


class Translation:  # struct translation
    SIZE, __slots__ = 40, ()
    STRUCT = Struct("<3Q4I")
    pc, pages, flags, kind, size, sum = 0, 8, 24, 28, 32, 36


class Loss:  # struct loss
    SIZE, __slots__ = 72, ()
    STRUCT = Struct("<9Q")
    addr, size, kind, argument, shift, place, needs, key = 0, 8, 16, 24, 32, 40, 48, 56
    regs = 64


class Lost:  # struct lost
    SIZE, __slots__ = 56, ()
    STRUCT = Struct("<7Q")
    loss, object, key, count, others, out, most = 0, 8, 16, 24, 32, 40, 48


class Pending:  # struct pending
    SIZE, __slots__ = 56, ()
    STRUCT = Struct("<7Q")
    at, sp, loss, object, before, regs, out = 0, 8, 16, 24, 32, 40, 48


class Holder:  # struct holder
    SIZE, __slots__ = 16, ()
    STRUCT = Struct("<2Q")
    guard, stack = 0, 8


class Board:  # struct board
    SIZE, __slots__ = 125904, ()
    counter, uc, state, ram, ram_size, nr_cpus, pause = 0, 200, 208, 216, 224, 232, 240
    break_at, calls, call_zeros, counts, tracks = 248, 256, 640, 1024, 1032
    call_agent, turn_ticks, slow_at, now, settled = 1040, 1048, 1056, 1064, 1072
    deadline, stop, stop_at, who, error, vector = 1080, 1088, 1096, 1104, 1112, 1120
    unknown, current, turn_end, due, host_turn = 1128, 1136, 1144, 1152, 1160
    begin, fault_block, faults, holds, held, deaf = 1168, 1176, 1184, 1192, 1200, 1232
    watched, hooked, nr_hooked, on_block, asked_at = 1264, 5360, 8432, 8440, 8448
    flushed_at, coverage, stops, texts, entered = 8456, 8464, 8472, 8480, 8488
    hidden, hidden_values, hides, seen, region = 8496, 9264, 10032, 10040, 10104
    regs_size, agent_stack, per_cpu, losses, lost = 10112, 10120, 10128, 10160, 14768
    nr_lost, lost_more, lost_told, pending = 29104, 29112, 29120, 29128
    next_pending, nr_pending, returns, nr_returns = 36296, 36304, 36312, 37336
    new_return, holders, devices, console_size = 37344, 37352, 38376, 38504
    debug_size, debug_limit, debug, syscalls = 38512, 38520, 38528, 38536
    exceptions, interrupts, halts, flushes, strays = 38544, 38552, 38560, 38568, 38576
    stray_at, turns, reset, cpus, console = 38584, 38592, 38600, 38608, 60368


# linux/board/search/text.h
NR_TEXTS = 256
NR_FUNCTIONS = 2048
NR_FINDINGS = 256
NR_COUNTED = 16384
FINDING_STACK = 48
INSN_READS = 1
INSN_WRITES = 2
INSN_LOCKED = 4
INSN_CALLS = 8
INSN_ON_STACK = 0x10
INSN_STRING = 0x20
INSN_BEHIND = 0x40
INSN_TAIL = 0x80
INSN_INDIRECT = 0x100
INSN_PER_CPU = 0x200
INSN_BITS = 0x400
INSN_SEEN = 0x800
INSN_COMPARES = 0x1000
INSN_LEAVES = 0x2000
INSN_NO_TRACK = 0x4000
INSN_REPEATS = 0x8000
INSN_HOOKED = 75
LOOK_HOLD = 1
LOOK_FAULT = 2
LOOK_MEMORY = 4
LOOK_LOCKS = 8
LOOK_IBT = 16
FN_OTHER = 0
FN_ALLOC = 1
FN_FREE = 2
FN_COPY = 3
FN_STRING = 4
FN_LOCK = 5
FN_UNLOCK = 6
FN_SLEEPS = 7
FN_FORGET = 8
FN_CACHE = 9
FN_UNCACHE = 10
FN_SIZE = 11
FN_FREE_LATER = 12
FN_USES = 13
HOW_PAGE = 1
HOW_ORDER = 2
HOW_STRING = 4
HOW_ARRAY = 8
HOW_CACHE = 0x10
HOW_ENLARGE = 0x20
HOW_REDIRECT = 0x40
HOW_PAGES = 0x80
HOW_AGAIN = 0x100
HOW_READS = 0x200
HOW_JOINS = 0x400
HOW_FORMATS = 0x800
HOW_MUTEX = 0x1000
HOW_RWSEM = 0x2000
HOW_SPIN = 0x4000
HOW_RWLOCK = 0x8000
HOW_SHARED = 0x1_0000
HOW_TRIES = 0x2_0000
HOW_IRQ = 0x4_0000
HOW_BH = 0x8_0000
HOW_FAILS = 0x10_0000
HOW_RAW = 0x20_0000
HOW_TO_USER = 0x40_0000
HOW_INLINE = 0x200_0000
HOW_CLEARS = 0x80_0000
HOW_LIST = 0x100_0000
HOW_LOCAL = 8
FOUND_OUT_OF_BOUNDS = 1
FOUND_USE_AFTER_FREE = 2
FOUND_DOUBLE_FREE = 3
FOUND_INVALID_FREE = 4
FOUND_STACK = 5
FOUND_LEAK = 6
FOUND_UNINITIALIZED = 7
FOUND_GLOBAL = 8
FOUND_LOCK_ORDER = 9
FOUND_SLEEP = 10
FOUND_IBT = 11
FOUND_RACE = 12
FOUND_CHANGED = 13
FOUND_TEAR = 14
FOUND_FAULT = 15
FOUND_LOCK_IN_IRQ = 16
NO_ARGUMENT = 255


class Insn:  # struct insn
    SIZE, __slots__ = 16, ()
    LAYOUT = """
        flags H size B bytes B base B index B scale B reg B disp i function H more H
    """
    flags, size, bytes, base, index, scale, reg, disp = 0, 2, 3, 4, 5, 6, 7, 8
    function, more = 12, 14


class Text:  # struct text
    SIZE, __slots__ = 32, ()
    LAYOUT = "first Q size Q insns Q owner Q"
    first, size, insns, owner = 0, 8, 16, 24


class Function:  # struct function
    SIZE, __slots__ = 40, ()
    LAYOUT = """
        address Q kind I how I to B source B size B fails B fails_as B entry_kind B
        flags B bytes B error q calls Q
    """
    address, kind, how, to, source, size, fails, fails_as = 0, 8, 12, 16, 17, 18, 19, 20
    entry_kind, flags, bytes, error, calls = 21, 22, 23, 24, 32


class Finding:  # struct finding
    SIZE, __slots__ = 504, ()
    LAYOUT = """
        kind Q at Q other Q count Q cpu Q task Q pid Q comm 2Q block Q now Q a Q b Q c Q
        object Q stack 48Q
    """
    kind, at, other, count, cpu, task, pid, comm = 0, 8, 16, 24, 32, 40, 48, 56
    block, now, a, b, c, object, stack = 72, 80, 88, 96, 104, 112, 120


class Counted:  # struct counted
    SIZE, __slots__ = 32, ()
    STRUCT = Struct("<4Q")
    kind, at, other, block = 0, 8, 16, 24


class Texts:  # struct texts
    SIZE, __slots__ = 1142360, ()
    on, current, pid, comm, canary, count_of_preempt, direct = 0, 8, 16, 24, 32, 40, 48
    kernel, kernel_size, kernel_at, nr_texts, nr_functions = 56, 64, 72, 80, 88
    nr_findings, findings_lost, instructions, last, memo_at = 96, 104, 112, 120, 128
    memo_block, memo_cpu, memo_stop, act, act_ip = 136, 144, 152, 160, 168
    act_value, act_sp, kmalloc, shadow, locks, left = 176, 184, 192, 200, 208, 216
    behind, texts, functions, findings, counted = 600, 5720, 13912, 95832, 224856
    branches = 749144


# linux/board/search/locks.h
TAKEN_IN_IRQ = 1
TAKEN_IN_BH = 2
TAKEN_WITH_IRQ = 4
TAKEN_WITH_BH = 8


class LockOrder:  # struct lock_order
    SIZE, __slots__ = 240, ()
    LAYOUT = """
        held Q wanted Q gone Q held_at Q wanted_at Q pid Q comm 2Q outer 6Q stack 16Q
    """
    held, wanted, gone, held_at, wanted_at, pid, comm = 0, 8, 16, 24, 32, 40, 48
    outer, stack = 64, 112


class Locks:  # struct locks
    SIZE, __slots__ = 307280, ()
    nr_orders, nr_used, attempts, taken, orders, used = 0, 8, 16, 80, 4176, 249936


# linux/board/search/shadow.h
OBJECT_STACK = 16
RED_ZONE = 32
OBJECT_GONE = 0
OBJECT_LIVE = 1
OBJECT_FREED = 2


class Object:  # struct object
    SIZE, __slots__ = 408, ()
    LAYOUT = """
        addr Q size Q given Q begin Q end Q state Q function Q frees Q cache Q at Q
        owner Q pid Q comm 2Q freed_at Q freed_pid Q freed_comm 2Q next Q stack 16Q
        freed_stack 16Q
    """
    addr, size, given, begin, end, state, function, frees = 0, 8, 16, 24, 32, 40, 48, 56
    cache, at, owner, pid, comm, freed_at, freed_pid = 64, 72, 80, 88, 96, 112, 120
    freed_comm, next, stack, freed_stack = 128, 144, 152, 280


class Variable:  # struct variable
    SIZE, __slots__ = 16, ()
    STRUCT = Struct("<2Q")
    first, end = 0, 8


class Local:  # struct local
    SIZE, __slots__ = 16, ()
    STRUCT = Struct("<qQ")
    offset, size = 0, 8


class Framed:  # struct framed
    SIZE, __slots__ = 24, ()
    STRUCT = Struct("<3Q")
    entry, first, count = 0, 8, 16


class Shadow:  # struct shadow
    SIZE, __slots__ = 20200408, ()
    bytes, no_merge, typesafe, object_size, ctor, align = 0, 8, 16, 24, 32, 40
    usersize, fills, never, variables, nr_variables, pages = 48, 56, 64, 72, 80, 88
    page_size, refcount, lru, free_object, free_pages = 96, 104, 112, 120, 128
    nr_objects, untracked, oldest, newest, kept, keep = 136, 144, 152, 160, 168, 176
    locals, framed, nr_framed, frames, resumed = 184, 192, 200, 208, 12496
    nr_caches, caches, slots, objects = 13264, 13272, 15320, 146392


# linux/board/x86/arch.h
APIC_BASE = 0xFEE0_0000
NR_APIC_REGS = 64
MODE_KERNEL = 0
MODE_USER = 3


class X86Cpu:  # struct x86_cpu
    SIZE, __slots__ = 608, ()
    cr2, lstar, fmask, apic, apic_start, apic_period = 0, 8, 16, 24, 536, 544
    pending, nmi, touched, watches = 552, 584, 592, 600


class X86Devices:  # struct x86_devices
    SIZE, __slots__ = 96, ()
    cpuid, cmos, pit_start, pit_half, hooks, watched_at = 0, 32, 40, 48, 56, 80
    dropped = 88


# linux/board/arm64/arch.h
GIC_BASE = 0x8000_0000
GIC_SIZE = 0x1000
GIC_CPU_BASE = 0x8001_0000
GIC_CPU_SIZE = 0x2000
UART_BASE = 0x8002_0000
CLOCK_HZ = 0x3B9A_CA00


class Arm64Cpu:  # struct arm64_cpu
    SIZE, __slots__ = 72, ()
    timer_control, timer_at, enabled, raised, active, running = 0, 8, 16, 24, 32, 40
    control, mask, domains = 48, 56, 64


class Arm64Devices:  # struct arm64_devices
    SIZE, __slots__ = 8, ()
    distributor = 0


# linux/board/riscv64/arch.h
class Riscv64Cpu:  # struct riscv64_cpu
    SIZE, __slots__ = 24, ()
    raised, enabled, fp_status = 0, 8, 16


# linux/board/s390x/arch.h
class S390xCpu:  # struct s390x_cpu
    SIZE, __slots__ = 80, ()
    comparator, timer_end, emergency, call, service, enabled = 0, 8, 16, 24, 32, 40
    prefix, step, step_from, step_block = 48, 56, 64, 72


class S390xDevices:  # struct s390x_devices
    SIZE, __slots__ = 24, ()
    space, primary, running = 0, 8, 16


# linux/board/ppc64/arch.h
RTAS_DISPLAY = 1
RTAS_GET_TIME = 2
RTAS_SET_TIME = 3
RTAS_POWER_OFF = 4
RTAS_REBOOT = 5
RTAS_CPU_STATE = 6
RTAS_START_CPU = 7
RTAS_STOP_SELF = 8
RTAS_SET_INTERRUPT = 9
RTAS_GET_INTERRUPT = 10
RTAS_INTERRUPT_OFF = 11
RTAS_INTERRUPT_ON = 12


class Ppc64Cpu:  # struct ppc64_cpu
    SIZE, __slots__ = 560, ()
    priority, message, taken, prodded, nr_touched, user_filled = 0, 8, 16, 24, 32, 40
    touched = 48


class Ppc64Devices:  # struct ppc64_devices
    SIZE, __slots__ = 32, ()
    little_endian, relocated, table, table_size = 0, 8, 16, 24


# linux/board/mips64/arch.h
MIPS64_CONSOLE = 0x8000_0000
MIPS64_NS_PER_COUNT = 10
MIPS64_MANAGERS = 0x8001_0000
MIPS64_GIC = 0x8002_0000
MIPS64_GIC_SIZE = 0x2_0000


class Mips64Cpu:  # struct mips64_cpu
    SIZE, __slots__ = 5168, ()
    raised, enabled, receives, reset_base, chosen, chosen_power = 0, 8, 16, 24, 32, 40
    tlb = 48


class Mips64Devices:  # struct mips64_devices
    SIZE, __slots__ = 48, ()
    random, last_random, kernel_table, fetches, sent, unmasked = 0, 8, 16, 24, 32, 40


# linux/board/search/hold.h
NR_ORDERS = 4096
NR_FAULTS = 4
NR_PLACES = 4096
PARTY_STACK = 24
MOST_HELD = 24
NR_LEVELS = 3
NR_TOUCHES = 4096
NR_TRAILS = 64
NR_STEPS = 12


class Order:  # struct order
    SIZE, __slots__ = 48, ()
    STRUCT = Struct("<6Q")
    number, ns, at, until, timer, then = 0, 8, 16, 24, 32, 40


class Party:  # struct party
    SIZE, __slots__ = 216, ()
    LAYOUT = "pid Q comm 2Q stack 24Q"
    pid, comm, stack = 0, 8, 24


class Hold:  # struct hold
    SIZE, __slots__ = 312, ()
    STRUCT = Struct("<12Q216s")
    at, sp, addr, phys, bytes, flags, value, end = 0, 8, 16, 24, 32, 40, 48, 56
    until, then, raced, shared, party = 64, 72, 80, 88, 96


class Trail:  # struct trail
    SIZE, __slots__ = 216, ()
    LAYOUT = "at Q stack Q count Q steps 12Q targets 12Q"
    at, stack, count, steps, targets = 0, 8, 16, 24, 120


class Touch:  # struct touch
    SIZE, __slots__ = 32, ()
    STRUCT = Struct("<4Q")
    at, word, context, flags = 0, 8, 16, 24


class Holds:  # struct holds
    SIZE, __slots__ = 437632, ()
    STRUCT = Struct("<14Q3744s12Q196608s4096Q55296s4096sQ13824sQ131072s")
    each_ns, nr_orders, next_order, nr_faults, faults, accesses = 0, 8, 16, 24, 32, 64
    calls, held, torn, timers, digest, hold, passes = 72, 80, 88, 96, 104, 112, 3856
    orders, seen, parties, places, nr_trails = 3952, 200560, 233328, 288624, 292720
    trails, touching, touches = 292728, 306552, 306560


# linux/agent/region.h
REGION_BASE = 0x7B70_0000_0000
REGION_LOW = 0x3B70_0000_0000
REGION_LOWEST = 0xB7_0000_0000
REGION_BASE_32 = 0x6000_0000
REGION_PHYS = 0x8_0000_0000
REGION_PHYS_32 = 0x7000_0000
NR_SLOTS = 512
SLOT_SIZE = 0x2_4000
SLOT_DATA = 0x2000
DATA_SIZE = 0x2_2000
SLOTS_AT = 0x1000
REGION_SIZE = 0x480_1000
NR_OPS = 24
NR_ARGS = 6
ARG_VALUE = 0
ARG_DATA = 1
ARG_RESULT = 2
OP_STOP = 1
OP_FINALLY = 2
AGENT_FORK = 0x1_0000
AGENT_GIVE_BACK = 0x1_0001
KEEP_ID = 0xFFFF_FFFF


class AgentOp:  # struct agent_op
    SIZE, __slots__ = 72, ()
    nr, args, ret, kinds, flags, made = 0, 8, 56, 64, 70, 71


class AgentSlot:  # struct agent_slot
    SIZE, __slots__ = 1784, ()
    seq, done, count, name, uid, gid, ops = 0, 8, 16, 24, 40, 48, 56


class AgentControl:  # struct agent_control
    SIZE, __slots__ = 104, ()
    magic, give_way, news, others, waker, wake = 0, 8, 16, 24, 32, 40


# guest/src/kernel/trace_events_synth.c
FIELD_STRING = 1
FIELD_DYNAMIC = 2


class SynthField:  # struct synth_field
    SIZE, __slots__ = 24, ()
    STRUCT = Struct("<Q3I4x")
    name, size, offset, flags = 0, 8, 12, 16


class SynthEvent:  # struct synth_event
    SIZE, __slots__ = 16, ()
    STRUCT = Struct("<4I")
    id, n_fields, n_dynamic_fields, n_u64, fields = 0, 4, 8, 12, 16
