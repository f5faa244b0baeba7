// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * bpf(2) and perf_event_open(2) without a library: each kind of map and each way to attach a
 * program, whose hits by this process alone are counted exactly.
 *
 * Prints one line for each case: "ok NAME", "skip NAME: WHY" or "FAILED NAME: WHY".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/btf.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TRACEFS "/sys/kernel/tracing/"
#define COMPILER "/proc/sys/net/core/bpf_jit_enable"
#define HITS 100
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define INSN(c, d, s, o, i) \
	((struct bpf_insn){ .code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i) })
#define MOV_REG(d, s) INSN(BPF_ALU64 | BPF_MOV | BPF_X, d, s, 0, 0)
#define MOV_IMM(d, i) INSN(BPF_ALU64 | BPF_MOV | BPF_K, d, 0, 0, i)
#define ADD_IMM(d, i) INSN(BPF_ALU64 | BPF_ADD | BPF_K, d, 0, 0, i)
#define RSH_IMM(d, i) INSN(BPF_ALU64 | BPF_RSH | BPF_K, d, 0, 0, i)
#define LOAD_DW(d, s, o) INSN(BPF_LDX | BPF_MEM | BPF_DW, d, s, o, 0)
#define STORE_DW(d, s, o) INSN(BPF_STX | BPF_MEM | BPF_DW, d, s, o, 0)
#define STORE_W(d, s, o) INSN(BPF_STX | BPF_MEM | BPF_W, d, s, o, 0)
#define STORE_IMM_W(d, o, i) INSN(BPF_ST | BPF_MEM | BPF_W, d, 0, o, i)
#define ATOMIC_ADD(d, s) INSN(BPF_STX | BPF_ATOMIC | BPF_DW, d, s, 0, BPF_ADD)
#define JUMP_NE(d, i, o) INSN(BPF_JMP | BPF_JNE | BPF_K, d, 0, o, i)
#define JUMP_EQ(d, i, o) INSN(BPF_JMP | BPF_JEQ | BPF_K, d, 0, o, i)
#define CALL(function) INSN(BPF_JMP | BPF_CALL, 0, 0, 0, function)
#define EXIT INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)
#define MAP_FD(d, fd) \
	INSN(BPF_LD | BPF_DW | BPF_IMM, d, BPF_PSEUDO_MAP_FD, 0, fd), INSN(0, 0, 0, 0, 0)
/* Processors of 32 bits: their kernels compile no atomic instructions. One task counts there. */
#ifdef __LP64__
#define BUMP MOV_IMM(1, 1), ATOMIC_ADD(0, 1)
#define BUMPS 2
#else
#define BUMP LOAD_DW(1, 0, 0), ADD_IMM(1, 1), STORE_DW(0, 1, 0)
#define BUMPS 3
#endif
/* Count a hit in the element of the map; a jump over all these instructions leaves it out. */
#define COUNT_INSNS (7 + BUMPS)
#define COUNT_HIT_AND_EXIT \
	STORE_IMM_W(10, -4, 0), MOV_REG(2, 10), ADD_IMM(2, -4), MAP_FD(1, counter), \
		CALL(BPF_FUNC_map_lookup_elem), JUMP_EQ(0, 0, BUMPS), BUMP, MOV_IMM(0, 0), \
		EXIT

static int failures;
static int counter; /* an array with one element */
static int version; /* a file to be read */
static char verifier[1 << 16];

/* The outcome of a case; skip() and fail() are given its name, and a format that says why. */
#define ok(name) printf("ok %s\n", name)
#define skip(name, ...) (printf("skip %s: ", name), printf(__VA_ARGS__), printf("\n"))
#define fail(name, ...) \
	(failures++, printf("FAILED %s: ", name), printf(__VA_ARGS__), printf("\n"))

