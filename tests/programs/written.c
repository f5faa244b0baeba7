// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Write code at random in every way that Linux has, and run it.
 *
 * written SEED COUNT: prints what ran wrongly, and how much ran rightly. There are areas of code, each
 * mapped in another way. An area has functions, which are lists of operations; a few of these call
 * other functions, or change operations, maybe the one behind them. We know what a function
 * returns by going through its list. Threads write and run in turn, and sometimes at once.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "chance.h"

#define FUNCTIONS 9
#define STRIDE 1360 /* from one function to the next; some cross the border of two pages */
#define SIZE 12288  /* of an area */
#define OPERATIONS 8
#define BYTES 480 /* at most, of a function */
#define THREADS 3

enum kind { ADD, XOR, TURN, LOOP, CALL, CHANGE };

struct operation {
	enum kind kind;
	uint32_t value; /* to add, to xor, to turn by; of LOOP: what to add each time */
	int function;   /* to call, or that is changed */
	int index;      /* of the operation that is changed */
	int at;         /* where its changeable bytes are in the function */
};

struct function {
	int n;
	struct operation does[OPERATIONS];
};

/* How an area is mapped, by which ways it can be written. */
enum mapping { ALL_RIGHTS, SWITCHED, TWICE, DOUBLED, COPIED, MAPPINGS };

static const char *const mappings[] = { "all rights", "switched", "twice", "doubled", "copied" };

struct area {
	enum mapping mapping;
	int fd;         /* of the file, or -1 */
	uint8_t *code;  /* where it runs */
	uint8_t *other; /* where it can be written, or NULL */
	struct function functions[FUNCTIONS];
	struct function in_file[FUNCTIONS]; /* of COPIED, if it has any in its file */
	bool has_file;
	const char *way; /* by which it was last written */
};

enum way { STORE, WRITE_FILE, READ_PIPE, RECEIVE, WRITE_VM, WRITE_MEM, POKE, SWITCH, WAYS };

static const char *const ways[] = {
	"stores",         "pwrite", "read",    "recvmsg", "process_vm_writev",
	"/proc/self/mem", "ptrace", "mprotect"
};

static struct area areas[2 * MAPPINGS];
static int pipes[2], sockets[2], mem, right, wrong;
static pid_t tracee;

static int below(int limit)
{
	return draw() % limit;
}

