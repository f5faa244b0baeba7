// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A module that means harm: what it does to the machine below its kernel is said by its
 * parameters, which are wild addresses, lengths and values. It may not come back.
 */
#include <kpfs/abi.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>

static char *what = "";
static unsigned long a, b, c, d;
module_param(what, charp, 0);
module_param(a, ulong, 0);
module_param(b, ulong, 0);
module_param(c, ulong, 0);
module_param(d, ulong, 0);

static unsigned long seed;

static u64 noise(void)
{
	seed = seed * 6364136223846793005UL + 1442695040888963407UL;
	return seed ^ seed >> 29;
}

static void out(u16 port, u32 value, int width)
{
	if (width == 1)
		asm volatile("outb %%al, %%dx; jmp 1f; 1:" : : "d"(port), "a"(value) : "memory");
	else if (width == 2)
		asm volatile("outw %%ax, %%dx; jmp 1f; 1:" : : "d"(port), "a"(value) : "memory");
	else
		asm volatile("outl %%eax, %%dx; jmp 1f; 1:" : : "d"(port), "a"(value) : "memory");
}

static u32 in(u16 port)
{
	u32 value;

	asm volatile("inl %%dx, %%eax" : "=a"(value) : "d"(port) : "memory");
	return value;
}

static void string_io(u16 port, unsigned long at, unsigned long count, bool is_in)
{
	if (is_in)
		asm volatile("rep insb" : "+D"(at), "+c"(count) : "d"(port) : "memory");
	else
		asm volatile("rep outsb" : "+S"(at), "+c"(count) : "d"(port) : "memory");
}

/* A call of Python: number a, arguments b and c, on the CPU that eax says. */
static void control(void)
{
	struct kpfs_pcpu *pcpu;

	asm volatile("mov %%gs:0, %0" : "=r"(pcpu));
	local_irq_disable();
	pcpu->api[0] = a;
	pcpu->api[1] = b;
	pcpu->api[2] = c;
	out(HC_API, d, 4);
	local_irq_enable();
}

/* A hypercall while all registers, the stack pointer too, hold what they like. */
static void with_wild_registers(void)
{
	asm volatile("mov %0, %%rax; mov %1, %%rbx; mov %2, %%rsp; mov %3, %%rdx\n\t"
		     "mov %%rbx, %%rcx; mov %%rbx, %%rsi; mov %%rbx, %%rdi; mov %%rbx, %%rbp\n\t"
		     "mov %%rbx, %%r8; mov %%rbx, %%r9; mov %%rbx, %%r10; mov %%rbx, %%r11\n\t"
		     "mov %%rbx, %%r12; mov %%rbx, %%r13; mov %%rbx, %%r14; mov %%rbx, %%r15\n\t"
		     "outl %%eax, %%dx; jmp 1f; 1:"
		     :
		     : "m"(d), "m"(b), "m"(c), "m"(a)
		     : "memory");
}

/* Fill b bytes from a with noise, every d-th word. */
static void scribble(void)
{
	unsigned long at;

	for (at = a; at < a + b; at += 8 * (d ?: 1))
		*(volatile u64 *)at = noise();
}

static void set_system_register(void)
{
	switch (a) {
	case 0: asm volatile("mov %0, %%cr0" : : "r"(b) : "memory"); break;
	case 3: asm volatile("mov %0, %%cr3" : : "r"(b) : "memory"); break;
	case 4: asm volatile("mov %0, %%cr4" : : "r"(b) : "memory"); break;
	case 8: asm volatile("mov %0, %%cr8" : : "r"(b) : "memory"); break;
	case 9:
		asm volatile("wrmsr" : : "c"((u32)c), "a"((u32)b), "d"((u32)(b >> 32)) : "memory");
		break;
	case 10: asm volatile("mov %0, %%dr7; mov %0, %%dr0" : : "r"(b) : "memory"); break;
	case 11: asm volatile("lgdt %0" : : "m"(b) : "memory"); break;
	case 12: asm volatile("lidt %0" : : "m"(b) : "memory"); break;
	case 13:
		asm volatile("mov %0, %%ds; mov %0, %%ss; mov %0, %%gs" : : "r"((u16)b) : "memory");
		break;
	case 14: asm volatile("ltr %0" : : "r"((u16)b) : "memory"); break;
	case 15: asm volatile("push %0; popfq" : : "r"(b) : "memory"); break;
	case 16:
		asm volatile("xsetbv" : : "c"((u32)c), "a"((u32)b), "d"((u32)(b >> 32)) : "memory");
		break;
	case 17: asm volatile("swapgs; invlpg (%0); wbinvd" : : "r"(b) : "memory"); break;
	}
}