static int bpf(int command, union bpf_attr *attr)
{
	return (int)syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static int perf_event(struct perf_event_attr *attr, int pid, int cpu)
{
	attr->size = sizeof(*attr);
	return (int)syscall(SYS_perf_event_open, attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static uint64_t address(const void *pointer)
{
	return (uint64_t)(uintptr_t)pointer;
}

static int read_number(const char *path)
{
	char text[64] = "";
	int fd = open(path, O_RDONLY);

	if (fd < 0)
		return -1;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = 0;
	close(fd);
	return atoi(text);
}

static bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_APPEND);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return done;
}

/* ---- maps */
static int map_create(int type, int key_size, int value_size, int entries)
{
	union bpf_attr attr = { .map_type = type,
				.key_size = key_size,
				.value_size = value_size,
				.max_entries = entries };

	return bpf(BPF_MAP_CREATE, &attr);
}

static int map_element(int command, int map, const void *key, const void *value)
{
	union bpf_attr attr = { .map_fd = map, .key = address(key), .value = address(value) };

	return bpf(command, &attr);
}

static long count(void)
{
	uint64_t value = 0;
	uint32_t key = 0;

	map_element(BPF_MAP_LOOKUP_ELEM, counter, &key, &value);
	return (long)value;
}

static void reset(void)
{
	uint64_t value = 0;
	uint32_t key = 0;

	map_element(BPF_MAP_UPDATE_ELEM, counter, &key, &value);
}

static void test_map(const char *name, int type)
{
	uint64_t values[64] = { 0 };
	bool array = type == BPF_MAP_TYPE_ARRAY || type == BPF_MAP_TYPE_PERCPU_ARRAY;
	int map = map_create(type, 4, 8, 16);
	int found = 0;

	if (map < 0) {
		fail(name, "%s", strerror(errno));
		return;
	}
	for (uint32_t key = 0; key < 16; key++) {
		for (size_t cpu = 0; cpu < COUNT(values); cpu++)
			values[cpu] = key * 7 + cpu;
		if (map_element(BPF_MAP_UPDATE_ELEM, map, &key, values))
			fail(name, "update: %s", strerror(errno));
	}
	for (uint32_t key = 0; key < 20; key++) {
		if (map_element(BPF_MAP_LOOKUP_ELEM, map, &key, values) == 0) {
			found++;
			if (values[0] != key * 7)
				fail(name, "element %u is %lu", key, (unsigned long)values[0]);
		} else if (errno != ENOENT) {
			fail(name, "lookup: %s", strerror(errno));
		}
	}
	if (found != 16)
		fail(name, "%d elements", found);
	else if (map_element(BPF_MAP_DELETE_ELEM, map, &(uint32_t){ 3 }, NULL) == 0 ? array :
										      !array)
		fail(name, "delete: %s", strerror(errno));
	else
		ok(name);
	close(map);
}

/* ---- programs */
static int load(const struct bpf_insn *insns, size_t length, int type, int attach, int btf_id)
{
	union bpf_attr attr = {
		.prog_type = type,
		.insns = address(insns),
		.insn_cnt = length,
		.license = address("GPL"),
		.expected_attach_type = attach,
		.attach_btf_id = btf_id,
		.log_buf = address(verifier),
		.log_size = sizeof(verifier),
		.log_level = 1,
	};

	verifier[0] = 0;
	return bpf(BPF_PROG_LOAD, &attr);
}

/* Return True if a program was loaded. */
static bool loaded(const char *name, int program)
{
	if (program < 0)
		fail(name, "%s\n%s", strerror(errno), verifier);
	return program >= 0;
}

/* A program that counts its hits by this process. */
static int load_counter(int type, int attach, int btf_id)
{
	const struct bpf_insn insns[] = {
		CALL(BPF_FUNC_get_current_pid_tgid),
		RSH_IMM(0, 32),
		JUMP_NE(0, getpid(), COUNT_INSNS),
		COUNT_HIT_AND_EXIT,
	};

	return load(insns, COUNT(insns), type, attach, btf_id);
}

static void read_version(int times)
{
	char byte;

	for (int i = 0; i < times; i++)
		if (pread(version, &byte, 1, 0) != 1)
			abort();
}

/* ours is made by the tests of probes in programs */
__attribute__((noinline)) static int victim(int number)
{
	asm volatile("" : "+r"(number));
	return number * 3 + 1;
}

static void call_victim(int times)
{
	for (int i = 0; i < times; i++)
		victim(i);
}

static void call_getppid(int times)
{
	for (int i = 0; i < times; i++)
		syscall(SYS_getppid);
}

/* Check that so many hits are counted while attached, and none afterwards. */
static void check_hits(const char *name, int attached, void (*hit)(int))
{
	long counted;

	if (attached < 0) {
		fail(name, "%s", strerror(errno));
		return;
	}
	reset();
	hit(HITS);
	counted = count();
	close(attached);
	hit(HITS);
	if (counted != HITS)
		fail(name, "%ld hits instead of %d", counted, HITS);
	else if (count() != HITS)
		fail(name, "%ld hits after it was detached", count() - HITS);
	else
		ok(name);
}

static int attach_perf(struct perf_event_attr *attr, int program)
{
	int fd = perf_event(attr, -1, 0);

	if (fd >= 0 &&
	    (ioctl(fd, PERF_EVENT_IOC_SET_BPF, program) || ioctl(fd, PERF_EVENT_IOC_ENABLE, 0))) {
		close(fd);
		return -1;
	}
	return fd;
}

static int pmu(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/bus/event_source/devices/%s/type", name);
	return read_number(path);
}

static int attach_kprobe(int program, bool retprobe)
{
	struct perf_event_attr attr = { .type = pmu("kprobe"),
					.kprobe_func = address("vfs_read"),
					.config = retprobe };

	return attach_perf(&attr, program);
}

static int attach_uprobe(int program, bool retprobe)
{
	extern char __executable_start;
	static char self[256];
	struct perf_event_attr attr = { .type = pmu("uprobe"), .config = retprobe };

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return -1;
	attr.uprobe_path = address(self);
	attr.probe_offset = address((void *)victim) - address(&__executable_start);
	return attach_perf(&attr, program);
}

static int tracepoint_id(const char *event)
{
	char path[256];

	snprintf(path, sizeof(path), TRACEFS "events/%s/id", event);
	return read_number(path);
}

static int attach_tracepoint(int program, const char *event)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_TRACEPOINT,
					.config = tracepoint_id(event),
					.sample_period = 1 };

	return attach_perf(&attr, program);
}

