// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The part of instructions.c for x86: gates, ports, privileged instructions, segments, returns to
 * other modes, flags, addresses. No instruction here differs between vendors.
 */
#define RESTORER 0x04000000
#define PUSHA (IS_64 ? 0x60 : 0x37) /* where it exists, its fault differs: see differs.tsv */
#define STEPS 24 /* single steps that are followed */
#define TF 0x100
/* but those of arithmetic, some of which are undefined, and RF, which QEMU never sets */
#define COMPARED_FLAGS 0x24f700

#ifdef __x86_64__
#define IS_64 1
#define IP REG_RIP
#define SP REG_RSP
#else
#define IS_64 0
#define IP REG_EIP
#define SP REG_ESP
#endif

static word call(word nr, word a, word b, word c, word d)
{
	word value;
#ifdef __x86_64__
	register word r10 asm("r10") = d;

	asm volatile("syscall"
		     : "=a"(value)
		     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10)
		     : "rcx", "r11", "memory");
#else
	asm volatile("int $0x80"
		     : "=a"(value)
		     : "a"(nr), "b"(a), "c"(b), "d"(c), "S"(d)
		     : "memory");
#endif
	return value;
}

static void map(word address, word size, int access)
{
#ifdef __x86_64__
	register word r8 asm("r8") = -1, r9 asm("r9") = 0, r10 asm("r10") = MAPPING;
	word value;

	asm volatile("syscall"
		     : "=a"(value)
		     : "a"(SYS_mmap), "D"(address), "S"(size), "d"((word)access), "r"(r10), "r"(r8),
		       "r"(r9)
		     : "rcx", "r11", "memory");
#else
	const word args[] = { address, size, access, MAPPING, -1, 0 };

	call(SYS_mmap, (word)args, 0, 0, 0);
#endif
}

/* ---- the program */
#define EMIT(...)                                                                                \
	do {                                                                                     \
		const byte bytes[] = { __VA_ARGS__ };                                            \
		emit(bytes, sizeof bytes);                                                       \
	} while (0)

static void load(int reg, word value)
{
	if (IS_64)
		EMIT(0x48 | (reg >> 3));
	EMIT(0xb8 | (reg & 7));
	emit_word(value, sizeof value);
}

static void push(word value)
{
	load(0, value);
	EMIT(0x50);
}

static word some_place_of_code(void)
{
	static const word places[] = { DATA, DATA + ROOM, READ_ONLY, 0, 1, 0x7fffffff };

	return below(3) ? CODE + 0x1000 + 2 * below(32) : ONE_OF(places);
}

static word some_selector(void)
{
	static const unsigned short list[] = { 0, 3, 7, 0x10, 0x18, 0x23, 0x2b, 0x33, 0xfff8, 0x2a };

	return ONE_OF(list);
}

static word some_flags(void)
{
	static const word bits[] = { TF, 0x400, 0x4000, 0x3000, 0x10000, 0x200000, 1, 0x800 };
	word flags = 0x202;

	for (int n = below(4); n; n--)
		flags |= ONE_OF(bits);
	return flags;
}

static word some_value(void)
{
	switch (below(5)) {
	case 0:  return below(16);
	case 1:  return some_selector();
	case 2:  return IS_64 ? draw() : draw() & 0x3fffffff; /* no stack is there */
	default: return some_address();
	}
}

static void prefix(void)
{
	static const byte list[] = { 0x66, 0xf3, 0xf2, 0x2e, 0x3e, 0x36 };

	if (!below(4))
		EMIT(ONE_OF(list));
	if (IS_64 && !below(6))
		EMIT(0x40 | below(16));
}

static void segment_prefix(void)
{
	if (!below(4))
		EMIT(0x3e);
}

static void gate(void)
{
	static const byte traps[] = { 0xcc, 0xce };
	byte number = below(3) ? below(36) : below(256);

	prefix();
	if (number == 0x80)
		number = 0x81;
	if (below(3))
		EMIT(0xcd, number);
	else
		EMIT(ONE_OF(traps));
}

