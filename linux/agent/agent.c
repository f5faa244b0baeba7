// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The kernel's first process. It makes system calls for the host, as itself and as tasks that
 * it forks. It is static and uses no library.
 *
 * All tasks share one address space, so that switching between them keeps the translation of
 * addresses. In all else they are separate processes.
 *
 * The agent itself spins at SCHED_IDLE. When it reaches agent_pause, nothing else can run on
 * its processor. If nothing can run on the others either, the board stops there.
 */
#include <asm/unistd.h>

#include "region.h"

#ifdef __powerpc64__
#undef REGION_BASE
#define REGION_BASE REGION_LOW
#elif defined(__mips__)
#undef REGION_BASE
#undef REGION_PHYS
#define REGION_BASE REGION_LOWEST
#define REGION_PHYS REGION_PHYS_32
#elif __SIZEOF_LONG__ == 4
#undef REGION_BASE
#undef REGION_PHYS
#define REGION_BASE REGION_BASE_32
#define REGION_PHYS REGION_PHYS_32
#endif

typedef unsigned long word;

#define NULL ((void *)0)
#define O_RDWR 2
#ifndef __mips__ /* which has numbers of its own */
#define NR_SIGNALS 64
#define O_SYNC 04010000
#define MAP_ANONYMOUS 0x20
#define SIGCHLD 17
#define SIGUSR1 10
#define SIGXFSZ 25
#endif
#define O_CLOEXEC 02000000
#define PROT_RW 3
#define MAP_SHARED 1
#define MAP_PRIVATE 2
#define MAP_FIXED 0x10
#define SCHED_OTHER 0
#define SCHED_IDLE 5
#define FUTEX_WAIT 0
#define FUTEX_WAKE 1
#define FUTEX_PRIVATE 128
#define CLONE_VM 0x100
#define PR_SET_NAME 15
#define SIGPIPE 13
#define SIG_IGN ((void *)1)
#define PR_SET_KEEPCAPS 8
#define CAP_VERSION 0x20080522
#define CAP_CHECKPOINT_RESTORE 40 /* lets a task choose its child's pid */
#define PAGE 4096ul
#define MEM_FD 1000 /* above all descriptors that tasks use */
#define OWN_BUFFER 65536

struct clone_args {
	u64 flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid,
		set_tid_size, cgroup;
};

static u32 futexes[NR_SLOTS];
static volatile long spinning; /* slot of the task that waits at agent_pause */

#define CALL(nr, a, b, c) call(nr, (long)(a), (long)(b), (long)(c), 0, 0, 0)

#if defined(__x86_64__)
#include "x86.h"
#elif defined(__aarch64__)
#include "arm64.h"
#elif defined(__riscv)
#include "riscv64.h"
#elif defined(__s390x__)
#include "s390x.h"
#elif defined(__powerpc64__)
#include "ppc64.h"
#elif defined(__arm__)
#include "armhf.h"
#elif defined(__i386__)
#include "i386.h"
#elif defined(__mips__)
#include "mips64.h"
#endif

#ifdef __NR_setresuid32 /* of numbers with all bits */
#undef __NR_setresuid
#undef __NR_setresgid
#define __NR_setresuid __NR_setresuid32
#define __NR_setresgid __NR_setresgid32
#endif
#ifdef __NR_open
#define OPEN(path, flags) CALL(__NR_open, path, flags, 0)
#define MKDIR(path, mode) CALL(__NR_mkdir, path, mode, 0)
#define CHMOD(path, mode) CALL(__NR_chmod, path, mode, 0)
#define DUP2(from, to) CALL(__NR_dup2, from, to, 0)
#else
#define AT_FDCWD (-100l)
#define OPEN(path, flags) CALL(__NR_openat, AT_FDCWD, path, flags)
#define MKDIR(path, mode) CALL(__NR_mkdirat, AT_FDCWD, path, mode)
#define CHMOD(path, mode) CALL(__NR_fchmodat, AT_FDCWD, path, mode)
#define DUP2(from, to) CALL(__NR_dup3, from, to, 0)
#endif
#ifndef RNDADDENTROPY
#define RNDADDENTROPY 0x40085203
#endif
#ifdef __NR_mmap2 /* the offset in pages */
#define MMAP(at, size, prot, flags, fd, offset) \
	call(__NR_mmap2, at, size, prot, flags, fd, (offset) / PAGE)