static void test_kprobe_event(const char *name, const char *definition, int program)
{
	if (!write_text(TRACEFS "kprobe_events", definition)) {
		fail(name, "%s", strerror(errno));
		return;
	}
	check_hits(name, attach_tracepoint(program, "kprobes/ours"), read_version);
	if (!write_text(TRACEFS "kprobe_events", "-:kprobes/ours"))
		fail(name, "removal: %s", strerror(errno));
}

static void test_kprobe_multi(void)
{
	const char *name = "kprobe.multi";
	const char *symbols[] = { "vfs_read", "vfs_statx" };
	union bpf_attr attr = { 0 };
	int program = load_counter(BPF_PROG_TYPE_KPROBE, BPF_TRACE_KPROBE_MULTI, 0);

	if (program < 0) {
		skip(name, "%s", strerror(errno));
		return;
	}
	attr.link_create.prog_fd = program;
	attr.link_create.attach_type = BPF_TRACE_KPROBE_MULTI;
	attr.link_create.kprobe_multi.cnt = COUNT(symbols);
	attr.link_create.kprobe_multi.syms = address(symbols);
	int link = bpf(BPF_LINK_CREATE, &attr);

	if (link < 0 && (errno == EINVAL || errno == EOPNOTSUPP))
		skip(name, "%s", strerror(errno));
	else
		check_hits(name, link, read_version);
	close(program);
}

static void test_raw_tracepoint(void)
{
	const char *name = "raw tracepoint";
	/* only getppid(): the number is the second argument of sys_enter */
	const struct bpf_insn insns[] = {
		LOAD_DW(6, 1, 8),
		CALL(BPF_FUNC_get_current_pid_tgid),
		RSH_IMM(0, 32),
		JUMP_NE(0, getpid(), COUNT_INSNS + 1),
		JUMP_NE(6, SYS_getppid, COUNT_INSNS),
		COUNT_HIT_AND_EXIT,
	};
	int program = load(insns, COUNT(insns), BPF_PROG_TYPE_RAW_TRACEPOINT, 0, 0);
	union bpf_attr attr = { 0 };

	if (!loaded(name, program))
		return;
	attr.raw_tracepoint.name = address("sys_enter");
	attr.raw_tracepoint.prog_fd = program;
	check_hits(name, bpf(BPF_RAW_TRACEPOINT_OPEN, &attr), call_getppid);
	close(program);
}

