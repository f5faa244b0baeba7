// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Exceptions, interrupts and system calls: libunicorn only reports them, so what a processor
 * does then is done here.
 */
#include "x86.h"

#define FLAT_DATA 0xcf0000
#define ACCESS_CODE 0x9b00
#define ACCESS_DATA 0x9300
#define ACCESS_DPL 0x6000
#define GATE_PRESENT (1ull << 47)
#define GATE_DPL (3ull << 45)
#define ERROR_OF_IDT 2 /* of a selector that stands for a gate */
#define TSS_SP0 4
#define TSS_IST1 0x24
#if BITS == 32
#define FLAT_CODE 0xcf0000
#define KERNEL_CS 0x60
#define KERNEL_DS 0x68
#define USER_CS 0x73
#define USER_DS 0x7b
#define PT_REGS_CS 52
#define PT_REGS_SP 60
#define PT_REGS_SIZE 68
#define NO_ROOM 8 /* bytes at the end of a stack, at least */
#define GATE_TASK 5
#define GATE_SIZE 8
#else
#define FLAT_CODE 0xaf0000
#define KERNEL_CS 0x10
#define KERNEL_DS 0x18
#define USER_CS 0x33
#define USER_DS 0x2b
#define PT_REGS_CS 136
#define PT_REGS_SP 152
#define PT_REGS_SIZE 168
#define NO_ROOM 0
#define GATE_SIZE 16
#endif
#define WORD (BITS / 8)
#define MAX_LENGTH 15  /* bytes of an instruction */
#define STRING_PORT 0x6c /* insb; insl, outsb and outsl follow */
#define REX 0x40
#define NO_OPCODE 0x66 /* a prefix */
#define INT1 0xf1
#define TWO_BYTES 0x0f /* the opcode goes on */
#define RDPMC 0x33 /* behind it */
#define IOPL_SHIFT 12
#define SYSCALL_SIZE 2 /* of syscall, sysenter and int without a prefix */

const u32 pause_size = 2;
const u32 local_entry = 0;
const u64 region_base = BITS == 32 ? REGION_BASE_32 : REGION_BASE;
const u64 nowhere = 1;
const u32 not_ahead = 0;
const u32 nr_modes = 3;
const u32 page_size = 4096;
const bool is_big_endian = false;

u64 *pc(struct board *b)
{
	return &state(b)->ip;
}

u64 linear_pc(const struct board *b)
{
	return state(b)->segs[CS].base + state(b)->ip;
}

u64 argument(const struct board *b, int number)
{
#if BITS == 32
	static const u8 order[] = { RAX, RDX, RCX };

	if (number >= 3) /* behind the address to return to */
		return read_word((struct board *)b, stack_pointer(b) + 4 * (number - 2));
#else
	static const u8 order[] = { RDI, RSI, RDX, RCX, R8 };
#endif
	return state(b)->regs[order[number]];
}

u64 result(const struct board *b)
{
	return state(b)->regs[RAX];
}

u64 stack_pointer(const struct board *b)
{
	return state(b)->regs[RSP];
}

static struct back pushed_at(struct board *b, u64 sp)
{
	return (struct back){ read_word(b, sp), sp + WORD };
}

struct back returns_to(struct board *b)
{
	return pushed_at(b, stack_pointer(b));
}

struct back probed_returns(struct board *b, u64 regs)
{
	return pushed_at(b, read_word(b, regs + PT_REGS_SP));
}

bool in_program(const struct board *b)
{
	(void)b;
	return false;
}

/* Newer kernels leave room at the end of a stack. */
u64 program_stack(struct board *b)
{
	u64 top = (stack_pointer(b) | (STACK_SIZE - 1)) + 1;

	for (u64 room = NO_ROOM; room <= 16; room += NO_ROOM ? NO_ROOM : 16) {
		u64 regs = top - room - PT_REGS_SIZE;

		if ((u16)read_word(b, regs + PT_REGS_CS) == USER_CS)
			return read_word(b, regs + PT_REGS_SP);
	}
	return 0;
}