/* A stack where there is none, and something that needs it. */
static void lose_the_stack(void)
{
	switch (b) {
	case 0: asm volatile("mov %0, %%rsp; push %%rax" : : "r"(a) : "memory"); break;
	case 1: asm volatile("mov %0, %%rsp; int3" : : "r"(a) : "memory"); break;
	case 2: asm volatile("mov %0, %%rsp; call *%1" : : "r"(a), "r"(c) : "memory"); break;
	case 3:
		asm volatile("mov %0, %%rsp; sti; 1: decl %%gs:0x1c; jmp 1b" : : "r"(a) : "memory");
		break;
	case 4:  asm volatile("mov %0, %%rsp; iretq" : : "r"(a) : "memory"); break;
	case 5:  asm volatile("mov %0, %%rsp; ud2" : : "r"(a) : "memory"); break;
	default: asm volatile("mov %0, %%rsp; lretq" : : "r"(a) : "memory"); break;
	}
}

/* int $a */
asm(".pushsection .text, \"ax\"\ntraps:\n.set vector, 0\n.rept 256\n"
    ".byte 0xcd, vector\nret\n.set vector, vector + 1\n.endr\n.popsection");
extern char traps[];

static void trap(void)
{
	asm volatile("call *%0" : : "r"(traps + 3 * (a & 0xff)) : "memory");
}

/* Random instructions; the bytes are put here by whoever spoils the file. */
asm(".pushsection .text, \"ax\"\n"
    ".globl junk\njunk:\n.ascii \"JUNK BEGINS HERE\"\n.fill 240, 1, 0x90\nret\n.popsection");
void junk(void);

static noinline long deeper(long x)
{
	volatile long pad[32];

	pad[x & 31] = x;
	if (READ_ONCE(seed) == x)
		return x;
	return deeper(x + 1) + pad[x & 31];
}

static int nothing(struct kprobe *p, struct pt_regs *regs)
{
	return 0;
}

/* A probe whose structure is noise, or becomes so while it is registered. */
static void wild_probe(void)
{
	union probe {
		struct kprobe kp;
		struct kretprobe rp;
		struct jprobe jp;
		u64 words[64];
	} *p = kzalloc(sizeof(*p), GFP_KERNEL);
	int i, err = 0;

	if (c & 1) {
		for (i = 0; i < ARRAY_SIZE(p->words); i++)
			p->words[i] = noise() % 3 ? 0 : noise() % 2 ? b : noise();
	} else {
		p->kp.symbol_name = "ksys_read";
		if (a != 2)
			p->kp.pre_handler = nothing;
		p->rp.maxactive = b;
		p->rp.data_size = d;
	}
	if (a == 0)
		err = register_kprobe(&p->kp);
	else if (a == 1)
		err = register_kretprobe(&p->rp);
	else
		err = register_jprobe(&p->jp);
	if (c & 2)
		for (i = 0; i < ARRAY_SIZE(p->words); i++)
			if (noise() % 2)
				p->words[i] = noise();
	if (c & 4)
		kfree(p);
	if (c & 8 || err)
		return;
	if (a == 0)
		unregister_kprobe(&p->kp);
	else if (a == 1)
		unregister_kretprobe(&p->rp);
	else
		unregister_jprobe(&p->jp);
}

/* Pointers to probes that are none. */
static void wild_batch(void)
{
	struct kprobe **list = (struct kprobe **)b;

	switch (a) {
	case 0:  register_kprobes(list, c); break;
	case 1:  unregister_kprobes(list, c); break;
	case 2:  register_kretprobes((struct kretprobe **)list, c); break;
	case 3:  unregister_jprobes((struct jprobe **)list, c); break;
	case 4:  enable_kprobe((struct kprobe *)list); break;
	default: disable_kprobe((struct kprobe *)list); break;
	}
}

static int __init hostile_init(void)
{
	seed = a ^ b << 1 ^ c << 2 ^ d << 3 ^ 0x123456789;
	if (!strcmp(what, "out"))
		out(a, b, c);
	else if (!strcmp(what, "in"))
		return in(a) == 12345;
	else if (!strcmp(what, "string"))
		string_io(a, b, c, d);
	else if (!strcmp(what, "control"))
		control();
	else if (!strcmp(what, "registers"))
		with_wild_registers();
	else if (!strcmp(what, "poke"))
		*(volatile u64 *)a = b;
	else if (!strcmp(what, "peek"))
		return *(volatile u64 *)a == 12345;
	else if (!strcmp(what, "scribble"))
		scribble();
	else if (!strcmp(what, "system"))
		set_system_register();
	else if (!strcmp(what, "stack"))
		lose_the_stack();
	else if (!strcmp(what, "jump"))
		asm volatile("call *%0" : : "r"(a) : "memory");
	else if (!strcmp(what, "trap"))
		trap();
	else if (!strcmp(what, "junk"))
		junk();
	else if (!strcmp(what, "overflow"))
		return deeper(0) == 12345;
	else if (!strcmp(what, "probe"))
		wild_probe();
	else if (!strcmp(what, "batch"))
		wild_batch();
	return 0;
}

static void __exit hostile_exit(void) {}

module_init(hostile_init);
module_exit(hostile_exit);
MODULE_LICENSE("GPL");