/* ---- types of the kernel */
static size_t extra_size(int kind, int length)
{
	switch (kind) {
	case BTF_KIND_INT:
	case BTF_KIND_VAR:
	case BTF_KIND_DECL_TAG:   return 4;
	case BTF_KIND_ARRAY:      return sizeof(struct btf_array);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
	case BTF_KIND_DATASEC:
	case BTF_KIND_ENUM64:     return 12 * (size_t)length;
	case BTF_KIND_ENUM:
	case BTF_KIND_FUNC_PROTO: return 8 * (size_t)length;
	}
	return 0;
}

/* The number of a function's type in the kernel's BTF; 0: none, -1: no BTF. */
static int btf_function(const char *function)
{
	static char data[32 << 20];
	int fd = open("/sys/kernel/btf/vmlinux", O_RDONLY);
	size_t size = 0;
	ssize_t got;

	if (fd < 0)
		return -1;
	while ((got = read(fd, data + size, sizeof(data) - size)) > 0)
		size += got;
	close(fd);
	const struct btf_header *head = (void *)data;
	const char *strings = data + head->hdr_len + head->str_off;
	const char *at = data + head->hdr_len + head->type_off, *end = at + head->type_len;

	for (int id = 1; at < end; id++) {
		const struct btf_type *type = (void *)at;
		int kind = BTF_INFO_KIND(type->info);

		if (kind == BTF_KIND_FUNC && !strcmp(strings + type->name_off, function))
			return id;
		at += sizeof(*type) + extra_size(kind, BTF_INFO_VLEN(type->info));
	}
	return 0;
}

#define NO_TRAMPOLINES 524 /* the kernel's ENOTSUPP, which it should keep for itself */

static void test_trampoline(const char *name, int type, int attach, int btf_id)
{
	int program = load_counter(type, attach, btf_id);
	union bpf_attr attr = { 0 };

	if (program < 0 && errno == ENOMEM && access(COMPILER, F_OK)) {
		skip(name, "a kernel without a compiler has no trampolines");
		return;
	}
	if (!loaded(name, program))
		return;
	attr.raw_tracepoint.prog_fd = program;
	int attached = bpf(BPF_RAW_TRACEPOINT_OPEN, &attr);

	if (attached < 0 && errno == NO_TRAMPOLINES)
		skip(name, "the kernel has no trampolines");
	else
		check_hits(name, attached, read_version);
	close(program);
}

static void test_btf(void)
{
	int id = btf_function("vfs_read");

	if (id < 0) {
		skip("btf", "the kernel has none");
		skip("fentry", "no BTF");
		skip("fexit", "no BTF");
		return;
	}
	if (!id) {
		fail("btf", "vfs_read is not in it");
		return;
	}
	ok("btf");
	test_trampoline("fentry", BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY, id);
	test_trampoline("fexit", BPF_PROG_TYPE_TRACING, BPF_TRACE_FEXIT, id);
}

/* ---- links */
static void test_link(int program)
{
	const char *name = "bpf_link";
	struct perf_event_attr event = { .type = pmu("kprobe"),
					 .kprobe_func = address("vfs_read") };
	struct bpf_link_info info = { 0 };
	union bpf_attr create = { 0 }, ask = { 0 };
	int fd = perf_event(&event, -1, 0), link;

	create.link_create.prog_fd = program;
	create.link_create.target_fd = fd;
	create.link_create.attach_type = BPF_PERF_EVENT;
	link = bpf(BPF_LINK_CREATE, &create);
	if (link < 0) {
		skip(name, "%s", strerror(errno));
		close(fd);
		return;
	}
	close(fd); /* the link holds it */
	ask.info.bpf_fd = link;
	ask.info.info_len = sizeof(info);
	ask.info.info = address(&info);
	if (bpf(BPF_OBJ_GET_INFO_BY_FD, &ask) || info.type != BPF_LINK_TYPE_PERF_EVENT)
		fail(name, "type %u", info.type);
	else
		check_hits(name, link, read_version);
}

/* ---- what programs say */
static void hit_probed(int program)
{
	int fd = attach_kprobe(program, false);

	read_version(HITS);
	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	close(fd);
}

static void check_count(const char *name, int found, const char *what)
{
	if (found != HITS)
		fail(name, "%d %s", found, what);
	else
		ok(name);
}