static void die(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- code of each architecture. put() writes an instruction; registers: see run() */
static uint8_t *end;

static void put(uint32_t word)
{
	memcpy(end, &word, 4);
	end += 4;
}

#if defined(__x86_64__)
#define VALUES 0xffffffff /* that ADD and XOR can have */

static void bytes(const char *from, int n)
{
	memcpy(end, from, n);
	end += n;
}

static void begin(void)
{
	bytes("\x89\xf8", 2); /* mov %edi,%eax */
}

static void finish(void)
{
	bytes("\xc3", 1);
}

/* The changeable bytes of ADD and XOR. */
static uint32_t word_of(const struct operation *does)
{
	return does->value;
}

static void emit(struct operation *does, const uint8_t *first, int function, const struct area *a)
{
	switch (does->kind) {
	case ADD: bytes("\x05", 1); break; /* add $value,%eax */
	case XOR: bytes("\x35", 1); break; /* xor $value,%eax */
	case TURN:
		bytes("\xc1\xc0", 2); /* rol $value,%eax */
		*end++ = does->value;
		return;
	case LOOP:
		bytes("\xb9\x05\x00\x00\x00\x05", 6); /* mov $5,%ecx; add $value,%eax */
		put(does->value);
		bytes("\xff\xc9\x75\xf7", 4); /* dec %ecx; jne to add */
		return;
	case CALL:
		bytes("\x89\xc7\xe8", 3); /* mov %eax,%edi; call */
		put((does->function - function) * STRIDE - (end - first) - 4);
		return;
	case CHANGE: {
		const struct operation *changed = &a->functions[does->function].does[does->index];

		bytes("\xc7\x86", 2); /* movl $value,disp(%rsi) */
		put(does->function * STRIDE + changed->at);
		put(does->value);
		return;
	}
	}
	does->at = end - first;
	put(does->value);
}

static void serialize(void) {}
#elif defined(__aarch64__)
#define VALUES 0xfff

static void begin(void) {}

static void finish(void)
{
	put(0xd65f03c0); /* ret */
}

static uint32_t word_of(const struct operation *does)
{
	return does->kind == ADD ? 0x11000000 | does->value << 10 : /* add w0,w0,#value */
				   0x52800002 | does->value << 5;   /* mov w2,#value */
}

static void emit(struct operation *does, const uint8_t *first, int function, const struct area *a)
{
	does->at = end - first;
	switch (does->kind) {
	case ADD: put(word_of(does)); return;
	case XOR:
		put(word_of(does));
		put(0x4a020000); /* eor w0,w0,w2 */
		return;
	case TURN: put(0x13800000 | (32 - does->value) << 10); return; /* ror w0,w0,#32-value */
	case LOOP:
		put(0x52800000 | 5 << 5 | 2);           /* mov w2,#5 */
		put(0x11000000 | does->value << 10);    /* add w0,w0,#value */
		put(0x71000442);                        /* subs w2,w2,#1 */
		put(0x54000001 | (-2u & 0x7ffff) << 5); /* b.ne to add */
		return;
	case CALL:
		put(0xa9bf7bfd); /* stp x29,x30,[sp,#-16]! */
		put(0x94000000 |
		    ((((does->function - function) * STRIDE - (end - first)) >> 2) & 0x3ffffff));
		put(0xa8c17bfd); /* ldp x29,x30,[sp],#16 */
		return;
	case CHANGE: {
		struct operation changed = a->functions[does->function].does[does->index];
		uint32_t place = does->function * STRIDE + changed.at, word, far;

		changed.value = does->value;
		word = word_of(&changed);
		put(0x52800002 | (word & 0xffff) << 5); /* mov w2,#low */
		put(0x72a00002 | word >> 16 << 5);      /* movk w2,#high,lsl 16 */
		put(0xd2800003 | place << 5);           /* mov x3,#place */
		put(0xb8236822);                        /* str w2,[x1,x3] */
		far = place - function * STRIDE - (end - first);
		put(0x10000003 | (far & 3) << 29 | (far >> 2 & 0x7ffff) << 5); /* adr x3,place */
		put(0xd50b7b23);                                               /* dc cvau,x3 */
		put(0xd5033b9f);                                               /* dsb ish */
		put(0xd50b7523);                                               /* ic ivau,x3 */
		put(0xd5033b9f);
		put(0xd5033fdf); /* isb */
		return;
	}
	}
}

static void serialize(void)
{
	asm volatile("isb" ::: "memory");
}
#elif defined(__riscv)
#define VALUES 0x7ff

static void begin(void) {}

static void finish(void)
{
	put(0x8067); /* ret */
}

static uint32_t word_of(const struct operation *does)
{
	/* addiw a0,a0,value; xori a0,a0,value */
	return (does->kind == ADD ? 0x5051b : 0x54513) | does->value << 20;
}

/* Load a word into t0 or t1. */
static void load(int to, uint32_t word)
{
	put(((word + 0x800) & 0xfffff000) | to << 7 | 0x37);   /* lui */
	put((word & 0xfff) << 20 | to << 15 | to << 7 | 0x1b); /* addiw */
}

static void emit(struct operation *does, const uint8_t *first, int function, const struct area *a)
{
	does->at = end - first;
	switch (does->kind) {
	case ADD:
	case XOR: put(word_of(does)); return;
	case TURN:
		put(0x5129b | does->value << 20);        /* slliw t0,a0,value */
		put(0x5551b | (32 - does->value) << 20); /* srliw a0,a0,32-value */
		put(0x556533);                           /* or a0,a0,t0 */
		return;
	case LOOP:
		put(0x500293);                    /* li t0,5 */
		put(0x5051b | does->value << 20); /* addiw a0,a0,value */
		put(0xfff28293);                  /* addi t0,t0,-1 */
		put(0xfe029ce3);                  /* bnez t0,to addiw */
		return;
	case CALL: {
		uint32_t far;

		put(0xff010113); /* addi sp,sp,-16 */
		put(0x113023);   /* sd ra,0(sp) */
		far = (does->function - function) * STRIDE - (end - first);
		put(0xef | (far >> 20 & 1) << 31 | (far >> 1 & 0x3ff) << 21 |
		    (far >> 11 & 1) << 20 | (far >> 12 & 0xff) << 12); /* jal ra */
		put(0x13083);                                          /* ld ra,0(sp) */
		put(0x1010113);                                        /* addi sp,sp,16 */
		return;
	}
	case CHANGE: {
		struct operation changed = a->functions[does->function].does[does->index];

		changed.value = does->value;
		load(5, word_of(&changed));
		load(6, does->function * STRIDE + changed.at);
		put(0xb30333); /* add t1,t1,a1 */
		put(0x532023); /* sw t0,0(t1) */
		put(0x100f);   /* fence.i */
		return;
	}
	}
}

static void serialize(void)
{
	asm volatile("fence.i" ::: "memory");
}
#endif

/* Return how many bytes a function has; they are written to code. */
static int encode(struct area *a, int number, uint8_t *code)
{
	struct function *f = &a->functions[number];

	end = code;
	begin();
	for (int i = 0; i < f->n; i++)
		emit(&f->does[i], code, number, a);
	finish();
	return end - code;
}

/* ---- what a function returns */
static uint32_t turned(uint32_t x, int by)
{
	return x << by | x >> (32 - by);
}

static uint32_t expect(struct area *a, int number, uint32_t x)
{
	struct function *f = &a->functions[number];

	for (int i = 0; i < f->n; i++) {
		const struct operation *does = &f->does[i];

		switch (does->kind) {
		case ADD:    x += does->value; break;
		case XOR:    x ^= does->value; break;
		case TURN:   x = turned(x, does->value); break;
		case LOOP:   x += 5 * does->value; break;
		case CALL:   x = expect(a, does->function, x); break;
		case CHANGE: a->functions[does->function].does[does->index].value = does->value;
		}
	}
	return x;
}

/* ---- threads, of which one works while the others wait */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct work {
	void (*begin)(void *);
	void *with;
} work[THREADS];

static void *serve(void *number)
{
	struct work *mine = &work[(intptr_t)number];

	pthread_mutex_lock(&lock);
	while (1) {
		while (!mine->begin)
			pthread_cond_wait(&changed, &lock);
		pthread_mutex_unlock(&lock);
		mine->begin(mine->with);
		pthread_mutex_lock(&lock);
		mine->begin = NULL;
		pthread_cond_broadcast(&changed);
	}
	return NULL;
}

static void start_on(int thread, void (*begin)(void *), void *with)
{
	pthread_mutex_lock(&lock);
	work[thread] = (struct work){ begin, with };
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void await(int thread)
{
	pthread_mutex_lock(&lock);
	while (work[thread].begin)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

/* Have some thread do something; 0 is this one. */
static void on(int thread, void (*begin)(void *), void *with)
{
	if (!thread) {
		begin(with);
		return;
	}
	start_on(thread, begin, with);
	await(thread);
}

/* ---- ways to write */
static bool can(const struct area *a, enum way way)
{
	switch (way) {
	case STORE:
	case READ_PIPE:
	case RECEIVE:
	case WRITE_VM:   return a->other;
	case WRITE_FILE: return a->mapping == TWICE || a->mapping == DOUBLED;
	case SWITCH:     return a->mapping == SWITCHED || a->mapping == COPIED;
	default:         return a->other || a->mapping == SWITCHED || a->mapping == COPIED;
	}
}

struct writing {
	struct area *area;
	enum way way;
	int at, size;
	uint8_t bytes[BYTES];
};

static void store(uint8_t *to, const uint8_t *from, int size)
{
	while (size) {
		int n = size >= 8 && !(size & 8) ? 8 : size >= 4 ? 4 : size >= 2 ? 2 : 1;

		switch (n) {
		case 8:  *(volatile uint64_t *)to = *(const uint64_t *)from; break;
		case 4:  *(volatile uint32_t *)to = *(const uint32_t *)from; break;
		case 2:  *(volatile uint16_t *)to = *(const uint16_t *)from; break;
		default: *(volatile uint8_t *)to = *from;
		}
		to += n, from += n, size -= n;
	}
}

static void poke(uint8_t *to, const uint8_t *from, int size)
{
	while (size) {
		long word = ptrace(PTRACE_PEEKTEXT, tracee, to, NULL);
		int n = size < 8 ? size : 8;

		memcpy(&word, from, n);
		if (ptrace(PTRACE_POKETEXT, tracee, to, word))
			die("ptrace");
		to += n, from += n, size -= n;
	}
}

static void write_code(void *with)
{
	struct writing *w = with;
	struct area *a = w->area;
	uint8_t *to = (a->other ? a->other : a->code) + w->at, *code = a->code + w->at;
	struct iovec from = { w->bytes, w->size }, into = { to, w->size };
	struct msghdr message = { .msg_iov = &into, .msg_iovlen = 1 };
	ssize_t done = w->size;

	switch (w->way) {
	case STORE:      store(to, w->bytes, w->size); break;
	case WRITE_FILE: done = pwrite(a->fd, w->bytes, w->size, w->at); break;
	case READ_PIPE:
		if (write(pipes[1], w->bytes, w->size) == w->size)
			done = read(pipes[0], to, w->size);
		break;
	case RECEIVE:
		if (write(sockets[1], w->bytes, w->size) == w->size)
			done = recvmsg(sockets[0], &message, 0);
		break;
	case WRITE_VM:  done = process_vm_writev(getpid(), &from, 1, &into, 1, 0); break;
	case WRITE_MEM: done = pwrite(mem, w->bytes, w->size, (uintptr_t)to); break;
	case POKE:      poke(to, w->bytes, w->size); break;
	case SWITCH:
		if (mprotect(a->code, SIZE, PROT_READ | PROT_WRITE))
			die("mprotect");
		store(code, w->bytes, w->size);
		if (mprotect(a->code, SIZE, PROT_READ | PROT_EXEC))
			die("mprotect");
		break;
	default: break;
	}
	if (done != w->size)
		die(ways[w->way]);
	a->way = ways[w->way];
	__builtin___clear_cache((char *)code, (char *)code + w->size);
}

static enum way some_way(const struct area *a, int thread)
{
	enum way way;

	do
		way = below(WAYS);
	while (!can(a, way) || (way == POKE && (thread || !tracee)));
	return way;
}

/* ---- what happens to an area */
static bool changeable(const struct operation *does)
{
	return does->kind == ADD || does->kind == XOR;
}

static uint32_t value(void)
{
	return draw() & VALUES;
}

/* Draw a function. Its first operation, which others change, always stands at the same place. */
static void invent(const struct area *a, int number, struct function *f)
{
	int calls = 0;

	f->n = 3 + below(OPERATIONS - 2);
	for (int i = 0; i < f->n; i++) {
		struct operation *does = &f->does[i];

		*does = (struct operation){ .kind = below(CHANGE + 1), .value = value() };
		if (i == 0 || i == f->n - 1)
			does->kind = i ? XOR : ADD;
		if (does->kind == CALL && (!number || calls++ == 2))
			does->kind = TURN;
		if (does->kind == CHANGE && !a->other)
			does->kind = LOOP;
		if (does->kind == TURN)
			does->value = 1 + below(31);
		if (does->kind == CALL)
			does->function = below(number);
		if (does->kind == CHANGE) {
			/* the first of some function, or the last one of this */
			does->function = below(2) ? number : below(FUNCTIONS);
			does->index = does->function == number ? f->n - 1 : 0;
		}
	}
}

/* Write a function, or what has changed in it. */
static void write_function(struct area *a, int number, const uint8_t *before, int thread)
{
	struct writing w = { .area = a, .way = some_way(a, thread) };
	uint8_t code[BYTES + 8];
	int size = encode(a, number, code), first = 0;

	size = encode(a, number, code); /* once more, as it may change what stands behind */
	if (before) {
		while (first < size - 1 && code[first] == before[first])
			first++;
		while (size > first + 1 && code[size - 1] == before[size - 1])
			size--;
	}
	w.at = number * STRIDE + first;
	w.size = size - first;
	memcpy(w.bytes, code + first, w.size);
	on(thread, write_code, &w);
}

static void rewrite(struct area *a)
{
	int number = below(FUNCTIONS);

	invent(a, number, &a->functions[number]);
	write_function(a, number, NULL, below(THREADS));
}

static struct operation *pick(struct area *a, int number)
{
	struct function *f = &a->functions[number];
	struct operation *does;

	do
		does = &f->does[below(f->n)];
	while (!changeable(does));
	return does;
}

static void patch(struct area *a)
{
	int number = below(FUNCTIONS);
	uint8_t before[BYTES + 8];

	encode(a, number, before);
	pick(a, number)->value = value();
	write_function(a, number, before, below(THREADS));
}

struct running {
	struct area *area;
	int number;
	uint32_t x, found, wanted, others; /* others: what it returned before */
};

static uint32_t run(const struct area *a, int number, uint32_t x)
{
	/* x and the result are in edi and eax, w0 or a0, the place to write at in rsi, x1 or a1 */
	uint32_t (*function)(uint32_t, uint8_t *) = (void *)(a->code + number * STRIDE);

	return function(x, a->other);
}

static void run_code(void *with)
{
	struct running *r = with;

	serialize();
	r->found = run(r->area, r->number, r->x);
}

static void judge(const struct running *r, const char *what)
{
	if (r->found == r->wanted) {
		right++;
		return;
	}
	wrong++;
	printf("%s: area %s, written by %s, function %d: %x, not %x\n", what,
	       mappings[r->area->mapping], r->area->way, r->number, r->found, r->wanted);
}

static void call(struct area *a)
{
	struct running r = { .area = a, .number = below(FUNCTIONS), .x = value() };

	on(below(THREADS), run_code, &r);
	r.wanted = expect(a, r.number, r.x);
	judge(&r, "run");
}

/* Run until something is as it is to be, but for 20 s at most. */
static void run_on(void *with)
{
	struct running *r = with;
	time_t until = time(NULL) + 20;

	do {
		serialize();
		r->found = run(r->area, r->number, r->x);
	} while (r->found == r->others && time(NULL) < until);
}

/* Return whether a function changes operations. */
static bool changes(const struct area *a, int number)
{
	const struct function *f = &a->functions[number];

	for (int i = 0; i < f->n; i++)
		if (f->does[i].kind == CHANGE ||
		    (f->does[i].kind == CALL && changes(a, f->does[i].function)))
			return true;
	return false;
}

/* A thread runs a function while another writes one byte of it. */
static void run_meanwhile(struct area *a)
{
	struct running r = { .area = a, .number = below(FUNCTIONS), .x = value() };
	struct writing w = { .area = a };
	struct operation *does;
	uint32_t word;

	if (changes(a, r.number))
		return;
	do
		w.way = some_way(a, 1);
	while (w.way == SWITCH); /* nothing can run meanwhile */
	r.others = expect(a, r.number, r.x);
	does = pick(a, r.number);
	does->value ^= (1 + below(3)) << 4; /* which is in one byte on all processors */
	r.wanted = expect(a, r.number, r.x);
	word = word_of(does);
	w.at = r.number * STRIDE + does->at;
	w.size = 4;
	memcpy(w.bytes, &word, 4);
	if (r.others == r.wanted) {
		write_code(&w);
		return;
	}
	start_on(1, run_on, &r);
	for (volatile int i = below(3000); i > 0; i--)
		if (!(i & 255))
			sched_yield();
	on(2, write_code, &w);
	await(1);
	judge(&r, "meanwhile");
}

/* Have the code run elsewhere, or be written elsewhere. */
static void move(struct area *a)
{
	uint8_t **of = a->other && below(2) ? &a->other : &a->code, *from = *of;
	uint8_t *to = mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mremap(from, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to)
		die("mremap");
	if (a->code == a->other)
		a->code = a->other = to;
	*of = to;
}

static uint8_t *map_file(int fd, uint8_t *at, int rights, int how)
{
	uint8_t *to = mmap(at, SIZE, rights, how | (at ? MAP_FIXED : 0), fd, 0);

	if (to == MAP_FAILED)
		die("mmap");
	return to;
}

/* Two files change places, of which each is mapped for itself. */
static void exchange(struct area *a, struct area *b)
{
	struct area before = *a;

	if (a->mapping != TWICE && a->mapping != DOUBLED)
		return;
	map_file(b->fd, a->code, PROT_READ | PROT_EXEC, MAP_SHARED);
	map_file(before.fd, b->code, PROT_READ | PROT_EXEC, MAP_SHARED);
	a->fd = b->fd;
	a->other = b->other;
	memcpy(a->functions, b->functions, sizeof(a->functions));
	b->fd = before.fd;
	b->other = before.other;
	memcpy(b->functions, before.functions, sizeof(a->functions));
	a->way = b->way = "mmap";
}

/* Write all code to the file of which it is a copy, or go back to that. */
static void go_back(struct area *a)
{
	if (a->mapping != COPIED)
		return;
	if (below(2)) {
		if (pwrite(a->fd, a->code, SIZE, 0) != SIZE)
			die("pwrite");
		memcpy(a->in_file, a->functions, sizeof(a->functions));
		a->has_file = true;
	} else if (a->has_file) {
		if (madvise(a->code, SIZE, MADV_DONTNEED))
			die("madvise");
		memcpy(a->functions, a->in_file, sizeof(a->functions));
		a->way = "madvise";
		__builtin___clear_cache((char *)a->code, (char *)a->code + SIZE);
	}
}

/* A child writes a function and runs it. Code that is private stays as it is here. */
static void in_child(struct area *a)
{
	struct running r = { .area = a, .number = below(FUNCTIONS), .x = value() };
	static struct area kept;
	bool shared = a->mapping == TWICE || a->mapping == DOUBLED;
	pid_t pid, traced = tracee;
	int status;

	kept = *a;
	invent(a, r.number, &a->functions[r.number]);
	tracee = 0;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		int bad = wrong;

		mem = open("/proc/self/mem", O_RDWR);
		write_function(a, r.number, NULL, 0);
		r.wanted = 0;
		run_code(&r);
		r.wanted = expect(a, r.number, r.x);
		judge(&r, "in a child");
		fflush(stdout);
		_exit(wrong != bad);
	}
	waitpid(pid, &status, 0);
	tracee = traced;
	if (shared) {
		uint8_t code[BYTES + 8];

		encode(a, r.number, code);
		encode(a, r.number, code);
		expect(a, r.number, r.x);
		a->way = "a child";
	} else
		*a = kept;
	if (status)
		wrong++;
	else
		right++;
}

/* ---- the whole */
static int be_traced(void *unused)
{
	(void)unused;
	syscall(SYS_ptrace, PTRACE_TRACEME, 0, NULL, NULL);
	while (1)
		syscall(SYS_kill, syscall(SYS_getpid), SIGSTOP);
	return 0;
}

/* Start a process with this one's memory, by which ptrace(2) can write to it. */
static void start_tracee(void)
{
	static _Alignas(16) char stack[65536];
	int status;

	tracee = clone(be_traced, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);
	if (tracee < 0 || waitpid(tracee, &status, 0) < 0 || !WIFSTOPPED(status))
		die("clone");
}

static void make(struct area *a, enum mapping mapping)
{
	int all = PROT_READ | PROT_WRITE | PROT_EXEC;

	a->mapping = mapping;
	a->fd = -1;
	if (mapping >= TWICE) {
		a->fd = memfd_create("code", 0);
		if (ftruncate(a->fd, SIZE))
			die("ftruncate");
	}
	switch (mapping) {
	case ALL_RIGHTS:
		a->other = a->code = map_file(-1, NULL, all, MAP_PRIVATE | MAP_ANONYMOUS);
		break;
	case SWITCHED:
		a->code = map_file(-1, NULL, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS);
		break;
	case TWICE:
		a->code = map_file(a->fd, NULL, PROT_READ | PROT_EXEC, MAP_SHARED);
		a->other = map_file(a->fd, NULL, PROT_READ | PROT_WRITE, MAP_SHARED);
		break;
	case DOUBLED:
		a->code = map_file(a->fd, NULL, PROT_READ | PROT_EXEC, MAP_SHARED);
		a->other = mremap(a->code, 0, SIZE, MREMAP_MAYMOVE);
		if (a->other == MAP_FAILED || mprotect(a->other, SIZE, PROT_READ | PROT_WRITE))
			die("mremap");
		break;
	default: a->code = map_file(a->fd, NULL, PROT_READ | PROT_EXEC, MAP_PRIVATE);
	}
	for (int i = 0; i < FUNCTIONS; i++)
		invent(a, i, &a->functions[i]);
	for (int i = 0; i < FUNCTIONS; i++) { /* so that all places are known */
		uint8_t code[BYTES + 8];

		encode(a, i, code);
	}
	for (int i = 0; i < FUNCTIONS; i++)
		write_function(a, i, NULL, 0);
}

int main(int argc, char **argv)
{
	const int nr_areas = sizeof(areas) / sizeof(*areas);
	int count = argc > 2 ? atoi(argv[2]) : 1000;

	state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	mem = open("/proc/self/mem", O_RDWR);
	if (pipe(pipes) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) || mem < 0)
		die("pipe");
	for (intptr_t i = 1; i < THREADS; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, serve, (void *)i))
			die("pthread_create");
	}
	start_tracee();
	for (int i = 0; i < nr_areas; i++)
		make(&areas[i], i / 2);
	for (int i = 0; i < count; i++) {
		int number = below(nr_areas), what = below(100);
		struct area *a = &areas[number];

		if (what < 50)
			call(a);
		else if (what < 70)
			patch(a);
		else if (what < 82)
			rewrite(a);
		else if (what < 87)
			run_meanwhile(a);
		else if (what < 92)
			move(a);
		else if (what < 94)
			exchange(a, &areas[number ^ 1]);
		else if (what < 96)
			go_back(a);
		else
			in_child(a);
	}
	kill(tracee, SIGKILL);
	printf("right %d, wrong %d\n", right, wrong);
	return wrong > 0;
}
