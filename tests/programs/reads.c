/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * reads SYMBOL CMD...: run a command while a BPF program is attached to a function of the kernel, which
 * reads 8 bytes from where the function's first argument points to.
 */
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define INSN(c, d, s, o, i) { .code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i) }
#define FIRST_ARGUMENT 112 /* rdi in struct pt_regs */

static const struct bpf_insn program[] = {
	INSN(BPF_LDX | BPF_MEM | BPF_DW, 3, 1, FIRST_ARGUMENT, 0),
	INSN(BPF_ALU64 | BPF_MOV | BPF_X, 1, 10, 0, 0),
	INSN(BPF_ALU64 | BPF_ADD | BPF_K, 1, 0, 0, -8),
	INSN(BPF_ALU64 | BPF_MOV | BPF_K, 2, 0, 0, 8),
	INSN(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_probe_read_kernel),
	INSN(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0),
	INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
};

static int load(void)
{
	union bpf_attr attr = { .prog_type = BPF_PROG_TYPE_KPROBE,
				.insns = (uintptr_t)program,
				.insn_cnt = sizeof(program) / sizeof(*program),
				.license = (uintptr_t)"GPL",
				.prog_name = "reads" };

	return (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
}

static int probe(const char *symbol)
{
	struct perf_event_attr attr = { .size = sizeof(attr), .config1 = (uintptr_t)symbol };
	FILE *type = fopen("/sys/bus/event_source/devices/kprobe/type", "r");

	if (!type || fscanf(type, "%u", &attr.type) != 1)
		return -1;
	fclose(type);
	return (int)syscall(SYS_perf_event_open, &attr, -1, 0, -1, 0);
}

int main(int argc, char **argv)
{
	int event = argc > 2 ? probe(argv[1]) : -1, loaded = load(), status;

	if (event < 0 || loaded < 0 || ioctl(event, PERF_EVENT_IOC_SET_BPF, loaded) ||
	    ioctl(event, PERF_EVENT_IOC_ENABLE, 0)) {
		perror("reads");
		return 2;
	}
	if (!fork()) {
		execvp(argv[2], argv + 2);
		_exit(127);
	}
	wait(&status);
	close(event);
	return WEXITSTATUS(status);
}