static void test_ring_buffer(void)
{
	const char *name = "ring buffer";
	const size_t size = 1 << 14;
	int ring = map_create(BPF_MAP_TYPE_RINGBUF, 0, 0, size);
	const struct bpf_insn insns[] = {
		CALL(BPF_FUNC_get_current_pid_tgid),
		STORE_DW(10, 0, -8),
		MAP_FD(1, ring),
		MOV_REG(2, 10),
		ADD_IMM(2, -8),
		MOV_IMM(3, 8),
		MOV_IMM(4, 0),
		CALL(BPF_FUNC_ringbuf_output),
		MOV_IMM(0, 0),
		EXIT,
	};
	int program = load(insns, COUNT(insns), BPF_PROG_TYPE_KPROBE, 0, 0), mine = 0;

	if (!loaded(name, ring < 0 ? ring : program))
		return;
	unsigned long *consumer = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring, 0);
	char *producer = mmap(NULL, 4096 + 2 * size, PROT_READ, MAP_SHARED, ring, 4096);

	hit_probed(program);
	unsigned long end = *(volatile unsigned long *)producer;

	for (unsigned long at = *consumer; at < end;) {
		uint32_t length = *(uint32_t *)(producer + 4096 + (at & (size - 1)));
		uint32_t *data = (uint32_t *)(producer + 4096 + (at & (size - 1)) + 8);

		mine += data[1] == (uint32_t)getpid();
		at += ((length & 0x3fffffff) + 8 + 7) & ~7u;
		*(volatile unsigned long *)consumer = at;
	}
	check_count(name, mine, "records");
	close(program);
	close(ring);
}

static void test_perf_buffer(void)
{
	const char *name = "perf buffer";
	int array = map_create(BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, 4, 1), mine = 0;
	const struct bpf_insn insns[] = {
		MOV_REG(6, 1),       CALL(BPF_FUNC_get_current_pid_tgid),
		STORE_DW(10, 0, -8), MOV_REG(1, 6),
		MAP_FD(2, array),    MOV_IMM(3, 0), /* the first element, which is of this CPU */
		MOV_REG(4, 10),      ADD_IMM(4, -8),
		MOV_IMM(5, 8),       CALL(BPF_FUNC_perf_event_output),
		MOV_IMM(0, 0),       EXIT,
	};
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
					.config = PERF_COUNT_SW_BPF_OUTPUT,
					.sample_period = 1,
					.sample_type = PERF_SAMPLE_RAW };
	int output = perf_event(&attr, -1, 0);
	int program = load(insns, COUNT(insns), BPF_PROG_TYPE_KPROBE, 0, 0);

	if (!loaded(name, array < 0 || output < 0 ? -1 : program))
		return;
	struct perf_event_mmap_page *page =
		mmap(NULL, 4096 * 17, PROT_READ | PROT_WRITE, MAP_SHARED, output, 0);

	ioctl(output, PERF_EVENT_IOC_ENABLE, 0);
	map_element(BPF_MAP_UPDATE_ELEM, array, &(uint32_t){ 0 }, &output);
	hit_probed(program);
	for (uint64_t at = 0; at < page->data_head;) {
		char *record = (char *)page + 4096 + at;
		struct perf_event_header *head = (void *)record;
		uint32_t *data = (uint32_t *)(record + sizeof(*head) + 4);

		mine += head->type == PERF_RECORD_SAMPLE && data[1] == (uint32_t)getpid();
		at += head->size;
	}
	check_count(name, mine, "records");
	munmap(page, 4096 * 17);
	close(program);
	close(output);
	close(array);
}

/* The number of times that a text is in the trace. */
static int count_in_trace(const char *text)
{
	static char line[4096];
	FILE *file = fopen(TRACEFS "trace", "r");
	int found = 0;

	while (file && fgets(line, sizeof(line), file))
		found += strstr(line, text) != NULL;
	if (file)
		fclose(file);
	return found;
}

/* From some 6.1 on, a work of the kernel turns it on, some time after the program was loaded. */
static void await_trace_printk(void)
{
	char on = '0';

	for (int i = 0; i < 200 && on != '1'; i++) {
		int fd = open(TRACEFS "events/bpf_trace/bpf_trace_printk/enable", O_RDONLY);

		if (read(fd, &on, 1) != 1 || on != '1')
			usleep(10000);
		close(fd);
	}
}

