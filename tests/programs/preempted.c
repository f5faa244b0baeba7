// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Floating-point numbers of tasks that are preempted, and of a task that is stepped through.
 *
 *   preempted  1 if four tasks that compute at once on one processor take turns
 *   together   how many of them have bit for bit the number that they compute alone
 *   stepped    1 if a tracer that steps through a task leaves it that number; none: the
 *              kernel has no steps
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define TASKS 4
#define ROUNDS 20000
#define STEPPED 60

static volatile uint64_t *results;

/* Keep eight numbers in registers; a wrong bit of one soon changes them all. */
__attribute__((noipa)) static uint64_t compute(int task, int rounds)
{
	double a = 0.11 + task / 100.0, b = 0.7, c = 0.13, d = 0.9, e = 0.17, f = 0.3, g = 0.21,
	       h = 0.1;
	uint64_t bits;

	for (int i = 0; i < rounds; i++) {
		a = 3.99 * b * (1 - b);
		b = 3.98 * c * (1 - c);
		c = 3.97 * d * (1 - d);
		d = 3.96 * e * (1 - e) / (1 + a / 1e3);
		e = 3.95 * f * (1 - f);
		f = 3.94 * g * (1 - g);
		g = 3.93 * h * (1 - h);
		h = 3.92 * a * (1 - a) / (1 + e / 1e3);
	}
	a += b + c + d + e + f + g + h;
	memcpy(&bits, &a, sizeof(bits));
	return bits;
}

static pid_t begin(int task, int rounds)
{
	pid_t pid = fork();

	if (!pid) {
		results[task] = compute(task, rounds);
		_exit(0);
	}
	return pid;
}

static void stepped(uint64_t right)
{
	long steps = 0;
	int status;
	pid_t pid = fork();

	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		results[0] = compute(0, STEPPED);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	while (WIFSTOPPED(status) && !ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL)) {
		waitpid(pid, &status, 0);
		steps++;
	}
	if (WIFSTOPPED(status)) {
		ptrace(PTRACE_CONT, pid, NULL, NULL);
		waitpid(pid, &status, 0);
		printf("stepped none\n");
	} else {
		printf("stepped %d\n", steps > 20 * STEPPED && results[0] == right);
	}
}

/* Have all tasks compute at once; return how many have the number that they have alone. */
static int together(const uint64_t *alone)
{
	int same = 0;

	for (int task = 0; task < TASKS; task++) {
		results[task] = 0;
		begin(task, ROUNDS);
	}
	while (wait(NULL) > 0)
		;
	for (int task = 0; task < TASKS; task++)
		same += results[task] == alone[task];
	return same;
}

static long switches(void)
{
	struct rusage used;

	getrusage(RUSAGE_CHILDREN, &used);
	return used.ru_nivcsw;
}

int main(void)
{
	uint64_t alone[TASKS];
	cpu_set_t one;
	int same = TASKS;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	sched_setaffinity(0, sizeof(one), &one);
	results = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (int task = 0; task < TASKS; task++)
		alone[task] = compute(task, ROUNDS);
	for (int turn = 0; turn < 50 && switches() < 2 * TASKS && same == TASKS; turn++)
		same = together(alone);
	printf("preempted %d\n", switches() >= 2 * TASKS);
	printf("together %d\n", same);
	stepped(compute(0, STEPPED));
	return 0;
}
