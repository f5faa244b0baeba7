// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A loader of BPF reduced to its calls, with bpf(2) and perf_event_open(2) alone: a map, a
 * program that counts in it, a kprobe that it is attached to, hits of this process, and the
 * count.  The status is 0 if that is right.
 */
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HITS 100
#define INSN(c, d, s, o, i) \
	{ .code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i) }

static int bpf(int command, union bpf_attr *attr)
{
	return syscall(__NR_bpf, command, attr, sizeof(*attr));
}

static uint64_t address(const void *pointer)
{
	return (uintptr_t)pointer;
}

/* A kprobe on vfs_read(), by the PMU of kprobes. */
static int open_kprobe(void)
{
	struct perf_event_attr attr = { .size = sizeof(attr), .sample_period = 1 };
	FILE *type = fopen("/sys/bus/event_source/devices/kprobe/type", "r");

	if (!type || fscanf(type, "%u", &attr.type) != 1)
		return -1;
	fclose(type);
	attr.config1 = address("vfs_read");
	return syscall(__NR_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
}

int main(void)
{
	union bpf_attr map = {
		.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8, .max_entries = 1
	};
	int fd = bpf(BPF_MAP_CREATE, &map);
	struct bpf_insn insns[] = {
		INSN(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_get_current_pid_tgid),
		INSN(BPF_ALU64 | BPF_RSH | BPF_K, 0, 0, 0, 32),
		INSN(BPF_JMP | BPF_JNE | BPF_K, 0, 0, 8, getpid()),
		INSN(BPF_ST | BPF_MEM | BPF_W, 10, 0, -4, 0),
		INSN(BPF_ALU64 | BPF_MOV | BPF_X, 2, 10, 0, 0),
		INSN(BPF_ALU64 | BPF_ADD | BPF_K, 2, 0, 0, -4),
		INSN(BPF_LD | BPF_DW | BPF_IMM, 1, BPF_PSEUDO_MAP_FD, 0, fd),
		INSN(0, 0, 0, 0, 0),
		INSN(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_map_lookup_elem),
		INSN(BPF_JMP | BPF_JNE | BPF_K, 0, 0, 2, 0),
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0),
		INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, 1, 0, 0, 1),
		INSN(BPF_STX | BPF_ATOMIC | BPF_DW, 0, 1, 0, BPF_ADD),
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0),
		INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
	};
	static char verifier[1 << 16];
	union bpf_attr prog = { .prog_type = BPF_PROG_TYPE_KPROBE,
				.insns = address(insns),
				.insn_cnt = sizeof(insns) / sizeof(insns[0]),
				.license = address("GPL"),
				.log_level = 1,
				.log_size = sizeof(verifier),
				.log_buf = address(verifier) };
	int program = bpf(BPF_PROG_LOAD, &prog);

	if (fd < 0 || program < 0) {
		fprintf(stderr, "%s", verifier);
		perror("bpf");
		return 2;
	}
	int event = open_kprobe(), file = open("/proc/version", O_RDONLY);
	char byte;

	if (event < 0 || file < 0 || ioctl(event, PERF_EVENT_IOC_SET_BPF, program) ||
	    ioctl(event, PERF_EVENT_IOC_ENABLE, 0)) {
		perror("kprobe");
		return 2;
	}
	for (int i = 0; i < HITS; i++)
		if (read(file, &byte, 1) < 1)
			return 2;
	ioctl(event, PERF_EVENT_IOC_DISABLE, 0);

	uint32_t key = 0;
	uint64_t hits = 0;
	union bpf_attr lookup = { .map_fd = fd, .key = address(&key), .value = address(&hits) };

	if (bpf(BPF_MAP_LOOKUP_ELEM, &lookup)) {
		perror("bpf");
		return 2;
	}
	printf("%d hits\n", (int)hits);
	return hits != HITS;
}