static void privileged(void)
{
	static const byte list[][3] = {
		{ 0xf4, 0x90, 0x90 }, { 0xfa, 0x90, 0x90 }, { 0xfb, 0x90, 0x90 },
		{ 0x0f, 0x06, 0x90 }, { 0x0f, 0x09, 0x90 }, { 0x0f, 0x08, 0x90 },
		{ 0x0f, 0x20, 0xc0 }, { 0x0f, 0x22, 0xc0 }, { 0x0f, 0x20, 0xd8 },
		{ 0x0f, 0x21, 0xc0 }, { 0x0f, 0x23, 0xf8 }, { 0x0f, 0x30, 0x90 },
		{ 0x0f, 0x32, 0x90 }, { 0x0f, 0x01, 0x38 }, { 0x0f, 0x01, 0x10 },
		{ 0x0f, 0x01, 0x18 }, { 0x0f, 0x00, 0xd0 }, { 0x0f, 0x00, 0xd8 },
		{ 0x0f, 0x01, 0xf8 }, { 0x0f, 0x07, 0x90 }, { 0x0f, 0x35, 0x90 },
		{ 0x0f, 0xaa, 0x90 }, { 0x0f, 0x01, 0xf0 }, { 0x0f, 0x20, 0xe0 },
	};

	segment_prefix();
	emit(ONE_OF(list), 3);
}

static void port(void)
{
	static const byte list[] = { 0xe4, 0xe5, 0xe6, 0xe7, 0xec, 0xed,
				     0xee, 0xef, 0x6c, 0x6d, 0x6e, 0x6f };
	byte code = ONE_OF(list);

	load(1, 1 + below(3)); /* with a count of 0 libunicorn asks for no port: see differs.tsv */
	prefix();
	EMIT(code);
	if (code >> 4 == 0xe && code < 0xe8)
		EMIT(below(256));
}

static void system_call(void)
{
	static const word numbers[] = { IS_64 ? 102 : 199, (word)-1, 5000, IS_64 ? 15 : 173,
					1ul << 30 };

	load(0, ONE_OF(numbers));
	if (!below(3)) {
		load(0, 199);
		EMIT(0xcd, 0x80);
	} else if (IS_64) {
		prefix();
		EMIT(0x0f, 0x05);
	} else {
		EMIT(0xcd, 0x80);
	}
}

static void far_return(void)
{
	word code = some_place_of_code();

	load(4, STACK);
	if (below(2)) {
		if (IS_64 || !below(3)) {
			push(below(3) ? 0x2b : some_selector());
			push(below(3) ? STACK - 64 : DATA + 8 * below(0x400));
		}
		push(some_flags());
		push(below(3) ? (IS_64 ? 0x33 : 0x23) : some_selector());
		push(code);
		if (IS_64)
			EMIT(0x48);
		EMIT(0xcf);
		return;
	}
	push(below(3) ? (IS_64 ? 0x33 : 0x23) : some_selector());
	push(code);
	if (IS_64)
		EMIT(0x48);
	if (below(2))
		EMIT(0xcb);
	else
		EMIT(0xca, below(64), 0);
}

static void far_pointer(void)
{
	word code = some_place_of_code();

	if (!IS_64 && below(2)) {
		EMIT(below(2) ? 0xea : 0x9a);
		emit_word(code, 4);
		emit_word(some_selector(), 2);
		return;
	}
	load(3, DATA + 0x100);
	EMIT(0xc7, 0x03);
	emit_word(code, 4);
	EMIT(0x66, 0xc7, 0x43, 4);
	emit_word(some_selector(), 2);
	EMIT(0xff, below(2) ? 0x2b : 0x1b);
}

static void flags(void)
{
	load(4, STACK);
	push(some_flags());
	EMIT(0x9d);
	if (below(2))
		EMIT(0x9c);
}