void return_now(struct board *b, u64 value)
{
	struct back back = returns_to(b);

	state(b)->regs[RSP] = back.sp;
	*pc(b) = back.at;
	if (value != NEVER)
		state(b)->regs[RAX] = value;
}

/* An interrupt must wait for the instruction behind sti, too: "sti; hlt" is atomic. */
bool takes_interrupts(const struct board *b)
{
	const struct x86_state *s = state(b);

	return (s->flags & FLAGS_IF && !(s->hflags & HFLAG_INHIBIT_IRQ)) ||
	       own(&b->cpus[b->current])->nmi || own(&b->cpus[b->current])->touched;
}

bool is_woken(const struct board *b)
{
	return state(b)->flags & FLAGS_IF;
}

u32 swap_flags(struct board *b, u32 flags)
{
	struct x86_state *s = state(b);
	u32 was = s->hflags | (s->flags & FLAGS_OF_BLOCKS);

	s->hflags = flags & ~FLAGS_OF_BLOCKS;
	s->flags = (s->flags & ~(u64)FLAGS_OF_BLOCKS) | (flags & FLAGS_OF_BLOCKS);
	return was;
}

static u64 get_flags(const struct board *b)
{
	u64 flags = 0;

	uc.reg_read(engine(b), UC_X86_REG_RFLAGS, &flags);
	return flags;
}

static void set_flags(const struct board *b, u64 flags)
{
	uc.reg_write(engine(b), UC_X86_REG_RFLAGS, &flags);
}

static u64 read_msr(const struct board *b, u32 number)
{
	struct {
		u32 number;
		u64 value;
	} msr = { number, 0 };

	uc.reg_read(engine(b), UC_X86_REG_MSR, &msr);
	return msr.value;
}

static void load_segment(struct segment *s, u32 selector, u32 flags)
{
	s->selector = selector;
	s->base = 0;
	s->limit = 0xffffffff;
	s->flags = flags;
}

/* Switch the processor to a mode of the kernel's bits, with the flat segments that Linux uses. */
void set_mode(struct board *b, int mode)
{
	struct x86_state *s = state(b);
	u32 dpl = mode == MODE_USER ? ACCESS_DPL : 0;

	load_segment(&s->segs[CS], mode == MODE_USER ? USER_CS : KERNEL_CS,
		     FLAT_CODE | ACCESS_CODE | dpl);
	load_segment(&s->segs[SS], mode == MODE_USER ? USER_DS : KERNEL_DS,
		     FLAT_DATA | ACCESS_DATA | dpl);
#if BITS == 32
	s->hflags = (s->hflags & ~3u) | HFLAGS_32 | mode;
	if (!(s->segs[DS].base | s->segs[ES].base))
		s->hflags &= ~HFLAG_ADD_SEGMENTS;
#else
	s->hflags = (s->hflags & ~(3u | HFLAG_ADD_SEGMENTS)) | HFLAGS_64 | mode;
#endif
}

/* Otherwise libunicorn takes the next exception for a double fault. */
static void forget_exception(struct board *b)
{
	state(b)->old_exception = -1;
}

/* Return a gate, without the high half of a long address. */
static u64 read_gate(struct board *b, u32 vector)
{
	u64 at = state(b)->idt.base + GATE_SIZE * vector;

	return BITS == 32 ? read_word(b, at) | read_word(b, at + 4) << 32 : read_word(b, at);
}

static bool push(struct board *b, u64 *sp, u64 value)
{
	*sp -= WORD;
	if (BITS == 32)
		*sp = (u32)*sp;
	return push_word(b, *sp, value);
}