#elif !defined(MMAP)
#define MMAP(...) call(__NR_mmap, __VA_ARGS__)
#endif

struct sigaction {
#ifdef __mips__
#define ACTION(handler) { RESTORER, handler, { 0 } }
	word flags;
	void *handler;
#else
#define ACTION(handler) { handler, RESTORER, { 0 } }
	void *handler;
	word flags;
#endif
#ifdef SA_RESTORER /* else the kernel has tasks return from signals by its vDSO */
#define RESTORER SA_RESTORER, restorer
	void *restorer;
#else
#define RESTORER 0
#endif
	word mask[NR_SIGNALS / 8 / sizeof(word)];
};

static void die(const char *why)
{
	say("agent: ");
	say(why);
	say("\n");
	for (;;)
		CALL(__NR_exit, 1, 0, 0);
}

static volatile struct agent_slot *slot_at(long number)
{
	return (void *)(word)(REGION_BASE + SLOTS_AT + number * SLOT_SIZE);
}

static volatile struct agent_control *control(void)
{
	return (void *)(word)REGION_BASE;
}

static void map(u64 size)
{
#ifdef SHARE
	long at = SHARE(size);
#else
	long at = MMAP(REGION_BASE, size, PROT_RW, MAP_SHARED | MAP_FIXED, MEM_FD, REGION_PHYS);
#endif

	if (at < 0)
		die("/dev/mem cannot be mapped");
}

static void on_signal(int number)
{
	(void)number;
}

/* A signal only interrupts the call that a task waits in; no call ends a task. */
static void take_signals(void)
{
	struct sigaction interrupts = ACTION(on_signal);
	struct sigaction ignored = ACTION(SIG_IGN);
	const long size = sizeof(ignored.mask);

	call(__NR_rt_sigaction, SIGUSR1, (long)&interrupts, 0, size, 0, 0);
	call(__NR_rt_sigaction, SIGCHLD, (long)&ignored, 0, size, 0,
	     0); /* no child becomes a zombie */
	call(__NR_rt_sigaction, SIGPIPE, (long)&ignored, 0, size, 0, 0);
	call(__NR_rt_sigaction, SIGXFSZ, (long)&ignored, 0, size, 0, 0);
}

/* Become another user that may still choose the pids of children. */
static void become(u64 uid, u64 gid)
{
	struct { u32 version, pid; } head = { CAP_VERSION, 0 };
	const u32 high = 1 << (CAP_CHECKPOINT_RESTORE - 32);
	u32 sets[6] = { 0, 0, 0, high, high, 0 };

	if (uid)
		CALL(__NR_prctl, PR_SET_KEEPCAPS, 1, 0);
	CALL(__NR_setresgid, gid, gid, gid);
	CALL(__NR_setresuid, uid, uid, uid);
	if (uid)
		CALL(__NR_capset, &head, sets, 0);
}

/* Let the agent run only if nothing else can. */
static void schedule_as(long policy)
{
	u32 priority = 0;

	CALL(__NR_sched_setscheduler, 0, policy, &priority);
}

/*
 * Start on one of the processors that the task may use, by its slot. The kernel would start
 * all tasks on the processors where the agent is not, and leave them there.
 */
static void spread(long me)
{
	u64 may = 0, one;

	CALL(__NR_sched_getaffinity, 0, sizeof(may), &may);
	if (!(may & (may - 1)))
		return;
	for (one = may; me; me--) {
		one &= one - 1;
		one = one ? one : may;
	}
	one &= -one;
	CALL(__NR_sched_setaffinity, 0, sizeof(one), &one);
	CALL(__NR_sched_setaffinity, 0, sizeof(may), &may);
}