static void segment(void)
{
	load(0, some_selector());
	switch (below(4)) {
	case 0:
		EMIT(0x0f, 0x00, 0xe0 | below(2) << 3); /* verr, verw */
		break;
	case 1:
		EMIT(0x0f, 3, 0xc8); /* lsl */
		break;
	case 2:
		load(4, STACK);
		push(some_selector());
		EMIT(0x0f, below(2) ? 0xa1 : 0xa9);
		break;
	default:
		prefix();
		EMIT(0x8e, 0xc0 | (4 + below(4)) << 3); /* fs, gs, and what there is not */
	}
}

static void memory(void)
{
	static const byte list[][4] = {
		{ 0x8b, 0x03 },
		{ 0x89, 0x03 },
		{ 0x03, 0x03 },
		{ 0x0f, 0x10, 0x03 },
		{ 0x0f, 0x11, 0x03 },
		{ 0xff, 0x33 },
		{ 0xa4 },
		{ 0xa5 },
		{ 0xaa },
		{ 0xd9, 0x03 },
		{ 0xdd, 0x1b },
		{ 0x0f, 0xb7, 0x03 },
		{ 0xd7 },
		{ 0xff, 0x13 },
		{ 0xff, 0x23 },
		{ 0x8b, 0x53, 0x7f },
	};
	const byte *code = ONE_OF(list);
	int size = 4;

	load(3, some_address());
	if (!code[1]) {
		load(1, below(64));
		load(6, some_address());
		load(7, some_address());
	}
	while (!code[size - 1])
		size--;
	if (!below(4))
		flags();
	segment_prefix();
	emit(code, size);
}

static void divide(void)
{
	static const byte list[][2] = {
		{ 0xf7, 0xf1 }, { 0xf7, 0xf9 }, { 0xf6, 0xf1 }, { 0xf6, 0xf9 }
	};

	if (below(2))
		load(1, below(3));
	prefix();
	if (!IS_64 && !below(3))
		EMIT(0xd4, below(3));
	else
		emit(ONE_OF(list), 2);
	EMIT(0x39, 0xc0); /* it may leave any flags, which aas and syscall read */
}

static void stack(void)
{
	static const byte list[] = { 0x50, 0x58, 0xc3, 0xc9 };
	static const word places[] = { DATA, DATA + 1, DATA + ROOM - 1, DATA + ROOM, READ_ONLY, 16 };

	load(4, ONE_OF(places));
	load(5, ONE_OF(places));
	EMIT(ONE_OF(list));
}

static void jump(void)
{
	load(0, some_place_of_code());
	prefix();
	EMIT(0xff, below(2) ? 0xd0 : 0xe0);
}

static void many_prefixes(void)
{
	static const byte list[] = { 0x66, 0x67, 0x2e, 0x3e, 0x26, 0x36, 0xf2 };

	for (int n = below(17); n; n--)
		EMIT(ONE_OF(list));
	switch (below(4)) {
	case 0:  EMIT(0x90); break;
	case 1:  EMIT(0xff, 0xc0); break;
	case 2:  EMIT(0x8d, 0x40, 0x01); break;
	default: EMIT(0x01, 0xc8);
	}
}

static void invalid(void)
{
	static const byte list[][2] = {
		{ 0x06, 0x90 }, { 0x0e, 0x90 }, { 0x16, 0x90 },  { 0x27, 0x90 }, { 0x2f, 0x90 },
		{ 0x37, 0x90 }, { 0x3f, 0x90 }, { PUSHA, 0x90 }, { 0xd6, 0x90 }, { 0x0f, 0x04 },
		{ 0x0f, 0x0a }, { 0x0f, 0x0c }, { 0x0f, 0x24 },  { 0x0f, 0x26 }, { 0x0f, 0x36 },
		{ 0x0f, 0x39 }, { 0x0f, 0x0b }, { 0x0f, 0xff },  { 0xc6, 0xc8 }, { 0xfe, 0xd0 },
		{ 0xff, 0xf8 },
	};

	prefix();
	emit(ONE_OF(list), 2);
	EMIT(0x90);
	if (!IS_64)
		EMIT(0x39, 0xc0); /* aaa and its kin leave any OF, which into reads */
}