/* Leave the flags as they are where a handler begins. */
static void enter_gate(struct board *b, u64 gate, u64 sp, u64 flags)
{
	forget_exception(b);
	state(b)->regs[RSP] = sp;
	flags &= ~(u64)(FLAGS_TF | FLAGS_NT | FLAGS_RF | FLAGS_VM);
	if ((gate >> 40 & 15) != 15) /* an interrupt gate */
		flags &= ~(u64)FLAGS_IF;
	set_flags(b, flags);
}

#if BITS == 32
/* Enter the handler of an exception or interrupt; false if that is impossible. */
static bool deliver(struct board *b, int vector, bool has_error, u32 error)
{
	struct x86_state *s = state(b);
	u64 gate = 0, sp = (u32)s->regs[RSP], flags = get_flags(b);
	bool user = (s->hflags & 3) == MODE_USER;
	u32 ss = s->segs[SS].selector & 0xffff, cs = s->segs[CS].selector & 0xffff;

	if (GATE_SIZE * vector + GATE_SIZE - 1u <= s->idt.limit)
		gate = read_gate(b, vector);
	if (!(gate & GATE_PRESENT) || (gate >> 40 & 31) == GATE_TASK)
		return give_up(b, vector);
	if (user)
		sp = read_word(b, s->tr.base + TSS_SP0);
	if ((user && (!push(b, &sp, ss) || !push(b, &sp, s->regs[RSP]))) || !push(b, &sp, flags) ||
	    !push(b, &sp, cs) || !push(b, &sp, s->ip) || (has_error && !push(b, &sp, error)))
		return vector == DF ? give_up(b, vector) : deliver(b, DF, true, 0);
	if (user)
		set_mode(b, MODE_KERNEL);
	load_segment(&s->segs[CS], gate >> 16 & 0xfffc, FLAT_CODE | ACCESS_CODE);
	enter_gate(b, gate, sp, flags);
	s->ip = (gate & 0xffff) | (gate >> 32 & 0xffff0000);
	return true;
}
#else
/* Enter the handler of an exception or interrupt; false if that is impossible. */
static bool deliver(struct board *b, int vector, bool has_error, u32 error)
{
	struct x86_state *s = state(b);
	u64 low = 0, high = 0, sp = s->regs[RSP], flags = get_flags(b);
	bool user = (s->hflags & 3) == MODE_USER;
	u64 ss = s->segs[SS].selector & 0xffff, cs = s->segs[CS].selector & 0xffff;
	int ist;

	if (16u * vector + 15 <= s->idt.limit) {
		low = read_word(b, s->idt.base + 16 * vector);
		high = read_word(b, s->idt.base + 16 * vector + 8);
	}
	if (!(low & GATE_PRESENT))
		return give_up(b, vector);
	ist = low >> 32 & 7;
	if (ist)
		sp = read_word(b, s->tr.base + TSS_IST1 + 8 * (ist - 1));
	else if (user)
		sp = read_word(b, s->tr.base + TSS_SP0);
	sp &= ~15ull;
	if (!push(b, &sp, ss) || !push(b, &sp, s->regs[RSP]) || !push(b, &sp, flags) ||
	    !push(b, &sp, cs) || !push(b, &sp, s->ip) || (has_error && !push(b, &sp, error)))
		/* there is no stack, as after too deep a recursion */
		return vector == DF ? give_up(b, vector) : deliver(b, DF, true, 0);
	set_mode(b, MODE_KERNEL);
	enter_gate(b, low, sp, flags);
	s->ip = (low & 0xffff) | (low >> 32 & 0xffff0000) | high << 32;
	return true;
}
#endif

bool deliver_interrupt(struct board *b, int number)
{
	return deliver(b, number, false, 0);
}

void before_run(struct board *b)
{
	drop_unused_hooks(b);
	forget_exception(b);
}

/* libunicorn looks up the address to stop at, a page fault that changes cr2. */
void after_run(struct board *b)
{
	state(b)->cr[2] = own(this_cpu(b))->cr2;
	hooks_dropped(b);
}

