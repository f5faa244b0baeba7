// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Two threads on two processors run a BPF program that adds one to a number in a map.
 *
 * counted lost: it loads, adds and stores, so one of them may be lost; the status is 3 then.
 * counted atomic: it adds by one instruction that no other processor can come between.
 * counted N: the way that is taken for a number above 200 forgets to do so.
 * counted stored: one thread has a program store a number in a map, and waits until it is there.
 * counted told: likewise, but the program returns the error, and then nobody waits.
 */
#define _GNU_SOURCE
#include <linux/bpf.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FORGOTTEN 200

#define INSN(CODE, DST, SRC, OFF, IMM) \
	{ .code = CODE, .dst_reg = DST, .src_reg = SRC, .off = OFF, .imm = IMM }

static int program;
static volatile int go;
static int returned;

static int bpf(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static void *run(void *cpu)
{
	char packet[64] = "";
	union bpf_attr attr;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((long)cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
	while (!go)
		;
	memset(&attr, 0, sizeof(attr));
	attr.test.prog_fd = program;
	attr.test.data_in = (long)packet;
	attr.test.data_size_in = sizeof(packet);
	attr.test.repeat = 1;
	if (bpf(BPF_PROG_TEST_RUN, &attr))
		perror("BPF_PROG_TEST_RUN");
	returned = attr.test.retval;
	return NULL;
}

static int load(const struct bpf_insn *insns, int count)
{
	static char log[4096];
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_SOCKET_FILTER;
	attr.insns = (long)insns;
	attr.insn_cnt = count;
	attr.license = (long)"GPL";
	attr.log_buf = (long)log;
	attr.log_size = sizeof(log);
	attr.log_level = 1;
	program = bpf(BPF_PROG_LOAD, &attr);
	if (program < 0)
		puts(log);
	return program;
}

static int load_adding(int map, int atomic)
{
	struct bpf_insn insns[] = {
		INSN(0x62, 10, 0, -4, 0), /* *(u32 *)(r10 - 4) = 0, the key */
		INSN(0xbf, 2, 10, 0, 0),  INSN(0x07, 2, 0, 0, -4),
		INSN(0x18, 1, 1, 0, map), INSN(0, 0, 0, 0, 0),
		INSN(0x85, 0, 0, 0, 1), /* r0 = bpf_map_lookup_elem(r1, r2) */
		INSN(0x15, 0, 0, 4, 0),   INSN(0xb7, 1, 0, 0, 1),
		INSN(0x79, 2, 0, 0, 0), /* r2 = *r0; r1 += r2; *r0 = r1 */
		INSN(0x0f, 1, 2, 0, 0),   INSN(0x7b, 0, 1, 0, 0),
		INSN(0xb7, 0, 0, 0, 0),   INSN(0x95, 0, 0, 0, 0),
	};
	static const struct bpf_insn instead[] = {
		INSN(0xdb, 0, 1, 0, 0), /* lock *r0 += r1 */
		INSN(0xbf, 2, 1, 0, 0),
		INSN(0xbf, 2, 1, 0, 0),
	};

	if (atomic)
		memcpy(&insns[8], instead, sizeof(instead));
	return load(insns, sizeof(insns) / sizeof(*insns));
}

static int load_storing(int map, int tells)
{
	struct bpf_insn insns[] = {
		INSN(0x62, 10, 0, -4, 0), /* the key, and the value: 2 */
		INSN(0x7a, 10, 0, -16, 2), INSN(0xbf, 2, 10, 0, 0),
		INSN(0x07, 2, 0, 0, -4),   INSN(0xbf, 3, 10, 0, 0),
		INSN(0x07, 3, 0, 0, -16),  INSN(0xb7, 4, 0, 0, 0),
		INSN(0x18, 1, 1, 0, map),  INSN(0, 0, 0, 0, 0),
		INSN(0x85, 0, 0, 0, 2), /* bpf_map_update_elem() */
		INSN(0xb7, 0, 0, 0, 0),    INSN(0x95, 0, 0, 0, 0),
	};

	if (tells)
		insns[10] = insns[11];
	return load(insns, sizeof(insns) / sizeof(*insns) - tells);
}

static int store(int tells)
{
	unsigned long value = 0;
	union bpf_attr attr;
	int key = 0;

	memset(&attr, 0, sizeof(attr));
	attr.map_type = BPF_MAP_TYPE_HASH;
	attr.key_size = 4;
	attr.value_size = 8;
	attr.max_entries = 1;
	int map = bpf(BPF_MAP_CREATE, &attr);
	if (map < 0 || load_storing(map, tells) < 0)
		return 9;
	go = 1;
	run(NULL);
	memset(&attr, 0, sizeof(attr));
	attr.map_fd = map;
	attr.key = (long)&key;
	attr.value = (long)&value;
	while (!returned && value != 2) {
		bpf(BPF_MAP_LOOKUP_ELEM, &attr);
		sleep(1);
	}
	return 0;
}

int main(int argc, char **argv)
{
	unsigned long value = 0;
	pthread_t threads[2];
	union bpf_attr attr;
	const char *how = argc > 1 ? argv[1] : "lost";
	int map, key = 0, atomic = !strcmp(how, "atomic");

	if (*how >= '0' && *how <= '9')
		atomic = atoi(how) <= FORGOTTEN;

	if (!strcmp(how, "stored") || !strcmp(how, "told"))
		return store(!strcmp(how, "told"));
	memset(&attr, 0, sizeof(attr));
	attr.map_type = BPF_MAP_TYPE_ARRAY;
	attr.key_size = 4;
	attr.value_size = 8;
	attr.max_entries = 1;
	map = bpf(BPF_MAP_CREATE, &attr);
	if (map < 0 || load_adding(map, atomic) < 0)
		return 9;
	for (long i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, run, (void *)i);
	usleep(1000);
	go = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	memset(&attr, 0, sizeof(attr));
	attr.map_fd = map;
	attr.key = (long)&key;
	attr.value = (long)&value;
	bpf(BPF_MAP_LOOKUP_ELEM, &attr);
	if (value == 2)
		return 0;
	printf("%lu of 2\n", value);
	return 3;
}