static void live(long me);

/* First steps of a new task, on its own stack. Its slot tells its name and user. */
__attribute__((used, noreturn)) static void begin(long me)
{
	volatile struct agent_slot *slot = slot_at(me);

	if (slot->name[0])
		CALL(__NR_prctl, PR_SET_NAME, slot->name, 0);
	if (slot->uid != KEEP_ID)
		become(slot->uid, slot->gid);
	spread(me);
	live(me);
	__builtin_unreachable();
}

/* Fork a task onto a slot; return its pid or -errno. */
static long fork(long me, long slot, u32 tid)
{
	struct clone_args how = {
		.flags = CLONE_VM,
		.exit_signal = SIGCHLD,
		.stack = (word)slot_at(slot),
		.stack_size = SLOT_STACK,
	};
	long pid;

	if (tid) {
		how.set_tid = (word)&tid;
		how.set_tid_size = 1;
	}
	if (!me)
		schedule_as(SCHED_OTHER);
	pid = clone_to(&how, slot);
	if (!me) {
		schedule_as(SCHED_IDLE);
		CALL(__NR_sched_yield, 0, 0, 0);
	}
	return pid;
}

/* Fill free memory with zeroes. */
static long give_back(u64 size)
{
	volatile u8 *at = (void *)MMAP(0, size, PROT_RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if ((word)at > -PAGE)
		return (long)at;
	for (u64 i = 0; i < size; i += PAGE)
		at[i] = 1;
	for (u64 i = 0; i < size; i += PAGE)
		at[i] = 0;
	return CALL(__NR_munmap, at, size, 0);
}

static u64 argument(volatile struct agent_slot *slot, const volatile struct agent_op *op, int i)
{
	u64 kind = op->kinds[i];

	if (kind == ARG_VALUE)
		return op->args[i];
	if (kind == ARG_DATA)
		return (word)slot + SLOT_DATA + op->args[i];
	return slot->ops[kind - ARG_RESULT].ret + op->args[i];
}

/* Return whether to make an operation. failed: an earlier one has stopped the rest. */
static int wanted(volatile struct agent_slot *slot, const volatile struct agent_op *op, int failed)
{
	if (!failed)
		return 1;
	if (!(op->flags & OP_FINALLY))
		return 0;
	for (int i = 0; i < NR_ARGS; i++)
		if (op->kinds[i] >= ARG_RESULT && slot->ops[op->kinds[i] - ARG_RESULT].ret < 0)
			return 0;
	return 1;
}

/* Return a result as 64 bits: the kernel's errors are negative, and addresses are not. */
static s64 wide(long result)
{
	return (word)result > -PAGE ? result : (s64)(word)result;
}

/* Make the operations of a slot's request. */
static void serve(long me)
{
	volatile struct agent_slot *slot = slot_at(me);
	int failed = 0;

	for (u64 i = 0; i < slot->count; i++) {
		volatile struct agent_op *op = &slot->ops[i];
		u64 a[NR_ARGS];

		if (!wanted(slot, op, failed))
			continue;
		for (int k = 0; k < NR_ARGS; k++)
			a[k] = argument(slot, op, k);
		op->made = 1;
		if (op->nr == AGENT_FORK) {
			op->ret = fork(me, a[0], a[1]);
		} else if (op->nr == AGENT_GIVE_BACK) {
			op->ret = give_back(a[0]);
		} else {
			op->ret = wide(call(op->nr, a[0], a[1], a[2], a[3], a[4], a[5]));
		}
		if (op->ret < 0 && op->flags & OP_STOP)
			failed = 1;
	}
	slot->done = slot->seq;
}

/* Wake the tasks that the host has marked. */
static void wake(void)
{
	for (int i = 0; i < NR_SLOTS / 64; i++) {
		u64 bits = __atomic_exchange_n(&control()->wake[i], 0, __ATOMIC_SEQ_CST);

		for (; bits; bits &= bits - 1) {
			u32 *futex = &futexes[64 * i + __builtin_ctzll(bits)];

			++*(volatile u32 *)futex;
			CALL(__NR_futex, futex, FUTEX_WAKE | FUTEX_PRIVATE, 1);
		}
	}
}

static void stop_spinning(long me)
{
	if (spinning == me)
		spinning = 0;
}

/*
 * A task that has done its work waits for more at agent_pause, in user mode, until it has to
 * give way. The agent comes there when nothing else can run. The waker sleeps again and again:
 * it does what the agent is to do, but for which it may lack a processor for seconds.
 */
static void live(long me)
{
	for (;;) {
		u32 count = *(volatile u32 *)&futexes[me];
		u64 who = me;
		int waker = me && (u64)me == control()->waker;

		if (waker)
			wake();
		if (slot_at(me)->seq != slot_at(me)->done) {
			stop_spinning(me);
			serve(me);
			continue;
		}
		if (me && !waker && control()->give_way) {
			stop_spinning(me);
			CALL(__NR_futex, &futexes[me], FUTEX_WAIT | FUTEX_PRIVATE, count);
			continue;
		}
		if (me) {
			spinning = me;
		} else {
			if (!spinning) {
				control()->give_way = 0;
				control()->news = 0;
				wake();
			}
			if (spinning || control()->others)
				CALL(__NR_sched_yield, 0, 0, 0);
			if (spinning)
				who = PAUSE_YIELD;
			else if (control()->news)
				continue;
		}
		pause(who);
	}
}

static void mount(const char *type, const char *target)
{
	MKDIR(target, 0755);
	call(__NR_mount, (long)type, (long)target, (long)type, 0, 0, 0);
}

/* Send the kernel's symbols to the host. */
static void send_symbols(void)
{
	static char buffer[OWN_BUFFER];
	long fd = OPEN("/proc/kallsyms", 0), size;

	while ((size = CALL(__NR_read, fd, buffer, sizeof(buffer))) > 0)
		send(buffer, size);
	CALL(__NR_close, fd, 0, 0);
}

/* Tasks get the pids of the host's processes, which go up to 4194304. */
static void raise_pid_max(void)
{
	static const char most[] = "4194304\n";
	long fd = OPEN("/proc/sys/kernel/pid_max", O_RDWR);

	CALL(__NR_write, fd, most, sizeof(most) - 1);
	CALL(__NR_close, fd, 0, 0);
}

/* Seed the kernel's random numbers; it needs that to hash pointers, for example. */
static void seed(void)
{
	struct {
		u32 bits, size;
		char bytes[64];
	} entropy = { 512, 64, "the same in each kernel that is made: nobody wants surprises" };
	long fd = OPEN("/dev/urandom", O_RDWR);

	CALL(__NR_ioctl, fd, RNDADDENTROPY, &entropy);
	CALL(__NR_close, fd, 0, 0);
}

__attribute__((used)) static void run(void)
{
	PORTS(1);
	mount("proc", "/proc");
	mount("sysfs", "/sys");
	mount("devtmpfs", "/dev");
	mount("tmpfs", "/tmp");
	mount("debugfs", "/sys/kernel/debug");
	mount("tracefs", "/sys/kernel/tracing");
	raise_pid_max();
	seed();
	send_symbols();
#ifndef SHARE
	long fd = OPEN("/dev/mem", O_RDWR | O_SYNC);

	if (fd < 0)
		die("no /dev/mem");
	DUP2(fd, MEM_FD);
	CALL(__NR_close, fd, 0, 0);
#endif
	map(REGION_SIZE);
	take_signals();
	CHMOD("/init", 0); /* so that no task runs the agent again by /proc/self/exe */
	PORTS(0);          /* tasks must not inherit it */
	schedule_as(SCHED_IDLE);
	control()->magic = AGENT_MAGIC;
	live(0);
}