static bool is_user(const struct board *b)
{
	return (state(b)->hflags & 3) == MODE_USER;
}

static bool is_int(const struct board *b)
{
	return state(b)->is_int;
}

/* Return whether a program has used int with a gate that is not for programs. */
static bool refused(struct board *b, u32 vector)
{
	const struct x86_state *s = state(b);

	return is_int(b) && is_user(b) &&
	       (GATE_SIZE * vector + GATE_SIZE - 1 > s->idt.limit ||
		(read_gate(b, vector) & GATE_DPL) != GATE_DPL);
}

/* Return the opcode behind the prefixes of an instruction, and move `at` past it. is_word: 0x66 is one. */
static u8 next_opcode(struct board *b, u64 *at, bool *is_word)
{
	static const u8 prefixes[] = { 0x66, 0x67, 0xf2, 0xf3, 0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65 };
	bool is_long = state(b)->hflags & HFLAG_CS64;
	u64 end = *at + MAX_LENGTH;

	*is_word = false;
	while (*at < end) {
		u8 code = read_word(b, (*at)++);
		u32 n = 0;

		while (n < sizeof(prefixes) && prefixes[n] != code)
			n++;
		if (n == sizeof(prefixes) && !(is_long && (code & 0xf0) == REX))
			return code;
		*is_word |= code == 0x66;
	}
	return NO_OPCODE;
}

/* Return the size of what ins or outs moves at an address, or 0: another instruction is there. */
static u32 string_port_size(struct board *b, u64 at)
{
	bool is_word;
	u8 code = next_opcode(b, &at, &is_word);

	if ((code & 0xfc) != STRING_PORT)
		return 0;
	return code & 1 ? is_word ? 2 : 4 : 1;
}

/* Return whether a program may not use the port of ins or outs. libunicorn looks at memory first. */
static bool string_port_refused(struct board *b)
{
	const struct x86_state *s = state(b);
	u32 size;

	if (!is_user(b) || (s->flags >> IOPL_SHIFT & 3) == MODE_USER)
		return false;
	size = string_port_size(b, linear_pc(b));
	return size && !may_use_port(b, s->regs[RDX] & 0xffff, size);
}

static bool has_error_code(u32 vector)
{
	return vector == 8 || (vector >= 10 && vector <= 14) || vector == 17;
}

static void on_interrupt(uc_engine u, u32 vector, void *data)
{
	struct board *b = data;

	(void)u;
	b->exceptions++;
	left_block(b, state(b)->ip + 1);
	if (vector == DB && !is_int(b)) /* of a single step, or a breakpoint */
		next_debug(b);
	forget_touched(b);
	if (vector == PF && !is_int(b) && string_port_refused(b)) {
		vector = GP;
		state(b)->error_code = 0;
	}
	if (vector == PF && !is_int(b))
		own(this_cpu(b))->cr2 = state(b)->cr[2];
	if (vector > 255) {
		b->vector = vector;
		board_stop(b, STOP_ERROR, state(b)->ip);
	} else if (faults_again(b, vector)) {
		return;
	} else if (refused(b, vector)) {
		state(b)->ip -= b->counter.length;
		deliver(b, GP, true, 8 * vector + ERROR_OF_IDT);
	} else if (has_error_code(vector) && !is_int(b)) {
		deliver(b, vector, true, state(b)->error_code);
	} else {
		deliver(b, vector, false, 0);
	}
}

static bool on_invalid(uc_engine u, void *data)
{
	struct board *b = data;
	u64 begin = linear_pc(b), at = begin;
	bool is_word;
	u8 code = next_opcode(b, &at, &is_word);

	(void)u;
	b->exceptions++;
	if (code == INT1) { /* which programs may use, and is no fault */
		state(b)->ip += at - begin;
		deliver(b, DB, false, 0);
		return true;
	}
	if (code == TWO_BYTES && (u8)read_word(b, at) == RDPMC) { /* there is no counter */
		deliver(b, GP, true, 0);
		return true;
	}
	if (refused(b, UD)) { /* by int $6, which is not left yet */
		deliver(b, GP, true, 8 * UD + ERROR_OF_IDT);
		return true;
	}
	if (is_user(b))
		b->unknown = read_word(b, state(b)->ip);
	deliver(b, UD, false, 0);
	return true;
}