static void bound(void)
{
	if (IS_64) {
		privileged();
		return;
	}
	load(3, DATA + 4 * below(3));
	EMIT(0x62, 0x03);
}

static void make(void)
{
	static void (*const parts[])(void) = {
		gate,  privileged,    port,    system_call, far_return, far_pointer,
		flags, segment,       memory,  memory,      divide,     stack,
		jump,  many_prefixes, invalid, bound,
	};

	for (int reg = 0; reg < (IS_64 ? 16 : 8); reg++)
		load(reg, some_value());
	load(4, STACK);
	EMIT(0x68);
	emit_word(some_flags() & (below(3) ? ~(word)TF : ~(word)0), 4);
	EMIT(0x9d);
	for (int n = 1 + below(4); n; n--)
		ONE_OF(parts)();
	EMIT(0x0f, 0x0b);
}

/* ---- how it ends */
static word mixed(word trail, const ucontext_t *context)
{
	const greg_t *regs = context->uc_mcontext.gregs;
#ifdef __x86_64__
	for (int n = REG_R8; n <= REG_RIP; n++)
		trail = mix(trail, regs[n]);
	return mix(mix(trail, regs[REG_EFL] & COMPARED_FLAGS), regs[REG_CSGSFS] & 0xffff);
#else
	for (int n = REG_EDI; n <= REG_EAX; n++) /* kernels differ in null selectors */
		trail = mix(trail, regs[n]);
	trail = mix(mix(trail, regs[REG_EIP]), regs[REG_CS]);
	return mix(trail, regs[REG_EFL] & COMPARED_FLAGS);
#endif
}

static int goes_on(int number, const siginfo_t *info, ucontext_t *context)
{
	trail = mixed(trail, context);
	if (number != SIGTRAP || ++steps == STEPS)
		return 0;
	trail = mix(trail, info->si_code);
	return 1;
}

static void put_place(const ucontext_t *context)
{
	const greg_t *regs = context->uc_mcontext.gregs;

	put_field(" trap ", regs[REG_TRAPNO]);
	put_field(" error ", regs[REG_ERR]);
	put_field(" ip ", regs[IP]);
	put_field(" sp ", regs[SP]);
	put_field(" flags ", regs[REG_EFL] & COMPARED_FLAGS);
}

static void put_registers(const ucontext_t *context)
{
	const greg_t *regs = context->uc_mcontext.gregs;

#ifdef __x86_64__
	for (int n = REG_R8; n <= REG_RIP; n++)
		put_field(n == REG_R8 ? "\n r8.. di si bp bx dx ax cx sp ip " : " ", regs[n]);
	put_field(" cs ", regs[REG_CSGSFS] & 0xffff);
#else
	for (int n = REG_GS; n <= REG_SS; n++)
		put_field(n == REG_GS ? "\n gs fs es ds di si bp sp bx dx cx ax " : " ", regs[n]);
#endif
}

/* ---- how it begins */
static void enter(void)
{
	for (word *data = (word *)DATA; data < (word *)(DATA + ROOM); data++)
		*data = below(2) ? CODE + 0x1000 + 2 * below(32) : some_selector();
	at = (byte *)CODE + 0x1000;
	for (int n = 0; n < 128; n++)
		EMIT(0x0f, 0x0b);
	at = (byte *)CODE;
	make();
	asm volatile("jmp *%0" : : "r"(CODE));
}

static void follow(int child, int *status)
{
	call(SYS_wait4, child, (word)status, 0, 0);
}

#ifdef __x86_64__
asm(".globl back\nback: mov $15, %eax\nsyscall\n");
asm(".globl _start\n_start: xor %ebp, %ebp\nmov %rsp, %rdi\nand $-16, %rsp\ncall begin\n");
#else
asm(".globl back\nback: mov $173, %eax\nint $0x80\n");
asm(".globl _start\n_start: xor %ebp, %ebp\nmov %esp, %eax\nand $-16, %esp\nsub $12, %esp\n"
    "push %eax\ncall begin\n");
#endif
extern void back(void);