static void test_trace_printk(void)
{
	const char *name = "bpf_trace_printk";
	uint64_t format;

	memcpy(&format, "has %d\n", sizeof(format));
	const struct bpf_insn insns[] = {
		CALL(BPF_FUNC_get_current_pid_tgid),
		RSH_IMM(0, 32),
		JUMP_NE(0, getpid(), 9),
		INSN(BPF_LD | BPF_DW | BPF_IMM, 1, 0, 0, (int32_t)format),
		INSN(0, 0, 0, 0, (int32_t)(format >> 32)),
		STORE_DW(10, 1, -8),
		MOV_REG(1, 10),
		ADD_IMM(1, -8),
		MOV_IMM(2, 8),
		MOV_IMM(3, 42),
		CALL(BPF_FUNC_trace_printk),
		MOV_IMM(0, 0),
		MOV_IMM(0, 0),
		EXIT,
	};
	int program = load(insns, COUNT(insns), BPF_PROG_TYPE_KPROBE, 0, 0), before, found;

	if (!loaded(name, program))
		return;
	await_trace_printk();
	before = count_in_trace("bpf_trace_printk: has 42");
	hit_probed(program);
	found = count_in_trace("bpf_trace_printk: has 42") - before;
	check_count(name, found, "lines");
	close(program);
}

static void test_jit(int program, bool wanted)
{
	struct bpf_prog_info info = { 0 };
	union bpf_attr attr = { 0 };

	attr.info.bpf_fd = program;
	attr.info.info_len = sizeof(info);
	attr.info.info = address(&info);
	if (bpf(BPF_OBJ_GET_INFO_BY_FD, &attr))
		fail("jit", "%s", strerror(errno));
	else if (!!info.jited_prog_len != wanted)
		fail("jit", "%u bytes", info.jited_prog_len);
	else
		ok("jit");
}

static void test_all(bool jit)
{
	int program;

	if (!write_text(COMPILER, jit ? "1" : "0")) {
		skip("jit", "%s", strerror(errno));
		if (jit || errno != ENOENT) /* without a compiler all is interpreted */
			return;
	}
	test_map("array", BPF_MAP_TYPE_ARRAY);
	test_map("hash", BPF_MAP_TYPE_HASH);
	test_map("array per CPU", BPF_MAP_TYPE_PERCPU_ARRAY);
	test_map("hash per CPU", BPF_MAP_TYPE_PERCPU_HASH);
	program = load_counter(BPF_PROG_TYPE_KPROBE, 0, 0);
	if (!loaded("load", program))
		return;
	test_jit(program, jit);
	check_hits("kprobe", attach_kprobe(program, false), read_version);
	check_hits("kretprobe", attach_kprobe(program, true), read_version);
	test_kprobe_event("kprobe by event", "p:kprobes/ours vfs_read", program);
	test_kprobe_event("kretprobe by event", "r:kprobes/ours vfs_read", program);
	check_hits("uprobe", attach_uprobe(program, false), call_victim);
	check_hits("uretprobe", attach_uprobe(program, true), call_victim);
	test_link(program);
	close(program);
	test_kprobe_multi();
	program = load_counter(BPF_PROG_TYPE_TRACEPOINT, 0, 0);
#ifdef __mips__
	skip("tracepoint", "the event of a call knows n32's number alone");
#else
	check_hits("tracepoint", attach_tracepoint(program, "syscalls/sys_enter_getppid"),
		   call_getppid);
#endif
	close(program);
	test_raw_tracepoint();
	test_btf();
	test_ring_buffer();
	test_perf_buffer();
	test_trace_printk();
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	counter = map_create(BPF_MAP_TYPE_ARRAY, 4, 8, 1);
	version = open("/proc/version", O_RDONLY);
	if (counter < 0 || version < 0) {
		perror("bpf");
		return 2;
	}
	if (argc > 1 && !strcmp(argv[1], "lsm")) {
		int id = btf_function("bpf_lsm_file_permission");

		if (argc > 2) /* a feature probe attaches nothing */
			loaded("lsm", load_counter(BPF_PROG_TYPE_LSM, BPF_LSM_MAC, id));
		else
			test_trampoline("lsm", BPF_PROG_TYPE_LSM, BPF_LSM_MAC, id);
		return failures != 0;
	}
	for (int jit = 1; jit >= 0; jit--) {
		printf("jit %s\n", jit ? "on" : "off");
		test_all(jit);
	}
	return failures != 0;
}