/*
 * libunicorn adds the length of the instruction to the address afterwards, here and below. Intel's
 * processors have no syscall for programs of 32 bits.
 */
static void on_syscall(uc_engine u, void *data)
{
	struct board *b = data;
	struct x86_state *s = state(b);
	struct x86_cpu *c = own(this_cpu(b));
	u64 flags = get_flags(b);

	(void)u;
	if (!(s->hflags & HFLAG_CS64)) {
		b->exceptions++;
		deliver(b, UD, false, 0);
		s->ip -= b->counter.length;
		return;
	}
	b->syscalls++;
	if (!c->lstar) {
		c->lstar = read_msr(b, MSR_LSTAR);
		c->fmask = read_msr(b, MSR_FMASK);
	}
	set_mode(b, MODE_KERNEL);
	s->regs[RCX] = s->ip + b->counter.length;
	s->regs[R11] = flags & ~(u64)FLAGS_RF;
	set_flags(b, flags & ~c->fmask);
	s->ip = c->lstar - b->counter.length;
}

/* Writing flags would be undone: libunicorn then stores how it kept them before. */
static void on_sysenter(uc_engine u, void *data)
{
	struct board *b = data;
	struct x86_state *s = state(b);

	(void)u;
	if (read_msr(b, MSR_SYSENTER_CS) & ~3ull) {
		b->syscalls++;
		set_mode(b, MODE_KERNEL);
		s->flags &= ~(u64)(FLAGS_IF | FLAGS_RF | FLAGS_VM);
		s->regs[RSP] = read_msr(b, MSR_SYSENTER_ESP);
		s->ip = read_msr(b, MSR_SYSENTER_EIP);
	} else {
		b->exceptions++;
		deliver(b, GP, true, 0);
	}
	s->ip -= b->counter.length;
}

static int on_rdtsc(uc_engine u, void *data)
{
	struct board *b = data;
	struct x86_state *s = state(b);

	(void)u;
	read_time(b);
	s->regs[RAX] = (u32)b->now;
	s->regs[RDX] = b->now >> 32;
	return 1;
}

static int on_rdtscp(uc_engine u, void *data)
{
	state(data)->regs[RCX] = (u32)read_msr(data, MSR_TSC_AUX);
	return on_rdtsc(u, data);
}

bool hook_traps(struct board *b)
{
	uc_engine u = engine(b);
	size_t hook;

	b->counter.length = SYSCALL_SIZE;
	return !uc.hook_add(u, &hook, UC_HOOK_INTR, on_interrupt, b, 1, 0) &&
	       !uc.hook_add(u, &hook, UC_HOOK_INSN_INVALID, on_invalid, b, 1, 0) &&
	       !uc.hook_add(u, &hook, UC_HOOK_INSN, on_syscall, b, 1, 0, UC_X86_INS_SYSCALL) &&
	       !uc.hook_add(u, &hook, UC_HOOK_INSN, on_sysenter, b, 1, 0, UC_X86_INS_SYSENTER) &&
	       !uc.hook_add(u, &hook, UC_HOOK_INSN, on_rdtsc, b, 1, 0, UC_X86_INS_RDTSC) &&
	       !uc.hook_add(u, &hook, UC_HOOK_INSN, on_rdtscp, b, 1, 0, UC_X86_INS_RDTSCP);
}

__attribute__((visibility("default"))) void board_mode(struct board *b, u64 mode)
{
	set_mode(b, mode);
}
